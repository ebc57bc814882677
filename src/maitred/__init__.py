"""maitred: a gateway between AI agents and many MCP servers.

What may be imported from outside is listed in `__all__`; everything else may change without notice.
"""

from importlib.metadata import version as _version

__version__ = _version("maitred")

__all__ = ["__version__"]
