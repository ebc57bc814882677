"""What the usage recorder promises: nothing counted is lost or counted twice, whatever the file does."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.backends.rig import eventually
from tests.catalog.makers import open_store

from maitred.errors import StoreError
from maitred.model.tools import ToolKey
from maitred.model.usage import Spending
from maitred.storage.sqlite import SqliteDatabase
from maitred.usage.recorder import UsageRecorder

pytestmark = pytest.mark.anyio

NEVER_S = 3_600.0
A, B, C = ToolKey(server="s", name="a"), ToolKey(server="s", name="b"), ToolKey(server="t", name="a")


class Clock:
    """A clock that stands still until it is put on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 30, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def next_day(self, days: int = 1) -> None:
        self.now += timedelta(days=days)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with its tables and nothing in them."""
    path = tmp_path_factory.mktemp("template") / "c.db"

    async def make() -> None:
        async with open_store(path):
            pass

    anyio.run(make)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "c.db"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def missing(path: Path) -> Iterator[None]:
    """While this lasts the file cannot be opened."""
    away = path.rename(path.with_suffix(".away"))
    try:
        yield
    finally:
        away.rename(path)


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


async def calls(path: Path, clock: Clock) -> dict[ToolKey, int]:
    """The calls that a gateway would see which starts now."""
    return {
        key: usage.calls
        for key, usage in (await UsageRecorder(SqliteDatabase(path), clock=clock).usage()).items()
    }


async def test_calls_are_known_at_once_and_by_the_next_process(path: Path, clock: Clock) -> None:
    """What is not written yet counts; leaving writes the rest. Source: issue "Menu", usage."""
    async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:
        recorder.called(A, ok=True, elapsed_ms=10)
        await recorder.flush()
        recorder.called(A, ok=False, elapsed_ms=1_000)
        recorder.called(C, ok=True, elapsed_ms=3)
        known = await recorder.usage()
        servers = await recorder.by_server()
        counts = await recorder.calls()

    assert (known[A].calls, known[A].errors, known[A].mean_ms, known[A].p95_ms) == (2, 1, 505, 1_002)
    assert known[A].last_used == "2026-03-30T12:00:00+00:00"
    assert {name: usage.calls for name, usage in servers.items()} == {"s": 2, "t": 1}
    assert counts == {key: usage.calls for key, usage in known.items()}
    assert await UsageRecorder(SqliteDatabase(path), clock=clock).usage() == known


async def test_the_use_of_single_tools_is_that_of_all_up_to_now(path: Path, clock: Clock) -> None:
    """Past days, what was just written and what is not written yet; tools without a call are not in it."""
    async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:
        for day in range(40):
            for key in (A, B):
                recorder.called(key, ok=day % 3 > 0, elapsed_ms=day)
            clock.next_day()
        await recorder.flush()
        recorder.called(A, ok=True, elapsed_ms=7)
        every = await recorder.usage()
        found = await recorder.of_tools([A, C])

    assert found == {A: every[A]}
    assert found[A].calls == 30


async def test_past_days_are_added_up_again_when_another_gateway_adds_to_them(
    path: Path, clock: Clock
) -> None:
    """It was late with its counts. Today's counts come to them, and days that leave the window go."""
    late = UsageRecorder(SqliteDatabase(path), clock=Clock(), flush_every_s=NEVER_S)
    async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:

        async def seen() -> tuple[dict[str, int], Mapping[ToolKey, int]]:
            servers = await recorder.by_server()
            return {name: usage.calls for name, usage in servers.items()}, await recorder.calls()

        recorder.called(A, ok=True, elapsed_ms=10)
        await recorder.flush()
        clock.next_day()
        assert await seen() == ({"s": 1}, {A: 1})
        for key, ok in ((A, True), (A, False), (C, True)):
            late.called(key, ok=ok, elapsed_ms=700)
        assert await seen() == ({"s": 1}, {A: 1})
        await late.flush()
        assert await seen() == ({"s": 3, "t": 1}, {A: 3, C: 1})
        recorder.called(B, ok=True, elapsed_ms=1)
        assert await seen() == ({"s": 4, "t": 1}, {A: 3, B: 1, C: 1})
        await recorder.flush()
        assert await seen() == ({"s": 4, "t": 1}, {A: 3, B: 1, C: 1})
        one = (await recorder.by_server())["s"]
        assert (one.errors, one.p95_ms, one.calls_7d, one.calls_30d) == (1, 800, 4, 4)
        clock.next_day(8)
        assert (await recorder.by_server())["s"].calls_7d == 0
        clock.next_day(21)
        assert await seen() == ({"s": 1}, {B: 1})
        clock.next_day(1)
        assert await seen() == ({}, {})


