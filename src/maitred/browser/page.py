"""The session with one tab: its address, console and dialogs, and commands that end if the page is paused.

A page that is paused by its debugger, or that shows a dialog, answers some commands only later. So what
waits for a page ends as soon as the page is paused, and dialogs are answered at once, with a note.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from maitred.background import Background
from maitred.browser.browsers import Browser, Tab
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError, Params
from maitred.browser.debugger import OUR_SCRIPTS, PageDebugger, preview_text, value_text
from maitred.browser.errors import BrowserFaultError
from maitred.browser.flood import FloodGuard
from maitred.browser.oversize import OVERSIZE

T = TypeVar("T")

DEBUGGING_ADDRESS: Final = "this is the debugging port of a browser, which shows all tabs; open another"

_WORLD: Final = "maitred"
_NO_CONTEXT: Final = "Cannot find context"
_MOST_MESSAGES: Final = 1_000
_MOST_DIALOGS: Final = 10
_MOST_LOADERS: Final = 100
_WORLDS: Final = 5
_FLOOD: Final = "the page writes too many messages; no more are read until another page is loaded"
_TEXT: Final = 2_000
_COMMAND_S: Final = 10.0
_OPEN_S: Final = 5.0
_LEVELS: Final[Mapping[str, str]] = {
    "warning": "warning", "error": "error", "assert": "error", "debug": "debug", "verbose": "debug",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ConsoleMessage:
    """One message of a page's console. `stack` has a line for each function on the stack."""

    level: str
    text: str
    where: str = ""
    stack: tuple[str, ...] = ()


