"""The notices of servers, and in the stateless era the streams that carry them.

A notice reaches the session's message handler in both eras, since the SDK passes on what comes on a
stream. So `notice_of` is the only entry, and the streams are only held open and drained.
A session begins when the server has answered its stream, so that it misses no change after its first
list. If a stream came late or was reopened, the gateway makes up for it with a notice for each list.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import anyio
import mcp_types as types
import structlog
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import Subscription, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

from maitred.backends.base import Caller, Notice
from maitred.background import Background
from maitred.jsonrpc import RequestTimedOutError

log = structlog.get_logger(__name__)

_FIRST_DELAY_S = 1.0
_MAX_DELAY_S = 60.0
_NOTICES_S = 1.0
_MOST_REPORTS = 64  # of one call; a client that reads too slowly misses the others
_ANSWERED_S = 1.0

ListKind = Literal["tools", "resources", "prompts"]


def notice_of(message: IncomingMessage) -> Notice | None:
    """The notice in a message from a server; `None` if it is not about lists or resources."""
    match message:
        case types.ToolListChangedNotification():
            return Notice(kind="tools")
        case types.ResourceListChangedNotification():
            return Notice(kind="resources")
        case types.PromptListChangedNotification():
            return Notice(kind="prompts")
        case types.ResourceUpdatedNotification():
            return Notice(kind="updated", uri=message.params.uri)
        case _:
            return None


def announced_lists(capabilities: types.ServerCapabilities | None) -> tuple[ListKind, ...]:
    """The lists for which the server declared that it announces changes."""
    if capabilities is None:
        return ()
    kinds: dict[ListKind, object] = {
        "tools": capabilities.tools and capabilities.tools.list_changed,
        "resources": capabilities.resources and capabilities.resources.list_changed,
        "prompts": capabilities.prompts and capabilities.prompts.list_changed,
    }
    return tuple(kind for kind, declared in kinds.items() if declared)


@asynccontextmanager
async def watching(
    server: str, session: ClientSession, lists: Sequence[ListKind], tell: Callable[[Notice], None]
) -> AsyncIterator[None]:
    """Report changes of some lists to `tell`; entering waits at most a second for the server's answer."""
    answered = anyio.Event()

    async def keep() -> None:
        try:
            await _watch(server, session, lists, tell, answered)
        finally:
            answered.set()

    async with Background() as background:
        if lists:
            background.start(keep)
            with anyio.move_on_after(_ANSWERED_S):
                await answered.wait()
        yield


async def _watch(
    server: str,
    session: ClientSession,
    lists: Sequence[ListKind],
    tell: Callable[[Notice], None],
    answered: anyio.Event,
) -> None:
    """Hold a stream of change notices open; if the server refuses the first one, do not ask again."""
    delay_s, heard, begun = _FIRST_DELAY_S, False, anyio.current_time()
    while True:
        opened = anyio.current_time()
        try:
            async with listen(
                session,
                tools_list_changed="tools" in lists,
                resources_list_changed="resources" in lists,
                prompts_list_changed="prompts" in lists,
            ) as stream:
                if heard or anyio.current_time() - begun >= _ANSWERED_S:
                    for kind in lists:
                        tell(Notice(kind=kind))
                heard = True
                answered.set()
                await _drained(stream)
        except (MCPError, SubscriptionLost) as error:
            log.info("the server sends no change notices", server=server, reason=str(error))
        if not heard:
            return
        if anyio.current_time() - opened > _MAX_DELAY_S:
            delay_s = _FIRST_DELAY_S
        await anyio.sleep(delay_s)
        delay_s = min(delay_s * 2, _MAX_DELAY_S)


async def _drained(stream: Subscription) -> str:
    """Wait for the end of a stream; the message handler gets its events."""
    try:
        async for _ in stream:
            pass
    except SubscriptionLost as error:
        return str(error.__cause__ or error)
    return "the server ended the subscription"


class Listening:
    """A subscription to one resource that lasts as long as its stream."""

    def __init__(self, stream: Subscription) -> None:
        self._stream = stream

    async def ended(self) -> str:
        """Wait for the end of the stream and return the reason."""
        return await _drained(self._stream)


@asynccontextmanager
async def listening(session: ClientSession, uri: str, *, timeout_s: float) -> AsyncIterator[Listening]:
    """Hold a stream on which a server reports changes of one resource.

    Raises:
        MCPError: The server refused, went away, or did not answer in time.
    """
    async with AsyncExitStack() as stack:
        try:
            with anyio.fail_after(timeout_s):  # the SDK would wait for the acknowledgment for ever
                stream = await stack.enter_async_context(listen(session, resource_subscriptions=[uri]))
        except TimeoutError as error:
            raise RequestTimedOutError("the subscription was not acknowledged") from error
        except SubscriptionLost as error:
            raise MCPError(CONNECTION_CLOSED, str(error)) from error
        if uri not in (stream.honored.resource_subscriptions or ()):
            raise MCPError(METHOD_NOT_FOUND, "it does not report changes of this resource")
        yield Listening(stream)


class ProgressNotices:
    """Passes on progress, and knows when all of it was delivered: the answer must not overtake it.

    `progressed` is called first, also where the caller wants no progress.
    """

    def __init__(self, caller: Caller, progressed: Callable[[], None]) -> None:
        self._caller = caller
        self._progressed = progressed
        self._under_way = 0
        self._none: anyio.Event | None = None

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one notice on."""
        self._progressed()
        if not self._caller.wants_progress or self._under_way >= _MOST_REPORTS:
            return
        self._under_way += 1
        try:
            await self._caller.progress(progress, total, message)
        finally:
            self._under_way -= 1
            if not self._under_way and self._none is not None:
                self._none.set()

    async def delivered(self) -> None:
        """Wait until every notice that has come was passed on, for at most one second."""
        if not self._under_way:
            return
        with anyio.move_on_after(_NOTICES_S):
            while self._under_way:
                self._none = anyio.Event()
                await self._none.wait()
