"""The state of one client's browsers as a value, and the visibility rules that read it.

The rules have the form of the `visibility` section of a configuration. The facts are reported by the server
itself, since they change by themselves too: a page stops at a breakpoint, a browser is closed. `on_success`
serves to say which call makes a tool available. The facts are about the active connection: a call that names
another one is left to the tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from maitred.visibility.facts import Value

_NEW: Final = {
    "connections": {"add": 1}, "active": True, "debugger.enabled": False, "debugger.paused": False,
}  # fmt: skip
_OTHER: Final = {"unless_given": "connection_id"}
_CONNECTED: Final = {"when": "active", "because": "needs a connection to a browser", **_OTHER}
_RUNNING: Final = {
    "when": "active && !debugger.paused", "because": "needs a connected page that is not paused", **_OTHER,
}  # fmt: skip
_ENABLED: Final = {
    "when": "active && debugger.enabled", "because": "needs the debugger of the page to be on", **_OTHER,
}  # fmt: skip
_PAUSED: Final = {
    "when": "active && debugger.enabled && debugger.paused", "because": "needs a paused debugger", **_OTHER,
}  # fmt: skip

DECLARATIONS: Final[Mapping[str, Any]] = {
    "facts": {"connections": 0, "active": False, "debugger.enabled": False, "debugger.paused": False},
    "on_success": {
        "chrome_launch": _NEW,
        "chrome_connect": _NEW,
        "debugger_enable": {"debugger.enabled": True},
        "debugger_pause": {"debugger.paused": True},
        "debugger_resume": {"debugger.paused": False},
    },
    "visible_when": {
        "chrome_disconnect": {"when": "connections > 0", "because": "needs a connection to a browser"},
        "chrome_switch_connection": {"when": "connections > 1", "because": "needs a second connection"},
        "list_targets": _CONNECTED,
        "switch_target": _CONNECTED,
        "query_elements": _CONNECTED,
        "get_console_logs": _CONNECTED,
        "click_element": _RUNNING,
        "fill_element": _RUNNING,
        "navigate": _RUNNING,
        "debugger_enable": {
            "when": "active && !debugger.enabled", "because": "needs a connected page whose debugger is off",
            **_OTHER,
        },
        "debugger_set_breakpoint": _ENABLED,
        "debugger_remove_breakpoint": _ENABLED,
        "debugger_set_pause_on_exceptions": _ENABLED,
        "debugger_pause": {
            "when": "active && debugger.enabled && !debugger.paused",
            "because": "needs a page that runs with its debugger on",
            **_OTHER,
        },
        "debugger_*": _PAUSED,
    },
}  # fmt: skip
"""The facts of a browser server, what calls change, and when each tool makes sense."""


def with_declarations(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The declarations of a browser server with those that an operator wrote for it, which win.

    If a part of theirs is no mapping, their reader reports that; ours would only add faults.
    """
    if not all(isinstance(own.get(part), Mapping | None) for part in DECLARATIONS):
        return own
    return {**own, **{part: {**ours, **(own.get(part) or {})} for part, ours in DECLARATIONS.items()}}


@dataclass(frozen=True, kw_only=True)
class BrowserState:
    """What is true of the browsers of one client. The last two are about its active page."""

    connections: int = 0
    active: bool = False
    enabled: bool = False
    paused: bool = False

    @property
    def facts(self) -> Mapping[str, Value]:
        """The same as facts of visibility rules."""
        return {
            "connections": self.connections,
            "active": self.active,
            "debugger.enabled": self.enabled,
            "debugger.paused": self.paused,
        }
