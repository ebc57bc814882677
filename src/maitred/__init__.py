"""maitred: a gateway between AI agents and many MCP servers.

Each package below is one feature; ARCHITECTURE.md has the map. Only the names in `__all__` may be imported
from outside; all others may change without notice. To add a name, list it there and import nothing for it.
"""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """The version is read from the installed package's metadata when it is asked for: that takes a while."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # see above

    return version("maitred")
