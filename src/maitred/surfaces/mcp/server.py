"""The gateway as one low-level SDK server for both protocol eras.

A middleware answers `tools/call` and relays the server's result unchanged. A second validation by the SDK's
models would cost time, and lose the fields that the models do not know. Only this module uses two provisional
or private parts of the SDK, which `tests/surfaces/mcp/test_server.py` pins: its middleware, and a session's
connection. The SDK keeps no list of the clients of the handshake era to notify.
"""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PARAM_HEADER_PREFIX
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred import __version__
from maitred.background import Background
from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import Caller, Gateway
from maitred.gateway.authorization import VIEWER
from maitred.meta_tools import menu
from maitred.meta_tools.base import MetaToolRequest, text_result
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.caller import caller_of
from maitred.surfaces.mcp.heartbeats import Heartbeats
from maitred.surfaces.mcp.identity import HTTP_SCOPE, Viewers
from maitred.surfaces.mcp.notices import ListTracker, Notices
from maitred.surfaces.mcp.offers import (
    TOOLS,
    OfferHandler,
    acceptable,
    read_cursor,
    resource_error,
    write_cursor,
)
from maitred.surfaces.mcp.result_shape import for_handshake, for_stateless, read_call

Context = ServerRequestContext[Any, Any]

_TTL_MS = 60_000
_CACHEABLE: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
)
_GREETINGS = ("initialize", "server/discover")
_HINTS = {method: CacheHint(ttl_ms=_TTL_MS, scope="private") for method in _CACHEABLE}
_URL_ELICITATION_REQUIRED = -32042
_MISSING_CLIENT_CAPABILITY = -32021
_PARAMETER = MCP_PARAM_HEADER_PREFIX.lower().encode()
_FOR_THE_CLIENT = frozenset({_URL_ELICITATION_REQUIRED, _MISSING_CLIENT_CAPABILITY})


