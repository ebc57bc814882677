"""What one client uses: its connections to browsers by id, and the tab that it works with in each.

A workspace follows what happens to its browsers, and reports its state whenever that differs. Its calls run
one after the other, as those of one person do.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from maitred.browser.browsers import Browser, Browsers, Tab
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError
from maitred.browser.errors import AttachError, BrowserFaultError
from maitred.browser.launch import LaunchRequest
from maitred.browser.page import BrowserPage
from maitred.browser.state import BrowserState
from maitred.model.browsers import BrowserOptions
from maitred.model.sharing import Sharer
from maitred.wording import did_you_mean

GONE: Final = "the client has gone, and its connections have ended"
_MOST_GONE: Final = 20
_TABS: Final = 4


@dataclass
class Attachment:
    """A connection of a client to a browser; `page` is the tab that it works with."""

    id: str
    browser: Browser
    page: BrowserPage | None = None
    on_end: Callable[[str], None] = lambda _: None


class Workspace:
    """The browsers of one client. `on_state` is called with each new state; it must not block."""

    def __init__(
        self,
        browsers: Browsers,
        options: BrowserOptions,
        on_state: Callable[[BrowserState], None] = lambda _: None,
        *,
        principal: str = "",
        serves: Callable[[Sharer], bool] = lambda _: False,
    ) -> None:
        self.options = options
        self.turn = anyio.Lock()
        self.owner = browsers.new_owner(principal, serves)
        self.attachments: dict[str, Attachment] = {}
        self.active_id = ""
        self.state = BrowserState()
        self.is_closed = False
        self._browsers = browsers
        self._on_state = on_state
        self._ended: dict[str, str] = {}

    # --- connections --------------------------------------------------------------------------------------

    async def launch(self, connection_id: str, request: LaunchRequest) -> Attachment:
        """Start a browser, and make it the active connection.

        Raises:
            AttachError: It cannot be started.
            BrowserFaultError: The id is in use, or the request is not allowed.
        """
        self._check_new(connection_id)
        browser = await self._browsers.launch(request, self.options, self.owner)
        return await self._add(connection_id, browser)

    async def attach(self, connection_id: str, place: str, port: int, host: str) -> Attachment:
        """Connect to a running browser, and make it the active connection.

        Raises:
            AttachError: It cannot be reached.
            BrowserFaultError: The id is in use.
        """
        self._check_new(connection_id)
        browser = await self._browsers.attach(place, port, host, self.options, self.owner)
        if known := [one.id for one in self.attachments.values() if one.browser is browser]:
            browser.users.remove(self.owner)
            raise BrowserFaultError(f"the connection {known[0]!r} is to this browser already")
        return await self._add(connection_id, browser)

    def _check_new(self, connection_id: str) -> None:
        if connection_id in self.attachments:
            raise BrowserFaultError(
                f"there is a connection {connection_id!r} already; use another `connection_id`, or"
                " `chrome_disconnect`"
            )
        if len(self.attachments) >= self.options.max_connections:
            most = self.options.max_connections
            raise AttachError("too_many", f"there are {most} connections, and no more are allowed")

    def free_id(self, wanted: str) -> str:
        """The id of a new connection: as wanted, or the next free one for `auto`."""
        if wanted != "auto":
            return wanted
        taken, number = self.attachments, 1
        while f"chrome-{number}" in taken:
            number += 1
        return f"chrome-{number}"

    async def _add(self, connection_id: str, browser: Browser) -> Attachment:
        made = Attachment(id=connection_id, browser=browser)
        try:
            await self._use_own_tab(made)
        except BaseException:
            await self._leave(made)
            raise
        made.on_end = partial(self._browser_ended, made)
        browser.on_end.append(made.on_end)
        self._ended.pop(connection_id, None)
        self.attachments[connection_id] = made
        self.active_id = connection_id
        if browser.connection.closed:
            self._browser_ended(made, browser.connection.closed)
        self.changed()
        return made

    def _browser_ended(self, gone: Attachment, reason: str) -> None:
        if self.attachments.get(gone.id) is gone:
            del self.attachments[gone.id]
            self._note_end(gone.id, reason)
            self.changed()

    def _note_end(self, connection_id: str, reason: str) -> None:
        if self.active_id == connection_id:
            self.active_id = next(reversed(self.attachments), "")
        self._ended[connection_id] = reason
        while len(self._ended) > _MOST_GONE:
            del self._ended[next(iter(self._ended))]

    async def detach(self, connection_id: str) -> Attachment:
        """End a connection. A browser that maitred started ends, unless another client uses it."""
        gone = self.find(connection_id)
        del self.attachments[gone.id]
        self._note_end(gone.id, "it was disconnected")
        self._ended.pop(gone.id)
        await self._leave(gone)
        self.changed()
        return gone

    async def _leave(self, gone: Attachment) -> None:
        with suppress(ValueError):
            gone.browser.on_end.remove(gone.on_end)
        with anyio.CancelScope(shield=True):
            if gone.page is not None:
                await gone.page.leave()
            await gone.browser.leave(self.owner)

    def switch(self, connection_id: str) -> Attachment:
        """Make another connection the active one."""
        found = self.find(connection_id)
        self.active_id = found.id
        self.changed()
        return found

    def find(self, connection_id: str = "") -> Attachment:
        """A connection by its id; the active one for an empty id.

        Raises:
            BrowserFaultError: There is no such connection; it says why, where that is known.
        """
        wanted = connection_id or self.active_id
        if found := self.attachments.get(wanted):
            return found
        if reason := self._ended.get(wanted) or (not wanted and next(reversed(self._ended.values()), "")):
            raise BrowserFaultError(
                f"the connection {wanted or next(reversed(self._ended))!r} has ended: {reason}; call"
                " chrome_launch or chrome_connect"
            )
        if not self.attachments:
            raise BrowserFaultError(
                "there is no connection to a browser; call chrome_launch or chrome_connect"
            )
        known = ", ".join(self.attachments)
        hint = did_you_mean(wanted, self.attachments, otherwise=f"there are {known}")
        raise BrowserFaultError(f"there is no connection {wanted!r}; {hint}")

    async def close(self) -> None:
        """End all connections; a call that is under way fails, and leaves none."""
        self.is_closed = True
        gone, self.attachments, self.active_id = list(self.attachments.values()), {}, ""
        async with anyio.create_task_group() as tasks:
            for one in gone:
                tasks.start_soon(self._leave, one)
        self.changed()

    # --- pages --------------------------------------------------------------------------------------------

    async def page(self, connection_id: str = "") -> BrowserPage:
        """The page of a connection. If its tab has gone, another tab of the client takes its place.

        Raises:
            BrowserFaultError: There is no such connection.
            CdpError, CdpTimeoutError, CdpClosedError: The browser does not answer.
        """
        found = self.find(connection_id)
        if found.page is None or found.page.gone:
            await self._use_own_tab(found)
        if found.page is None:
            raise BrowserFaultError("the connection has no page")
        return found.page

    async def _use_own_tab(self, attachment: Attachment) -> None:
        """Work with a tab of the client; with the next one if it has just been closed, or does not answer."""
        browser = attachment.browser
        for attempt in range(_TABS):
            tab = await browser.own_tab(self.owner)
            try:
                await self.use(attachment, tab)
            except (CdpError, CdpClosedError, CdpTimeoutError) as error:
                if attempt + 1 == _TABS or browser.connection.closed:
                    raise
                if isinstance(error, CdpTimeoutError):
                    browser.set_aside(tab)
                else:
                    await browser.refresh()
            else:
                return

    async def use(self, attachment: Attachment, tab: Tab) -> None:
        """Work with a tab from now on; the debugger of the tab before is off, and its page runs on.

        Raises:
            BrowserFaultError: The tab belongs to another client, or this client has gone.
        """
        self._check_open()
        attachment.browser.claim(tab, self.owner)
        before, attachment.page = attachment.page, None
        if before is not None:
            await before.leave()
        page = BrowserPage(attachment.browser, tab, self.changed)
        try:
            await page.open()
            self._check_open()
        except BaseException:
            await page.leave()
            raise
        attachment.page = page
        self.changed()

    def _check_open(self) -> None:
        if self.is_closed:
            raise BrowserFaultError(GONE)

    def changed(self) -> None:
        """Something happened to a browser: report the state if it is another one."""
        active = self.attachments.get(self.active_id)
        page = active.page if active else None
        debugger = page.debugger if page is not None and not page.gone else None
        state = BrowserState(
            connections=len(self.attachments),
            active=active is not None,
            enabled=debugger is not None and debugger.enabled,
            paused=debugger is not None and debugger.holds_page,
        )
        if state != self.state:
            self.state = state
            self._on_state(state)
