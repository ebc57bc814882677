"""The seam to upstream servers: what a transport has to offer, in values and not in SDK types.

A `Backend` knows how to reach one server and holds nothing open; a `Connection` is one open session with it.
Connections are entered and left in the same task (the SDK's sessions require it), which is why the pool gives
each backend one owner task; calls may come from any task.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from maitred.config.settings import Supervision
from maitred.model.resources import Offer
from maitred.model.servers import EraChoice, Health, ServerFacts, ServerSpec
from maitred.model.tools import RawTool, ToolCall

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Receives `(progress, total, message)` while a call runs."""

Resolve = Callable[[str], str]
"""Replaces the references in a configuration value; see `maitred.config.interpolate`."""


class ConnectError(Exception):
    """A server could not be reached; the text is the reason, ready to be shown after the server's name."""


class LoginNeededError(ConnectError):
    """A server lets nobody in before a person has logged in; no fault of it, and it may end at any time."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The tools of a server at one moment, with notes on what had to be left out or mended.

    `as_sent` are the same tools with their texts as they came over the wire, for security checks alone: they
    hold the characters that deceive a reader.
    """

    tools: Sequence[RawTool]
    as_sent: Sequence[RawTool] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ServerOffers:
    """What a server offers besides tools, with notes. The names are still empty: the catalog gives them.

    `as_sent` are the same offers with their texts as they came over the wire; see `Listing`.
    """

    offers: Sequence[Offer] = ()
    as_sent: Sequence[Offer] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A server says that one of its lists changed, or that the resource at `uri` was updated."""

    kind: Literal["tools", "resources", "prompts", "updated"]
    uri: str = ""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the connection to a server ended, and why.

    `exit`: the server ended by itself, with a code or a signal of its own. `memory`: the kernel ended it for
    want of memory. `killed`: somebody else ended it by a signal. `hang`: we ended it, since it did not answer
    or was not ready in time. `protocol`: we ended it, since what it wrote was not MCP, or too much. `lost`:
    the connection went otherwise.
    """

    kind: Literal["exit", "memory", "killed", "hang", "protocol", "lost"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class SupervisionEvent:
    """What supervision did about a server, and why, in words about it.

    `restart`: it is started again after a fault. `recover`: it runs well, though it was refused for a while.
    `suspend`: it is not started any more until somebody resumes it.
    """

    kind: Literal["restart", "recover", "suspend"]
    why: str


_E = TypeVar("_E", bound=BaseException)


def find(error: BaseException, kind: type[_E]) -> _E | None:
    """The first exception of a kind in an error, which may be a group of groups (task groups make those)."""
    if isinstance(error, kind):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := find(inner, kind)) is not None), None)
    return None


class Subscription(Protocol):
    """A server's promise to tell when a resource changes; it holds until its context is left, or it ends."""

    async def ended(self) -> str:
        """Wait until nothing more is told, because the stream or the connection ended; returns the reason."""
        ...


class Connection(Protocol):
    """One open session with a server."""

    facts: ServerFacts

    @property
    def title_as_sent(self) -> str:
        """What the server calls itself, as it came over the wire, for security checks alone."""
        ...

    @property
    def instructions_as_sent(self) -> str:
        """The server's instructions as they came over the wire, for security checks alone."""
        ...

    @property
    def completes(self) -> bool:
        """Whether the server declared that it completes arguments."""
        ...

    @property
    def subscribes(self) -> bool:
        """Whether the server declared that it tells subscribers when a resource changes."""
        ...

    @property
    def alive(self) -> bool:
        """Whether calls can still be sent; false from the moment the session is known to have ended."""
        ...

    @property
    def heard_at(self) -> float:
        """When the server last answered anything, by the clock that never goes back (`time.monotonic`)."""
        ...

    @property
    def waiting_since(self) -> float | None:
        """Since when it has answered nothing though it was asked; `None` if no request is in flight."""
        ...

    async def ping(self, timeout_s: float) -> None:
        """Ask whether the server is there, as cheaply as its era allows; an error is an answer, too.

        Raises:
            CallTimeoutError: It did not answer.
            ServerError: It went away.
        """
        ...

    def end(self, reason: str) -> None:
        """Have the session end for a reason, which all requests in flight fail with, and `closed` returns."""
        ...

    async def list_tools(self) -> Listing:
        """Ask for every page of the tool list. Never loops, whatever the server answers.

        Raises:
            ServerError: The server answered with an error or went away.
        """
        ...

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, progress: Progress | None
    ) -> dict[str, Any]:
        """Call a tool by its raw name and return the result as it came, a JSON object.

        Cancelling the awaiting task cancels the call upstream.

        Raises:
            ServerError: Timeout, loss of the connection, or a JSON-RPC error.
        """
        ...

    async def list_offers(self) -> ServerOffers:
        """Ask for every page of the resources, resource templates and prompts that the server declared.

        Never fails and never loops: a kind that the server does not list gives a note and no offers.
        """
        ...

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Relay a request (`resources/read`, `prompts/get`, `completion/complete`); the result is as it came.

        Raises:
            ServerError: Timeout, loss of the connection, or a JSON-RPC error.
        """
        ...

    def subscribe(self, uri: str) -> AbstractAsyncContextManager[Subscription]:
        """Have the server tell of changes of a resource, as notices, while the context is open.

        Raises:
            ServerError: On entering: the server cannot, does not want to, or went away.
        """
        ...

    async def closed(self) -> str:
        """Wait until the session has ended on its own and return the reason."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """What the pool decides about a connection: the era to try first, and who hears the server's notices."""

    era: EraChoice
    on_notice: Callable[[Notice], None]


