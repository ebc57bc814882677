"""The session with one server: lists, calls and pings, in either era.

Calls are relayed as JSON, not as models. So the caller gets a result exactly as the server wrote it, and
a call is not validated twice. The SDK's part of it is `maitred.backends.wire_session`.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import anyio
import anyio.abc
import mcp_types as types
from mcp.client.extension import NotificationBinding
from mcp.client.session import IncomingMessage
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    URL_ELICITATION_REQUIRED,
)

from maitred import __version__
from maitred.backends.base import (
    Caller,
    ConnectOptions,
    Listing,
    Notice,
    ServerOffers,
    Subscription,
)
from maitred.backends.call_clock import CallClock
from maitred.backends.callers import CallersUnderWay
from maitred.backends.listing import (
    LISTS,
    OfferListing,
    clean,
    offers_as_sent,
    read_offers,
    read_tools,
    tools_as_sent,
)
from maitred.backends.notices import ProgressNotices, announced_lists, listening, notice_of, watching
from maitred.backends.parameter_headers import judge_headers
from maitred.backends.wire_session import WireSession, negotiate
from maitred.background import Background
from maitred.config.redaction import SECRETS, redact
from maitred.config.settings import Limits
from maitred.errors import (
    CallTimeoutError,
    ConnectionLostError,
    ProtocolError,
    ServerError,
    ServerUnavailableError,
    UnreadableAnswerError,
)
from maitred.jsonrpc import (
    ChannelClosedError,
    CredentialsRefusedError,
    RequestOptions,
    RequestTimedOutError,
    UnreadableMessageError,
)
from maitred.model.asking import names_question
from maitred.model.log_levels import LEVELS, LogLevel
from maitred.model.resources import Offer
from maitred.model.servers import ServerFacts, ServerSpec
from maitred.model.tasks import with_extension
from maitred.model.tools import ToolCall
from maitred.model.transports import transport_kind

_CLIENT_INFO = types.Implementation(name="maitred", version=__version__)
_MAX_INSTRUCTIONS = 20_000
_MOST_SAID = 64 * 1024
_ASKS_AFTERWARDS = (
    "(The server asks in the way of the handshake era. maitred speaks that with it as soon as none of its"
    " calls and subscriptions is open: if the call may be made twice, make it again. `era: handshake` in the"
    " configuration avoids this.)"
)
_LEAVE_S = 2.0
_LEVEL_S = 5.0
_LEARN_S = 5.0
_PULSE_S = 30.0
_OUR_OWN_META = frozenset({"progressToken", PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY})
_ASKED_OF = frozenset({"elicitation", "sampling", "roots"})
_NEW = frozenset({"inputResponses", "requestState", CLIENT_CAPABILITIES_META_KEY})


class TransportWatch(Protocol):
    """Reports when a transport has ended on its own."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        ...

    async def closed(self) -> str:
        """Wait for the end and return the reason."""
        ...

    def close(self, reason: str) -> None:
        """End the transport with a reason."""
        ...


