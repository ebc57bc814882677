"""Requests about tasks, in the form of each era: `tasks/get`, `result`, `list`, `cancel` and `update`.

The handshake era has them in the protocol of 2025-11-25, the stateless era as the extension of 2026-07-28.
The extension has neither `tasks/result` nor `tasks/list`, the protocol of 2025-11-25 has no `tasks/update`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.errors import MaitredError, ProtocolError, TaskNotFoundError
from maitred.gateway import Gateway, ViewerTasks
from maitred.model.tasks import EXTENSION, for_handshake
from maitred.surfaces.mcp.caller import caller_of
from maitred.surfaces.mcp.identity import Viewers
from maitred.surfaces.mcp.list_pages import write_cursor
from maitred.surfaces.mcp.offers import read_cursor
from maitred.surfaces.mcp.task_support import HANDSHAKE_VERSION, capabilities_of, check_extension
from maitred.wording import quote_input

Context = ServerRequestContext[Any, Any]


class _UpdateParams(types.GetTaskRequestParams):
    input_responses: dict[str, Any]


class TaskHandler:
    """Handles the requests of clients about tasks for a gateway."""

    def __init__(self, gateway: Gateway, viewers: Viewers) -> None:
        self._gateway = gateway
        self._viewers = viewers

    def register(self, server: Server[Any]) -> None:
        """Register the handlers of these requests at a server."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", types.GetTaskRequestParams, self._get)
        server.add_request_handler("tasks/result", types.GetTaskPayloadRequestParams, self._result)
        server.add_request_handler("tasks/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("tasks/cancel", types.CancelTaskRequestParams, self._cancel)
        server.add_request_handler("tasks/update", _UpdateParams, self._update)

    def _tasks(self, ctx: Context) -> ViewerTasks:
        viewer = self._viewers.of(ctx)
        return self._gateway.running_tasks(viewer, caller_of(ctx, viewer, self._gateway.answer_s))

    async def _get(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        tasks = self._tasks(ctx)
        if _is_stateless(ctx, params.task_id):
            with _errors():
                state = await tasks.get(params.task_id, whole=True)
                return {**state, "resultType": "complete"}
        with _errors():
            return for_handshake(await tasks.get(params.task_id, whole=False))

    async def _result(self, ctx: Context, params: types.GetTaskPayloadRequestParams) -> dict[str, Any]:
        _only_handshake(ctx)
        with _errors():
            return await self._tasks(ctx).result(params.task_id)

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        _only_handshake(ctx)
        after = read_cursor(params.cursor)
        if after and not after.isdecimal():
            raise MCPError(INVALID_PARAMS, f"{quote_input(params.cursor)} is not a cursor of tasks/list")
        with _errors():
            states, last = await self._tasks(ctx).list(int(after or 0))
        page: dict[str, Any] = {"tasks": [for_handshake(state) for state in states]}
        return page | ({"nextCursor": write_cursor(str(last))} if last else {})

    async def _cancel(self, ctx: Context, params: types.CancelTaskRequestParams) -> dict[str, Any]:
        tasks = self._tasks(ctx)
        if _is_stateless(ctx, params.task_id):
            with _errors():
                await tasks.cancel(params.task_id, again=True)
            return {"resultType": "complete"}
        with _errors():
            return for_handshake(await tasks.cancel(params.task_id, again=False))

    async def _update(self, ctx: Context, params: _UpdateParams) -> dict[str, Any]:
        if not _is_stateless(ctx, params.task_id):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        with _errors():
            await self._tasks(ctx).update(params.task_id, params.input_responses)
        return {"resultType": "complete"}


def _is_stateless(ctx: Context, task_id: str) -> bool:
    """Whether a request is of the stateless era.

    Raises:
        MCPError: The request is malformed, or the client may not send it.
    """
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        _only_handshake(ctx)
        return False
    headers = getattr(ctx.request, "headers", None)
    if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != task_id:
        why = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
        raise MCPError(HEADER_MISMATCH, why)
    check_extension(capabilities_of(ctx))
    return True


def _only_handshake(ctx: Context) -> None:
    if ctx.protocol_version != HANDSHAKE_VERSION:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


@contextmanager
def _errors() -> Iterator[None]:
    """Turns errors into those of the protocol."""
    try:
        yield
    except ProtocolError as error:
        raise MCPError(error.rpc_code, error.message, error.data) from error
    except TaskNotFoundError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
    except MaitredError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error
