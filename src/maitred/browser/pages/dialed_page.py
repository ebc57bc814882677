"""The way into a document that dialed in: its script reports tools and runs them, over its own WebSocket.

No browser of the gateway is needed. What the browser's protocol says of other documents, such as a debugger
that has stopped the page, is not known of this one: a call that gets no answer ends by its time limit.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from maitred.background import Background
from maitred.browser.browsers import Owner
from maitred.browser.pages.links import LinkKey, PageCallError, PageTool
from maitred.browser.pages.open_pages import OpenPages
from maitred.browser.pages.reports import (
    MOST_MESSAGE,
    ReportedTools,
    read_message,
    report_bucket,
    unpack_answer,
)
from maitred.token_bucket import TokenBucket

LEFT: Final = 4000
"""The code with which a page closes its socket when it is left."""
REPLACED: Final = 4001
"""The code with which the gateway closes a socket whose tab has dialed in again."""
_CLOSE_S: Final = 2.0
_MOST_WAITING: Final = 64
_MESSAGES_S: Final = 100.0
_MESSAGES_AT_ONCE: Final = 400
_BYTES: Final = 32_768
"""So many bytes of a message count as one more message."""
_WHY: Final = {
    LEFT: "it navigated away or was closed",
    1001: "it navigated away or was closed",
    1009: f"it sent more than {MOST_MESSAGE // 1024} KiB at once",
    1011: "it did not answer any more",
}
_LOST: Final = "its connection was lost"
_ANSWER: Final = re.compile(r'\{"kind":"answer","id":"([0-9a-f]+)"')
"""How an answer begins, also one with too many levels to be read."""


class DialedPage:
    """A document that dialed in; see `PageLink`. It is in a tab of no client."""

    owner: Owner | None = None
    blocked = ""

    def __init__(self, socket: ServerConnection, key: LinkKey, origin: str) -> None:
        self.key = key
        self.origin = origin
        self._socket = socket
        self._reports = ReportedTools(report_bucket())
        self._pace = TokenBucket(per_s=_MESSAGES_S, size=_MESSAGES_AT_ONCE, now=time.monotonic())
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._outbox, self._to_send = anyio.create_memory_object_stream[str](_MOST_WAITING)
        self._closing = anyio.Event()
        self._code = 0
        self.gone = ""

    @property
    def tools(self) -> Mapping[str, PageTool]:
        """Its tools by their names in the page."""
        return self._reports.tools

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of its tools, and why."""
        return self._reports.notes

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:  # of `PageLink`
        """Never calls the function: no debugger of the gateway stops it."""
        return lambda: None

    # --- its socket ---------------------------------------------------------------------------------------

    async def run(self, pages: OpenPages) -> None:
        """Read what the page sends until its socket closes. A page that sends too much has to wait."""
        try:
            async with Background() as background:
                background.start(self._write)
                background.start(self._close)
                with suppress(ConnectionClosedError):
                    async for payload in self._socket:
                        cost = 1 + len(payload) / _BYTES
                        await anyio.sleep(self._pace.take(cost, now=time.monotonic()))
                        if isinstance(payload, str):
                            self._take(payload, pages)
        finally:
            self._end(_WHY.get(self._socket.close_code or 0, _LOST))
            self._outbox.close()
            self._to_send.close()

    def close(self, code: int, reason: str) -> None:
        """End the connection, with a code for the script in the page and a reason about the page."""
        self._end(reason)
        self._code = code
        self._closing.set()

    def _end(self, reason: str) -> None:
        self.gone = self.gone or reason
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(self._fault())
                answer.exception()  # its caller may have left meanwhile

    def _fault(self) -> PageCallError:
        return PageCallError(f"the page has gone during the call: {self.gone}")

    async def _write(self) -> None:
        with suppress(ConnectionClosed):
            async for text in self._to_send:
                await self._socket.send(text)

    async def _close(self) -> None:
        await self._closing.wait()
        with anyio.move_on_after(_CLOSE_S):
            await self._socket.close(self._code)
        self._socket.transport.abort()  # of a page that reads nothing

    def _take(self, payload: str, pages: OpenPages) -> None:
        if self.gone or (self._reports.is_muted and not self._calls):
            return
        message = read_message(payload)
        if not message and (found := _ANSWER.match(payload)):
            message = {"kind": "answer", "id": found[1], "answer": {"fault": "deep"}}
        answer = self._calls.get(str(message.get("id"))) if message.get("kind") == "answer" else None
        if answer is not None and not answer.done():
            answer.set_result(message.get("answer"))
            return
        kind = self._reports.take(message)
        if kind == "tools":
            pages.put(self)
        elif kind == "focus":
            pages.focus(self.key)

    # --- calls --------------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Call a tool; see `PageLink`."""
        if self.gone:
            raise self._fault()
        number = secrets.token_hex(8)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        calling = {"kind": "call", "id": number, "name": name, "input": json.dumps(arguments)}
        try:
            with anyio.fail_after(timeout_s):
                await self._outbox.send(json.dumps(calling))
                packed = await answer
        except TimeoutError:
            self._cancel(number)
            raise PageCallError(f"the page did not answer within {timeout_s:g} s; it may be busy") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._fault() from None
        except PageCallError:
            raise
        except BaseException:  # the caller waits no more
            self._cancel(number)
            raise
        finally:
            del self._calls[number]
        return unpack_answer(packed)

    def _cancel(self, number: str) -> None:
        with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._outbox.send_nowait(json.dumps({"kind": "cancel", "id": number}))
