"""Calls as the gateway makes them: found by name, checked, relayed, counted, cut where they are too long."""

import time
from collections.abc import Callable
from typing import Any

from maitred.backends.base import Progress
from maitred.catalog.names import prefix
from maitred.catalog.usage import UsageRecorder
from maitred.disclosure import views
from maitred.errors import ArgumentsError, ServerError, ToolWithheldError
from maitred.execution.calls import Caller
from maitred.execution.results import Shortener
from maitred.gateway.context import Context
from maitred.gateway.menu import Menu
from maitred.model.tools import Tool, ToolCall, ToolKey


class Calls:
    """Makes calls. `warm` readies the index, which names the nearest tools; `used` hears of every success."""

    def __init__(
        self,
        context: Context,
        menu: Menu,
        *,
        usage: UsageRecorder,
        shortener: Shortener,
        used: Callable[[ToolKey], None],
        warm: Callable[[], Any],
    ) -> None:
        self._context = context
        self._menu = menu
        self._usage = usage
        self._shortener = shortener
        self._used = used
        self._warm = warm
        self.watchers: list[Callable[[str, bool, float], None]] = []
        self._caller = Caller(context.pool, context.spec)

    async def call(
        self,
        call: ToolCall,
        *,
        read_only: bool = False,
        progress: Progress | None = None,
        shorten_for: str | None = None,
    ) -> dict[str, Any]:
        """Call a tool; see `Gateway.call`."""
        if call.name not in self._context.snapshot.by_name:
            await self._await_server(call.name)
        tool = self._menu.find(call.name)
        if not self._context.is_enabled(tool.server):
            raise ToolWithheldError(tool.name, f"its server {tool.server!r} is disabled in the configuration")
        answer = await self._relay(tool, call, read_only=read_only, progress=progress)
        return answer if shorten_for is None else self._shortener.shorten(shorten_for, answer)

    async def _relay(
        self, tool: Tool, call: ToolCall, *, read_only: bool, progress: Progress | None
    ) -> dict[str, Any]:
        snapshot = self._context.snapshot
        started = time.perf_counter()
        ok = False
        try:
            answer = await self._caller.call(snapshot, tool, call, read_only=read_only, progress=progress)
            ok = not answer.get("isError")
        except ArgumentsError as error:
            schema = views.compact_schema(snapshot, tool)
            raise ArgumentsError(tool.name, error.faults, schema=schema) from error
        except ServerError:
            self._count(tool.key, ok=False, elapsed_s=time.perf_counter() - started)
            raise
        self._count(tool.key, ok=ok, elapsed_s=time.perf_counter() - started)
        if ok:
            self._used(tool.key)
        return answer

    def _count(self, key: ToolKey, *, ok: bool, elapsed_s: float) -> None:
        self._usage.called(key, ok=ok, elapsed_ms=elapsed_s * 1_000)
        for watcher in self.watchers:
            watcher(key.server, ok, elapsed_s)

    async def _await_server(self, name: str) -> None:
        """Give the server of an unknown name the time to become known, if that is why it is unknown.

        Raises:
            ToolWithheldError: The server's tools are not known; the text says why.
        """
        context = self._context
        for server in [s for s in context.settings.servers if name.startswith(prefix(s))]:
            if server in context.keeper.discovering:
                await context.keeper.discovered(server, context.settings.disclosure.first_list_wait_s)
        await self._warm()  # the answer to a mistake names the nearest tools, by the index
        if name not in context.snapshot.by_name and (why := context.why_unknown(name)):
            raise ToolWithheldError(name, why)
