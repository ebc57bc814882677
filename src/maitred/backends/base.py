"""The interface to upstream servers: what a transport provides, in values and not in SDK types.

A `Backend` knows how to reach one server and holds nothing open. A `Connection` is one open session with it.
One task must open and close a connection, since the SDK's sessions require it. So the pool gives each
backend one owner task. Calls may come from any task.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeVar

from maitred.config.settings import Supervision
from maitred.model.asking import check_askable
from maitred.model.held_calls import HeldCall
from maitred.model.resources import Offer
from maitred.model.servers import EraChoice, FaultCode, Health, ServerFacts, ServerSpec, State
from maitred.model.sharing import NO_SHARER, Instance, Sharer, Sharing
from maitred.model.tools import RawTool, ToolCall

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives `(progress, total, message)` while a call runs."""


class Caller(Protocol):
    """The caller of a request, with what its server can ask and send it while the request is under way."""

    @property
    def key(self) -> str:
        """Identifies the client; two requests have the same key only if they certainly have one client."""
        ...

    @property
    def principal(self) -> str:
        """Whose client it is."""
        ...

    @property
    def sharer(self) -> Sharer:
        """The same client as `maitred.model.sharing` knows it."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared, as on the wire (`elicitation`, `sampling`, `roots`)."""
        ...

    @property
    def log_level(self) -> str:
        """The least severe level of log messages that the client wants; empty if it wants none."""
        ...

    @property
    def takes_rounds(self) -> bool:
        """Whether an answer `input_required` may go to the client as it is."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked for progress."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client what the server asks, and return its answer unchanged; see `maitred.model.asking`.

        Cancelling the awaiting task withdraws the question.

        Raises:
            CallerRefusedError: The client cannot answer, or answered with an error.
        """
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress of the request; does nothing unless the client wants it."""
        ...

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send the client a log message, the parameters of `notifications/message`.

        `late` says that no request of it is under way.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send the client a notification of the server about an earlier question, also after the request."""
        ...

    def note_held(self, call: HeldCall) -> None:
        """Note that a call of the request waits for a person, or by its `state` that it waits no more."""
        ...


class UnaskedCaller:
    """A caller that can answer nothing, and wants to hear nothing."""

    key = ""
    principal = ""
    sharer = NO_SHARER
    capabilities: Mapping[str, Any] = {}
    log_level = ""
    takes_rounds = False
    wants_progress = False

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse; see `Caller`."""
        check_askable(method, params, self.capabilities)
        raise AssertionError(method)  # no method can be asked without a capability

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Dropped."""

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Dropped."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Dropped."""

    def note_held(self, call: HeldCall) -> None:
        """Dropped."""


NOT_ASKED: Final[Caller] = UnaskedCaller()
"""The caller of the HTTP API and the command line."""

Resolve = Callable[[str], str]
"""Replaces the references in a configuration value; see `maitred.config.interpolate`."""


class ConnectError(Exception):
    """A server could not be reached; the text is the reason, ready to follow the server's name."""

    def __init__(self, reason: str, *, fault: FaultCode = "") -> None:
        self.fault = fault
        super().__init__(reason)


class LoginNeededError(ConnectError):
    """A server requires a login. That is no fault of it, and may change at any time."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, fault="login_needed")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The tools of a server at one moment, with notes on what the gateway left out or changed.

    `as_sent` are the same tools with their texts as the server sent them, for security checks only. They
    may contain characters that deceive a reader.
    With `transient`, tools come and go with what is open elsewhere: one that is missing now is still approved
    when it comes again.
    `gone` are the tools that another listing of this process had. With it, nothing else goes that is missing
    here: another process of the same catalog may have listed it.
    """

    tools: Sequence[RawTool]
    as_sent: Sequence[RawTool] = ()
    notes: tuple[str, ...] = ()
    transient: bool = False
    gone: frozenset[str] | None = None
    is_silent: bool = False
    """It says nothing of the server: what is known comes from another process."""


