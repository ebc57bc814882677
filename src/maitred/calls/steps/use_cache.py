"""Answer a call from the cache if the operator allows it. A call that may change something empties it."""

import time
from collections.abc import Awaitable
from typing import Any, Protocol

import anyio

from maitred.calls.answer import Answer
from maitred.calls.cache import CacheKey, ResultCache
from maitred.calls.pipeline import Call, Proceed
from maitred.model.tools import Tool
from maitred.usage.recorder import UsageRecorder


class CacheRules(Protocol):
    """Decides which answers the cache stores, and which calls make them stale."""

    def lifetime_s(self, call: Call) -> float:
        """For how many seconds the cache may give the answer again; 0 for not at all."""
        ...

    def key(self, call: Call) -> CacheKey:
        """The key of a call: equal calls have the same key."""
        ...

    def changes(self, tool: Tool) -> bool:
        """Whether a call of the tool makes other answers of the server stale."""
        ...


class UseCache:
    """An answer from the cache counts as a use of its tool, though its server got no request."""

    def __init__(self, cache: ResultCache, rules: CacheRules, usage: UsageRecorder) -> None:
        self._cache = cache
        self._rules = rules
        self._usage = usage

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Return the stored answer, or pass the call on."""
        lifetime_s = self._rules.lifetime_s(call)
        if lifetime_s > 0:
            return self._from_cache(call, proceed, lifetime_s)
        return self._emptying(call, proceed) if self._rules.changes(call.tool) else proceed(call)

    async def _from_cache(self, call: Call, proceed: Proceed, lifetime_s: float) -> Answer:
        key = self._rules.key(call)
        cached = False
        try:
            answer = await self._answer(call, proceed, key, lifetime_s)
            cached = answer.cached
            return answer
        finally:
            if not cached and self._rules.changes(call.tool):
                await self._changed(call.tool.server, key)

    async def _emptying(self, call: Call, proceed: Proceed) -> Answer:
        try:
            return await proceed(call)
        finally:  # also if it failed: it may have been done
            await self._changed(call.tool.server)

    async def _changed(self, server: str, but: CacheKey | None = None) -> None:
        with anyio.CancelScope(shield=True):
            await self._cache.changed(server, but=but)

    async def _answer(self, call: Call, proceed: Proceed, key: CacheKey, lifetime_s: float) -> Answer:
        async def send() -> dict[str, Any]:
            wire = (await proceed(call)).wire
            if call.asked:
                self._cache.forget(key)
            return wire

        started = time.perf_counter()
        wire, cached = await self._cache.get_or_call(key, lifetime_s, send)
        if cached:
            self._usage.called(call.tool.key, ok=True, elapsed_ms=(time.perf_counter() - started) * 1_000)
        return Answer(wire=wire, cached=cached)
