"""maitred: a gateway between AI agents and many MCP servers.

Each package below is one feature; ARCHITECTURE.md has the map. Other programs may import the names in
`__all__`; all others may change without notice. To add a name, write it there and in `_HOMES`.
The names are imported on first use, so `import maitred` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # type checkers read the names here; at run time `__getattr__` imports them
    from maitred.config.load import load
    from maitred.config.settings import Settings
    from maitred.errors import MaitredError
    from maitred.gateway.gateway import Gateway
    from maitred.model.access import Viewer
    from maitred.model.servers import ServerSpec
    from maitred.model.tools import ToolCall
    from maitred.wiring.gateway import open_gateway

    __version__: str

__all__ = [
    "Gateway",
    "MaitredError",
    "ServerSpec",
    "Settings",
    "ToolCall",
    "Viewer",
    "__version__",
    "load",
    "open_gateway",
]

_HOMES: Final = {
    "Gateway": "gateway.gateway",
    "MaitredError": "errors",
    "ServerSpec": "model.servers",
    "Settings": "config.settings",
    "ToolCall": "model.tools",
    "Viewer": "model.access",
    "load": "config.load",
    "open_gateway": "wiring.gateway",
}


def __getattr__(name: str) -> Any:
    """Import a public name; read the version from the metadata of the installed package."""
    if name == "__version__":
        return import_module("importlib.metadata").version("maitred")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"maitred.{_HOMES[name]}"), name)