@dataclass(frozen=True, kw_only=True)
class ServerOffers:
    """What a server offers besides tools, with notes. The names are still empty: the catalog sets them.

    `as_sent` are the same offers with their texts as the server sent them; see `Listing`.
    """

    offers: Sequence[Offer] = ()
    as_sent: Sequence[Offer] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A server announces that a list of it changed, or the resource at `uri`, the state of a task, or facts.

    `facts` are those that visibility rules read, all of them as they are now.
    """

    kind: Literal["tools", "resources", "prompts", "updated", "task", "facts"]
    uri: str = ""
    task: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the connection to a server ended, and why.

    - `exit`: the server ended by itself, with a code or a signal of its own.
    - `memory`: the kernel ended it for lack of memory.
    - `killed`: another process ended it by a signal.
    - `hang`: the gateway ended it, since it did not answer or was not ready in time.
    - `protocol`: the gateway ended it, since its output was not MCP, or was too long.
    - `lost`: the connection ended for any other reason.

    `fault` is what an operator can mend about it.
    """

    kind: Literal["exit", "memory", "killed", "hang", "protocol", "lost"]
    reason: str
    fault: FaultCode = ""


@dataclass(frozen=True, kw_only=True)
class SupervisionEvent:
    """What supervision did with a server, and why, in words about the server.

    - `restart`: it starts again after a fault.
    - `recover`: it runs well after a time in which calls to it were refused.
    - `suspend`: it does not start any more until an operator resumes it.
    """

    kind: Literal["restart", "recover", "suspend"]
    why: str


_E = TypeVar("_E", bound=BaseException)


def find(error: BaseException, kind: type[_E]) -> _E | None:
    """The first exception of a kind in an error, which may be a nested group from task groups."""
    if isinstance(error, kind):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := find(inner, kind)) is not None), None)
    return None


class Subscription(Protocol):
    """A subscription to changes of a resource, until its context is left or the server ends it."""

    async def ended(self) -> str:
        """Wait until no more notices come, because the stream or the connection ended; returns the reason."""
        ...


