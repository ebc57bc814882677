"""Store a transformer's answers, so that it is asked once about a tool and not at every start.

An answer belongs to the content of one tool. It is valid until the content, the transformer or its version
changes. After its time to live it is stale; a stale answer serves until a new one arrives. An answer that
cannot be written as JSON cannot be stored.
"""

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

import anyio
import structlog

from maitred.errors import StoreError
from maitred.mediation.base import EnhancedTool, PartlyAnsweredError, SourceTool, ToolContext, Transformer
from maitred.model.tools import canonical, content_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoEntry:
    """An answer about one tool as JSON (`null`: no answer), and its time in unix seconds."""

    answer: bytes
    at: float


log = structlog.get_logger(__name__)

TTL_S: Final = 7 * 86_400.0
"""Default time to live of an answer in seconds."""

_BEFORE_THE_INNER = 10
_KEPT_TTLS = 4
_NOTHING: Final = b"null"
_TOOL_FIELDS = tuple(field.name for field in fields(SourceTool))

Start = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a function in the background; neither waits for it nor fails with it."""


class MemoStore(Protocol):
    """Stores answers. The methods raise `StoreError` if the storage cannot be used."""

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        """The stored answers of some keys."""
        ...

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        """Store answers, in place of older ones."""
        ...

    async def prune(self, before: float) -> None:
        """Delete answers older than a time in unix seconds."""
        ...


class MemoryStore:
    """Keeps answers in memory until the program ends."""

    def __init__(self) -> None:
        self._entries: dict[str, MemoEntry] = {}

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        """See `MemoStore`."""
        return {key: self._entries[key] for key in keys if key in self._entries}

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        """See `MemoStore`."""
        self._entries |= memories

    async def prune(self, before: float) -> None:
        """See `MemoStore`."""
        self._entries = {key: memory for key, memory in self._entries.items() if memory.at >= before}


@dataclass(frozen=True, kw_only=True)
class _Recalled:
    """A stored answer about a tool; `answer` is `None` if the inner transformer had none."""

    answer: EnhancedTool | None
    at: float


class Memo:
    """A transformer that asks another one only about tools without a stored answer.

    It has the name of the inner transformer and a slightly higher priority. If the inner one fails, stored
    answers still serve, and the error is raised only if there are none. It never asks for the content of one
    source twice at the same time.
    """

    def __init__(
        self,
        inner: Transformer,
        store: MemoStore,
        *,
        version: str = "",
        ttl_s: float = TTL_S,
        clock: Callable[[], float] = time.time,
        start: Start | None = None,
    ) -> None:
        """Wrap a transformer.

        Args:
            inner: The transformer to ask.
            store: Stores the answers.
            version: Change it when the inner transformer might answer differently.
            ttl_s: An answer is stale after so many seconds. It is deleted at four times that age, and not
                before four weeks.
            clock: Returns the time in unix seconds.
            start: Refreshes stale answers in the background. Without it `transform` asks at once, and the
                stale answers serve if that fails.
        """
        self._inner = inner
        self._store = store
        self._version = version
        self._ttl_s = ttl_s
        self._clock = clock
        self._start = start
        self._asking: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The name of the inner transformer."""
        return self._inner.name

    @property
    def priority(self) -> int:
        """Slightly higher than that of the inner transformer."""
        return self._inner.priority + _BEFORE_THE_INNER

    @property
    def stored_answers(self) -> Transformer:
        """A transformer that serves stored answers, also stale ones, and never asks."""
        return _StoredAnswers(self)

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        recalled_answers = await self.recall(tools, context)
        stale = [at for at, recalled in enumerate(recalled_answers) if self._is_stale(recalled)]
        at_once = [at for at in stale if recalled_answers[at] is None or self._start is None]
        answers = [recalled.answer if recalled else None for recalled in recalled_answers]
        try:
            fresh, _ = await self._ask([tools[at] for at in at_once], context)
            for at, answer in zip(at_once, fresh, strict=True):
                answers[at] = answer
        except Exception as error:
            if not any(recalled_answers):
                raise
            self._tell("asking failed; stored answers are used", context, error)
        if self._start is not None and len(stale) > len(at_once):
            self._start(lambda: self._refresh(tools, context))
        return answers

    async def missing(self, tools: Sequence[SourceTool], context: ToolContext) -> list[int]:
        """The positions of the tools without a stored answer, or with a stale one."""
        recalled_answers = await self.recall(tools, context)
        return [at for at, recalled in enumerate(recalled_answers) if self._is_stale(recalled)]

    async def fill(self, tools: Sequence[SourceTool], context: ToolContext) -> int:
        """Ask about tools with a missing or stale answer; returns how many answers changed.

        Raises:
            Exception: The inner transformer failed, or the store cannot be read.
        """
        return (await self._ask(tools, context))[1]

    async def recall(self, tools: Sequence[SourceTool], context: ToolContext) -> list[_Recalled | None]:
        """The stored answer of each tool, or `None`."""
        keys = [self._key(tool, context) for tool in tools]
        entries = await self._store.load(frozenset(keys))
        return [_decode(entries[key]) if key in entries else None for key in keys]

    async def _refresh(self, tools: Sequence[SourceTool], context: ToolContext) -> None:
        try:
            await self._ask(tools, context)
        except Exception as error:  # noqa: BLE001  # stale answers remain, whatever the error
            self._tell("stale answers could not be refreshed", context, error)

    async def _ask(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> tuple[list[EnhancedTool | None], int]:
        """Fresh answers about tools, and how many of them changed. Concurrent callers share one question."""
        if not tools:
            return [], 0
        async with self._asking.setdefault(context.source, anyio.Lock()):
            keys = [self._key(tool, context) for tool in tools]
            by_key = dict(zip(keys, await self.recall(tools, context), strict=True))
            tools_to_ask = {
                key: tool for key, tool in zip(keys, tools, strict=True) if self._is_stale(by_key[key])
            }
            now = {key: recalled.answer if recalled else None for key, recalled in by_key.items()}
            if not tools_to_ask:
                return [now[key] for key in keys], 0
            try:
                answers = await self._inner.transform(tuple(tools_to_ask.values()), context)
            except PartlyAnsweredError as error:
                first_tools = dict(islice(tools_to_ask.items(), len(error.answers)))
                await self._store_answers(first_tools, error.answers, context)
                raise
            fresh = await self._store_answers(tools_to_ask, answers, context)
        count = sum(now[key] != answer for key, answer in fresh.items())
        return [fresh.get(key, now[key]) for key in keys], count

    async def _store_answers(
        self,
        tools: Mapping[str, SourceTool],
        answers: Sequence[EnhancedTool | None] | None,
        context: ToolContext,
    ) -> Mapping[str, EnhancedTool | None]:
        """Save the answers and return them by key."""
        fresh = dict(zip(tools, _check_answers(list(tools.values()), answers, self.name), strict=True))
        await self._save(fresh, context)
        return fresh

    async def _save(self, answers: Mapping[str, EnhancedTool | None], context: ToolContext) -> None:
        now = self._clock()
        memories = {key: MemoEntry(answer=_encode(answer), at=now) for key, answer in answers.items()}
        try:
            await self._store.save(memories)
            await self._store.prune(now - _KEPT_TTLS * max(self._ttl_s, TTL_S))  # other memos share the store
        except StoreError as error:  # the answers cost money, so they serve this once
            self._tell("answers could not be kept", context, error)

    def _tell(self, event: str, context: ToolContext, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        log.warning(event, transformer=self.name, source=context.source, reason=reason)

    def _is_stale(self, recalled: _Recalled | None) -> bool:
        """Whether to ask about a tool; an answer from the future means that the clock was set back."""
        return recalled is None or not 0 <= self._clock() - recalled.at < self._ttl_s

    def _key(self, tool: SourceTool, context: ToolContext) -> str:
        own = {name: getattr(tool, name) for name in _TOOL_FIELDS}
        return content_hash(canonical([self.name, self._version, context.source, own]))


@dataclass(frozen=True)
class _StoredAnswers:
    memo: Memo

    @property
    def name(self) -> str:
        return self.memo.name

    @property
    def priority(self) -> int:
        return self.memo.priority

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        return [recalled.answer if recalled else None for recalled in await self.memo.recall(tools, context)]


def _check_answers(
    tools: Sequence[SourceTool], answers: Sequence[EnhancedTool | None] | None, by: str
) -> Sequence[EnhancedTool | None]:
    """The answers, if they match the tools; an invalid answer must not be stored for a week."""
    if answers is None:
        return [None] * len(tools)
    names = [answer.original_name or answer.name if answer else "" for answer in answers]
    belong = [name in ("", tool.name) for name, tool in zip(names, tools, strict=False)]
    if len(names) != len(tools) or not all(belong):
        raise ValueError(f"{by} did not answer with one tool for each, in order; the answer is not stored")
    return answers


def _encode(answer: EnhancedTool | None) -> bytes:
    return _NOTHING if answer is None else canonical(asdict(answer))


def _decode(memory: MemoEntry) -> _Recalled | None:
    """The answer in an entry; `None` if it is damaged, or another version wrote it."""
    try:
        value: Any = json.loads(memory.answer.decode("utf-8", "surrogatepass"))
        if value is None:
            return _Recalled(answer=None, at=memory.at)
        texts = {name: tuple(value[name]) for name in ("tags", "use_cases", "inferred")}
        return _Recalled(answer=EnhancedTool(**{**value, **texts}), at=memory.at)
    except (ValueError, TypeError, KeyError):
        return None
