"""The gateway as one low-level SDK server for both protocol eras.

`tools/call` is answered in a middleware: its result is relayed as the server wrote it, so validating it
again against the SDK's models would cost time and lose what the models do not know. Two provisional or
private parts of the SDK are used, here only and pinned by `tests/surfaces/mcp/test_server.py`: its
middleware, and a session's connection (the SDK keeps no list of the handshake-era clients to notify).
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import anyio
import mcp_types as types
import structlog
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from maitred import __version__
from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import Gateway, Progress
from maitred.surfaces.mcp import metatools
from maitred.surfaces.mcp.relay import for_handshake, for_stateless, read_call

log = structlog.get_logger(__name__)

Context = ServerRequestContext[Any, Any]

_TTL_MS = 60_000
_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=_TTL_MS, scope="private"),
    "server/discover": CacheHint(ttl_ms=_TTL_MS, scope="private"),
}
_ENVELOPE: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_NOTIFY_DEBOUNCE_S = 0.1
_NOTIFY_TIMEOUT_S = 5.0
_URL_ELICITATION_REQUIRED = -32042
_MISSING_CLIENT_CAPABILITY = -32021
_FOR_THE_CLIENT = frozenset({_URL_ELICITATION_REQUIRED, _MISSING_CLIENT_CAPABILITY})


class _DualEraServer(Server[Any]):
    """Announces list changes to handshake-era clients too, also where the SDK asks without options."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class McpSurface:
    """Serves a gateway over MCP. `server` is what transports run; `announce` must run beside it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._connections: WeakSet[Connection] = WeakSet()
        self._changed = anyio.Event()
        self.server: Server[Any] = _DualEraServer(
            "maitred",
            version=__version__,
            title="maitred",
            instructions=metatools.INSTRUCTIONS,
            cache_hints=_HINTS,
            get_tool_input_schema=gateway.schema_of,
            on_call_tool=self._never_called,
            on_subscriptions_listen=self._listen,
        )
        self.server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self.server.middleware.append(self._middleware)
        gateway.on_change(lambda: self._changed.set())  # noqa: PLW0108  # the event is replaced after each notice

    def close(self) -> None:
        """Let open change streams end in good order."""
        self._listen.close()

    async def announce(self) -> None:
        """Tell clients of both eras about changes of the catalog; runs until cancelled."""
        while True:
            await self._changed.wait()
            await anyio.sleep(_NOTIFY_DEBOUNCE_S)  # several changes in a row are one notice
            self._changed = anyio.Event()
            await self._bus.publish(ToolsListChanged())
            async with anyio.create_task_group() as tasks:
                for connection in list(self._connections):
                    tasks.start_soon(_notify, connection)

    # --- requests -----------------------------------------------------------------------------------------

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call" and ctx.request_id is not None and _is_open(ctx):
            return await self.call_tool(ctx.params or {}, ctx.protocol_version, ctx.session.report_progress)
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            self._connections.add(ctx.session._connection)  # noqa: SLF001  # see the module's docstring
        return result

    async def _never_called(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Registered so that the server announces tools; the middleware answers every call before."""
        raise MCPError(INTERNAL_ERROR, f"the call of {params.name!r} on {ctx.method} was not intercepted")

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        after = _read_cursor(params.cursor if params else None)
        mode, definitions, cursor = await self._gateway.listing(after)
        if mode == "menu":
            return {"resultType": "complete", "tools": [dict(tool) for tool in metatools.DEFINITIONS]}
        tools = [_acceptable(definition, ctx.protocol_version) for definition in definitions]
        page: dict[str, Any] = {"resultType": "complete", "tools": tools}
        return page | ({"nextCursor": _write_cursor(cursor)} if cursor else {})

    async def call_tool(
        self, params: Mapping[str, Any], protocol_version: str, report_progress: Progress
    ) -> dict[str, Any]:
        """Answer a `tools/call` request; the result is ready for the wire of that protocol revision.

        Raises:
            MCPError: The request is malformed, names no tool, or its server answered with an error.
        """
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(INVALID_PARAMS, "tools/call needs a text `name` and an object `arguments`")
        progress = report_progress if progress_token_from_params(params) is not None else None
        call = read_call(name, params)
        try:
            if handler := metatools.HANDLERS.get(name):
                result = await handler(self._gateway, call.arguments, call, progress)
            else:
                result = await self._gateway.call(call, progress=progress)
        except ToolNotFoundError as error:
            if name in metatools.HANDLERS:
                result = metatools.text_result(str(error), error=True)
            else:
                raise MCPError(INVALID_PARAMS, str(error)) from error
        except ProtocolError as error:
            if name not in metatools.HANDLERS or error.rpc_code in _FOR_THE_CLIENT:
                raise MCPError(error.rpc_code, error.message, error.data) from error
            result = metatools.text_result(str(error), error=True)
        except MaitredError as error:
            result = metatools.text_result(str(error), error=True)
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return for_stateless(result, self.server.server_info_stamp)
        return for_handshake(result)


def _is_open(ctx: Context) -> bool:
    """Whether the connection may make calls; before its handshake the SDK has to refuse them."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None


async def _notify(connection: Connection) -> None:
    with anyio.move_on_after(_NOTIFY_TIMEOUT_S):
        await connection.send_tool_list_changed()


def _read_cursor(cursor: str | None) -> str:
    """The name after which a page starts.

    Raises:
        MCPError: It is not a cursor of ours.
    """
    if cursor is None:
        return ""
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise MCPError(
            INVALID_PARAMS, f"{cursor!r} is not a cursor of this server; list from the start"
        ) from None


def _write_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("ascii")).decode("ascii")


def _acceptable(definition: dict[str, Any], version: str) -> dict[str, Any]:
    """A definition that the protocol revision allows: as registered, or without the parts that it forbids.

    One malformed definition would otherwise make the whole list invalid.
    """
    candidate = definition
    for part in (None, "icons", "execution", "_meta", "annotations", "outputSchema", "title", "inputSchema"):
        if part is not None:
            candidate = {k: v for k, v in candidate.items() if k != part}
            if part == "inputSchema":
                candidate["inputSchema"] = {"type": "object"}
        try:
            validate_server_result("tools/list", version, {**_ENVELOPE, "tools": [candidate]})
        except ValidationError:
            continue
        return candidate
    return {"name": definition["name"], "inputSchema": {"type": "object"}}
