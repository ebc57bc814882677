"""The browsers that the clients of a process use, each with one connection that they share.

Chrome asks its user for consent at each connection, so there is one for each browser, however many clients
use it. Each tab belongs to the client that opened or took it, and so do the tabs that its page opens. A
browser that maitred started ends with its last client; one that was reached runs on.
"""

import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
import structlog

from maitred.backends.base import find
from maitred.backends.process import Warden
from maitred.background import Background
from maitred.browser.attach import attach, find_address, is_local, names_of, split_address
from maitred.browser.cdp import CdpClosedError, CdpConnection, CdpError, CdpTimeoutError, Params
from maitred.browser.errors import AttachError, BrowserFaultError
from maitred.browser.launch import LaunchRequest, RunningBrowser, launch
from maitred.config.sections import is_loopback
from maitred.model.browsers import BrowserOptions
from maitred.model.sharing import Sharer

log = structlog.get_logger(__name__)

_CLOSE_TAB_S: Final = 2.0
_END_S: Final = 10.0
_FOLLOW_S: Final = 3.0


class Spawn(Protocol):
    """Runs a task until it ends or its owner closes; returns whether the owner is still open."""

    def __call__(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
        """Start the task."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Owner:
    """The clients of one toolbox. `name` is what others read of them, `serves` says whether a client is one.

    Without `is_client`, it is a principal: whose browser it is, in tabs that no toolbox uses.
    """

    name: str
    principal: str = ""
    serves: Callable[[Sharer], bool] = lambda _: False
    is_client: bool = True


@dataclass
class Tab:
    """A page of a browser, as the browser describes it; `owner` is the client that it belongs to."""

    target_id: str
    title: str = ""
    url: str = ""
    owner: Owner | None = None
    made: bool = False
    """It was opened for its owner, and is closed when the owner leaves."""
    has_client: bool = False
    """A client works in it, whose session answers its dialogs."""
    has_crashed: bool = False
    is_aside: bool = False
    """Its page did not answer, so no client gets it unasked."""
    is_paused: bool = False
    """Its owner's debugger has stopped it, so nothing can be called in its page."""
    used_at: float = -math.inf
    """When its client last did something in it, in seconds of the monotonic clock."""
    on_pause: list[Callable[[], None]] = field(default_factory=list)

    def pause(self, *, is_paused: bool) -> None:
        """Its page is paused, or runs on."""
        self.is_paused = is_paused
        for listener in list(self.on_pause) if is_paused else ():
            listener()


class Browser:
    """One browser with its tabs; `principal` is whose it is, empty if maitred did not start it for one."""

    def __init__(
        self,
        running: RunningBrowser,
        users: list[Owner],
        *,
        principal: str = "",
        is_debugging_port: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.users = users
        self._is_debugging_port = is_debugging_port
        self.connection: CdpConnection = running.connection
        self.address = running.address
        self.pid = running.pid
        self.principal = principal
        self.product = ""
        self.is_headless = False
        self.tabs: dict[str, Tab] = {}
        self.released = anyio.Event()
        self.closed = anyio.Event()
        self.on_end: list[Callable[[str], None]] = []
        self._turn = anyio.Lock()
        self._closing: dict[str, anyio.Event] = {}
        self.connection.on_end.append(self.end)

    @property
    def port(self) -> int:
        """The port of its address."""
        return split_address(self.address)[1]

    @property
    def host(self) -> str:
        """The host of its address."""
        return split_address(self.address)[0]

    def is_debugging_address(self, url: str) -> bool:
        """Whether an address is at the debugging port of a browser, where all its tabs could be read."""
        try:
            port = urlsplit(url).port
        except ValueError:
            return False
        return port is not None and self._is_debugging_port(port)

    async def open(self) -> None:
        """Learn its version and its tabs, and follow these."""
        version = await self.connection.send("Browser.getVersion")
        self.product, self.is_headless = version["product"], "Headless" in version.get("userAgent", "")
        for event, handler in (
            ("Target.targetCreated", self._changed),
            ("Target.targetInfoChanged", self._changed),
            ("Target.targetDestroyed", self._destroyed),
            ("Target.targetCrashed", self._crashed),
        ):
            self.connection.on("", event, handler)
        await self.connection.send("Target.setDiscoverTargets", {"discover": True})

    async def refresh(self) -> None:
        """Learn titles and addresses as they are now; the browser reports changes with a delay."""
        answer = await self.connection.send("Target.getTargets")
        for info in answer["targetInfos"]:
            self._changed({"targetInfo": info})
        present = {info["targetId"] for info in answer["targetInfos"]}
        for gone in self.tabs.keys() - present:
            self._destroyed({"targetId": gone})

    def _changed(self, params: Params) -> None:
        info = params["targetInfo"]
        is_page = info["type"] == "page" and not info["url"].startswith("devtools://")
        if not is_page or info["targetId"] in self._closing:
            return
        tab = self.tabs.get(info["targetId"])
        if tab is None:
            opener = self.tabs.get(info.get("openerId", ""))
            owner = opener.owner if opener else None
            tab = self.tabs[info["targetId"]] = Tab(info["targetId"], owner=owner, made=owner is not None)
        tab.title, tab.url = info["title"], info["url"]

    def _destroyed(self, params: Params) -> None:
        if closed := self._closing.pop(params["targetId"], None):
            closed.set()
        self.tabs.pop(params["targetId"], None)

    def _crashed(self, params: Params) -> None:
        if tab := self.tabs.get(params["targetId"]):
            tab.has_crashed = True

    def end(self, reason: str) -> None:
        """The browser has ended, or the connection to it."""
        for closed in self._closing.values():
            closed.set()
        listeners, self.on_end = self.on_end, []
        for listener in listeners:
            try:
                listener(reason)
            except Exception:  # one client's fault must not keep the others from hearing of it
                log.exception("a handler of a browser's end failed", reason=reason)

    # --- whose tabs ---------------------------------------------------------------------------------------

    def tabs_of(self, owner: Owner) -> Sequence[Tab]:
        """The tabs of a client, the oldest first."""
        return [tab for tab in self.tabs.values() if tab.owner is owner]

    async def own_tab(self, owner: Owner) -> Tab:
        """A tab of the client: one that it has, else a new one.

        In a browser that maitred started it may be one that no client uses. In one that it reached those are
        the user's, who may be at work in them; a client has to choose one of them.
        """
        async with self._turn:
            free = [tab for tab in self.tabs.values() if tab.owner is None] if self.pid else []
            for tab in [*self.tabs_of(owner), *free]:
                if not (tab.has_crashed or tab.is_aside):
                    tab.owner = owner
                    return tab
            made = await self.connection.send(
                "Target.createTarget", {"url": "about:blank", "newWindow": True}
            )
            tab = self.tabs.setdefault(made["targetId"], Tab(made["targetId"]))
            tab.owner, tab.made = owner, True
            return tab

    def set_aside(self, tab: Tab) -> None:
        """A tab does not answer: leave it to itself. A client can still choose it."""
        tab.is_aside = True
        if not tab.made:
            tab.owner = None

    def claim(self, tab: Tab, owner: Owner) -> None:
        """Take a tab for a client.

        Raises:
            BrowserFaultError: It belongs to another client, or has crashed.
        """
        if tab.owner not in (None, owner):
            name = tab.owner.name if tab.owner else ""
            raise BrowserFaultError(f"this tab belongs to {name}; choose another tab")
        if tab.has_crashed:
            raise BrowserFaultError("this tab has crashed; choose another tab")
        tab.owner, tab.is_aside = owner, False

    async def leave(self, owner: Owner) -> None:
        """A client does not use the browser any more: the tabs that were opened for it are closed.

        After the last client the connection ends, and so does a browser that maitred started: only then its
        profile can be used again. That is waited for, within a limit.
        """
        if owner in self.users:
            self.users.remove(owner)
        own = self.tabs_of(owner)
        for tab in own:
            tab.owner = None
        if self.users or not self.pid:  # else all its tabs end with it
            await self._close([tab for tab in own if tab.made])
        if not self.users:
            self.released.set()
            with anyio.move_on_after(_END_S):
                await self.closed.wait()

    async def _close(self, tabs: Sequence[Tab]) -> None:
        """Close tabs, and wait: the browser lists a tab until its page has gone, so it could be taken."""
        closed = []
        for tab in tabs:
            closed.append(self._closing.setdefault(tab.target_id, anyio.Event()))
            self.tabs.pop(tab.target_id, None)
            self.connection.post("Target.closeTarget", {"targetId": tab.target_id})
        with anyio.move_on_after(_CLOSE_TAB_S):
            for one in closed:
                if not self.connection.closed:
                    await one.wait()


Opened = Callable[[Browser], anyio.Event]
"""Is called with a browser that has opened. Clients use it once the event is set, or after a while."""


@dataclass
class _Opening:
    """A browser that is being opened, or is open. `users` are the clients that wait for it, or use it.

    `names` are those that its address has. They are unknown until a browser that maitred starts has printed
    its address; `located` is set then, or when it has failed.
    """

    names: frozenset[str] = frozenset()
    is_ours: bool = False
    principal: str = ""
    users: list[Owner] = field(default_factory=list)
    located: anyio.Event = field(default_factory=anyio.Event)
    ready: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)
    announced: Browser | None = None
    """The browser, once those that follow all browsers were called with it."""
    browser: Browser | None = None
    error: Exception | None = None

    def locate(self, address: str) -> None:
        """Its address is known."""
        self.names = names_of(address)
        self.located.set()

    @property
    def is_ending(self) -> bool:
        """Its last client has left, or it has ended; no other client can use it."""
        browser = self.browser
        return browser is not None and bool(browser.released.is_set() or browser.connection.closed)


class Browsers:
    """Opens browsers, and shares each connection among the clients that use it.

    `spawn` runs the task that holds a browser open; the owner of the task ends all browsers.
    """

    def __init__(self, spawn: Spawn, processes: Warden) -> None:
        self._spawn = spawn
        self._processes = processes
        self._openings: list[_Opening] = []
        self._numbers = count(1)
        self._followers: list[Opened] = []

    def follow(self, opened: Opened) -> Callable[[], None]:
        """Call a function with each browser that is open or opens later; returns what ends that."""
        self._followers.append(opened)
        for opening in self._openings:
            if opening.announced is not None:
                opened(opening.announced)
        return lambda: self._followers.remove(opened)

    def new_owner(self, principal: str = "", serves: Callable[[Sharer], bool] = lambda _: False) -> Owner:
        """A client that begins to use browsers."""
        who = f"client {next(self._numbers)}"
        return Owner(name=f"{who} of {principal}" if principal else who, principal=principal, serves=serves)

    async def launch(self, request: LaunchRequest, options: BrowserOptions, owner: Owner) -> Browser:
        """Start a browser for a client.

        Raises:
            AttachError: It cannot be started.
            BrowserFaultError: The request is not allowed.
        """
        opening = _Opening(is_ours=True, principal=owner.principal)
        request = replace(request, principal=owner.principal)
        self._begin(opening, partial(launch, request, options, self._processes, opening.locate))
        return await _join(opening, owner)

    async def attach(
        self, place: str, port: int, host: str, options: BrowserOptions, owner: Owner
    ) -> Browser:
        """Connect a client to a browser that runs; see `maitred.browser.attach`.

        Raises:
            AttachError: It cannot be reached, or another principal started it.
        """
        address = self._address_of(port) if not place and is_loopback(host) else ""
        address = address or await find_address(place, port, host, options)
        names = names_of(address)
        opening = await self._find(names)
        if opening is None:
            opening = _Opening(names=names)
            opening.located.set()
            self._begin(opening, partial(attach, address, options))
        elif opening.is_ours and opening.principal != owner.principal:
            raise AttachError("another_principal", "another principal started this browser; start your own")
        return await _join(opening, owner)

    def _is_debugging_port(self, port: int) -> bool:
        browsers = (opening.announced for opening in self._openings)
        return any(browser is not None and browser.port == port for browser in browsers)

    def _address_of(self, port: int) -> str:
        """The address of a browser that is open at a port of this machine; a busy one answers HTTP late."""
        for opening in self._openings:
            browser = opening.browser
            if browser is None or opening.is_ending:
                continue
            if browser.port == port and is_loopback(browser.host):
                return browser.address
        return ""

    async def _find(self, names: frozenset[str]) -> _Opening | None:
        """The browser at an address that is open, or is being opened.

        One that is just ending is waited for. So is one that starts on this machine, until its address is
        known: else its port could be used by another principal before.
        """
        is_here = is_local(names)
        while True:
            unknown = next((one for one in self._openings if is_here and not one.located.is_set()), None)
            found = next((one for one in self._openings if one.names & names), None)
            if found is not None and not found.is_ending:
                return found
            if found is not None:
                await found.done.wait()
            elif unknown is not None:
                await unknown.located.wait()
            else:
                return None

    def _begin(
        self, opening: _Opening, start: Callable[[], AbstractAsyncContextManager[RunningBrowser]]
    ) -> None:
        self._openings.append(opening)
        if not self._spawn(self._hold, opening, start):
            self._openings.remove(opening)
            raise AttachError("not_started", "the gateway is closing")

    async def _hold(
        self, opening: _Opening, start: Callable[[], AbstractAsyncContextManager[RunningBrowser]]
    ) -> None:
        """Hold a browser open until it ends, or no client uses it any more."""
        browser = None
        try:
            async with start() as running:
                browser = Browser(
                    running,
                    opening.users,
                    principal=opening.principal,
                    is_debugging_port=self._is_debugging_port,
                )
                await browser.open()
                opening.announced = browser
                with anyio.move_on_after(_FOLLOW_S):
                    for follower_ready in [opened(browser) for opened in self._followers]:
                        await follower_ready.wait()
                if not opening.users:
                    browser.released.set()
                opening.browser = browser
                opening.ready.set()
                await _until_closed(browser)
        except Exception as error:  # the task of one browser must not end the others
            opening.error = find(error, BrowserFaultError) or _lost(error)
            if opening.error is None:
                opening.error = AttachError("not_started", f"the browser cannot be used: {error}")
                log.exception("a browser failed", browser=sorted(opening.names))
        finally:
            self._openings.remove(opening)
            for event in (opening.located, opening.ready, opening.done):
                event.set()
            if browser is not None:
                browser.closed.set()
                browser.end("maitred closed the browser")


async def _join(opening: _Opening, owner: Owner) -> Browser:
    """Wait until a browser can be used, and use it.

    Raises:
        AttachError, BrowserFaultError: It cannot be opened.
    """
    opening.users.append(owner)
    try:
        await opening.ready.wait()
    except BaseException:  # this client waits no more
        opening.users.remove(owner)
        if opening.browser is not None and not opening.users:
            opening.browser.released.set()
        raise
    if opening.browser is None:
        raise opening.error or AttachError("not_started", "the browser ended at once")
    return opening.browser


def _lost(error: Exception) -> AttachError | None:
    """The error of a browser that ended, or did not answer, while it was being opened."""
    lost = find(error, CdpClosedError) or find(error, CdpTimeoutError) or find(error, CdpError)
    return AttachError("not_started", f"the browser ended before it could be used: {lost}") if lost else None


async def _until_closed(browser: Browser) -> None:
    """Wait until a browser has ended, or has no client any more."""
    async with Background() as background:
        over = anyio.Event()

        async def watch() -> None:
            await browser.connection.wait_closed()
            over.set()

        async def wait() -> None:
            await browser.released.wait()
            over.set()

        background.start(watch)
        background.start(wait)
        await over.wait()