class SessionConnection:
    """A `Connection` over any SDK dispatcher."""

    def __init__(
        self,
        spec: ServerSpec,
        session: WireSession,
        closing: TransportWatch,
        limits: Limits,
        on_cannot_ask: Callable[[], None],
    ) -> None:
        self._spec = spec
        self._on_cannot_ask = on_cannot_ask
        self._session = session
        self._closing = closing
        self._limits = limits
        self._in_flight = 0
        self._silent_since: float | None = None
        self._knows_ping = True
        self._level: LogLevel | None = None
        self._mirrors = session.modern and transport_kind(spec.transport).opened_by == "POST"
        self._knows_headers = False
        self._heard_at = time.monotonic()
        self.facts = _facts(session)
        self.title_as_sent = _title(session)

    @property
    def alive(self) -> bool:
        """Whether calls can still be sent."""
        return self._closing.alive

    async def closed(self) -> str:
        """Wait until the session has ended on its own and return the reason."""
        return await self._closing.closed()

    def end(self, reason: str) -> None:
        """End the session; see `Connection`."""
        self._closing.close(reason)

    @property
    def heard_at(self) -> float:
        """When the server last answered anything; a server that waits for an answer is well."""
        return time.monotonic() if self._session.callers.is_asking else self._heard_at

    @property
    def waiting_since(self) -> float | None:
        """Since when requests have waited without any answer; see `Connection`."""
        return self._silent_since if self._in_flight else None

    async def ping(self, timeout_s: float) -> None:
        """Check that the server answers: by `ping`, or by `server/discover` in the stateless era.

        Some servers of the handshake era do not answer unknown methods, which violates the protocol. So
        after an unanswered `ping` the next check sends `tools/list`.
        """
        method = "server/discover" if self._session.modern else "ping" if self._knows_ping else "tools/list"
        opts: RequestOptions = {"timeout": timeout_s, "cancel_on_abandon": False}
        try:
            await self._request(method, {}, opts, timeout_s)
        except CallTimeoutError:
            self._knows_ping = not self._knows_ping
            raise
        except (ProtocolError, ServerUnavailableError):
            pass

    @property
    def instructions_as_sent(self) -> str:
        """The server's instructions as the server sent them."""
        return self._session.instructions or ""

    @property
    def completes(self) -> bool:
        """Whether the server declared `completions`."""
        return bool((declared := self._session.server_capabilities) and declared.completions is not None)

    @property
    def subscribes(self) -> bool:
        """Whether the server declared `resources.subscribe`, which both eras have."""
        declared = self._session.server_capabilities
        return bool(declared and declared.resources and declared.resources.subscribe)

    @property
    def _runs_tasks(self) -> bool:
        """Whether the server declared that calls of tools can be tasks, as servers of 2025-11-25 do."""
        tasks = getattr(self._session.server_capabilities, "tasks", None)
        return bool(tasks and tasks.requests and tasks.requests.tools and tasks.requests.tools.call)

    async def list_tools(self) -> Listing:
        """Read every page; a repeated cursor, or too many pages or tools, ends the reading."""
        with anyio.move_on_after(self._spec.timeouts.list_s) as scope:
            definitions, notes = await self._pages("tools/list", "tools", "tools")
        if scope.cancelled_caught:
            raise CallTimeoutError(self._spec.name, "tools/list", self._spec.timeouts.list_s)
        read, more = read_tools(self._spec.name, definitions)
        tools, rejected = judge_headers(read, mirrored=self._mirrors)
        if self._mirrors:
            self._session.mirror_headers({tool.key.name: tool.input_schema for tool in tools})
        self._knows_headers = True
        sent = tools_as_sent(self._spec.name, tools, definitions)
        return Listing(tools=tools, as_sent=sent, notes=tuple(notes + more + rejected))

    async def _learn_headers(self) -> None:
        """List the tools of a new connection, since a call must carry the headers that they want."""
        if self._mirrors and not self._knows_headers:
            with anyio.move_on_after(_LEARN_S), suppress(ServerError):
                await self.list_tools()
            self._knows_headers = True  # without an answer, the server has to ask for the headers

    async def list_offers(self) -> ServerOffers:
        """Read the lists one after the other, within one time limit for all of them; see `Connection`."""
        offers: list[Offer] = []
        sent: list[Offer] = []
        notes: list[str] = []
        declared = self._session.server_capabilities
        lists = [one for one in LISTS if getattr(declared, one.capability, None) is not None]
        with anyio.move_on_after(self._spec.timeouts.list_s) as scope:
            while lists:
                entries, more = await self._entries(lists[0])
                found, left_out = read_offers(self._spec.name, lists[0], entries)
                offers += found
                sent += offers_as_sent(lists[0], found, entries)
                notes += more + left_out
                del lists[0]
        if scope.cancelled_caught:
            missing = ", ".join(one.method for one in lists)
            notes.append(f"{missing} took longer than {self._spec.timeouts.list_s:g} s; left out")
        return ServerOffers(offers=offers, as_sent=tuple(sent), notes=tuple(notes))

    async def _entries(self, listed: OfferListing) -> tuple[list[Any], list[str]]:
        try:
            return await self._pages(listed.method, listed.field, f"{listed.kind}s")
        except ProtocolError as error:
            if error.rpc_code == METHOD_NOT_FOUND and not listed.declared:
                return [], []
            return [], [f"{listed.method} failed with error {error.rpc_code}: {error.message}"]
        except (ConnectionLostError, ServerUnavailableError, UnreadableAnswerError) as error:
            return [], [f"{listed.method} failed: {error.reason}"]

    async def _pages(self, method: str, field: str, noun: str) -> tuple[list[Any], list[str]]:
        """All entries of a paged list; always ends, even if the server's pages do not."""
        entries: list[Any] = []
        notes: list[str] = []
        cursor: str | None = None
        seen: set[str] = set()
        most = self._limits.max_tools
        while True:
            page = await self._request(method, {"cursor": cursor} if cursor else {}, {})
            found, cursor = page.get(field), page.get("nextCursor")
            entries += found if isinstance(found, list) else []
            if len(entries) > most:
                notes.append(f"more than {most:,} {noun}; the rest is left out (limits.max_tools)")
                break
            if not isinstance(cursor, str) or not cursor:
                break
            if cursor in seen or len(seen) >= self._limits.max_pages:
                notes.append(f"{method} pages never end; only the pages up to the repetition are used")
                break
            seen.add(cursor)
        return entries[:most], notes

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Relay a request without the fields of the caller's own session; see `Connection`."""
        ours = _OUR_OWN_META if self._session.modern else _OUR_OWN_META | _NEW
        meta = {key: value for key, value in (params.get("_meta") or {}).items() if key not in ours}
        sent = {k: v for k, v in params.items() if k != "_meta" and (self._session.modern or k not in _NEW)}
        if self._session.modern:
            declared = meta.get(CLIENT_CAPABILITIES_META_KEY)
            known = (
                _declared_capabilities(declared, caller)
                if isinstance(declared, dict)
                else _shown_capabilities(caller)
            )
            meta[CLIENT_CAPABILITIES_META_KEY] = known
        if meta:
            sent["_meta"] = meta
        clock = CallClock(timeout_s, timeout_s)
        async with self._session.callers.request(caller, clock, minor=True):
            return await self._request(method, sent, {}, timeout_s, clock)

    async def send(self, method: str, params: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Send a request of the gateway's own, which has no caller."""
        return await self._request(method, params, {"timeout": timeout_s}, timeout_s)

    def forget(self, key: str) -> None:
        """Forget a client that has gone; see `Connection`."""
        self._session.callers.forget(key)

    async def roots_changed(self, key: str) -> None:
        """Announce that a client's roots changed; see `Connection`."""
        if self._session.callers.announce_roots(key):
            await self._session.notify("notifications/roots/list_changed")

    async def ask_about_task(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Send a request about a task; see `Connection`."""
        sent = dict(params)
        if self._session.modern:
            sent["_meta"] = {CLIENT_CAPABILITIES_META_KEY: with_extension(_shown_capabilities(caller))}
        waits = method in ("tasks/result", "tools/call")
        with self._session.asked_about(params["taskId"], caller, waits=waits):
            return await self._request(method, sent, {"timeout": timeout_s}, timeout_s=timeout_s)

    @asynccontextmanager
    async def subscribe(self, uri: str) -> AsyncIterator[Subscription]:
        """Subscribe in the way of the era; see `Connection`."""
        if not self.subscribes:
            raise ProtocolError(self._spec.name, METHOD_NOT_FOUND, "it has no subscriptions to resources")
        limit_s = self._spec.timeouts.list_s
        if self._session.modern:
            try:
                async with listening(self._session, uri, timeout_s=limit_s) as stream:
                    yield stream
            except MCPError as error:
                raise self._translate(error, "subscriptions/listen", limit_s) from error
            return
        await self.send("resources/subscribe", {"uri": uri}, timeout_s=limit_s)
        try:
            yield _SessionSubscription(self, pulse=transport_kind(self._spec.transport).loses_silently)
        finally:
            if self.alive:
                with anyio.move_on_after(_LEAVE_S, shield=True), suppress(ServerError):
                    await self.send("resources/unsubscribe", {"uri": uri}, timeout_s=_LEAVE_S)

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Relay one call; see `Connection`."""
        await self._learn_headers()
        params: dict[str, Any] = {"name": name, "arguments": dict(call.arguments)}
        meta = dict(call.meta)
        if self._session.modern:
            if call.input_responses is not None:
                params["inputResponses"] = dict(call.input_responses)
            if call.request_state is not None:
                params["requestState"] = call.request_state
            if caller.log_level:
                meta[LOG_LEVEL_META_KEY] = caller.log_level
            declared = call.client_capabilities
            meta[CLIENT_CAPABILITIES_META_KEY] = (
                _shown_capabilities(caller) if declared is None else _declared_capabilities(declared, caller)
            )
            if call.task is not None:
                meta[CLIENT_CAPABILITIES_META_KEY] = with_extension(meta[CLIENT_CAPABILITIES_META_KEY])
        elif call.task is not None and self._runs_tasks:
            params["task"] = dict(call.task)
        if meta:
            params["_meta"] = meta
        clock = CallClock(timeout_s, self._spec.timeouts.longest_call_s)
        notices = ProgressNotices(caller, lambda: self._progressed(clock))
        opts: RequestOptions = {"on_progress": notices.report}
        await self._set_level(caller.log_level)
        async with self._session.callers.request(caller, clock):
            result = await self._called(params, opts, timeout_s, clock, caller)
            await notices.delivered()
            await self._session.logs.delivered()
            return result

    async def _set_level(self, level: str) -> None:
        """Have a server of the handshake era send messages of a level, as soon as a client wants it."""
        declared = self._session.server_capabilities
        if self._session.modern or declared is None or declared.logging is None or level not in LEVELS:
            return
        if self._level is not None and LEVELS.index(self._level) <= LEVELS.index(level):
            return
        self._level = level
        with suppress(ServerError):  # it declared a method that it does not have
            await self.send("logging/setLevel", {"level": level}, timeout_s=_LEVEL_S)

    def _progressed(self, clock: CallClock) -> None:
        clock.extend()
        self._heard_at = self._silent_since = time.monotonic()

    async def _called(
        self, params: dict[str, Any], opts: RequestOptions, timeout_s: float, clock: CallClock, caller: Caller
    ) -> dict[str, Any]:
        """Make a call; remembers whom an error sends to a URL, and that the server cannot ask in this era."""
        try:
            answer = await self._request("tools/call", params, opts, timeout_s, clock)
        except ProtocolError as error:
            if self._asks_in_vain(error.message, caller):
                again = f"{error.message} {_ASKS_AFTERWARDS}"
                raise ProtocolError(self._spec.name, error.rpc_code, again, error.data) from error
            if error.rpc_code == URL_ELICITATION_REQUIRED and isinstance(error.data, dict):
                for one in error.data.get("elicitations") or ():
                    self._session.callers.sent_to_url(one if isinstance(one, dict) else {}, caller)
            raise
        if answer.get("isError"):
            self._asks_in_vain(str(answer.get("content"))[:_MOST_SAID], caller)
        return answer

    def _asks_in_vain(self, said: str, caller: Caller) -> bool:
        """Whether a server says that it cannot ask the caller, which could answer: it can by a handshake."""
        if not self._session.modern or self._spec.era != "auto":
            return False
        if in_vain := names_question(said, caller.capabilities):
            self._on_cannot_ask()
        return in_vain

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        opts: RequestOptions,
        timeout_s: float = 0.0,
        clock: CallClock | None = None,
    ) -> dict[str, Any]:
        self._in_flight += 1
        try:
            return await self._answered(method, params, opts, timeout_s, clock)
        except anyio.get_cancelled_exc_class():  # no caller waits any more: the server may be well
            if self._in_flight == 1:
                self._silent_since = None
            raise
        except ProtocolError as error:
            if error.rpc_code != HEADER_MISMATCH or method != "tools/call":
                raise
        finally:
            self._in_flight -= 1
        await self.list_tools()  # learns which headers the server requires
        return await self._answered(method, params, opts, timeout_s, clock)

    async def _answered(
        self,
        method: str,
        params: dict[str, Any],
        opts: RequestOptions,
        timeout_s: float,
        clock: CallClock | None,
    ) -> dict[str, Any]:
        if self._silent_since is None:
            self._silent_since = time.monotonic()
        options = RequestOptions(**opts)
        if clock is not None:
            clock.extend()
            options["deadline"] = clock
        try:
            answer = await self._session.request(method, params, options)
        except MCPError as error:
            if clock is not None and isinstance(error, RequestTimedOutError):
                limit_s, in_all = clock.limit_s, clock.is_over
                raise CallTimeoutError(self._spec.name, method, limit_s, in_all=in_all) from error
            told = self._translate(error, method, timeout_s)
            if isinstance(told, ProtocolError | ServerUnavailableError | UnreadableAnswerError):
                self._heard()
            raise told from error
        self._heard()
        return answer

    def _heard(self) -> None:
        self._heard_at = time.monotonic()
        self._silent_since = self._heard_at if self._in_flight > 1 else None

    def _translate(self, error: MCPError, method: str, timeout_s: float) -> ServerError:
        """Convert the error of a failed request; masks credentials in the server's text."""
        left = len(error.message) - _MOST_SAID
        more = f"… ({left:,} more characters)" if left > 0 else ""
        name, told = self._spec.name, redact(clean(error.message[:_MOST_SAID])) + more
        if isinstance(error, ChannelClosedError):
            return ConnectionLostError(name, told, unread=error.unread)
        if isinstance(error, RequestTimedOutError):
            return CallTimeoutError(name, method, timeout_s)
        if isinstance(error, CredentialsRefusedError):
            return ServerUnavailableError(name, told)
        if isinstance(error, UnreadableMessageError):
            return UnreadableAnswerError(name, told)
        return ProtocolError(name, error.code, told, SECRETS.redact_json(error.error.data))


@asynccontextmanager
async def open_session(
    spec: ServerSpec,
    dispatcher: Dispatcher[Any],
    closing: TransportWatch,
    options: ConnectOptions,
    limits: Limits,
) -> AsyncIterator[SessionConnection]:
    """Negotiate an era over `dispatcher` and hold the session open inside the context.

    Raises:
        ConnectError: The server does not answer as an MCP server would.
    """

    async def on_message(message: IncomingMessage) -> None:
        if (notice := notice_of(message)) is not None:
            options.on_notice(notice)
        elif isinstance(message, types.ElicitCompleteNotification):
            await callers.done_at_url(message.params.elicitation_id)

    callers = CallersUnderWay(
        spec.name, asks=options.asks, on_ask=options.on_ask, wait_s=spec.timeouts.call_s
    )
    background = Background()
    session = WireSession(
        spec.name,
        callers,
        options.folder,
        background,
        dispatcher=dispatcher,
        client_info=_CLIENT_INFO,
        message_handler=on_message,
        notification_bindings=[_task_notices(options.on_notice)],
    )
    async with session:
        await negotiate(session, options.era)
        await session.tell_roots()
        lists = announced_lists(session.server_capabilities) if session.modern else ()
        async with watching(spec.name, session, lists, options.on_notice), background:
            background.start(session.logs.run)
            yield SessionConnection(spec, session, closing, limits, options.on_cannot_ask)


def _declared_capabilities(declared: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
    """What a client declared, without roots if the caller may not be asked for them."""
    return {key: value for key, value in declared.items() if key != "roots" or key in caller.capabilities}


def _task_notices(tell: Callable[[Notice], None]) -> NotificationBinding[Any]:
    """Has the SDK pass on what a server says of its tasks."""

    async def on_task(params: types.TaskStatusNotificationParams) -> None:
        tell(Notice(kind="task", task=params.model_dump(by_alias=True, mode="json")))

    return NotificationBinding(
        method="notifications/tasks/status",
        params_type=types.TaskStatusNotificationParams,
        handler=on_task,
    )


def _shown_capabilities(caller: Caller) -> dict[str, Any]:
    """The capabilities of a caller that a server of the stateless era gets with a request."""
    if caller.takes_rounds:
        return dict(caller.capabilities)
    shown = {key: value for key, value in caller.capabilities.items() if key in _ASKED_OF}
    return shown | ({"roots": {}} if "roots" in shown else {})


def _facts(session: WireSession) -> ServerFacts:
    info = session.server_info
    return ServerFacts(
        era="stateless" if session.modern else "handshake",
        protocol_version=session.protocol_version or "",
        title=clean(_title(session)),
        version=clean(info.version if info else ""),
        instructions=clean(session.instructions or "")[:_MAX_INSTRUCTIONS],
    )


def _title(session: WireSession) -> str:
    info = session.server_info
    return (info.title or info.name) if info else ""


class _SessionSubscription:
    """A subscription of the handshake era, which lasts as long as its session.

    Over HTTP a server does not announce that it has forgotten the session, so the gateway pings it.
    """

    def __init__(self, connection: SessionConnection, *, pulse: bool) -> None:
        self._connection = connection
        self._pulse_s = _PULSE_S if pulse else None

    async def ended(self) -> str:
        """Wait for the end of the session and return the reason."""
        while True:
            with anyio.move_on_after(self._pulse_s):
                return await self._connection.closed()
            try:
                await self._connection.send("ping", {}, timeout_s=_PULSE_S)
            except ConnectionLostError as error:
                return error.reason
            except ServerError:
                continue  # it is there, but slow, or does not know pings
