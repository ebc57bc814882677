"""Calls as the gateway makes them: found by name, checked, relayed, counted, cut where they are too long."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from maitred.backends.base import Progress
from maitred.catalog.names import prefix
from maitred.catalog.usage import UsageRecorder
from maitred.disclosure import views
from maitred.errors import ArgumentsError, ServerError, ToolWithheldError
from maitred.execution.cache import ResultCache, cache_key, cacheable, mark_cached
from maitred.execution.calls import Caller, Run
from maitred.execution.results import Shortener
from maitred.gateway.context import Context
from maitred.gateway.menu import Menu
from maitred.model.tools import Tool, ToolCall, ToolKey


class Calls:
    """Makes calls. `warm` readies the index, which names the nearest tools; `used` hears of every success.

    `run_saved` runs a saved chain by its raw name.
    """

    def __init__(
        self,
        context: Context,
        menu: Menu,
        *,
        usage: UsageRecorder,
        shortener: Shortener,
        cache: ResultCache,
        used: Callable[[ToolKey], None],
        warm: Callable[[], Any],
        run_saved: Callable[..., Awaitable[dict[str, Any]]],
    ) -> None:
        self._context = context
        self._menu = menu
        self._usage = usage
        self._shortener = shortener
        self._cache = cache
        self._used = used
        self._warm = warm
        self.watchers: list[Callable[[str, bool, float], None]] = []
        self._run_saved = run_saved
        self._caller = Caller(context.pool, context.spec)

    async def call(
        self,
        call: ToolCall,
        *,
        read_only: bool = False,
        progress: Progress | None = None,
        principal: str,
        shorten: bool = False,
        in_saved: bool = False,
    ) -> dict[str, Any]:
        """Call a tool; see `Gateway.call`. With `in_saved`, for a saved chain, which may call no other."""
        if call.name not in self._context.snapshot.by_name:
            await self._await_server(call.name)
        tool = self._menu.find(call.name)
        if not self._context.is_enabled(tool.server):
            raise ToolWithheldError(tool.name, f"its server {tool.server!r} is disabled in the configuration")
        cached = False
        ask = partial(self._relay, tool, call, read_only=read_only, progress=progress)
        if self._context.is_saved(tool.server):
            if in_saved:
                raise ToolWithheldError(tool.name, "a saved chain cannot call another saved chain")
            run = partial(self._run_saved, principal=principal)
            ask = partial(self._relay, tool, call, read_only=read_only, progress=progress, run=run)
        ttl_s = self._kept_s(tool, call)
        if ttl_s > 0:
            self.check(tool, call.arguments)
            record = self._context.snapshot.servers[tool.server]
            key = cache_key(record, tool, call.arguments, principal)
            answer, cached = await self._cache.get_or_call(key, ttl_s, ask)
            if not cached and not tool.read_only:  # a repeatable write: what others told may be different now
                self._cache.clear(tool.server, but=key)
        else:
            answer = await ask()
            if not tool.read_only:
                self._cache.clear(tool.server)  # what it told before may be different now
        if shorten:
            answer = self._shortener.shorten(principal, answer)
        return mark_cached(answer) if cached else answer

    def _kept_s(self, tool: Tool, call: ToolCall) -> float:
        """For how long an answer may be given again: only if an operator said so, and the call only reads.

        A tool that writes is kept if it is named itself and its server calls it repeatable.
        """
        if call.input_responses is not None or call.request_state is not None or not cacheable(tool):
            return 0.0
        choice = self._context.settings.tools.get(tool.key)
        if choice is not None and choice.cache_s is not None:
            return choice.cache_s
        return self._context.spec(tool.server).cache_s if tool.read_only else 0.0

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Whether arguments fit a tool.

        Raises:
            ArgumentsError: They do not; the text shows the tool's parameters.
        """
        snapshot = self._context.snapshot
        try:
            self._caller.check(snapshot, tool, arguments)
        except ArgumentsError as error:
            schema = views.compact_schema(snapshot, tool)
            raise ArgumentsError(tool.name, error.faults, schema=schema) from error

    async def _relay(
        self,
        tool: Tool,
        call: ToolCall,
        *,
        read_only: bool,
        progress: Progress | None,
        run: Run | None = None,
    ) -> dict[str, Any]:
        snapshot = self._context.snapshot
        started = time.perf_counter()
        ok = False
        try:
            answer = await self._caller.call(
                snapshot, tool, call, read_only=read_only, progress=progress, run=run
            )
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
