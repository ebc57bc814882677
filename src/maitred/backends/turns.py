"""Turns to start a server: so many may start for calls at one time, and so many by themselves."""

import anyio


async def take_turn(
    turns: anyio.Semaphore, others: anyio.Semaphore, may_use_others: anyio.Event
) -> anyio.Semaphore:
    """Wait for one of `turns`, or of the `others` once these may be used; returns what to release.

    Args:
        turns: Those of the row that the server is in.
        others: Those of the row that it may go to; may be the same.
        may_use_others: Set when it may.
    """
    taken: list[anyio.Semaphore] = []

    async def take(row: anyio.Semaphore, when: anyio.Event | None = None) -> None:
        if when is not None:
            await when.wait()
        await row.acquire()
        taken.append(row)
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, turns)
            if others is not turns:
                tasks.start_soon(take, others, may_use_others)
    except BaseException:  # who waits is stopped
        for row in taken:
            row.release()
        raise
    for row in taken[1:]:
        row.release()
    return taken[0]
