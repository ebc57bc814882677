"""When a reranker is asked, and what a search answers when it fails."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.search.base import Candidate
from maitred.search.rerank import RerankError, RerankResult, RerankStage, is_complex

pytestmark = pytest.mark.anyio

CANDIDATES = [Candidate(name=f"tool_{n}", line=f"Does {n}.") for n in range(4)]
CLEAR = [0.8, 0.5, 0.3, 0.1]
CLOSE = [0.8, 0.75, 0.7, 0.1]
SIMPLE = "open a pull request"
COMPLEX = "list the open issues and close those without an answer"


class Fake:
    """A reranker that answers with what a function makes of the query, and counts."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.calls = 0
        self._answer = answer

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Sequence[int]:
        self.calls += 1
        found = self._answer(query)
        positions: Sequence[int] = await found if isinstance(found, Awaitable) else found
        return positions


async def _order(
    answer: Callable[[str], Any],
    *,
    query: str = SIMPLE,
    scores: Sequence[float] = CLOSE,
    timeout_s: float = 5,
) -> RerankResult:
    with anyio.fail_after(120):
        return await RerankStage(Fake(answer), timeout_s=timeout_s).order(query, CANDIDATES, scores)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "weather",
        "get the weather in Paris",
        "search files and folders",
        "read config.yaml from v1.2 of the repository",
        "create, update or delete",
        "list_pull_requests",
        "搜索天气预报",
    ],
)
def test_a_phrase_is_not_complex(query: str) -> None:
    """One thing is asked for, however it is put. Source: the definition in `is_complex`."""
    assert not is_complex(query)


@pytest.mark.parametrize(
    "query",
    [
        COMPLEX,
        "get the weather and make a chart",
        "Find the invoice of March. Send it to the accountant.",
        "read the log file, then count the error lines",
        "quarterly revenue figures per region product line channel customer segment currency month year team",
        "我想在数据库里查询所有客户的订单记录并且按照日期排序",
        "查询数据库的订单、发送邮件给客户",
    ],
)
def test_several_clauses_or_many_words_are_complex(query: str) -> None:
    """More is asked for than one phrase can say. Source: the definition in `is_complex`."""
    assert is_complex(query)


@pytest.mark.parametrize(
    ("query", "scores"), [(SIMPLE, CLOSE), (COMPLEX, CLEAR), (SIMPLE, [0.9, 0.8, 0.8, 0])]
)
async def test_a_close_race_and_a_complex_query_are_decided_by_the_reranker(
    query: str, scores: Sequence[float]
) -> None:
    """The order is the reranker's, and what it left out follows as it was."""
    found = await _order(lambda _: [2, 0], query=query, scores=scores)

    assert list(found.order) == [2, 0, 1, 3]
    assert found.note == ""


@pytest.mark.parametrize(
    ("query", "scores"),
    [
        (SIMPLE, CLEAR),
        (SIMPLE, [0.95, 0.94, 0.93, 0.92]),
        (COMPLEX, [0.91, 0.2, 0.1, 0.0]),
        (SIMPLE, [0.8, 0.69, 0.69, 0.69]),
    ],
)
async def test_a_clear_winner_is_not_sent_to_the_reranker(query: str, scores: Sequence[float]) -> None:
    """Such a search costs neither time nor money."""
    reranker = Fake(lambda _: [3, 2, 1, 0])

    found = await RerankStage(reranker, timeout_s=5).order(query, CANDIDATES, scores)

    assert list(found.order) == [0, 1, 2, 3]
    assert found.note == ""
    assert reranker.calls == 0


@pytest.mark.parametrize(
    "query",
    [
        "best match for reading a file",
        "the best tool to open a pull request",
        "which tool is the single best for charts",
        "what fits best to send a letter",
        "Best-matching tool: translate a text",
    ],
)
async def test_a_query_that_wants_the_best_match_asks_the_reranker_however_clear_the_winner_is(
    query: str,
) -> None:
    """The user says so in the query. Source: design document 4, "When to Use LLM Reranking"."""
    found = await _order(lambda _: [3, 0], query=query, scores=[0.95, 0.3, 0.2, 0.1])

    assert list(found.order) == [3, 0, 1, 2]


@pytest.mark.parametrize("query", ["match a pattern", "bestow a title", "sellers that sold best"])
async def test_other_uses_of_the_words_ask_for_nothing(query: str) -> None:
    """A search costs nothing that nobody asked for."""
    assert list((await _order(lambda _: [3], query=query, scores=CLEAR)).order) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, 1])
async def test_nothing_is_asked_about_a_single_hit(count: int) -> None:
    """There is no order to choose."""
    reranker = Fake(lambda _: [0])

    found = await RerankStage(reranker, timeout_s=5).order(COMPLEX, CANDIDATES[:count], CLOSE[:count])

    assert list(found.order) == list(range(count))
    assert reranker.calls == 0


