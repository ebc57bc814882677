"""Counting in a worker process: exact, and never in the way when the worker is gone."""

from collections.abc import AsyncIterator

import anyio
import psutil
import pytest
from tests.support.processes import below
from tests.support.waiting import eventually

from maitred.catalog.token_count import count_tokens
from maitred.catalog.token_worker import TokenWorker

pytestmark = pytest.mark.anyio

HALF = "half \ud800 a character"
TEXTS = ["hello world", "", '{"type":"object"}', "天気予報 🎉", "line\nbreak", HALF, "word " * 500]
WAIT_S = 120.0


@pytest.fixture
def count_here() -> None:
    """Here the worker itself is tested, which all other tests do without."""


@pytest.fixture
async def worker() -> AsyncIterator[TokenWorker]:
    with anyio.fail_after(WAIT_S):
        async with TokenWorker() as worker:
            yield worker


def workers() -> list[psutil.Process]:
    """The worker processes that this process has now."""
    return [process for process, _, command in below() if "maitred.catalog.token_count" in command]


async def test_the_worker_counts_what_this_process_would_count(worker: TokenWorker) -> None:
    """Costs are exact, for odd texts too; they decide when tools are shown and are printed to operators."""
    plain = [text for text in TEXTS if text != HALF]

    assert list(await worker.count(plain)) == count_tokens(plain)
    assert len(await worker.count(TEXTS)) == len(TEXTS)
    assert list(await worker.count(plain)) == count_tokens(plain)


def test_counts_are_those_of_the_whole_package() -> None:
    """We use its compiled part alone, which is private: it has to be there, and to count the same."""
    import bpe_openai  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415  # a second's work

    encoding = bpe_openai.get_encoding("o200k_base")
    texts = [*TEXTS, "<|endoftext|>", "\ud83d\ude00 \udc00", "x" * 10_000]

    assert count_tokens(texts) == [len(encoding.encode_ordinary(text)) for text in texts]


async def test_nothing_to_count_starts_nothing(worker: TokenWorker) -> None:
    """A known catalog costs no process."""
    assert await worker.count([]) == []
    assert workers() == []


async def test_a_worker_that_was_killed_is_replaced(worker: TokenWorker) -> None:
    """The system may kill it for its memory: counts may be estimates then, and are exact again after."""
    await worker.count(["a"])
    [process] = workers()
    process.kill()

    estimates = await worker.count(["x" * 400, "y" * 40])
    exact = await worker.count(["hello world"])

    assert all(estimate > 0 for estimate in estimates)
    assert exact == [2]


async def test_a_count_that_was_given_up_does_not_answer_the_next(worker: TokenWorker) -> None:
    """Discovery of a server may be cancelled while its tools are counted; the next gets its own counts."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.count, ["one two three four five six seven"])
        await eventually(lambda: worker._answers is not None)  # then it reads its vocabulary for a while
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert await worker.count(["hello world"]) == [2]


async def test_leaving_ends_the_worker_at_once() -> None:
    """No process is left behind, also when it was just started."""
    with anyio.fail_after(WAIT_S):
        async with TokenWorker() as worker:
            await worker.count(["a"])
            [process] = workers()

    assert not process.is_running()