async def test_what_is_recorded_is_written_in_the_background_without_being_asked(path: Path) -> None:
    """A gateway that is killed has lost at most a second."""
    async with UsageRecorder(SqliteDatabase(path), flush_every_s=0.01) as recorder:
        with closing(sqlite3.connect(path)) as connection:
            for made in (1, 2):
                recorder.called(A, ok=True, elapsed_ms=1)
                query = f"SELECT 1 FROM usage WHERE calls = {made}"
                await eventually(lambda query=query: connection.execute(query).fetchone())  # type: ignore[misc]


ACTIONS = st.lists(st.sampled_from(["a", "b", "spend", "flush", "failed flush", "day", "other"]), max_size=25)


@given(actions=ACTIONS)
@settings(max_examples=25, deadline=None)
def test_whatever_fails_in_between_two_recorders_on_one_file_add_up(
    template: Path, actions: list[str]
) -> None:
    """No order of calls, flushes, failures and days loses a call or counts one twice."""

    async def live(path: Path) -> None:
        clock = Clock()
        pair = [
            UsageRecorder(SqliteDatabase(path), clock=clock),
            UsageRecorder(SqliteDatabase(path), clock=clock),
        ]
        made: Counter[ToolKey] = Counter()
        tokens = 0
        for action in actions:
            if action == "other":
                pair.reverse()
            elif action == "day":
                clock.next_day()
            elif action == "flush":
                assert await pair[0].flush()
            elif action == "failed flush":
                with missing(path):
                    await pair[0].flush()
            elif action == "spend":
                pair[0].spent("p", list_tokens=7)
                tokens += 7
            else:
                key = {"a": A, "b": B}[action]
                pair[0].called(key, ok=True, elapsed_ms=len(made))
                made[key] += 1
        assert await pair[0].flush()
        known = await pair[1].usage()
        assert {key: usage.calls_30d for key, usage in known.items()} == made
        assert sum(day.list_tokens for day in await pair[1].spending()) == tokens

    with TemporaryDirectory() as folder:
        anyio.run(live, Path(shutil.copy(template, Path(folder) / "c.db")))


async def test_a_write_that_breaks_off_in_the_middle_leaves_nothing_behind_and_is_tried_again(
    path: Path, clock: Clock
) -> None:
    """The disk is full after the calls were written and before the tokens: both come with the next try."""
    execute(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON spending BEGIN SELECT RAISE(ABORT, 'disk is full'); END",
    )
    with capture_logs() as logs:
        async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:
            recorder.called(A, ok=True, elapsed_ms=1)
            recorder.spent("p", answers=1, answer_tokens=5)
            assert [await recorder.flush() for _ in range(3)] == [False] * 3
            assert await calls(path, clock) == {}
            recorder.called(A, ok=True, elapsed_ms=1)
            assert (await recorder.usage())[A].calls == 2
            execute(path, "DROP TRIGGER full")

    assert await calls(path, clock) == {A: 2}
    assert [(entry["log_level"], entry["reason"]) for entry in logs] == [("warning", "disk is full")]