class _DualEraServer(Server[Any]):
    """Announces list changes to clients of the handshake era too, also where the SDK asks without options."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class McpSurface:
    """Serves a gateway over MCP. `server` is what transports run; `announce` must run beside it.

    `viewer` is the viewer of requests that name none. `viewers` identifies viewers for transports that answer
    calls by `call_tool`.
    """

    def __init__(self, gateway: Gateway, *, viewer: Viewer = LOCAL_USER) -> None:
        self._gateway = gateway
        self._lists = ListTracker(gateway)
        self._heartbeats = Heartbeats()
        self.viewers = Viewers(viewer, self._ended)
        offering = OfferHandler(gateway, self._lists, self.viewers)
        self._notices = Notices(gateway, self._lists, self.viewers, offering.text_of)
        self.server: Server[Any] = _DualEraServer(
            "maitred",
            version=__version__,
            title="maitred",
            cache_hints=_HINTS,
            get_tool_input_schema=self._schema_of_headers,
            on_call_tool=self._never_called,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._notices.listen,
        )
        self.server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        offering.register(self.server)
        self.server.middleware.append(self._middleware)

    def _schema_of_headers(self, name: str) -> Mapping[str, Any] | None:
        """The schema by which the SDK compares a call's `Mcp-Param-*` headers with its arguments.

        A client knows of headers from its list alone. So where the list does not have every tool, a call
        without such headers needs none.
        """
        scope = HTTP_SCOPE.get() or {}
        names = (name for name, _ in scope.get("headers", ()))
        if self._gateway.mode() != "all" and not any(name.startswith(_PARAMETER) for name in names):
            return None
        viewer = scope.get(VIEWER)
        return self._gateway.schema_of(name, viewer if isinstance(viewer, Viewer) else self.viewers.stateless)

    def close(self) -> None:
        """End open change streams in good order."""
        self._notices.close()

    async def announce(self) -> None:
        """Notify clients of both eras of changes, and of calls under way; runs until cancelled."""
        async with Background() as background:
            background.start(self._heartbeats.run)
            await self._notices.run()

    # --- requests -----------------------------------------------------------------------------------------

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call" and ctx.request_id is not None and _is_open(ctx):
            viewer = self.viewers.of(ctx)
            return await self.call_tool(
                ctx.params or {}, ctx.protocol_version, caller_of(ctx, viewer), viewer
            )
        result = await call_next(ctx)
        if ctx.method in _GREETINGS and isinstance(result, dict):
            viewer = self.viewers.asking(ctx)
            return {**result, "instructions": self._gateway.introduction(viewer)}
        if ctx.method == "notifications/initialized":
            connection = ctx.session._connection  # noqa: SLF001  # see the module's docstring
            self._notices.connected(connection, self.viewers.of(ctx))
        return result

    def _ended(self, viewer: Viewer) -> None:
        self._lists.forget(viewer)
        self._gateway.forget(viewer)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uri = str(params.uri)
        try:
            viewer, connection = self.viewers.of(ctx), ctx.session._connection  # noqa: SLF001  # as above
            await self._notices.subscribe(connection, uri, viewer)
        except MaitredError as error:
            raise resource_error(error, uri, ctx.protocol_version) from error
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._notices.unsubscribe(ctx.session._connection, str(params.uri))  # noqa: SLF001  # as above
        return types.EmptyResult()

    async def _never_called(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Registered so that the server announces tools; the middleware intercepts every call."""
        raise MCPError(INTERNAL_ERROR, f"the call of {params.name!r} on {ctx.method} was not intercepted")

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        after = read_cursor(params.cursor if params else None)
        gateway = self._gateway
        viewer = self.viewers.of(ctx)
        mode, tools, cursor = await gateway.listing(viewer, after)
        self._lists.shown("tools", viewer)
        if mode == "menu":
            definitions = menu.definitions(gateway.index(viewer))
            gateway.count_menu(definitions, viewer)
            return {"resultType": "complete", "tools": definitions}
        own: list[Mapping[str, Any]] = []
        if mode == "categories":
            own = [] if after else [*menu.calling(), *gateway.category_definitions(viewer)]
            gateway.count_categories(own, tools, viewer)
        else:
            gateway.count_tools(tools, viewer)
        shown = [acceptable(TOOLS, gateway.snapshot.definition(tool), ctx.protocol_version) for tool in tools]
        page: dict[str, Any] = {"resultType": "complete", "tools": [*own, *shown]}
        return page | ({"nextCursor": write_cursor(cursor)} if cursor else {})

    async def call_tool(
        self,
        params: Mapping[str, Any],
        protocol_version: str,
        caller: Caller,
        viewer: Viewer,
    ) -> dict[str, Any]:
        """Answer a `tools/call` request; the result is ready for the wire of that protocol revision.

        Raises:
            MCPError: The request is malformed, names no tool, or its server answered with an error.
        """
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(INVALID_PARAMS, "tools/call needs a text `name` and an object `arguments`")
        call = read_call(name, params)
        try:
            with self._heartbeats.watch(caller) as beating:
                result = await self._answer(name, call, beating, viewer)
        except ToolNotFoundError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except ProtocolError as error:
            if name not in menu.META_TOOLS or error.rpc_code in _FOR_THE_CLIENT:
                raise MCPError(error.rpc_code, error.message, error.data) from error
            result = menu.error_result(self._gateway, viewer, error)
        except MaitredError as error:
            result = text_result(str(error), error=True)
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return for_stateless(result, self.server.server_info_stamp)
        return for_handshake(result)

    async def _answer(self, name: str, call: ToolCall, caller: Caller, viewer: Viewer) -> dict[str, Any]:
        """The whole answer of a meta-tool, or of a tool that the client calls by its published name."""
        if name not in menu.META_TOOLS:
            return await self._gateway.call(call, viewer=viewer, caller=caller)
        request = MetaToolRequest(arguments=call.arguments, viewer=viewer, call=call, caller=caller)
        return await menu.answer(self._gateway, name, request)


def _is_open(ctx: Context) -> bool:
    """Whether the connection may make calls; before its handshake the SDK must refuse them."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None
