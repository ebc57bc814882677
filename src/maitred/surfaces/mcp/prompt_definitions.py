"""The definitions of the prompts of maitred itself; `maitred.surfaces.mcp.prompts` makes their messages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from maitred.gateway import Gateway
from maitred.model.access import Viewer

DISCOVER: Final = "discover"
FIND_TOOL: Final = "find_tool"
SERVER_STATUS: Final = "server_status"
TASK: Final = "task"

DEFINITIONS: tuple[Mapping[str, Any], ...] = (
    {
        "name": DISCOVER,
        "title": "Discover the tools",
        "description": "Which tools this gateway offers, and how to find and call them.",
    },
    {
        "name": FIND_TOOL,
        "title": "Find a tool for a task",
        "description": "Search for a task, with the whole definition of the best tool.",
        "arguments": [
            {"name": TASK, "description": "The task in a few words.", "required": True},
        ],
    },
    {
        "name": SERVER_STATUS,
        "title": "The state of the servers",
        "description": "One line for each server: its state, its tools, and figures of its calls.",
    },
)


def listed_prompts(gateway: Gateway, viewer: Viewer) -> Sequence[Mapping[str, Any]]:
    """Definitions of our prompts for a viewer."""
    watches = gateway.watches(viewer)
    return [one for one in DEFINITIONS if watches or one["name"] != SERVER_STATUS]
