"""The browser server as a server of the gateway: each instance has a toolbox for its clients.

It lists all tools at all times; which make sense is decided by the rules of visibility, from the facts that
it reports. Nothing is started before a tool is called. Leaving the connection ends the browsers.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from maitred.backends.base import Backend, Caller, Connection, ConnectOptions, Listing, Notice
from maitred.backends.built_in import BuiltInConnection
from maitred.backends.listing import read_tools
from maitred.browser.browsers import Browsers
from maitred.browser.state import BrowserState
from maitred.browser.toolbox import INSTRUCTIONS, TITLE, Toolbox
from maitred.model.browsers import BrowserOptions
from maitred.model.servers import ServerSpec
from maitred.model.sharing import owner_name
from maitred.model.tools import ToolCall


class BrowserBackend(Backend):
    """Makes a toolbox for each connection of the gateway; all of them share the browsers."""

    def __init__(self, spec: ServerSpec, browsers: Browsers) -> None:
        self.spec = spec
        self._options = spec.browser or BrowserOptions()
        self._browsers = browsers
        self._state = BrowserState()

    def idle_limit_s(self, configured_s: float) -> float:
        """While there are browsers, their own limit counts."""
        return max(configured_s, self._options.idle_stop_s) if self._state.connections else configured_s

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Begin without any browser."""

        def report(state: BrowserState) -> None:
            self._state = state
            options.on_notice(Notice(kind="facts", facts=state.facts))

        toolbox = Toolbox(self._browsers, self._options, report, options.serves)
        try:
            yield _BrowserConnection(self.spec, toolbox)
        finally:
            with anyio.CancelScope(shield=True):
                await toolbox.close()


class _BrowserConnection(BuiltInConnection):
    """The session with the tools of one instance."""

    def __init__(self, spec: ServerSpec, toolbox: Toolbox) -> None:
        super().__init__(spec, TITLE, INSTRUCTIONS)
        self._toolbox = toolbox

    async def list_tools(self) -> Listing:
        tools, notes = read_tools(self._spec.name, self._toolbox.definitions())
        return Listing(tools=tools, as_sent=tools, notes=tuple(notes))

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        principal = owner_name(caller.sharer)
        return await self._toolbox.call(name, call.arguments, principal=principal, timeout_s=timeout_s)
