"""The browser server as a program of its own, for any MCP client over standard streams, in both eras.

A client of the handshake era lists what makes sense now, and gets a notice when that changes. In the
stateless era a list must not change by calls: it has all tools, whose descriptions name what they need. In
both, a call that makes no sense is refused with the next step, and an answer names the tools that it made
available.
"""

import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred import __version__
from maitred.backends.process import Warden
from maitred.background import Background
from maitred.browser.browsers import Browsers
from maitred.browser.state import BrowserState
from maitred.browser.toolbox import INSTRUCTIONS, TITLE, Toolbox
from maitred.model.browsers import BrowserOptions

Context = ServerRequestContext[Any, Any]
Visibility = Literal["dynamic", "all"]

_TOGETHER_S: Final = 0.05
"""Changes within this time are one notice, and what is undone within it is none."""
_TELL_S: Final = 5.0


class BrowserProgram:
    """Serves one client. `announce` must run beside `server`. With `visibility` "all" lists never change."""

    def __init__(
        self, browsers: Browsers, options: BrowserOptions, visibility: Visibility = "dynamic"
    ) -> None:
        self.toolbox = Toolbox(browsers, options, self._on_state)
        self._is_dynamic = visibility == "dynamic"
        self._news = anyio.Event()
        self._session: ServerSession | None = None
        self._listed = self.toolbox.visible()
        self.server: Server[Any] = Server(
            "maitred-browser", version=__version__, title=TITLE, instructions=INSTRUCTIONS
        )
        self.server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list)
        self.server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)

    async def run(self, incoming: Any, outgoing: Any) -> None:
        """Serve until the client closes its end, then end all browsers."""
        offered = self.server.create_initialization_options(
            NotificationOptions(tools_changed=self._is_dynamic)
        )
        async with Background() as background:
            background.start(self.announce)
            try:
                await self.server.run(incoming, outgoing, offered)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.toolbox.close()

    async def _list(self, ctx: Context, _: types.PaginatedRequestParams | None) -> dict[str, Any]:
        changes = self._is_dynamic and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if changes:
            self._session, self._listed = ctx.session, self.toolbox.visible()
        tools = self.toolbox.definitions(self._listed if changes else None)
        return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        result = await self.toolbox.call(params.name, params.arguments or {}, announce=True)
        return {"resultType": "complete", **result}

    def _on_state(self, _: BrowserState) -> None:
        self._news.set()

    async def announce(self) -> None:
        """Send the client a notice whenever the tools that make sense have changed; runs until cancelled."""
        while True:
            await self._news.wait()
            await anyio.sleep(_TOGETHER_S)
            self._news = anyio.Event()
            now = self.toolbox.visible()
            if self._session is not None and now != self._listed:
                self._listed = now
                with anyio.move_on_after(_TELL_S):
                    await self._session.send_tool_list_changed()


async def serve(options: BrowserOptions, visibility: Visibility) -> None:
    """Serve the client at the standard streams of this process."""
    processes = Warden()
    try:
        async with Background() as background:

            def spawn(function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
                background.start(function, *args)
                return True

            program = BrowserProgram(Browsers(spawn, processes), options, visibility)
            background.start(_end_by_signal, program)
            async with stdio_server() as (incoming, outgoing):
                await program.run(incoming, outgoing)
    finally:
        processes.close()


async def _end_by_signal(program: BrowserProgram) -> None:
    """End the browsers, then this process: a thread that reads standard input could not be cancelled."""
    if sys.platform == "win32":  # its event loop receives no signals; the end of standard input remains
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            await program.toolbox.close()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