class Backend(ABC):
    """How one server is reached. Constructing it has no side effects.

    A backend has to define `connect`, and the rest where it starts a process or knows why that ended.
    """

    cage: str = ""
    """What its processes run in: `jail`, `container`, or nothing (empty), or it runs elsewhere."""

    spec: ServerSpec

    @abstractmethod
    def connect(self, options: ConnectOptions) -> AbstractAsyncContextManager[Connection]:
        """Open a session; leaving the context ends it and everything it started.

        Raises:
            ConnectError: The server cannot be started or reached, or does not speak MCP.
        """
        ...

    def last_output(self) -> Sequence[str]:
        """The last lines the server wrote to its standard error (at most 200), oldest first."""
        return ()

    @property
    def pid(self) -> int | None:
        """The process of the open session, if there is one on this machine."""
        return None

    def ending(self, reason: str) -> Ending:
        """How the last connection ended, for the reason that it gave; asked when its context was left."""
        return Ending(kind="lost", reason=reason)


BackendFactory = Callable[[ServerSpec], Backend]


class Listener(Protocol):
    """What the pool tells about its backends. Called from owner tasks; must not block."""

    def started(self, server: str) -> None:
        """A backend has a new open connection."""
        ...

    def tools_changed(self, server: str) -> None:
        """A server announced that its list of tools changed."""
        ...

    def offers_changed(self, server: str) -> None:
        """A server announced that its resources or prompts changed."""
        ...

    def updated(self, server: str, uri: str) -> None:
        """A server announced that a resource changed; `uri` is as the server has it."""
        ...

    def health_changed(self, server: str) -> None:
        """The state of a backend, or whether it is refused, is another than it was."""
        ...

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        """Supervision did something about a backend."""
        ...


class Connections(Protocol):
    """Lends the open connection of a server, starting the server if need be."""

    def connection(self, server: str) -> AbstractAsyncContextManager[Connection]:
        """Borrow it for a while.

        Raises:
            ServerUnavailableError: The server cannot be started or reached now.
        """
        ...


class ServerPool(Connections, Protocol):
    """All backends of a gateway; `maitred.backends.pool` has the one that is used."""

    def connection(self, server: str, *, patient: bool = False) -> AbstractAsyncContextManager[Connection]:
        """Borrow the connection of a server for a while.

        With `patient` it waits for its turn to start however long other servers take; a call does not.

        Raises:
            ServerUnavailableError: The server cannot be started or reached now.
        """
        ...

    async def configure(
        self,
        specs: Mapping[str, ServerSpec],
        eras: Mapping[str, EraChoice],
        supervision: Supervision | None = None,
    ) -> None:
        """Hold exactly these servers; `eras` are those known from earlier sessions.

        `supervision` says how they are kept well from now on; without it, that stays as it was.
        """
        ...

    def health(self) -> Mapping[str, Health]:
        """How every backend is doing."""
        ...

    def refused(self) -> Mapping[str, Health]:
        """The backends that failed so often that they are not tried now."""
        ...

    def last_output(self, server: str) -> Sequence[str]:
        """The last lines of a server's standard error."""
        ...

    def is_open(self, server: str) -> bool:
        """Whether a connection to a server is open now."""
        ...

    def is_given_up(self, server: str) -> bool:
        """Whether a server could be used, but for its failures is not started any more."""
        ...
