"""Background tasks end with their owner, and start only while it is open."""

import anyio
import pytest

from maitred.background import Background

pytestmark = pytest.mark.anyio


async def test_tasks_end_when_their_owner_is_left() -> None:
    """Leaving does not wait for a loop to end by itself: it cancels the loop and waits for its clean-up."""
    cleaned = anyio.Event()
    started = anyio.Event()

    async def loop() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.set()

    with anyio.fail_after(60):
        async with Background() as background:
            background.start(loop)
            await started.wait()

    assert cleaned.is_set()


async def test_a_task_gets_its_arguments() -> None:
    """As with a task group."""
    got: list[tuple[str, int]] = []
    done = anyio.Event()

    async def take(name: str, number: int) -> None:
        got.append((name, number))
        done.set()

    with anyio.fail_after(60):
        async with Background() as background:
            background.start(take, "a", 1)
            await done.wait()

    assert got == [("a", 1)]


async def test_no_task_starts_before_or_after() -> None:
    """A task without an owner would never end; starting one is a bug and is reported as such."""
    background = Background()
    with pytest.raises(RuntimeError, match="while its owner is open"):
        background.start(anyio.sleep_forever)
    async with background:
        assert background.is_open
    assert not background.is_open
    with pytest.raises(RuntimeError, match="while its owner is open"):
        background.start(anyio.sleep_forever)


async def test_a_closed_one_lets_its_tasks_go_on() -> None:
    """An owner that has to end things in order starts nothing new, while its tasks still work."""
    go, done = anyio.Event(), anyio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    with anyio.fail_after(60):
        async with Background() as background:
            background.start(work)
            background.close()
            assert not background.is_open
            go.set()
            await done.wait()


async def test_the_error_of_a_task_reaches_the_owner() -> None:
    """A bug in a background task is not lost."""

    async def fail() -> None:
        raise ValueError("a bug")

    async def own() -> None:
        with anyio.fail_after(60):
            async with Background() as background:
                background.start(fail)
                await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await own()

    assert [str(error) for error in caught.value.exceptions] == ["a bug"]