class BrowserPage:
    """A tab that one client works with. `open` begins the session, `leave` ends it.

    `messages` is how many messages its console has had.
    """

    def __init__(self, browser: Browser, tab: Tab, on_change: Callable[[], None]) -> None:
        self.browser = browser
        self.tab = tab
        self.console: deque[ConsoleMessage] = deque(maxlen=_MOST_MESSAGES)
        self._logged = 0
        self._dialogs: deque[str] = deque(maxlen=_MOST_DIALOGS)
        self._answered = 0
        self.gone = ""
        self.session = ""
        self.url = tab.url
        self._loading: set[str] = set()
        self._opened: deque[str] = deque(maxlen=_MOST_LOADERS)
        self._loaded: frozenset[str] = frozenset()
        self.debugger = PageDebugger(self.send, self._changed)
        self._world = 0
        self._on_change = on_change
        self._news = anyio.Event()
        self._stop_listening: Callable[[], None] = lambda: None
        self._flood: FloodGuard | None = None

    async def open(self) -> None:
        """Attach to the tab, and follow what happens in it."""
        attaching = {"targetId": self.tab.target_id, "flatten": True}
        connection = self.browser.connection
        self.session = (await connection.send("Target.attachToTarget", attaching))["sessionId"]
        for event, handler in (
            ("Runtime.consoleAPICalled", self._on_console),
            ("Runtime.exceptionThrown", self._on_exception),
            ("Log.entryAdded", self._on_log),
            ("Page.javascriptDialogOpening", self._on_dialog),
            ("Page.domContentEventFired", lambda _: self._changed()),
            ("Page.loadEventFired", self._on_load),
            ("Page.frameStartedLoading", partial(self._on_loading, is_loading=True)),
            ("Page.frameStoppedLoading", partial(self._on_loading, is_loading=False)),
            ("Page.frameNavigated", self._on_navigated),
            ("Page.navigatedWithinDocument", self._on_moved),
            ("Page.frameDetached", self._on_frame_gone),
            ("Inspector.targetCrashed", self._on_crash),
            (OVERSIZE, self._on_oversize),
            ("Runtime.executionContextsCleared", self._on_left),
        ):
            connection.on(self.session, event, handler)
        self._flood = FloodGuard(connection, self.session, self._on_flood)
        self._stop_listening = connection.on("", "Target.detachedFromTarget", self._on_detached)
        connection.on_end.append(self._end)
        self.debugger.listen(connection, self.session)
        self.tab.has_client = True
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable", timeout_s=_OPEN_S)
        self.url = _address_of((await self.send("Page.getFrameTree"))["frameTree"]["frame"])

    async def leave(self) -> None:
        """End the session; a paused page runs on. The tab stays open."""
        if not self.gone and not self.browser.connection.closed:
            self.gone = "maitred left the tab"
            self.tab.has_client = False
            self.tab.pause(is_paused=False)
            self._forget_all()
            with anyio.move_on_after(_COMMAND_S, shield=True):
                with suppress(CdpError, CdpClosedError, CdpTimeoutError):
                    detaching = {"sessionId": self.session}
                    await self.browser.connection.send("Target.detachFromTarget", detaching)

    async def send(
        self, method: str, params: Params | None = None, *, timeout_s: float = _COMMAND_S
    ) -> dict[str, Any]:
        """Send a command to the tab.

        Raises:
            CdpError, CdpTimeoutError, CdpClosedError: As `CdpConnection.send`.
        """
        if self.gone:
            raise CdpClosedError(self.gone)
        self.tab.used_at = time.monotonic()
        return await self.browser.connection.send(method, params, self.session, timeout_s=timeout_s)

    async def evaluate(self, expression: str, *, can_pause: bool = False) -> Any:
        """The value of an expression of ours in the page, which is JSON.

        It runs apart from the scripts of the page, which share its elements but not its functions, so no page
        can replace what it calls. With `can_pause`, breakpoints in the page's own functions that it calls
        pause the page.

        Raises:
            BrowserFaultError: The expression failed, or the page is the debugging port of a browser.
        """
        if self.browser.is_debugging_address(self.url):
            raise BrowserFaultError(DEBUGGING_ADDRESS)
        params = {
            "expression": f"{expression}\n//# sourceURL={OUR_SCRIPTS}page",
            "returnByValue": True,
            "userGesture": True,
            "disableBreaks": not can_pause,
        }
        answer = await self._evaluate(params)
        if (failed := answer.get("exceptionDetails")) is not None:
            raise BrowserFaultError(exception_text(failed))
        return answer["result"].get("value")

    async def _evaluate(self, params: Params) -> dict[str, Any]:
        for _ in range(_WORLDS):
            world = self._world or await self._new_world()
            try:
                return await self.send("Runtime.evaluate", {**params, "contextId": world})
            except CdpError as error:  # the page went on, and nothing was run
                if _NO_CONTEXT not in error.message:
                    raise
            self._world = 0
        raise BrowserFaultError("the page goes from one address to the next; call again when it rests")

    async def _new_world(self) -> int:
        """The context of our own in the document that the tab has now."""
        making = {"frameId": self.tab.target_id, "worldName": _WORLD}  # the top frame's id is the target's
        made = await self.send("Page.createIsolatedWorld", making)
        self._world = int(made["executionContextId"])
        return self._world

    # --- waiting ------------------------------------------------------------------------------------------

    async def until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Wait for something about the page; returns whether it came true in time.

        Raises:
            CdpClosedError: The tab has gone.
        """
        with anyio.move_on_after(seconds):
            while not is_true():
                if self.gone:
                    raise CdpClosedError(self.gone)
                await self._news.wait()
        return is_true()

    async def unless_paused(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """The result of some work on the page; `None` if the page is paused before it is done.

        Raises:
            CdpError, CdpTimeoutError, CdpClosedError, BrowserFaultError: As the work does.
        """
        result: T | None = None
        failure: Exception | None = None
        async with Background() as background:
            over = anyio.Event()

            async def run() -> None:
                nonlocal result, failure
                try:
                    result = await work()
                except Exception as error:  # noqa: BLE001  # raised by the caller, outside of the task group
                    failure = error
                over.set()

            async def watch() -> None:
                while self.debugger.paused is None:
                    await self._news.wait()
                over.set()

            background.start(run)
            background.start(watch)
            await over.wait()
        if failure is not None and self.debugger.paused is None:
            raise failure
        return result

    async def settle(self, seconds: float) -> None:
        """Wait until the page has run what it runs now, or is paused again.

        The command is one that the page's own thread answers, and that runs no JavaScript.
        """
        with suppress(CdpTimeoutError, CdpError):
            await self.send("Runtime.getIsolateId", timeout_s=seconds)

    async def until_read(self, seconds: float) -> bool:
        """Wait until the browser has read all of the page; its images may come later. Returns whether it has.

        Raises:
            CdpClosedError: The tab has gone.
        """
        with anyio.move_on_after(seconds), suppress(CdpTimeoutError):
            while True:
                news = self._news
                try:
                    if await self.evaluate("document.readyState") != "loading":
                        return True
                except (
                    CdpError,
                    BrowserFaultError,
                ):  # nothing of ours runs there, so there is nothing to ask
                    return True
                await news.wait()
        return False

    def _changed(self) -> None:
        self.tab.pause(is_paused=self.debugger.paused is not None and not self.gone)
        self._news.set()
        self._news = anyio.Event()
        self._on_change()

    # --- what happens in the page -------------------------------------------------------------------------

    def _on_detached(self, params: Params) -> None:
        if params.get("sessionId") == self.session:
            self._end("the tab was closed")

    def _on_crash(self, _: Params) -> None:
        self.tab.has_crashed = True
        self._end("the page crashed")
        self.browser.connection.forget(self.session, "the page crashed")

    def _end(self, reason: str) -> None:
        if not self.gone:
            self.gone = reason
            self.tab.has_client = False
            self._forget_all()
            self.debugger.end()
            self._changed()

    def _on_left(self, _: Params) -> None:
        self._world = 0

    def _forget_all(self) -> None:
        self._stop_listening()
        with suppress(ValueError):
            self.browser.connection.on_end.remove(self._end)

    def _on_navigated(self, params: Params) -> None:
        frame = params["frame"]
        if "parentId" not in frame:
            self.url = _address_of(frame)
            self._world = 0  # a page whose messages are off reports no end of its contexts
            self._opened.append(frame["loaderId"])
            if self._flood is not None:
                self._flood.renew("Runtime", "Log")
            self._changed()

    def _on_moved(self, params: Params) -> None:
        if params["frameId"] == self.tab.target_id:
            self.url = params["url"]

    def _on_load(self, _: Params) -> None:
        self._loaded = frozenset(self._opened)
        self._changed()

    def _on_loading(self, params: Params, *, is_loading: bool) -> None:
        (self._loading.add if is_loading else self._loading.discard)(params["frameId"])
        self._changed()

    def _on_frame_gone(self, params: Params) -> None:
        self._loading.discard(params["frameId"])
        self._changed()

    @property
    def loading(self) -> frozenset[str]:
        """The frames that are loading now."""
        return frozenset(self._loading)

    def has_loaded(self, loader: str) -> bool:
        """Whether a document has loaded, or one that its own scripts opened in its place."""
        return loader in self._loaded

    def _on_console(self, params: Params) -> None:
        text = " ".join(map(_argument_text, params["args"]))
        frames = params.get("stackTrace", {}).get("callFrames", ())
        self._add(params["type"], text, frames)

    def _on_exception(self, params: Params) -> None:
        details = params["exceptionDetails"]
        frames = details.get("stackTrace", {}).get("callFrames", ())
        self._add("error", exception_text(details), frames or [details])

    def _on_log(self, params: Params) -> None:
        entry = params["entry"]
        where = [{"url": entry["url"], "lineNumber": entry.get("lineNumber", 0)}] if entry.get("url") else []
        self._add(entry["level"], entry["text"], where)

    def _on_oversize(self, params: Params) -> None:
        """An event was too large to be read. What makes the page wait for an answer is answered."""
        connection = self.browser.connection
        match params["method"]:
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self._add("warning", "a message that was too large was left out", ())
            case "Debugger.paused":
                connection.post("Debugger.resume", {}, self.session)
            case "Page.javascriptDialogOpening":
                self._answer_dialog(accept=False, about="a dialog whose text was too large")

    def _on_flood(self) -> None:
        self._note(ConsoleMessage(level="warning", text=_FLOOD))

    def _add(self, level: str, text: str, frames: Any) -> None:
        if self._flood is not None and self._flood.is_muted:
            return
        lines = tuple(map(frame_text, frames))
        self._note(
            ConsoleMessage(
                level=_LEVELS.get(level, "info"),
                text=text[:_TEXT],
                where=lines[0] if lines else "",
                stack=lines[:10],
            )
        )

    def _note(self, message: ConsoleMessage) -> None:
        self._logged += 1
        self.console.append(message)

    def follow_console(self) -> Callable[[], Sequence[ConsoleMessage]]:
        """What returns the messages that came since now; of more than the page keeps, the newest."""
        before = self._logged

        def newer() -> Sequence[ConsoleMessage]:
            count = min(self._logged - before, len(self.console))
            return list(self.console)[len(self.console) - count :]

        return newer

    # --- dialogs ------------------------------------------------------------------------------------------

    def _on_dialog(self, params: Params) -> None:
        accept = params["type"] in ("alert", "beforeunload")
        self._answer_dialog(accept=accept, about=f"the {params['type']} dialog {params['message'][:_TEXT]!r}")

    def _answer_dialog(self, *, accept: bool, about: str) -> None:
        self._dialogs.append(f"{'accepted' if accept else 'dismissed'} {about}")
        self._answered += 1
        self.browser.connection.post("Page.handleJavaScriptDialog", {"accept": accept}, self.session)
        self._changed()

    def take_dialogs(self) -> Sequence[str]:
        """What was done about the newest dialogs since the last call."""
        newest = [*self._dialogs]
        more = self._answered - len(newest)
        self._dialogs.clear()
        self._answered = 0
        return [f"{more:,} more were answered before", *newest] if more else newest


def _address_of(frame: Mapping[str, Any]) -> str:
    return f"{frame['url']}{frame.get('urlFragment', '')}"


def _argument_text(value: Mapping[str, Any]) -> str:
    """An argument of `console.log` as text, objects with their first properties."""
    if isinstance(value.get("value"), str):
        return str(value["value"])
    preview = value.get("preview")
    return value_text(value) if preview is None or value.get("subtype") == "error" else preview_text(preview)


def exception_text(details: Mapping[str, Any]) -> str:
    """The first line of an exception, with its text."""
    thrown = details.get("exception", {})
    text = thrown.get("description") or thrown.get("value") or details.get("text", "")
    return str(text).split("\n")[0][:_TEXT]


def frame_text(frame: Mapping[str, Any]) -> str:
    """A place in a script, its line counted from 1."""
    place = f"{frame.get('url') or 'inline'}:{frame.get('lineNumber', 0) + 1}"
    return f"{frame['functionName']} ({place})" if frame.get("functionName") else place
