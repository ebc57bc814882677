"""Kept answers: one call for equal questions, whoever of the askers gives up, and never an old answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.makers import FACTS, one

from maitred.calls.cache import CacheKey, ResultCache, cache_key, cacheable, mark_cached
from maitred.errors import ServerUnavailableError, StoreAwayError
from maitred.model.servers import ServerRecord
from maitred.storage.shared_state import MemoryState

pytestmark = pytest.mark.anyio

KEY = CacheKey(server="s", version="1", tool="t", arguments="a", principal="ann")
RECORD = ServerRecord(name="s", fingerprint="f", facts=FACTS)
ERROR = ServerUnavailableError("s", "it is away")
TURNS = 12  # of the event loop, after which whoever can go on has gone on


def texts(text: str = "x", **rest: Any) -> dict[str, Any]:
    """A result with one text."""
    return {"content": [{"type": "text", "text": text}], **rest}


def answering(*answers: dict[str, Any] | Exception) -> Callable[[], Awaitable[dict[str, Any]]]:
    """A call that answers at once, with one after the other."""
    waiting = list(answers)

    async def call() -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


# --- what is kept -----------------------------------------------------------------------------------------


async def test_an_answer_is_given_again_until_its_time_is_over() -> None:
    """Then the server is asked anew."""
    times = [0.0]
    cache = ResultCache(max_bytes=10_000, clock=lambda: times[-1])
    call = answering(texts("old"), texts("new"))

    assert await cache.get_or_call(KEY, 10, call) == (texts("old"), False)
    times.append(9.9)
    assert await cache.get_or_call(KEY, 10, call) == (texts("old"), True)
    times.append(10)
    assert await cache.get_or_call(KEY, 10, call) == (texts("new"), False)


@pytest.mark.parametrize(
    "fields", [{"server": "r"}, {"version": "2"}, {"tool": "u"}, {"arguments": "b"}, {"principal": "bob"}]
)
async def test_no_other_question_gets_the_answer(fields: dict[str, str]) -> None:
    """Least of all somebody else's."""
    cache = ResultCache(max_bytes=10_000)
    await cache.get_or_call(KEY, 10, answering(texts("ann's")))

    other = await cache.get_or_call(replace(KEY, **fields), 10, answering(texts("own")))

    assert other == (texts("own"), False)


@pytest.mark.parametrize("result", [texts(isError=True), texts(resultType="input_required")])
async def test_an_answer_that_is_none_is_not_kept(result: dict[str, Any]) -> None:
    """An error may pass, and a question to the caller is answered once."""
    cache = ResultCache(max_bytes=10_000)

    assert await cache.get_or_call(KEY, 10, answering(result)) == (result, False)
    assert await cache.get_or_call(KEY, 10, answering(texts())) == (texts(), False)


async def test_a_call_that_fails_leaves_nothing() -> None:
    """The next one is made."""
    cache = ResultCache(max_bytes=10_000)

    with pytest.raises(ServerUnavailableError):
        await cache.get_or_call(KEY, 10, answering(ERROR))

    assert await cache.get_or_call(KEY, 10, answering(texts())) == (texts(), False)


async def test_nobody_can_change_a_kept_answer() -> None:
    """Each gets one of their own."""
    cache = ResultCache(max_bytes=10_000)
    first, _ = await cache.get_or_call(KEY, 10, answering(texts()))
    first["content"].clear()
    second, _ = await cache.get_or_call(KEY, 10, answering())
    second["content"].clear()

    assert await cache.get_or_call(KEY, 10, answering()) == (texts(), True)


@pytest.mark.parametrize("depth", [150, 230])
async def test_a_deep_answer_is_the_same_the_second_time(depth: int) -> None:
    """However deep it is, if it is kept."""
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"in": deep}
    cache = ResultCache(max_bytes=10_000)

    result = texts(structuredContent=deep)
    for cached in (False, True):
        assert await cache.get_or_call(KEY, 10, answering(result)) == (result, cached)


async def test_an_answer_that_cannot_be_encoded_is_given_but_not_kept() -> None:
    """Half a character, which some servers send."""
    cache = ResultCache(max_bytes=10_000)

    for _ in range(2):
        assert await cache.get_or_call(KEY, 10, answering(texts("\ud800"))) == (texts("\ud800"), False)


async def test_the_least_recently_used_makes_room() -> None:
    """Memory is bounded; an answer larger than all of it is not kept."""
    cache = ResultCache(max_bytes=5_000)
    keys = [replace(KEY, arguments=str(n)) for n in range(4)]
    for key in keys[:3]:
        await cache.get_or_call(key, 10, answering(texts("x" * 800)))
    await cache.get_or_call(keys[0], 10, answering())

    await cache.get_or_call(keys[3], 10, answering(texts("x" * 800)))
    await cache.get_or_call(KEY, 10, answering(texts("x" * 6_000)))

    kept = [(await cache.get_or_call(key, 10, answering(texts(isError=True))))[1] for key in (*keys, KEY)]
    assert kept == [True, False, True, True, False]
    assert await cache.get_or_call(KEY, 10, answering(texts())) == (texts(), False)