async def test_a_slow_reranker_is_given_up_and_the_search_answers_without_it() -> None:
    """The order stays, the note says why, and the request does not go on behind the answer."""
    cancelled = anyio.Event()

    async def forever() -> Sequence[int]:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return []

    found = await _order(lambda _: forever(), timeout_s=0.2)

    assert list(found.order) == [0, 1, 2, 3]
    assert found.note == "reranker: no answer within 200 ms"
    assert cancelled.is_set()


async def test_a_search_that_is_given_up_ends_its_reranker() -> None:
    """A client that goes away is not waited for: cancellation is not taken for a failure."""
    asked, ended = anyio.Event(), anyio.Event()
    answers: list[RerankResult] = []

    async def forever() -> Sequence[int]:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return []

    async def search() -> None:
        answers.append(await _order(lambda _: forever()))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            await asked.wait()
            tasks.cancel_scope.cancel()

    assert ended.is_set()
    assert answers == []


async def test_the_first_search_waits_for_what_is_loaded_and_its_time_limit_counts_from_then() -> None:
    """So the first order is not lost to an import, which takes a second or two."""
    loading, loaded = anyio.Event(), anyio.Event()
    reranker = Fake(lambda _: [3, 2, 1, 0])
    answers: list[RerankResult] = []

    async def load() -> None:
        loading.set()
        await loaded.wait()

    stage = RerankStage(reranker, timeout_s=0, load=load)

    async def search() -> None:
        answers.append(await stage.order(SIMPLE, CANDIDATES, CLOSE))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.run)
            tasks.start_soon(search)
            await loading.wait()
            await anyio.wait_all_tasks_blocked()
            assert reranker.calls == 0
            loaded.set()

    assert [list(answer.order) for answer in answers] == [[3, 2, 1, 0]]


async def test_an_import_that_hangs_is_waited_for_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question then ends by its own time limit, as if nothing had been loaded before."""
    monkeypatch.setattr("maitred.search.rerank.LOAD_S", 0.1)
    stage = RerankStage(Fake(lambda _: [3, 2, 1, 0]), timeout_s=5, load=anyio.sleep_forever)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.run)
            found = await stage.order(SIMPLE, CANDIDATES, CLOSE)
            tasks.cancel_scope.cancel()

    assert list(found.order) == [3, 2, 1, 0]


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (RerankError("openai answered with HTTP 500"), "reranker: openai answered with HTTP 500"),
        (RuntimeError("wrong key sk-secret"), "reranker: failed (RuntimeError)"),
        (TimeoutError(), "reranker: failed (TimeoutError)"),
        (ExceptionGroup("several", [ValueError("sk-secret")]), "reranker: failed (ExceptionGroup)"),
    ],
)
async def test_a_failing_reranker_leaves_the_order_and_a_short_reason(error: Exception, note: str) -> None:
    """The search answers all the same. A text that we did not write may quote a key and is not shown."""
    found = await _order(lambda _: _raise(error))

    assert list(found.order) == [0, 1, 2, 3]
    assert found.note == note


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ([3, 3, 1, 3], [3, 1, 0, 2]),
        ([9, 2, -1, 4], [2, 0, 1, 3]),
        ([True, "1", 2.0, None, [0], 2], [2, 0, 1, 3]),
        (np.array([1, 0]), [1, 0, 2, 3]),
        ([10**30, 3], [3, 0, 1, 2]),
    ],
)
async def test_positions_that_are_none_are_dropped(answer: Any, order: Sequence[int]) -> None:
    """Every tool is shown once, whatever a model answers."""
    found = await _order(lambda _: answer)

    assert list(found.order) == order
    assert found.note == ""


@pytest.mark.parametrize("answer", [[], [7], "two"])
async def test_an_answer_without_any_tool_is_said(answer: Any) -> None:
    """The order is the one before, and the reader learns that the reranker was no help."""
    found = await _order(lambda _: answer)

    assert list(found.order) == [0, 1, 2, 3]
    assert found.note == "reranker: its answer named none of the tools"


async def test_an_answer_that_is_no_list_is_a_failure() -> None:
    """A reranker that forgets to answer does not end the search."""
    found = await _order(lambda _: None)

    assert list(found.order) == [0, 1, 2, 3]
    assert found.note == "reranker: failed (TypeError)"


@given(
    answer=st.lists(st.one_of(st.integers(-3, 9), st.text(max_size=2), st.booleans(), st.floats(), st.none()))
)
def test_every_tool_stands_in_the_order_exactly_once(answer: list[Any]) -> None:
    """Whatever a reranker answers, no tool is lost and none is shown twice."""
    found = anyio.run(lambda: _order(lambda _: answer))

    assert sorted(found.order) == [0, 1, 2, 3]
