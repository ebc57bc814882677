"""maitred: a gateway between AI agents and many MCP servers.

What may be imported from outside is listed in `__all__`; everything else may change without notice.
"""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """The version is read from the installed package's metadata when it is asked for: that takes a while."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # see above

    return version("maitred")