class Connection(Protocol):
    """One open session with a server."""

    facts: ServerFacts

    @property
    def title_as_sent(self) -> str:
        """The server's title as the server sent it, for security checks only."""
        ...

    @property
    def instructions_as_sent(self) -> str:
        """The server's instructions as the server sent them, for security checks only."""
        ...

    @property
    def completes(self) -> bool:
        """Whether the server declared that it completes arguments."""
        ...

    @property
    def subscribes(self) -> bool:
        """Whether the server declared that it supports subscriptions to resources."""
        ...

    @property
    def alive(self) -> bool:
        """Whether calls can still be sent; false as soon as the end of the session is known."""
        ...

    @property
    def heard_at(self) -> float:
        """When the server last answered anything, in seconds of the monotonic clock (`time.monotonic`)."""
        ...

    @property
    def waiting_since(self) -> float | None:
        """Since when requests have waited without any answer; `None` if no request is in flight."""
        ...

    async def ping(self, timeout_s: float) -> None:
        """Check that the server answers, as cheaply as its era allows; an error is an answer, too.

        Raises:
            CallTimeoutError: It did not answer.
            ServerError: The connection ended.
        """
        ...

    def end(self, reason: str) -> None:
        """End the session. All requests in flight fail with this reason, and `closed` returns it."""
        ...

    async def list_tools(self) -> Listing:
        """Request every page of the tool list. Always ends, whatever the server answers.

        Raises:
            ServerError: The server answered with an error, or the connection ended.
        """
        ...

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Call a tool by its raw name and return the result unchanged, a JSON object.

        What the server asks and sends meanwhile goes to `caller`.

        Cancelling the awaiting task cancels the call upstream.

        Raises:
            ServerError: Timeout, loss of the connection, or a JSON-RPC error.
        """
        ...

    async def list_offers(self) -> ServerOffers:
        """Request every page of the resources, resource templates and prompts that the server declared.

        Never fails and always ends: a kind that the server does not list gives a note and no offers.
        """
        ...

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Relay `resources/read`, `prompts/get` or `completion/complete`; returns the result unchanged.

        Raises:
            ServerError: Timeout, loss of the connection, or a JSON-RPC error.
        """
        ...

    def forget(self, key: str) -> None:
        """Forget the client with this key, which has gone."""
        ...

    async def roots_changed(self, key: str) -> None:
        """Announce that the roots of the client with this key changed, if the server has asked for them."""
        ...

    async def ask_about_task(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Send a request about the task with `taskId`, and return the result unchanged.

        What the server asks about this task meanwhile goes to `caller`, whatever else is under way.

        Raises:
            ServerError: Timeout, loss of the connection, or a JSON-RPC error.
        """
        ...

    def subscribe(self, uri: str) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to changes of a resource, which come as notices, while the context is open.

        Raises:
            ServerError: On entering: the server cannot, refuses, or the connection ended.
        """
        ...

    async def closed(self) -> str:
        """Wait until the session has ended on its own and return the reason."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """What the pool decides about a connection: the era to try first, and the receiver of notices.

    `key` is the share key of the instance, and `sharer` one of the clients that it is for.
    `folder` is where the clients of the connection work, if all of them work there. A server that asks for
    roots gets it as the only one. `principal` is whose tokens its requests carry, empty for the gateway's.
    `serves` says whether the connection is for a client.
    `asks` says that the server has asked callers before in a way that names none; see
    `maitred.backends.callers`. `on_ask` is called when it does. `on_cannot_ask` is called when a server of
    the stateless era could not send a request to a caller, which it could in the handshake era.
    """

    era: EraChoice
    on_notice: Callable[[Notice], None]
    key: str = ""
    sharer: Sharer = NO_SHARER
    folder: str = ""
    principal: str = ""
    serves: Callable[[Sharer], bool] = lambda _: True
    asks: bool = False
    on_ask: Callable[[], None] = lambda: None
    on_cannot_ask: Callable[[], None] = lambda: None


class Backend(ABC):
    """How to reach one server. Constructing it has no side effects.

    A backend must define `connect`. It defines the rest if it starts a process or knows why that ended.
    """

    cage: str = ""
    """What its processes run in: `jail` or `container`; empty for nothing, or for a server elsewhere."""

    is_elsewhere: bool = False
    """Whether another replica ran the server last, or runs it now. That one supervises it."""

    spec: ServerSpec

    @abstractmethod
    def connect(self, options: ConnectOptions) -> AbstractAsyncContextManager[Connection]:
        """Open a session; leaving the context ends the session and every process that it started.

        Raises:
            ConnectError: The server cannot be started or reached, or does not speak MCP.
        """
        ...

    def last_output(self, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of standard error (at most 200), oldest first; `earlier`: of all its processes."""
        return ()

    def why_not_callable(self, tool: str) -> str:
        """Why a tool cannot be called, by its raw name, if the gateway can know it without the server."""
        return ""

    async def settle(self, tool: str) -> bool:
        """Wait a moment if a call has just opened what may bring tools, until `tool` is one of them.

        `tool` may have the name of its server before it, and be empty. Returns whether the tools changed
        since they were listed.
        """
        return False

    @property
    def pid(self) -> int | None:
        """The process of the open session, if there is one on this machine."""
        return None

    def idle_limit_s(self, configured_s: float) -> float:
        """After how many seconds without a call its connection is left."""
        return configured_s

    def ending(self, reason: str) -> Ending:
        """How the last connection ended; called after its context was left, with the reason it gave."""
        return Ending(kind="lost", reason=reason)


BackendFactory = Callable[[ServerSpec], Backend]


class Listener(Protocol):
    """Receives the events of the pool's backends. Called from owner tasks; must not block.

    `key` is the share key of the instance that an event is about; see `maitred.model.sharing`.
    """

    def started(self, server: str, key: str) -> None:
        """A backend has a new open connection."""
        ...

    def tools_changed(self, server: str, key: str) -> None:
        """A server announced that its list of tools changed."""
        ...

    def offers_changed(self, server: str, key: str) -> None:
        """A server announced that its resources or prompts changed."""
        ...

    def updated(self, server: str, uri: str, key: str) -> None:
        """A server announced that a resource changed; `uri` is the server's own."""
        ...

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        """A server of the handshake era announced the state of a task, in its own form."""
        ...

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        """A server reported the facts of its state that visibility rules read."""
        ...

    def health_changed(self, server: str, key: str) -> None:
        """The state of a backend changed, or whether calls to it are refused."""
        ...

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        """Supervision acted on a backend."""
        ...


class Connections(Protocol):
    """Lends the open connection of a server, and starts the server if necessary."""

    def connection(self, server: str, sharer: Sharer = NO_SHARER) -> AbstractAsyncContextManager[Connection]:
        """Borrow the connection for a while, to the instance that serves the sharer.

        Raises:
            ServerUnavailableError: The server cannot be started or reached now.
        """
        ...

    def key(self, server: str, sharer: Sharer) -> str:
        """The share key of the instance that serves a sharer."""
        ...


class ServerPool(Connections, Protocol):
    """All backends of a gateway; `maitred.backends.pool` has the implementation."""

    def connection(
        self, server: str, sharer: Sharer = NO_SHARER, *, patient: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Borrow the connection of a server for a while, to the instance that serves the sharer.

        With `patient` the caller waits for its turn to start, however long other servers take; a call
        does not.

        Raises:
            ServerUnavailableError: The server cannot be started or reached now, or all instances that it may
                have are in use.
        """
        ...

    def open_connection(self, server: str, key: str) -> AbstractAsyncContextManager[Connection] | None:
        """Borrow the connection of an instance; `None` if it is not open now."""
        ...

    async def configure(
        self,
        specs: Mapping[str, ServerSpec],
        eras: Mapping[str, EraChoice],
        supervision: Supervision | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        """Hold exactly these servers; `eras` and `titles` are those known from earlier sessions.

        `supervision` replaces the settings of supervision; without it, they stay as they are.
        """
        ...

    def sharing(self, server: str) -> Sharing:
        """How a server is shared, and why."""
        ...

    def instances(self, server: str) -> Sequence[Instance]:
        """The instances of a server beside the default one that run or have failed."""
        ...

    def state(self, server: str, key: str) -> State:
        """The state of an instance; idle if there is none."""
        ...

    def left(self, sharer: Sharer) -> None:
        """A client has gone. Instances that are its own end soon, unless it comes back."""
        ...

    def health(self, sharer: Sharer | None = None) -> Mapping[str, Health]:
        """The health of every server: of the instance that serves `sharer`, or of all instances together."""
        ...

    def refused(self) -> Mapping[str, Health]:
        """The servers that failed so often that calls to them are refused now."""
        ...

    def refusal(self, server: str) -> Health | None:
        """The health of one server, if calls to it are refused now."""
        ...

    def last_output(self, server: str, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of a server's standard error; if it has several instances, each under a heading."""
        ...

    async def restart(self, server: str) -> None:
        """End a server with all its instances; the next use starts it."""
        ...

    def why_not_callable(self, server: str, tool: str) -> str:
        """Why a tool of a server cannot be called, if its backend knows that; may read a file."""
        ...

    async def settle(self, server: str, tool: str) -> bool:
        """Wait a moment for tools that a call may just have brought; see `Backend`."""
        ...

    def is_open(self, server: str) -> bool:
        """Whether a connection to the default instance of a server is open now."""
        ...

    def forget(self, key: str) -> None:
        """Have each open server forget a client that has gone."""
        ...

    async def roots_changed(self, key: str) -> None:
        """Announce to each open server that has asked for the roots of a client that these changed."""
        ...

    def is_given_up(self, server: str) -> bool:
        """Whether a usable server does not start any more because of its failures."""
        ...
