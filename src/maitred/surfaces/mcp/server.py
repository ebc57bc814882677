"""The gateway as one low-level SDK server for both protocol eras.

A middleware answers `tools/call` and relays the server's result unchanged. A second validation by the SDK's
models would cost time, and lose the fields that the models do not know. Middleware is a provisional part of
the SDK, which `tests/surfaces/mcp/test_server.py` pins. The SDK keeps no list of the clients of the handshake
era to notify, so this module registers each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred import __version__
from maitred.background import Background
from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import LEDGER_KEY, Caller, Gateway
from maitred.gateway.session_stubs import SessionStubs
from maitred.meta_tools import menu
from maitred.meta_tools.base import MetaToolRequest, text_result
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolCall
from maitred.model.transports import is_composed
from maitred.replicas.forwarding import Replicas
from maitred.surfaces.mcp.caller import LOG_LEVEL, StatelessCaller, caller_of, connection_of
from maitred.surfaces.mcp.client_keys import key_of
from maitred.surfaces.mcp.first_answers import TTL_MS
from maitred.surfaces.mcp.heartbeats import Heartbeats
from maitred.surfaces.mcp.identity import Viewers
from maitred.surfaces.mcp.list_pages import page_of_tools
from maitred.surfaces.mcp.list_tracker import ListTracker
from maitred.surfaces.mcp.notices import Notices
from maitred.surfaces.mcp.offers import OfferHandler, acceptable, read_cursor, resource_error
from maitred.surfaces.mcp.parked_calls import ParkableRequest, ParkedCalls
from maitred.surfaces.mcp.request_spans import RequestSpans
from maitred.surfaces.mcp.result_shape import for_handshake, for_stateless, read_call
from maitred.surfaces.mcp.task_support import CAPABILITY, wanted_task
from maitred.surfaces.mcp.tasks import TaskHandler
from maitred.telemetry.activity import Activity
from maitred.wording import quote_input

Context = ServerRequestContext[Any, Any]

_CACHEABLE: tuple[CacheableMethod, ...] = (
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
)
_GREETINGS = ("initialize", "server/discover")
_HINTS = {method: CacheHint(ttl_ms=TTL_MS, scope="private") for method in _CACHEABLE}
_URL_ELICITATION_REQUIRED = -32042
_MISSING_CLIENT_CAPABILITY = -32021
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
        made = super().create_initialization_options(options, experimental_capabilities, extensions or {})
        made.capabilities.extensions = None  # those of servers are of the stateless era
        made.capabilities.tasks = CAPABILITY
        return made


class McpSurface:
    """Serves a gateway over MCP. `server` is what transports run; `announce` must run beside it.

    `viewer` is the viewer of requests that name none. `viewers` identifies viewers for transports that answer
    calls by `call_tool`. `lists` knows which lists clients were shown before. `spans` watches
    requests for monitoring.
    """

    def __init__(
        self, gateway: Gateway, *, viewer: Viewer = LOCAL_USER, lists: ListTracker | None = None
    ) -> None:
        self._gateway = gateway
        self._lists = lists or ListTracker(gateway)
        self._heartbeats = Heartbeats()
        self._on_close: list[Callable[[], None]] = []
        self.viewers = Viewers(viewer, self._ended)
        self.spans = RequestSpans(gateway)
        stubs = gateway.session_stubs
        self.parked_calls = ParkedCalls(
            lambda: gateway.answer_s,
            replicas=gateway.replica_requests if stubs is not None else None,
            sign=stubs.sign if stubs is not None else None,
        )
        offering = OfferHandler(gateway, self._lists, self.viewers, self.parked_calls)
        self._notices = Notices(gateway, self._lists, self.viewers, offering.text_of)
        self.server: Server[Any] = _DualEraServer(
            "maitred",
            version=__version__,
            title="maitred",
            cache_hints=_HINTS,
            on_call_tool=self._never_called,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._notices.listen,
        )
        self._server_info = self.server.server_info_stamp  # the SDK copies it deeply each time
        self.server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        offering.register(self.server)
        TaskHandler(gateway, self.viewers).register(self.server)
        self.server.middleware.append(self._middleware)

    def schema_of_headers(
        self, name: str, viewer: Viewer | None, *, has_headers: bool
    ) -> Mapping[str, Any] | None:
        """The schema by which a call's `Mcp-Param-*` headers are compared with its arguments.

        A client knows of headers from its list alone. So where the list does not have every tool, a call
        without such headers needs none.
        """
        known = viewer or self.viewers.stateless
        name = self._gateway.published_name(name, known)
        if self._gateway.mode(known) != "all" and not has_headers:
            return None
        return self._gateway.schema_of(name, known)

    def within_profile(self, viewer: Viewer | None, profile: str) -> Viewer:
        """A viewer, or that of requests that name none, with the tools of a profile alone.

        Raises:
            ProfileNotFoundError: There is no such profile.
        """
        return self._gateway.within_profile(profile, viewer or self.viewers.stateless)

    @property
    def activity(self) -> Activity:
        """Where sessions are reported."""
        return self._gateway.activity

    @property
    def answer_s(self) -> float:
        """For how many seconds a call waits for its client to answer a question."""
        return self._gateway.answer_s

    @property
    def session_stubs(self) -> SessionStubs | None:
        """What other gateways know of sessions; `None` if there are none."""
        return self._gateway.session_stubs

    @property
    def replica_requests(self) -> Replicas:
        """Requests between gateways."""
        return self._gateway.replica_requests

    @property
    def generation(self) -> int:
        """The generation of the catalog that clients are shown now."""
        return self._gateway.snapshot.generation

    def resume(self, connection: Connection, viewer: Viewer) -> None:
        """Notify a client of changes whose handshake was made at another gateway."""
        self._notices.connected(connection, viewer)

    async def resume_stream(
        self, connection: Connection, resources: Sequence[str], *, lists_may_differ: bool
    ) -> None:
        """Take over a client's stream from another gateway, with its subscriptions to resources.

        What may have changed meanwhile counts as changed.
        """
        viewer = self.viewers.behind(connection)
        if lists_may_differ:
            self._lists.doubt(viewer)
        await self._notices.follow(connection, resources, viewer, announces=True)

    async def follow_resources(self, connection: Connection, resources: Sequence[str]) -> None:
        """Have a connection subscribed to these resources and no others."""
        await self._notices.follow(connection, resources, self.viewers.behind(connection))

    def resources_of(self, connection: Connection) -> Sequence[str]:
        """The resources to which a connection is subscribed here."""
        return self._notices.resources_of(connection)

    async def roots_changed(self, connection: Connection) -> None:
        """Have servers hear that the roots of a client changed, which said so at another gateway."""
        viewer = self.viewers.behind(connection)
        await self._gateway.roots_changed(key_of(viewer), viewer=viewer)

    def on_close(self, call: Callable[[], None]) -> None:
        """Have a function called by `close`, which ends what a transport keeps open."""
        self._on_close.append(call)

    def close(self) -> None:
        """End open change streams in good order."""
        self._notices.close()
        for call in self._on_close:
            call()

    async def announce(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Notify clients of both eras of changes and of calls under way, and keep parked calls.

        Runs until cancelled.
        """
        async with Background() as background, self.parked_calls.serving():
            background.start(self._heartbeats.run)
            task_status.started()
            await self._notices.run()

    # --- requests -----------------------------------------------------------------------------------------

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call" and ctx.request_id is not None and _is_open(ctx):
            viewer = self.viewers.of(ctx)
            caller = caller_of(ctx, viewer, self.answer_s)
            return await self.call_tool(ctx.params or {}, ctx.protocol_version, caller, viewer)
        result = await call_next(ctx)
        if ctx.method in _GREETINGS and isinstance(result, dict):
            viewer = self.viewers.introduced(ctx)
            return {**result, "instructions": self._gateway.introduction(viewer)}
        if ctx.method == "notifications/initialized":
            self._notices.connected(connection_of(ctx), self.viewers.of(ctx))
        if ctx.method == "notifications/roots/list_changed":
            viewer = self.viewers.of(ctx)
            await self._gateway.roots_changed(key_of(viewer), viewer=viewer)
        return result

    def _ended(self, viewer: Viewer, *, goes_on: bool) -> None:
        self._lists.forget(viewer)
        self._gateway.forget(viewer, key_of(viewer), goes_on=goes_on)

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uri = str(params.uri)
        try:
            await self._notices.subscribe(connection_of(ctx), uri, self.viewers.of(ctx))
        except MaitredError as error:
            raise resource_error(error, uri, ctx.protocol_version) from error
        return types.EmptyResult()

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Note the level of a client; its calls bring it to the servers."""
        connection_of(ctx).state[LOG_LEVEL] = params.level
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._notices.unsubscribe(connection_of(ctx), str(params.uri))
        return types.EmptyResult()

    async def _never_called(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Registered so that the server announces tools; the middleware intercepts every call."""
        raise MCPError(
            INTERNAL_ERROR, f"the call of {quote_input(params.name)} on {ctx.method} was not intercepted"
        )

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        after = read_cursor(params.cursor if params else None)
        accept = partial(acceptable, version=ctx.protocol_version)
        viewer = self.viewers.of(ctx)
        await self._gateway.catch_up_lists(viewer=viewer)
        return await page_of_tools(self._gateway, self._lists, viewer, after, accept)

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
        call = read_call(name, params, task=wanted_task(params, protocol_version))
        result = await self._parkable(name, call, caller, viewer)
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return for_stateless(result, self._server_info)
        return for_handshake(result)

    async def _parkable(self, name: str, call: ToolCall, caller: Caller, viewer: Viewer) -> dict[str, Any]:
        """The result of a call, which is parked if its server asks a client that takes no requests."""
        if not isinstance(caller, StatelessCaller):
            return await self._result(name, call, caller, viewer)
        request = ParkableRequest(
            principal=viewer.principal,
            method="tools/call",
            name=name,
            arguments=call.arguments,
            request_state=call.request_state,
            input_responses=call.input_responses,
        )
        work = partial(self._result, name, call, caller, viewer)
        if request.continues or (caller.can_answer and self._may_ask(name, call.arguments)):
            return await self.parked_calls.answer(request, caller, work)
        return await work()

    def _may_ask(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a client may be asked during a call: by a server of the handshake era or one not known yet.

        The gateway itself asks about calls that wait for a person, and for logins of principals.
        """
        if (meta_tool := menu.META_TOOLS.get(name)) is not None:
            inner = arguments.get("name")
            return meta_tool.open_world and (not isinstance(inner, str) or self._may_ask_in(inner))
        return self._may_ask_in(name)

    def _may_ask_in(self, name: str) -> bool:
        if self._gateway.holds_calls:
            return True
        snapshot = self._gateway.snapshot
        tool = snapshot.by_name.get(name)
        record = snapshot.servers.get(tool.server) if tool else None
        if record is None or record.facts.era != "stateless":
            return True
        spec = self._gateway.settings.servers.get(record.name)
        return spec is None or is_composed(spec.transport) or spec.is_personal

    async def _result(self, name: str, call: ToolCall, caller: Caller, viewer: Viewer) -> dict[str, Any]:
        try:
            with self._heartbeats.watch(caller) as beating:
                return await self._answer(name, call, beating, viewer)
        except ToolNotFoundError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except ProtocolError as error:
            if name not in menu.META_TOOLS or error.rpc_code in _FOR_THE_CLIENT:
                raise MCPError(error.rpc_code, error.message, error.data) from error
            return menu.error_result(self._gateway, viewer, error)
        except MaitredError as error:
            return text_result(str(error), error=True)

    async def _answer(self, name: str, call: ToolCall, caller: Caller, viewer: Viewer) -> dict[str, Any]:
        """The whole answer of a meta-tool, or of a tool that the client calls by its published name."""
        if name not in menu.META_TOOLS:
            result = await self._gateway.call(call, viewer=viewer, caller=caller)
            if LEDGER_KEY not in result.get("_meta", {}):
                self._gateway.count_result(result, viewer)
            elif (
                viewer.era == "handshake"
            ):  # an answer of the gateway itself, such as that of a category tool
                await self._notices.announce_lists(viewer)
            return result
        request = MetaToolRequest(arguments=call.arguments, viewer=viewer, call=call, caller=caller)
        return await menu.answer(self._gateway, name, request)


def _is_open(ctx: Context) -> bool:
    """Whether the connection may make calls; before its handshake the SDK must refuse them."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None