async def test_a_server_can_be_forgotten_with_what_is_under_way() -> None:
    """What was asked before a change does not answer a question after it."""
    cache = ResultCache(max_bytes=10_000)
    other = replace(KEY, server="r")
    await cache.get_or_call(other, 10, answering(texts("other")))
    await cache.get_or_call(replace(KEY, arguments="b"), 10, answering(texts("old")))
    before = Askers(cache)

    async with anyio.create_task_group() as group:
        before.ask(group)
        await before.settle()
        cache.clear("s")
        assert await cache.get_or_call(KEY, 10, answering(texts("new"))) == (texts("new"), False)
        before.under_way[0].answer(texts("old"))

    assert before.askers[0].got == (texts("old"), False)
    assert await cache.get_or_call(KEY, 10, answering()) == (texts("new"), True)
    assert await cache.get_or_call(other, 10, answering()) == (texts("other"), True)
    assert not (await cache.get_or_call(replace(KEY, arguments="b"), 10, answering(texts())))[1]


# --- one call for all who ask -----------------------------------------------------------------------------


class Call:
    """A call under way, which ends when it is told to."""

    def __init__(self) -> None:
        self._over = anyio.Event()
        self._answer: dict[str, Any] | Exception = {}

    def answer(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer
        self._over.set()

    async def __call__(self) -> dict[str, Any]:
        await self._over.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@dataclass
class Asker:
    """Somebody who asks, and may give up."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    got: tuple[dict[str, Any], bool] | Exception | None = None

    @property
    def waits(self) -> bool:
        return self.got is None and not self.scope.cancel_called


class Askers:
    """Those who ask one question of a cache, and the calls that come of it."""

    def __init__(self, cache: ResultCache) -> None:
        self.cache = cache
        self.askers: list[Asker] = []
        self.under_way: list[Call] = []
        self.made = 0

    def ask(self, group: anyio.abc.TaskGroup) -> None:
        self.askers.append(Asker())
        group.start_soon(self._ask, self.askers[-1])

    async def _ask(self, asker: Asker) -> None:
        with asker.scope:
            try:
                asker.got = await self.cache.get_or_call(KEY, 10, self._call)
            except ServerUnavailableError as error:
                asker.got = error

    async def _call(self) -> dict[str, Any]:
        call = Call()
        self.made += 1
        self.under_way.append(call)
        try:
            return await call()
        finally:
            self.under_way.remove(call)

    async def settle(self) -> None:
        for _ in range(TURNS):
            await anyio.lowlevel.checkpoint()


async def test_equal_calls_at_the_same_time_become_one() -> None:
    """All get its answer, one of them as the one who called."""
    asked = Askers(ResultCache(max_bytes=10_000))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            asked.ask(group)
        await asked.settle()
        asked.under_way[0].answer(texts())

    assert asked.made == 1
    assert sorted(asker.got == (texts(), True) for asker in asked.askers) == [False, True, True, True, True]


async def test_when_the_caller_gives_up_another_takes_over() -> None:
    """And one call is enough for those who are left."""
    asked = Askers(ResultCache(max_bytes=10_000))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            asked.ask(group)
        await asked.settle()
        asked.askers[0].scope.cancel()
        await asked.settle()
        assert (asked.made, len(asked.under_way)) == (2, 1)
        asked.under_way[0].answer(texts())

    assert asked.askers[0].got is None
    assert [asker.got for asker in asked.askers[1:]] == [(texts(), False), (texts(), True), (texts(), True)]


async def test_one_who_waits_and_gives_up_disturbs_nobody() -> None:
    """The call goes on."""
    asked = Askers(ResultCache(max_bytes=10_000))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            asked.ask(group)
        await asked.settle()
        asked.askers[1].scope.cancel()
        await asked.settle()
        asked.under_way[0].answer(texts())

    assert (asked.made, asked.askers[0].got) == (1, (texts(), False))


async def test_all_who_wait_learn_of_a_failure_and_nobody_tries_again() -> None:
    """A server that is away is not asked once for each of them."""
    asked = Askers(ResultCache(max_bytes=10_000))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            asked.ask(group)
        await asked.settle()
        asked.under_way[0].answer(ERROR)

    assert (asked.made, [asker.got for asker in asked.askers]) == (1, [ERROR] * 3)


ANSWERS: dict[Any, Any] = {"answer": texts(), "fail": ERROR, "error result": texts(isError=True)}
GIVES_UP = st.integers(min_value=0, max_value=11)
steps = st.lists(st.sampled_from(["ask"] * 5 + ["clear", *ANSWERS]) | GIVES_UP, min_size=5, max_size=25)


@settings(max_examples=200, deadline=None)
@given(steps, st.booleans())
def test_whoever_gives_up_when_all_others_are_answered_by_as_few_calls_as_can_be(
    plan: list[str | int], settled: bool
) -> None:
    """At every moment at most one call is under way, and one if anybody waits; at the end nobody does."""
    anyio.run(_follow, plan, settled)


async def _follow(plan: list[str | int], settled: bool) -> None:
    """Follow a plan; unless `settled`, several things happen in the same turn of the event loop."""
    asked = Askers(ResultCache(max_bytes=10_000))
    cleared = 0
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for step in plan:
                waiting = [asker for asker in asked.askers if asker.waits]
                if step == "ask":
                    asked.ask(group)
                elif isinstance(step, int):
                    if waiting:
                        waiting[step % len(waiting)].scope.cancel()
                elif step == "clear":
                    asked.cache.clear("s")
                    cleared += 1
                elif asked.under_way:
                    asked.under_way[0].answer(ANSWERS[step])
                if settled:
                    await asked.settle()
                    waits = any(asker.waits for asker in asked.askers)
                    assert waits <= len(asked.under_way) <= waits + cleared
            await asked.settle()
            while asked.under_way:
                asked.under_way[0].answer(texts())
                await asked.settle()
    _assert_fair(asked)


def _assert_fair(asked: Askers) -> None:
    """Each has an answer or gave up, and each call belongs to one who made it."""
    own = 0
    for asker in asked.askers:
        assert asker.got is not None or asker.scope.cancel_called
        if isinstance(asker.got, tuple):
            assert asker.got[0] in (texts(), texts(isError=True))
            own += not asker.got[1]
    gave_up = sum(asker.scope.cancel_called for asker in asked.askers)
    failed = sum(isinstance(asker.got, Exception) for asker in asked.askers)
    assert own <= asked.made <= own + gave_up + failed


# --- what may be kept, and how it is told -----------------------------------------------------------------


def test_equal_arguments_make_equal_keys_whatever_their_order() -> None:
    """And other arguments, another principal or another version of the server do not."""
    _, tool = one()
    given_ = {"a": 1, "b": [True]}
    key = cache_key("1", tool, given_, "ann")

    assert key == cache_key("1", tool, {"b": [True], "a": 1}, "ann")
    assert key != cache_key("1", tool, {"a": 1, "b": [1]}, "ann")
    assert key != cache_key("1", tool, given_, "bob")
    assert key != cache_key("2", tool, given_, "ann")


@pytest.mark.parametrize(
    ("annotations", "may"),
    [
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": "true"}, False),
        ({"destructiveHint": False}, False),
        ({}, False),
    ],
)
def test_only_a_tool_of_which_a_second_call_does_no_more_may_be_cached(
    annotations: dict[str, Any], may: bool
) -> None:
    """Silence counts as no."""
    assert cacheable(one(annotations=annotations)[1]) is may


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": "x"}], None])
def test_a_kept_answer_says_so_to_clients_and_to_models(content: Any) -> None:
    """In `_meta`, and in a text of its own after all others, which stay as they are."""
    result = {"content": content, "structuredContent": {"a": 1}, "_meta": {"other": 1}}

    marked = mark_cached(result)

    assert marked["_meta"] == {"other": 1, "maitred/cached": True}
    assert marked["content"][:-1] == (content or [])
    assert marked["content"][-1]["text"] == "[cached]"
    assert marked["content"][-1]["annotations"] == {"audience": ["assistant"], "priority": 0.1}
    assert marked["structuredContent"] == {"a": 1}
    assert mark_cached(marked) == marked
    assert result["_meta"] == {"other": 1}


class StoreThatGoes(MemoryState):
    """A store of two gateways, that is away at times."""

    is_shared = True
    is_away = False

    async def get(self, key: str) -> bytes | None:
        self._check()
        return await super().get(key)

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        self._check()
        await super().put(key, value, ttl_s)

    def _check(self) -> None:
        if self.is_away:
            raise StoreAwayError("store", "it is away")

    def lose_all(self) -> None:
        self._values.clear()

    def come_back(self) -> None:
        self.is_away = False
        self._reset()


@pytest.mark.parametrize("is_seen_by_the_other", [True, False])
async def test_a_change_while_the_shared_store_is_away_ends_old_answers_once_it_is_back(
    is_seen_by_the_other: bool,
) -> None:
    """At the gateway that changed the server, and at the other one, at the latest after its next call."""
    store = StoreThatGoes()
    one, other = (ResultCache(max_bytes=10_000, state=store) for _ in range(2))
    assert await other.get_or_call(KEY, 60, answering(texts("old"))) == (texts("old"), False)
    store.is_away = True
    await one.changed("s")
    if is_seen_by_the_other:
        store.come_back()
    else:
        store.is_away = False
        await one.get_or_call(replace(KEY, tool="u"), 60, answering(texts("other")))
    for cache in (other, one):
        answer, _ = await cache.get_or_call(KEY, 60, answering(texts("new")))
        assert answer == texts("new")


async def test_a_store_that_comes_back_empty_brings_no_old_answer_back() -> None:
    store = StoreThatGoes()
    one, other = (ResultCache(max_bytes=10_000, state=store) for _ in range(2))
    assert await other.get_or_call(KEY, 60, answering(texts("old"))) == (texts("old"), False)
    await one.changed("s")
    store.lose_all()
    assert await other.get_or_call(KEY, 60, answering(texts("new"))) == (texts("new"), False)