async def test_a_gateway_leaves_in_time_although_another_holds_the_file(path: Path, clock: Clock) -> None:
    """Usage is worth less than an end that comes; cancelled or not, at most 5 seconds are waited."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other, anyio.fail_after(120):
        other.execute("BEGIN IMMEDIATE")
        with anyio.CancelScope() as scope:
            async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:
                recorder.called(A, ok=True, elapsed_ms=1)
                scope.cancel()
                await anyio.sleep_forever()

    assert await calls(path, clock) == {}


async def test_a_gateway_that_is_cancelled_writes_what_it_counted(path: Path, clock: Clock) -> None:
    """Being ended is how a gateway usually ends."""
    with anyio.CancelScope() as scope:
        async with UsageRecorder(SqliteDatabase(path), clock=clock, flush_every_s=NEVER_S) as recorder:
            recorder.called(A, ok=True, elapsed_ms=1)
            scope.cancel()
            await anyio.sleep_forever()

    assert await calls(path, clock) == {A: 1}


async def test_a_flush_that_is_cancelled_loses_nothing(path: Path, clock: Clock) -> None:
    """Neither before its thread began nor after."""
    recorder = UsageRecorder(SqliteDatabase(path), clock=clock)
    recorder.called(A, ok=True, elapsed_ms=1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await recorder.flush()

    assert (await recorder.usage())[A].calls == 1
    assert await recorder.flush()
    assert await calls(path, clock) == {A: 1}


async def test_calls_recorded_while_a_flush_runs_are_neither_lost_nor_doubled(
    path: Path, clock: Clock
) -> None:
    """Requests go on beside the write, and so do questions about usage."""
    recorder = UsageRecorder(SqliteDatabase(path), clock=clock)
    done = anyio.Event()

    async def flush() -> None:
        while not done.is_set():
            assert await recorder.flush()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flush)
        for made in range(1, 100):
            recorder.called(A, ok=True, elapsed_ms=1)
            assert (await recorder.usage())[A].calls == made
        done.set()


async def test_what_a_principal_spent_today_is_known_at_once_and_after_a_restart(
    path: Path, clock: Clock
) -> None:
    """The ledger goes on where the last process stopped; a new day begins at nothing."""
    async with UsageRecorder(SqliteDatabase(path), clock=clock) as recorder:
        assert recorder.today("p").spent == 0
        recorder.spent("p", lists=1, list_tokens=300, raw_tokens=9_000)
        recorder.spent("q", results=1, result_tokens=50)
        before = recorder.today("p")
    async with UsageRecorder(SqliteDatabase(path), clock=clock) as recorder:
        assert recorder.today("p") == before
        recorder.spent("p", answers=2, answer_tokens=120)
        after = recorder.today("p")
        clock.next_day()
        tomorrow = recorder.today("p")

    assert after == Spending(
        day="2026-03-30", principal="p", lists=1, list_tokens=300, answers=2, answer_tokens=120,
        raw_tokens=9_000,
    )  # fmt: skip
    assert tomorrow == Spending(day="2026-03-31", principal="p")


async def test_spending_is_listed_with_the_newest_day_first(path: Path, clock: Clock) -> None:
    """Written or not, and only the days asked for."""
    recorder = UsageRecorder(SqliteDatabase(path), clock=clock)
    for _ in range(3):
        recorder.spent("q", lists=1)
        recorder.spent("p", lists=1)
        await recorder.flush()
        clock.next_day()
    recorder.spent("p", lists=1)

    days = [(row.day[-2:], row.principal) for row in await recorder.spending(3)]
    assert days == [("02", "p"), ("01", "p"), ("01", "q"), ("31", "p"), ("31", "q")]


async def test_old_days_are_dropped_and_the_others_stay(path: Path, clock: Clock) -> None:
    """The file does not grow for ever."""
    recorder = UsageRecorder(SqliteDatabase(path), clock=clock)
    for key in (A, B):
        recorder.called(key, ok=True, elapsed_ms=1)
        recorder.spent("p", lists=1)
        await recorder.flush()
        clock.next_day(10)
    await recorder.prune(older_than_days=10)

    assert list(await recorder.usage(1_000)) == [B]
    assert len(await recorder.spending(1_000)) == 1


async def test_without_a_file_a_gateway_counts_in_memory_and_says_what_is_wrong(
    path: Path, clock: Clock
) -> None:
    """A catalog that was moved away does not stop a gateway; asking for usage tells why there is none."""
    with missing(path):
        async with UsageRecorder(SqliteDatabase(path), clock=clock) as recorder:
            recorder.called(A, ok=True, elapsed_ms=1)
            recorder.spent("p", list_tokens=5)
            assert recorder.today("p").spent == 5
            with pytest.raises(StoreError, match="its file is not there"):
                await recorder.usage()
    assert not path.with_name("c.db-wal").exists()


async def test_a_spoiled_row_and_an_odd_name_do_not_keep_other_counts_out(path: Path, clock: Clock) -> None:
    """One histogram that cannot be read counts as empty, and half a character is written as `?`."""
    recorder = UsageRecorder(SqliteDatabase(path), clock=clock)
    recorder.called(A, ok=True, elapsed_ms=1)
    await recorder.flush()
    execute(path, "UPDATE usage SET histogram = 5")
    recorder.called(A, ok=True, elapsed_ms=1)
    recorder.spent("\ud800", lists=1)

    assert await recorder.flush()
    assert await calls(path, clock) == {A: 2}
    assert [row.principal for row in await recorder.spending()] == ["?"]
