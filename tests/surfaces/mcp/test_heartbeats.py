"""Heartbeats: a client that asked for progress hears of its call while the server is silent."""

import anyio
import pytest
from tests.support.callers import Answering

from maitred.surfaces.mcp.heartbeats import Heartbeats

pytestmark = pytest.mark.anyio

SOON_S = 60.0


class Waiting(Answering):
    """A client that can wait until it has heard something."""

    def __init__(self) -> None:
        super().__init__()
        self.news = anyio.Event()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await super().progress(progress, total, message)
        self.news.set()
        self.news = anyio.Event()

    async def hears(self, count: int) -> None:
        with anyio.fail_after(SOON_S):
            while len(self.reports) < count:
                await self.news.wait()


async def test_a_silent_call_is_reported_to_a_client_that_asked_for_progress_and_only_grows() -> None:
    """Source: issue "Nothing a server can do is lost", 4."""
    heartbeats, client = Heartbeats(every_s=0.02), Waiting()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeats.run)
        with heartbeats.watch(client) as caller:
            await client.hears(2)
            await caller.progress(0.0, 10, "the server's own")
            told = client.reports[-1]
            await client.hears(len(client.reports) + 2)
        tasks.cancel_scope.cancel()
    assert told[2] == "the server's own"
    values = [progress for progress, _, _ in client.reports]
    assert values == sorted(set(values))
    assert "maitred waits for the server" in str(client.reports[0][2])
    assert client.reports[-1][1] == 10


async def test_progress_without_a_heartbeat_passes_as_the_server_wrote_it() -> None:
    heartbeats, client = Heartbeats(), Waiting()
    with heartbeats.watch(client) as caller:
        for progress in (3.0, 2.0, 2.0):
            await caller.progress(progress, None, None)
    assert [progress for progress, _, _ in client.reports] == [3.0, 2.0, 2.0]


async def test_a_client_that_did_not_ask_for_progress_is_left_alone() -> None:
    client = Answering()
    client.wants_progress = False
    with Heartbeats().watch(client) as caller:
        assert caller is client
