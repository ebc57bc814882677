"""What clients and the gateway declare of tasks, in both eras."""

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, MISSING_REQUIRED_CLIENT_CAPABILITY

from maitred.model.tasks import EXTENSION, declares_extension

Context = ServerRequestContext[Any, Any]

HANDSHAKE_VERSION: Final = "2025-11-25"
"""The revision of the handshake era that has tasks."""
CAPABILITY: Final = types.ServerTasksCapability(
    list=types.TasksListCapability(),
    cancel=types.TasksCancelCapability(),
    requests=types.ServerTasksRequestsCapability(
        tools=types.TasksToolsCapability(call=types.TasksCallCapability())
    ),
)
"""What clients of the handshake era can do with tasks."""
_NEEDED: Final[Mapping[str, Any]] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


def wanted_task(params: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """The field `task` of a call by a client of the handshake era; `None` if it wants no task."""
    task = params.get("task") if version == HANDSHAKE_VERSION else None
    return task if isinstance(task, Mapping) else None


def capabilities_of(ctx: Context) -> Mapping[str, Any]:
    """What the client of a request of the stateless era declared in it."""
    meta = (ctx.params or {}).get("_meta")
    found = meta.get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def check_extension(capabilities: Mapping[str, Any]) -> None:
    """Refuse a client of the stateless era that did not declare the extension.

    Raises:
        MCPError: With the code that the protocol demands.
    """
    if not declares_extension(capabilities):
        why = f"This request needs the client capability {EXTENSION}"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, why, dict(_NEEDED))
