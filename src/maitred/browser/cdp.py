"""A client of the Chrome DevTools Protocol (CDP): one WebSocket, flat sessions, many handlers for one event.

A connection is shared: each consumer attaches a session of its own to a target, and registers its own
handlers for events of that session. The empty session is the browser itself. Handlers run in the order in
which the browser sent the events, and must not block.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import structlog
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from maitred.background import Background
from maitred.browser.oversize import OversizeFilter

log = structlog.get_logger(__name__)

Params = Mapping[str, Any]
Handler = Callable[[Params], None]
"""Takes the parameters of an event."""

_MAX_MESSAGE: Final = 16 * 1024 * 1024
"""A larger one is not read: any page can have one sent, such as by `console.log`."""
_ANSWER_S: Final = 30.0
_CLOSE_S: Final = 2.0


class CdpError(Exception):
    """The browser refused a command."""

    def __init__(self, method: str, code: int, message: str) -> None:
        self.method = method
        self.code = code
        self.message = message
        super().__init__(f"{method}: {message}")


class CdpTimeoutError(Exception):
    """The browser did not answer a command in time."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method = method
        self.seconds = seconds
        super().__init__(f"the browser did not answer {method} within {seconds:g} s")


class CdpClosedError(Exception):
    """The connection to the browser, or the session with one target, has ended."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class CdpConnection:
    """The connection to one browser.

    `closed` is why it ended; empty while it is open. The functions in `on_end` are called with that reason,
    before open commands fail.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self._pending: dict[int, tuple[str, str, asyncio.Future[dict[str, Any]]]] = {}
        self._handlers: dict[tuple[str, str], list[Handler]] = {}
        self._ended = anyio.Event()
        self._posted, self._to_post = anyio.create_memory_object_stream[str](math.inf)
        self.closed = ""
        self.on_end: list[Callable[[str], None]] = []

    async def send(
        self, method: str, params: Params | None = None, session: str = "", *, timeout_s: float = _ANSWER_S
    ) -> dict[str, Any]:
        """Send a command to a session and return its result.

        Raises:
            CdpError: The browser refused it.
            CdpTimeoutError: It did not answer in time.
            CdpClosedError: The connection or the session ended before the answer.
        """
        if self.closed:
            raise CdpClosedError(self.closed)
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": dict(params or {})}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[number] = (session, method, answer)
        try:
            with anyio.move_on_after(timeout_s):
                await self._socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
                return await answer
        except ConnectionClosed:
            raise CdpClosedError(self.closed or "the browser closed the connection") from None
        finally:
            del self._pending[number]
        raise CdpTimeoutError(method, timeout_s)

    def post(self, method: str, params: Params, session: str = "") -> None:
        """Send a command whose answer no caller needs; for handlers of events.

        None is left out, however many wait: a page could wait for one of them for ever.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": dict(params)}
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the connection has ended
            self._posted.send_nowait(json.dumps(message | ({"sessionId": session} if session else {})))

    def on(self, session: str, method: str, handler: Handler) -> Callable[[], None]:
        """Call a handler for each event of a session; returns what removes it again."""
        handlers = self._handlers.setdefault((session, method), [])
        handlers.append(handler)

        def remove() -> None:
            with suppress(ValueError):
                handlers.remove(handler)
            if not handlers:
                self._handlers.pop((session, method), None)

        return remove

    def forget(self, session: str, reason: str) -> None:
        """A session has ended: its open commands fail with the reason, and its handlers go."""
        for key in [key for key in self._handlers if key[0] == session]:
            del self._handlers[key]
        self._fail(CdpClosedError(reason), session)

    async def wait_closed(self) -> str:
        """Wait for the end of the connection and return the reason."""
        await self._ended.wait()
        return self.closed

    async def read(self) -> None:
        """Read messages until the connection ends."""
        try:
            while True:
                self._receive(_read(str(await self._socket.recv())))
        except ConnectionClosed as error:
            self.end(_close_reason(error))

    async def write(self) -> None:
        """Send what handlers post, until the connection ends."""
        with suppress(ConnectionClosed):
            async for text in self._to_post:
                await self._socket.send(text)

    def release(self) -> None:
        """Free what it holds, after its tasks have ended."""
        self._posted.close()
        self._to_post.close()

    def _receive(self, message: dict[str, Any]) -> None:
        if "id" in message:
            _, method, answer = self._pending.get(message["id"], ("", "", None))
            if answer is None or answer.done():
                return  # its caller waits no more
            error = message.get("error")
            if error is None:
                answer.set_result(message.get("result", {}))
            else:
                _refuse(answer, CdpError(method, error.get("code", 0), str(error.get("message", ""))))
            return
        session, params = message.get("sessionId", ""), message.get("params", {})
        for handler in list(self._handlers.get((session, message.get("method", "")), ())):
            try:
                handler(params)
            except Exception:  # one consumer's fault must not end the connection of all
                log.exception("a handler of a browser event failed", method=message.get("method"))
        if message.get("method") == "Target.detachedFromTarget":
            self.forget(params.get("sessionId", ""), "the tab was closed")

    def end(self, reason: str) -> None:
        """The connection has ended: open commands fail with the reason."""
        if not self.closed:
            self.closed = reason
            for listener in list(self.on_end):
                try:
                    listener(reason)
                except Exception:  # one consumer's fault must not leave the commands of all unanswered
                    log.exception("a handler of a browser's end failed", reason=reason)
            self._fail(CdpClosedError(reason))
            self._ended.set()
            self._posted.close()

    def _fail(self, error: Exception, session: str | None = None) -> None:
        for owner, _, answer in list(self._pending.values()):
            if not answer.done() and session in (None, owner):
                _refuse(answer, error)


def _read(text: str) -> dict[str, Any]:
    """A message of the browser; an empty one if it has too many levels."""
    try:
        message: dict[str, Any] = json.loads(text)
    except RecursionError:
        log.warning("a message of the browser has too many levels")
        return {}
    return message


def _refuse(answer: asyncio.Future[dict[str, Any]], error: Exception) -> None:
    """Fail a command. Its caller may have left meanwhile: then no task reads the error, which is no fault."""
    answer.set_exception(error)
    answer.exception()


def _close_reason(error: ConnectionClosed) -> str:
    if error.sent is not None and not error.rcvd_then_sent:
        return f"maitred closed the connection: {error.sent.reason or error.sent.code}"
    said = error.rcvd.reason if error.rcvd else ""
    return f"the browser closed the connection{f': {said}' if said else ''}"


class _BoundedConnection(ClientConnection):
    """A WebSocket that goes on after a message that is too large."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._filter = OversizeFilter(_MAX_MESSAGE)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes, without those of messages that are too large."""
        if kept := self._filter.feed(data):
            super().data_received(kept)


class _Direct(open_socket):
    """Opens a WebSocket at its address and follows no redirect, which could lead to another host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the error: a redirect is one."""
        return exc


@asynccontextmanager
async def connect(url: str, *, open_timeout_s: float = 10.0) -> AsyncIterator[CdpConnection]:
    """Open a connection and read its messages while the context is open.

    No proxy is used, no redirect is followed, and no `Origin` is sent: Chrome refuses those of web pages.

    Raises:
        OSError, TimeoutError, websockets.exceptions.WebSocketException: It cannot be opened; see `attach`.
    """
    opening = _Direct(
        url,
        proxy=None,
        compression=None,
        max_size=_MAX_MESSAGE,
        ping_interval=None,
        open_timeout=open_timeout_s,
        close_timeout=_CLOSE_S,
        user_agent_header=None,
        create_connection=_BoundedConnection,
    )
    socket = await opening
    connection = CdpConnection(socket)
    try:
        async with Background() as background:
            background.start(connection.read)
            background.start(connection.write)
            try:
                yield connection
            finally:
                connection.end("maitred closed the connection")
    finally:
        connection.release()
        with anyio.CancelScope(shield=True):
            await socket.close()  # which takes two seconds at most
