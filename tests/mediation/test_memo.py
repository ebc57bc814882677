"""A tool is asked about once: for its content and a version, for a week, by one of several at a time."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from maitred.errors import StoreError
from maitred.mediation import EnhancedTool, Mediator, RuleTransformer, SourceTool, ToolContext
from maitred.mediation.base import PartlyAnsweredError
from maitred.mediation.memo import TTL_S, Memo, MemoEntry, MemoryStore, MemoStore

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext(source="shop", source_type="api", time=datetime(2026, 5, 1, tzinfo=UTC))
A = SourceTool(name="a", description="First.", input_schema={"type": "object", "properties": {"x": {}}})
B = SourceTool(name="b", annotations={"readOnlyHint": True}, metadata={"from": "here"})
SOON_S = 120.0

Answers = Sequence[EnhancedTool | None] | None


class Costly:
    """Answers for every tool, numbers its answers, and remembers what it was asked."""

    name = "costly"
    priority = 50

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.fails: Exception | None = None
        self.answers: Callable[[Sequence[SourceTool]], Any] = self._numbered
        self.waits: anyio.Event | None = None

    def _numbered(self, tools: Sequence[SourceTool]) -> Answers:
        return [better(tool, description=f"Answer {len(self.asked)}.") for tool in tools]

    async def transform(self, tools: Sequence[SourceTool], context: ToolContext) -> Answers:
        self.asked.append([tool.name for tool in tools])
        if self.waits:
            await self.waits.wait()
        if self.fails:
            raise self.fails
        found: Answers = self.answers(tools)
        return found


def better(tool: SourceTool, **fields: Any) -> EnhancedTool:
    own = {name: getattr(tool, name) for name in ("input_schema", "annotations", "metadata")}
    given = {"name": tool.name, "confidence": 0.9, "tags": ("t",), "use_cases": ("do it",), **own, **fields}
    return EnhancedTool(**given)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """A memo with all that it works with; `later` holds what it started in the background."""

    def __init__(self, *, background: bool = True, store: MemoStore | None = None, **options: Any) -> None:
        self.inner, self.clock, self.store = Costly(), Clock(), store or MemoryStore()
        self.later: list[Callable[[], Awaitable[None]]] = []
        self.start = self.later.append if background else None
        self.memo = self.again(**options)

    def again(self, **options: Any) -> Memo:
        """A memo as the next program makes it."""
        return Memo(self.inner, self.store, clock=self.clock, start=self.start, **options)

    async def told(self, *tools: SourceTool, context: ToolContext = CONTEXT) -> list[str]:
        """The descriptions that are answered, empty for none."""
        answers = await self.memo.transform(tools, context)
        return [one.description if one else "" for one in answers or [None] * len(tools)]


async def test_a_tool_is_asked_about_once_and_answered_the_same_ever_after() -> None:
    """With all its fields; the next program asks only about what is new to it."""
    rig = Rig()
    first = await rig.memo.transform([A, B], CONTEXT)
    again = await rig.again().transform([B, SourceTool(name="c"), A], CONTEXT)

    assert first is not None
    assert again is not None
    assert (
        [again[2], again[0]]
        == list(first)
        == [better(A, description="Answer 1."), better(B, description="Answer 1.")]
    )
    assert rig.inner.asked == [["a", "b"], ["c"]]


async def test_it_stands_for_the_transformer_that_it_wraps() -> None:
    """A mediator names that one, and asks the memo before it."""
    rig = Rig()
    mediator = Mediator()
    for one in (RuleTransformer(), rig.inner, rig.memo):
        mediator.use(one)
    [tool] = await mediator.enhance([A], CONTEXT)

    assert (rig.memo.name, rig.memo.stored_answers.name) == ("costly", "costly")
    assert (
        rig.inner.priority < rig.memo.priority == rig.memo.stored_answers.priority < RuleTransformer.priority
    )
    assert tool.enhanced_by == "costly"


async def test_no_answer_is_remembered_too() -> None:
    """Neither a tool without one nor a transformer that can help with none is bothered again."""
    rig = Rig()
    rig.inner.answers = lambda tools: [better(tools[0]), None]
    assert await rig.told(A, B) == ["", ""]
    rig.inner.answers = lambda _: None
    c = SourceTool(name="c")
    assert [await rig.told(A, B, c), await rig.told(c)] == [["", "", ""], [""]]
    assert rig.inner.asked == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    "tool",
    [
        replace(A, title="A title"),
        replace(A, description="Second."),
        replace(A, input_schema={"type": "object", "properties": {"y": {}}}),
        replace(A, annotations={"readOnlyHint": True}),
        replace(A, metadata={"page": 1}),
    ],
)
async def test_another_content_is_another_question(tool: SourceTool) -> None:
    """An answer belongs to what it was given for."""
    rig = Rig()
    await rig.told(A)

    assert await rig.told(tool) == ["Answer 2."]


async def test_another_source_or_version_is_another_question() -> None:
    """A prompt that was made better gives better answers at once."""
    rig = Rig(version="1")
    await rig.told(A)
    assert await rig.told(A, context=replace(CONTEXT, source="other")) == ["Answer 2."]
    rig.memo = rig.again(version="2")
    assert await rig.told(A) == ["Answer 3."]


async def test_a_stale_answer_serves_while_it_is_refreshed() -> None:
    """Nobody waits; who comes after the refresh gets the new one, and it was asked for once."""
    rig = Rig()
    await rig.told(A)
    rig.clock.now += TTL_S - 1
    assert await rig.memo.missing([A], CONTEXT) == []
    rig.clock.now += 1
    assert await rig.memo.missing([B, A], CONTEXT) == [0, 1]

    assert [await rig.told(A), await rig.told(A)] == [["Answer 1."], ["Answer 1."]]
    assert len(rig.inner.asked) == 1
    for refresh in rig.later:
        await refresh()

    assert await rig.told(A) == ["Answer 2."]
    assert rig.inner.asked == [["a"], ["a"]]


async def test_a_refresh_that_fails_leaves_the_old_answer_and_says_so() -> None:
    rig = Rig()
    await rig.told(A)
    rig.clock.now += TTL_S
    rig.inner.fails = ValueError("no quota")
    await rig.told(A)
    with capture_logs() as logged:
        await rig.later[0]()

    assert await rig.told(A) == ["Answer 1."]
    assert [entry["reason"] for entry in logged] == ["no quota"]


async def test_without_a_background_a_stale_answer_is_asked_anew_at_once() -> None:
    """The old one serves only if that fails."""
    rig = Rig(background=False, ttl_s=60)
    await rig.told(A)
    rig.clock.now += 60
    assert await rig.told(A) == ["Answer 2."]
    rig.clock.now += 60
    rig.inner.fails = ValueError("no quota")
    assert await rig.told(A, B) == ["Answer 2.", ""]


async def test_what_the_inner_one_raises_is_raised_where_nothing_is_remembered() -> None:
    """So that a mediator goes on to the next; and nothing is remembered of it."""
    rig = Rig()
    rig.inner.fails = ValueError("no quota")
    with pytest.raises(ValueError, match="no quota"):
        await rig.told(A)
    rig.inner.fails = None
    assert await rig.told(A) == ["Answer 2."]


@pytest.mark.parametrize(
    "answers",
    [lambda _: [], lambda tools: [better(one) for one in tools] * 2, lambda _: [better(B), better(A)]],
)
async def test_an_answer_that_cannot_be_right_is_not_remembered(answers: Callable[[Any], Any]) -> None:
    """It would be refused again and again for a week."""
    rig = Rig()
    rig.inner.answers = answers
    with pytest.raises(ValueError, match="not stored"):
        await rig.told(A, B)

    assert await rig.memo.missing([A, B], CONTEXT) == [0, 1]


async def test_two_who_ask_at_once_are_answered_by_one_question() -> None:
    rig = Rig()
    rig.inner.waits = anyio.Event()
    told: list[list[str]] = []

    async def ask() -> None:
        told.append(await rig.told(A, B))

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            rig.inner.waits.set()

    assert told == [["Answer 1.", "Answer 1."]] * 2
    assert rig.inner.asked == [["a", "b"]]


async def test_who_is_cancelled_while_asking_leaves_the_question_to_the_next() -> None:
    rig = Rig()
    rig.inner.waits = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.told, A)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    rig.inner.waits = None
    with anyio.fail_after(SOON_S):
        assert await rig.told(A) == ["Answer 2."]


async def test_what_is_remembered_can_be_had_without_asking() -> None:
    """Stale or fresh; nothing is started either."""
    rig = Rig()
    await rig.told(A)
    rig.clock.now += 2 * TTL_S
    found = await rig.memo.stored_answers.transform([B, A], CONTEXT)

    assert found == [None, better(A, description="Answer 1.")]
    assert (len(rig.inner.asked), rig.later) == (1, [])


async def test_filling_tells_how_many_answers_are_other_than_before() -> None:
    """New ones and changed ones; an answer that came again the same is none."""
    rig = Rig()
    rig.inner.answers = lambda tools: [better(tool) if tool.name == "a" else None for tool in tools]
    assert await rig.memo.fill([A, B], CONTEXT) == 1
    assert await rig.memo.fill([A, B], CONTEXT) == 0
    rig.clock.now += TTL_S
    assert await rig.memo.fill([A, B], CONTEXT) == 0
    rig.clock.now += TTL_S
    rig.inner.answers = lambda tools: [better(tool, title="New") for tool in tools]
    assert await rig.memo.fill([A, B], CONTEXT) == 2
    assert rig.inner.asked == [["a", "b"]] * 3


async def test_what_is_four_times_too_old_is_dropped_when_something_is_kept() -> None:
    """A store does not grow by tools that are long gone."""
    rig = Rig(ttl_s=10)
    await rig.told(A)
    rig.clock.now += 4 * TTL_S - 1  # others keep there what has a longer life
    await rig.told(B)
    assert await rig.memo.stored_answers.transform([A], CONTEXT) != [None]
    rig.clock.now += 2
    await rig.told(replace(B, name="c"))

    assert await rig.memo.stored_answers.transform([A], CONTEXT) == [None]


@pytest.mark.parametrize(
    "answer", [b"no JSON", b"[]", b'{"name": "a"}', b'{"gone": 1, "tags": [], "use_cases": []}']
)
async def test_a_damaged_memory_is_as_none(answer: bytes) -> None:
    """Also one of another version, with other fields."""
    rig = Rig()
    await rig.told(A)
    kept = rig.store._entries  # type: ignore[attr-defined]
    kept |= {key: replace(memory, answer=answer) for key, memory in kept.items()}

    assert await rig.told(A) == ["Answer 2."]


class Full(MemoryStore):
    """A store on a full disk."""

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        raise StoreError("c.db", "disk is full")


class Gone(MemoryStore):
    """A store that is not there."""

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        raise StoreError("c.db", "it is gone")


async def test_an_answer_that_cannot_be_kept_serves_once() -> None:
    """It was paid for."""
    rig = Rig(store=Full())
    with capture_logs() as logged:
        assert await rig.told(A) == ["Answer 1."]
    assert [entry["event"] for entry in logged] == ["answers could not be kept"]


async def test_a_store_that_cannot_be_read_costs_no_questions() -> None:
    """Else every start would pay for all tools anew."""
    rig = Rig(store=Gone())
    with pytest.raises(StoreError):
        await rig.told(A)
    assert rig.inner.asked == []


async def test_what_was_answered_before_a_failure_is_kept() -> None:
    """It was paid for: only the rest is asked for again."""
    rig = Rig()
    rig.inner.fails = PartlyAnsweredError("no more today", [better(A, description="Answer 0.")])

    with pytest.raises(PartlyAnsweredError, match="no more today"):
        await rig.told(A, B)
    rig.inner.fails = None

    assert await rig.told(A, B) == ["Answer 0.", "Answer 2."]
    assert rig.inner.asked == [["a", "b"], ["b"]]
