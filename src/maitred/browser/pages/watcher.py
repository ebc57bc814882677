"""Follows all tabs of one browser, and finds the documents in them that have tools.

Each tab gets a session of ours beside those of clients. A new tab waits until that is prepared, so no page
registers a tool before. What a page is allowed is decided here, by what the browser says of it. The script at
the beginning of each document decides the same, and leaves nothing in one that is not allowed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio

from maitred.background import Background
from maitred.browser.browsers import Browser
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError, Params
from maitred.browser.flood import size_of_message
from maitred.browser.oversize import OVERSIZE
from maitred.browser.pages.documents import DocumentContext, TabFrames
from maitred.browser.pages.injection import InjectedLink, Injection
from maitred.browser.pages.native import FrameTools, NativeLink
from maitred.browser.pages.open_pages import OpenPages
from maitred.browser.pages.reports import is_focus
from maitred.token_bucket import TokenBucket

_LEAVE_S: Final = 2.0
_PREPARE_S: Final = 2.0
_USED_S: Final = 30.0
"""A page that is opened so many seconds after a client did something in its tab is one that it opened."""
_NAVIGATED: Final = "it navigated away"
_CLOSED: Final = "its tab was closed"
_TOO_MUCH: Final = "it reports too much, so it is not heard; load it again"
_EVENTS_S: Final = 500.0
_EVENTS_AT_ONCE: Final = 5_000
_EVENTS_OF_TOOL: Final = 10
_EVENTS_OF_OVERSIZE: Final = 1_000
_EVENT_SIZE: Final = 1_000
"""So many characters count as one event more."""
_MOST_LEFT: Final = 100
_MOST_LATE: Final = 10_000
"""So many events after that end the session: a page that never rests takes no command to be quiet, and while
the gateway is busy, they pile up. The next session with the tab hears of its next document only."""


def _attaching(kind: str) -> Params:
    return {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": [{"type": kind}]}


def _events() -> TokenBucket:
    return TokenBucket(per_s=_EVENTS_S, size=_EVENTS_AT_ONCE, now=time.monotonic())


class BrowserWatcher:
    """Watches one browser until it ends, or until `close`. Its tasks run in `background`.

    `ready` is set once the tabs that are open already are watched: what is loaded in them then has tools.
    """

    def __init__(
        self, browser: Browser, pages: OpenPages, background: Background, *, uses_native: bool = True
    ) -> None:
        self.browser = browser
        self.pages = pages
        self.injection = Injection(pages.rules, uses_native=uses_native)
        self._background = background
        self._session = ""
        self._targets: dict[str, TargetWatcher] = {}
        self._too_loud: dict[str, str] = {}
        """Tabs that were left since they never rest, each with its document then; they are attached again."""
        self.ready = anyio.Event()

    async def run(self) -> None:
        """Watch until the browser has ended.

        Raises:
            CdpError, CdpTimeoutError, CdpClosedError: The browser does not answer.
        """
        connection = self.browser.connection
        self._session = (await connection.send("Target.attachToBrowserTarget"))["sessionId"]
        connection.on_end.append(self._ended)
        self.follow(self._session, lambda target: TabFrames(top=target))
        await connection.send("Target.setAutoAttach", _attaching("page"), self._session)
        for target in list(self._targets.values()):
            await target.prepared.wait()
        self.ready.set()
        await connection.wait_closed()

    def follow(self, session: str, frames_of: Callable[[str], TabFrames]) -> None:
        """Watch the targets to which a session gets attached; `frames_of` are the frames of their tab."""

        def attached(params: Params) -> None:
            target = params["targetInfo"]["targetId"]
            own = params["sessionId"]
            self._targets[own] = watcher = TargetWatcher(self, own, frames_of(target), parent=session)
            if target in self._too_loud:
                watcher.mute(self._too_loud.pop(target))
            watcher.begin(is_waiting=params["waitingForDebugger"])

        def detached(params: Params) -> None:
            gone = self._targets.pop(params["sessionId"], None)
            if gone is not None and gone.left_document is not None and session == self._session:
                gone.end(_TOO_MUCH)
                self._too_loud[gone.tab] = gone.left_document
                if len(self._too_loud) > _MOST_LEFT:  # of tabs that were closed meanwhile
                    del self._too_loud[next(iter(self._too_loud))]
                again = {"targetId": gone.tab, "flatten": True}
                self.browser.connection.post("Target.attachToTarget", again, session)
            elif gone is not None:
                gone.end(_CLOSED)

        self.browser.connection.on(session, "Target.attachedToTarget", attached)
        self.browser.connection.on(session, "Target.detachedFromTarget", detached)

    def start(self, watcher: "TargetWatcher", *, is_waiting: bool) -> None:
        """Prepare a target."""
        if self._background.is_open:
            self._background.start(partial(watcher.prepare, is_waiting=is_waiting))
        else:
            watcher.prepared.set()

    def _ended(self, reason: str) -> None:
        targets, self._targets = self._targets, {}
        for target in targets.values():
            target.end(f"its browser has ended: {reason}")

    async def close(self) -> None:
        """Watch no more; the tabs stay open."""
        self._ended("the gateway does not watch it any more")
        with suppress(ValueError):
            self.browser.connection.on_end.remove(self._ended)
        if self._session and not self.browser.connection.closed:
            with suppress(CdpError, CdpTimeoutError, CdpClosedError):
                leaving = {"sessionId": self._session}
                await self.browser.connection.send("Target.detachFromTarget", leaving, timeout_s=_LEAVE_S)


class TargetWatcher:
    """One target of a browser, a tab or a frame in a process of its own, with its documents.

    It knows the addresses of all documents, and nothing else of those that are not allowed: the browser
    reports what happens in a target only while one of its documents may have tools. A target with too many
    events is not heard until it loads another page. `parent` is the session by which it was attached.
    """

    def __init__(self, owner: BrowserWatcher, session: str, frames: TabFrames, *, parent: str) -> None:
        self._owner = owner
        self._parent = parent
        self._late = 0
        self._session = session
        self._frames = frames
        self._present: set[str] = set()
        self._contexts: dict[int, DocumentContext] = {}
        self._links: dict[str, InjectedLink | NativeLink] = {}
        self._waiting: set[int] = set()
        self._native = FrameTools()
        self._events = _events()
        self._is_heard = self._is_muted = False
        self._document = self._muted_document = ""
        self.left_document: str | None = None
        """The document in it when its session was ended since that reports too much."""
        self.prepared = anyio.Event()

    @property
    def tab(self) -> str:
        """The target of its tab."""
        return self._frames.top

    def mute(self, document: str) -> None:
        """Do not hear a document of it; `document` is the browser's name for what loaded that."""
        self._is_muted, self._late, self._muted_document = True, 0, document

    def _load(self, document: str) -> None:
        """A document is in it, of which it may be heard again."""
        self._document = document
        if self._is_muted and document != self._muted_document:
            self._is_muted, self._events = False, _events()

    def begin(self, *, is_waiting: bool) -> None:
        """Listen to its events, and prepare it. One that waits runs on after that."""
        connection = self._owner.browser.connection
        for event, handler in (
            ("Runtime.executionContextCreated", self._on_created),
            ("Runtime.executionContextDestroyed", self._on_destroyed),
            ("Runtime.executionContextsCleared", self._on_cleared),
            ("Runtime.bindingCalled", self._on_report),
            ("Runtime.consoleAPICalled", self._on_message),
            ("Runtime.exceptionThrown", self._on_message),
            ("WebMCP.toolsAdded", self._on_tools),
            ("WebMCP.toolsRemoved", self._on_tools_gone),
            ("Page.frameAttached", self._on_frame),
            ("Page.frameNavigated", self._on_navigated),
            ("Page.frameDetached", self._on_frame_gone),
            ("Page.javascriptDialogOpening", self._on_dialog),
            (OVERSIZE, self._on_oversize),
        ):
            connection.on(self._session, event, handler)
        self._frames.on_origin.append(self._connect_waiting)
        self._owner.follow(self._session, lambda _: self._frames)
        self._owner.start(self, is_waiting=is_waiting)

    async def prepare(self, *, is_waiting: bool) -> None:
        """Learn the frames that there are, then look into those that are allowed."""
        connection = self._owner.browser.connection
        hear, *more = self._commands(is_waiting=is_waiting)
        await self._send_all([hear, *more] if is_waiting else [hear])  # else a page that comes now is missed
        with suppress(CdpError, CdpTimeoutError, CdpClosedError):  # then it has no frames, or has gone
            tree = (await connection.send("Page.getFrameTree", {}, self._session))["frameTree"]
            self._present |= set(self._frames.learn(tree))
            if "parentId" not in tree["frame"]:
                self._load(tree["frame"]["loaderId"])
                self._owner.pages.leave_out(tree["frame"].get("securityOrigin", ""))
        if not is_waiting:
            await self._send_all(more)
        self._adjust()
        self.prepared.set()

    def _commands(self, *, is_waiting: bool) -> Sequence[tuple[str, Params]]:
        """What is sent to a target, so that its documents are found, and get the script.

        One that waits may have its first document already, whose scripts have not run.
        """
        script = {"source": self._owner.injection.source, "runImmediately": is_waiting}
        return (
            ("Page.enable", {}),
            ("Page.addScriptToEvaluateOnNewDocument", script),
            ("Target.setAutoAttach", _attaching("iframe")),
            ("Runtime.runIfWaitingForDebugger", {}),
        )

    async def _send_all(self, commands: Sequence[tuple[str, Params]]) -> None:
        """Send commands, each after the answer of the one before; all that are left to one that is busy."""
        left = list(commands)
        with suppress(CdpTimeoutError, CdpClosedError):  # it is busy, or has gone
            while left:
                with suppress(CdpError):  # an older browser does not know all of them
                    command = left.pop(0)
                    await self._owner.browser.connection.send(*command, self._session, timeout_s=_PREPARE_S)
        for method, params in left:
            self._post(method, params)

    def _post(self, method: str, params: Params) -> None:
        self._owner.browser.connection.post(method, params, self._session)

    def end(self, reason: str) -> None:
        """It has gone."""
        self._frames.on_origin.remove(self._connect_waiting)
        self._forget_documents(reason)

    # --- what is heard of it ------------------------------------------------------------------------------

    def _adjust(self) -> None:
        """Hear what happens in it if one of its documents may be allowed, else of addresses alone."""
        rules = self._owner.pages.rules
        wanted = not self._is_muted and any(self._frames.may_allow(frame, rules) for frame in self._present)
        if wanted == self._is_heard:
            return
        self._is_heard = wanted
        what = "enable" if wanted else "disable"
        self._post(f"Runtime.{what}", {})
        if self._owner.injection.uses_native:
            self._post(f"WebMCP.{what}", {})
        if not wanted:
            self._forget_documents(_TOO_MUCH if self._is_muted else _NAVIGATED)

    def _on_message(self, params: Params) -> None:
        """A message of the console, which counts for how much it is."""
        self._count(1 + size_of_message(params) / _EVENT_SIZE)

    def _count(self, events: float) -> None:
        """Count events; with too many of them, the target is not heard any more."""
        if self._is_muted:
            self._late += 1
            if self._late == _MOST_LATE:
                self.left_document = self._muted_document
                detaching = {"sessionId": self._session}
                self._owner.browser.connection.post("Target.detachFromTarget", detaching, self._parent)
        elif self._events.take(events, now=time.monotonic()) > 0:
            self.mute(self._document)
            self._adjust()

    # --- its frames ---------------------------------------------------------------------------------------

    def _on_frame(self, params: Params) -> None:
        if self._frames.add(params["frameId"], params["parentFrameId"]):
            self._present.add(params["frameId"])

    def _on_navigated(self, params: Params) -> None:
        frame = params["frame"]
        if not self._frames.add(frame["id"], frame.get("parentId", "")):
            return
        self._present.add(frame["id"])
        self._frames.addresses[frame["id"]] = frame.get("securityOrigin", "")
        if "parentId" not in frame:  # another page
            self._load(frame["loaderId"])
            self._expect_tools(frame["id"])
            self._owner.pages.leave_out(frame.get("securityOrigin", ""))
        self._adjust()

    def _expect_tools(self, frame: str) -> None:
        """Have calls wait for the tools of a page that a client has just opened."""
        browser = self._owner.browser
        tab = browser.tabs.get(self._frames.top)
        is_used = tab is not None and time.monotonic() - tab.used_at < _USED_S
        if is_used and self._frames.may_allow(frame, self._owner.pages.rules):
            self._owner.pages.expect(browser.address, self._frames.top)

    def _on_frame_gone(self, params: Params) -> None:
        self._present.discard(params["frameId"])
        if params.get("reason") != "swap":  # else it goes on in another process
            self._frames.forget(params["frameId"])
            for number, context in list(self._contexts.items()):
                if context.frame == params["frameId"]:
                    self._drop(number, "its frame was removed")
        self._adjust()

    # --- its dialogs --------------------------------------------------------------------------------------

    def _on_dialog(self, params: Params) -> None:
        """Answer a dialog that is seen by no client and by no person: its page would wait for ever."""
        browser = self._owner.browser
        tab = browser.tabs.get(self._frames.top)
        is_seen = params.get("hasBrowserHandler", False) and not browser.is_headless
        if not is_seen and (tab is None or not tab.has_client):
            accept = params.get("type") in ("alert", "beforeunload")
            self._post("Page.handleJavaScriptDialog", {"accept": accept})

    def _on_oversize(self, params: Params) -> None:
        """An event was too large to be read. A dialog is answered; anything else counts as much."""
        if params["method"] == "Page.javascriptDialogOpening":
            self._on_dialog({})
        self._count(_EVENTS_OF_OVERSIZE)

    # --- its documents ------------------------------------------------------------------------------------

    def _on_created(self, params: Params) -> None:
        self._count(1)
        context = params["context"]
        more = context.get("auxData", {})
        frame = more.get("frameId", "")
        is_known = frame == self._frames.top or frame in self._frames.parents
        if more.get("isDefault") is not True or not is_known or not self._is_heard:
            return
        self._contexts[context["id"]] = DocumentContext(
            browser=self._owner.browser,
            tab=self._frames.top,
            session=self._session,
            frame=frame,
            unique=context["uniqueId"],
            origin=context["origin"],
        )
        self._waiting.add(context["id"])
        self._frames.learn_origin(frame, context["origin"], context["uniqueId"])

    def _connect_waiting(self) -> None:
        """Connect the documents that are allowed, now that the frames around them are known."""
        for number in list(self._waiting):
            context = self._contexts[number]
            if self._frames.allows(context.frame, self._owner.pages.rules):
                self._waiting.discard(number)
                binding = {"name": self._owner.injection.binding, "executionContextId": number}
                self._post("Runtime.addBinding", binding)
                source = self._owner.injection.connecting
                self._post("Runtime.evaluate", {"expression": source, "uniqueContextId": context.unique})
                self._take_native()

    def _on_destroyed(self, params: Params) -> None:
        if context := self._contexts.get(params["executionContextId"]):
            if context.frame == self._frames.top:
                self._native = FrameTools()
            self._drop(params["executionContextId"], _NAVIGATED)

    def _on_cleared(self, _: Params) -> None:
        self._forget_documents(_NAVIGATED)

    def _forget_documents(self, reason: str) -> None:
        self._native = FrameTools()
        for number in list(self._contexts):
            self._drop(number, reason)

    def _drop(self, number: int, reason: str) -> None:
        context = self._contexts.pop(number)
        context.gone = reason
        self._waiting.discard(number)
        self._frames.end_document(context.frame, context.unique)
        if self._links.pop(context.unique, None) is not None:
            self._owner.pages.drop(context.key, reason)

    def _on_report(self, params: Params) -> None:
        self._count(1 + len(params["payload"]) / _EVENT_SIZE)
        number, injection = params["executionContextId"], self._owner.injection
        context = self._contexts.get(number)
        if context is None or number in self._waiting or params["name"] != injection.binding:
            return
        link = self._links.get(context.unique)
        if isinstance(link, NativeLink):
            kind = "focus" if is_focus(params["payload"]) else ""
        else:
            if link is None:
                link = InjectedLink(context, injection.key, self._frames.reports)
                self._links[context.unique] = link
            kind = link.report(params["payload"])
        if kind == "tools":
            self._owner.pages.put(link)
        elif kind == "focus":
            self._owner.pages.focus(link.key)

    # --- the browser's own interface ----------------------------------------------------------------------

    def _on_tools(self, params: Params) -> None:
        self._on_change(params["tools"], added=True)

    def _on_tools_gone(self, params: Params) -> None:
        self._on_change(params["tools"], added=False)

    def _on_change(self, tools: list[Mapping[str, Any]], *, added: bool) -> None:
        """Tools came or went. They may come before the document is reported in which they are.

        Those of frames come from the script, since the browser does not report all of them.
        """
        self._count(len(tools) * _EVENTS_OF_TOOL)
        top = self._frames.top
        own = [tool for tool in tools if tool.get("frameId") == top]
        if own and self._is_heard and self._frames.may_allow(top, self._owner.pages.rules):
            self._native.change(*((own, ()) if added else ((), own)))
            self._take_native()

    def _take_native(self) -> None:
        """Take the tools that the browser reports of the top document, if it is there and allowed."""
        if not self._native.changes:
            return
        found = (one for number, one in self._contexts.items() if number not in self._waiting)
        context = next((one for one in found if one.frame == self._frames.top), None)
        if context is not None:
            link = self._links.get(context.unique)
            if not isinstance(link, NativeLink):
                link = NativeLink(context, self._owner.injection.key, self._native)
                self._links[context.unique] = link
            self._owner.pages.put(link)
