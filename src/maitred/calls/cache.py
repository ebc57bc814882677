"""Answers of tools that are kept for a while, so that the same question is not asked twice.

Opt-in: whoever calls decides for which tools, and for how long. Calls that are equal and under way at the
same time become one. That one runs in the task of a caller, not in one of the cache's own, so it has that
caller's deadline and context; if that caller gives up, another of those who wait makes the call anew.
Answers are kept as encoded JSON: the bytes counted are the bytes held, and nobody can change a kept answer.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from cachetools import LRUCache
from pydantic_core import from_json, to_json

from maitred.backends.listing import TOOLS_KEY
from maitred.calls.answer import Answer, text_block
from maitred.model.tools import Tool, canonical, content_hash

CACHED = "maitred/cached"
_OURS = "maitred/"
_ENTRY_BYTES = 600  # what an entry costs besides its bytes: key, places in tables


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheKey:
    """What makes two calls equal.

    `version` changes when the server may answer otherwise: with its specification, or its release; `tool` is
    the name that the tool has there; `arguments` is a hash of their canonical JSON.
    """

    server: str
    version: str
    tool: str
    arguments: str
    principal: str


def cache_key(version: str, tool: Tool, arguments: Mapping[str, Any], principal: str) -> CacheKey:
    """The key of a call; the arguments must have been checked (plain JSON, not nested too deep)."""
    return CacheKey(
        server=tool.server,
        version=version,
        tool=tool.key.name,
        arguments=content_hash(canonical(arguments)),
        principal=principal,
    )


def cacheable(tool: Tool) -> bool:
    """Whether the server says that a second equal call does no more than the first; silence counts as no."""
    return tool.read_only or tool.annotations.get("idempotentHint") is True


def is_own_mark(key: str) -> bool:
    """Whether a key of `_meta` is ours alone to set; what `TakeResultTools` looks at does not count."""
    return key.startswith(_OURS) and key != TOOLS_KEY


def mark_cached(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result that says that it was kept: in `_meta` for clients, in a last text block for models.

    The texts that were there stay as they are. Mark a result after it was shortened: the added block would
    hide that its texts repeat its structured content.
    """
    answer = Answer(wire=dict(result))
    if answer.meta.get(CACHED) is True:
        return answer.wire
    block = text_block("[cached]", annotations={"audience": ["assistant"], "priority": 0.1})
    return answer.with_last(block).with_meta({CACHED: True}).wire


@dataclass(frozen=True, kw_only=True, slots=True)
class _CachedAnswer:
    data: bytes
    since: float

    @property
    def size(self) -> int:
        return len(self.data) + _ENTRY_BYTES


@dataclass(kw_only=True, slots=True)
class _Flight:
    """A call under way. When `over` and neither answered nor failed, its caller gave it up."""

    over: anyio.Event = field(default_factory=anyio.Event)
    answer: Callable[[], dict[str, Any]] | None = None
    error: Exception | None = None


class ResultCache:
    """Keeps answers in memory, the most recently used within `max_bytes`; 0 keeps nothing."""

    def __init__(self, *, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_bytes = max_bytes
        self._clock = clock
        # no TTLCache: how long an answer is fresh differs by tool
        self._kept: LRUCache[CacheKey, _CachedAnswer] = LRUCache(max_bytes, lambda answer: answer.size)
        self._flights: dict[CacheKey, _Flight] = {}

    @property
    def used_bytes(self) -> int:
        """What the kept answers take."""
        return int(self._kept.currsize)

    async def get_or_call(
        self, key: CacheKey, ttl_s: float, call: Callable[[], Awaitable[dict[str, Any]]]
    ) -> tuple[dict[str, Any], bool]:
        """The kept answer, else that of an equal call under way, else that of `call`.

        Args:
            key: What is asked, by whom.
            ttl_s: How old a kept answer may be, counted from when its call was sent.
            call: Makes the call. It runs in this task, and not at all if there is an answer.

        Returns:
            The answer, the caller's own to change, and whether it came without a call of this caller's own.

        Raises:
            Exception: What `call` raised, here or in the task that made the call for all who waited.
        """
        while True:
            kept = self._fresh(key, ttl_s)
            if kept is not None:
                return _decoded(kept), True
            flight = self._flights.get(key)
            if flight is None:
                return await self._fly(key, call), False
            await flight.over.wait()
            if flight.error is not None:
                raise flight.error
            if flight.answer is not None:
                return flight.answer(), True

    def clear(self, server: str, *, but: CacheKey | None = None) -> None:
        """Forget all answers of a server but one; a call under way now is not kept, nor joined any more."""
        for key in [key for key in self._kept if key.server == server and key != but]:
            del self._kept[key]
        for key in [key for key in self._flights if key.server == server and key != but]:
            del self._flights[key]

    async def _fly(self, key: CacheKey, call: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        flight = self._flights[key] = _Flight()
        since = self._clock()
        try:
            result = await call()
            data = _encoded(result)
            flight.answer = (lambda: result) if data is None else (lambda: _decoded(data))
            if data is not None and _is_lasting(result) and self._flights.get(key) is flight:
                self._keep(key, _CachedAnswer(data=data, since=since))
        except Exception as error:
            flight.error = error
            raise
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.over.set()
        return result

    def _fresh(self, key: CacheKey, ttl_s: float) -> bytes | None:
        try:
            kept = self._kept[key]  # hashes the key once less than `get`
        except KeyError:
            return None
        if self._clock() - kept.since >= ttl_s:
            del self._kept[key]
            return None
        return kept.data

    def _keep(self, key: CacheKey, kept: _CachedAnswer) -> None:
        if kept.size <= self.max_bytes:
            self._kept[key] = kept


def _is_lasting(result: Mapping[str, Any]) -> bool:
    """Whether an answer is one: neither an error, which may pass, nor a question to the caller."""
    return not result.get("isError") and result.get("resultType", "complete") == "complete"


def _encoded(result: dict[str, Any]) -> bytes | None:
    """An answer as bytes; None for one that has no plain encoding (half a character, nested too deep)."""
    try:
        return to_json(result)
    except ValueError:
        return None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = from_json(data)
    except ValueError:  # the quick decoder goes less deep than the quick encoder
        found = json.loads(data)
    return found
