"""Calls as the gateway makes them: found by name, checked, relayed, counted, cut where they are too long."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from maitred.audit.service import AuditService, Entry
from maitred.backends.base import Progress
from maitred.calls.cache import CacheKey, ResultCache, cache_key, cacheable, mark_cached, unmarked
from maitred.calls.relay import Caller
from maitred.calls.results import Shortener
from maitred.calls.screening import AnswerScreen, only_links_to
from maitred.catalog.name_forms import servers_named
from maitred.chains.account import Account
from maitred.chains.saved_backend import why_not_saved
from maitred.disclosure import views
from maitred.errors import ArgumentsError, ServerError, ToolWithheldError
from maitred.gateway.authorization import Authorization
from maitred.gateway.result_tools import ResultTools
from maitred.gateway.state import GatewayState, why_hidden
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Viewer
from maitred.model.tools import Tool, ToolCall, ToolKey
from maitred.usage.recorder import UsageRecorder

log = structlog.get_logger(__name__)

Send = Callable[[], Awaitable[dict[str, Any]]]

AVAILABLE_KEY: Final = "maitred/available"
"""Where the `_meta` of an answer names the tools that became available by the call."""
_MOST_NEWS: Final = 20


@dataclass(frozen=True, kw_only=True)
class CallingChain:
    """The chain that makes a call, and whether it is a saved one."""

    account: Account
    saved: bool


class Calls:
    """Makes calls. `warm` readies the index, which names the nearest tools; `used` hears of every success.

    `run_saved` runs a saved chain: `(raw name, call, viewer=, within=, progress=)`.
    """

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        visibility: VisibilityService,
        *,
        usage: UsageRecorder,
        shortener: Shortener,
        cache: ResultCache,
        used: Callable[[ToolKey], None],
        warm: Callable[[], Any],
        run_saved: Callable[..., Awaitable[dict[str, Any]]],
        result_tools: ResultTools,
        auditing: AuditService,
        screen: AnswerScreen,
    ) -> None:
        self._context = context
        self._access = access
        self._visibility = visibility
        self._usage = usage
        self._shortener = shortener
        self._cache = cache
        self._used = used
        self._warm = warm
        self.watchers: list[Callable[[str, bool, float], None]] = []
        self._run_saved = run_saved
        self._result_tools = result_tools
        self._auditing = auditing
        self._screen = screen
        self._caller = Caller(context.keeper.connections, context.spec)

    async def call(
        self,
        call: ToolCall,
        *,
        viewer: Viewer,
        read_only: bool = False,
        progress: Progress | None = None,
        shorten: bool = False,
        within: CallingChain | None = None,
    ) -> dict[str, Any]:
        """Call a tool; see `Gateway.call`. `within` is the chain that calls, if one does."""
        chain_id = within.account.id if within else ""
        async with self._auditing.call(call, viewer, chain_id) as entry, self._errors(viewer, within):
            answer = await self._answered(
                call,
                entry,
                viewer=viewer,
                read_only=read_only,
                progress=progress,
                shorten=shorten,
                within=within,
            )
            return entry.told(answer, marked=shorten)

    def _errors(self, viewer: Viewer, within: CallingChain | None) -> AbstractAsyncContextManager[None]:
        """Screens errors, unless a chain gets them: what it does with them is seen in its own answer."""
        return nullcontext() if within else self._screen.errors(to_person=viewer.surface == "cli")

    async def _answered(
        self,
        call: ToolCall,
        entry: Entry,
        *,
        viewer: Viewer,
        read_only: bool,
        progress: Progress | None,
        shorten: bool,
        within: CallingChain | None,
    ) -> dict[str, Any]:
        tool = await self.found(call.name, viewer)
        entry.means(tool.server, tool.key.name)
        self._check(tool, call, viewer, read_only=read_only)
        recheck = partial(self._recheck, tool, call, viewer, read_only=read_only)
        relay: Callable[..., Awaitable[dict[str, Any]]] = partial(self._caller.call, tool, recheck=recheck)
        if self._context.is_saved(tool.server):
            if within and within.saved:
                raise ToolWithheldError(tool.name, "a saved chain cannot call another saved chain")
            relay = partial(self._run_saved, tool.key.name, viewer=viewer, within=within)
            call = replace(call, request_id=entry.request_id)
        send = partial(self._sent, tool, partial(relay, call, progress=progress), within, entry)
        with self._access.enter(viewer, tool.server):
            answer, cached = await self._asked(tool, call, viewer.principal, send, within)
        await entry.ended(answer, cached=cached)
        opened = self._visibility.called(tool, viewer, call.arguments, answer)
        answer = await self._result_tools.taken(tool, viewer, answer)
        if within is None:  # what a chain does with an answer is seen in its own
            answer = await self._screen.screened(answer, tool.server, to_person=viewer.surface == "cli")
        if shorten:
            answer = self._shortener.shorten(viewer.principal, answer)
        if opened and within is None:
            answer = _with_news(answer, opened)
        return mark_cached(answer) if cached else answer

    async def found(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, which may have to be waited for, for somebody who is to call it.

        Raises:
            ToolNotFoundError: There is none.
            NotAllowedError: They may not call it.
            ToolWithheldError: It cannot be called now; the text says why.
        """
        if name not in self._context.snapshot.by_name:
            await self._await_server(name, viewer)
        return self._usable(name, viewer)

    def _usable(self, name: str, viewer: Viewer) -> Tool:
        tool = self._access.found(name, viewer)
        if not self._context.is_enabled(tool.server):
            raise ToolWithheldError(tool.name, self._context.why_closed(tool.server))
        if why := why_hidden(tool):
            raise ToolWithheldError(tool.name, f"it {why}")
        return tool

    def _check(self, tool: Tool, call: ToolCall, viewer: Viewer, *, read_only: bool) -> None:
        self._visibility.check(tool, viewer)
        self.check(tool, call.arguments, read_only=read_only)

    def _recheck(self, tool: Tool, call: ToolCall, viewer: Viewer, *, read_only: bool) -> None:
        """Check a call again if the catalog knows something else of its tool than when it was found.

        Raises:
            MaitredError: The call may not be made any more; see `call`.
        """
        if self._context.snapshot.by_key.get(tool.key) is tool:
            return
        current = self._usable(call.name, viewer)
        if current.key != tool.key:
            raise ToolWithheldError(call.name, "its name went to another tool; search again")
        self._check(current, call, viewer, read_only=read_only)

    async def _asked(
        self, tool: Tool, call: ToolCall, principal: str, send: Send, within: CallingChain | None
    ) -> tuple[dict[str, Any], bool]:
        """The kept answer or a new one, and whether it was kept. What may have written makes others old."""
        ttl_s = self._kept_s(tool, call)
        key = self._key(tool, call, principal, within) if ttl_s > 0 else None
        cached = False
        started = time.perf_counter()
        try:
            if key is None:
                answer = await send()
            else:
                answer, cached = await self._cache.get_or_call(key, ttl_s, send)
        finally:
            changes = not tool.read_only or self._visibility.changes(tool)
            if changes and not cached:  # also if it failed or was given up: it may have been done
                self._cache.clear(tool.server, but=key)
        if cached:
            self._usage.called(tool.key, ok=True, elapsed_ms=(time.perf_counter() - started) * 1_000)
        return answer, cached

    def _key(self, tool: Tool, call: ToolCall, principal: str, within: CallingChain | None) -> CacheKey:
        record = self._context.snapshot.servers[tool.server]
        version = f"{self._context.spec(tool.server).fingerprint}/{record.facts.version}"
        if within and self._context.is_saved(tool.server):
            version += "/value"  # what a saved chain gives to a chain has another form
        return cache_key(version, tool, call.arguments, principal)

    def _kept_s(self, tool: Tool, call: ToolCall) -> float:
        """For how long an answer may be given again: only if an operator said so, and the call only reads.

        A tool that writes is kept if it is named itself and its server calls it repeatable.
        """
        if call.input_responses is not None or call.request_state is not None or not cacheable(tool):
            return 0.0
        if self._visibility.changes(tool):
            return 0.0
        spec = self._context.spec(tool.server)
        if self._context.is_saved(tool.server) and why_not_saved(spec, tool.key.name):
            return 0.0  # it is not what was reviewed: the call says so
        choice = self._context.settings.tools.get(tool.key)
        if choice is not None and choice.cache_s is not None:
            return choice.cache_s
        return spec.cache_s if tool.read_only else 0.0

    def check(self, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False) -> None:
        """Whether a tool may be called with these arguments.

        Raises:
            ToolWithheldError: Not read-only though that was asked for.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
        """
        try:
            self._caller.check(self._context.snapshot, tool, arguments, read_only=read_only)
        except ArgumentsError as error:
            raise ArgumentsError(tool.name, error.faults, schema=self.parameters(tool)) from error

    def parameters(self, tool: Tool) -> str:
        """What a tool takes, in short."""
        return views.compact_schema(self._context.snapshot, tool)

    async def _sent(
        self, tool: Tool, relay: Send, within: CallingChain | None, entry: Entry
    ) -> dict[str, Any]:
        """Make the call, and count it if its server had to do with it."""
        if not tool.read_only:
            await entry.begin()
        started = time.perf_counter()
        ok = False
        try:
            answer = unmarked(await relay())
            if allowed := self._context.spec(tool.server).allowed_origins:
                answer = only_links_to(allowed, answer)
            ok = not answer.get("isError")
        except ServerError:
            self._count(tool.key, within, ok=False, elapsed_s=time.perf_counter() - started)
            raise
        self._count(tool.key, within, ok=ok, elapsed_s=time.perf_counter() - started)
        if ok:
            self._used(tool.key)
        return answer

    def _count(self, key: ToolKey, within: CallingChain | None, *, ok: bool, elapsed_s: float) -> None:
        if within:
            log.debug("called", tool=f"{key.server}/{key.name}", ok=ok, chain=within.account.id)
        self._usage.called(key, ok=ok, elapsed_ms=elapsed_s * 1_000)
        for watcher in self.watchers:
            watcher(key.server, ok, elapsed_s)

    async def _await_server(self, name: str, viewer: Viewer) -> None:
        """Give the server of an unknown name the time to become known, if that is why it is unknown.

        Raises:
            ToolWithheldError: The server's tools are not known; the text says why.
        """
        context = self._context
        for server in servers_named(name, context.settings.servers):
            if server in context.keeper.discovering:
                await context.keeper.discovered(server, context.settings.disclosure.first_list_wait_s)
        await self._warm()  # the answer to a mistake names the nearest tools, by the index
        there = self._access.portion(viewer).context
        if name not in context.snapshot.by_name and (why := there.why_unknown(name)):
            raise ToolWithheldError(name, why)


def _with_news(answer: dict[str, Any], opened: Sequence[str]) -> dict[str, Any]:
    """An answer that also names the tools which the call has made available."""
    content, meta = answer.get("content"), answer.get("_meta")
    more = f" and {len(opened) - _MOST_NEWS} more" if len(opened) > _MOST_NEWS else ""
    news = {"type": "text", "text": f"Now available: {', '.join(opened[:_MOST_NEWS])}{more}"}
    return answer | {
        "content": [*(content if isinstance(content, list) else ()), news],
        "_meta": {**(meta if isinstance(meta, Mapping) else {}), AVAILABLE_KEY: list(opened)},
    }
