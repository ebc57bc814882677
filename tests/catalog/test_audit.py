"""The audit trail: what is written when, what is kept of arguments, and that nothing is lost or doubled."""

import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from tests.backends.rig import eventually
from tests.catalog.databases import execute, new_catalog

from maitred.audit import log
from maitred.audit.log import AuditEntry, AuditLog
from maitred.errors import StoreError
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

NEVER_S = 3_600.0
CALL = AuditEntry(
    who="ann", action="call", server="github", tool="create issue", arguments={"title": "t", "token": "hush"},
    outcome="failed", detail="no such repository", request_id="r1", chain_id="c1",
)  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 30, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


async def read(trail: AuditLog, after: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in trail.lines(after=after)]


async def test_a_line_says_who_did_what_with_which_tool_and_what_came_of_it(path: Path) -> None:
    """By the names the server has, with the ids by which it is found again; arguments as a hash."""
    async with AuditLog(SqliteDatabase(path), clock=Clock()) as trail:
        await trail.record(CALL)
        [line] = await read(trail)

    digest = line.pop("arguments_hash")
    assert len(digest) == len(line.pop("digest")) == 64
    assert line == {
        "seq": 1, "prev": "", "at": "2026-03-30T12:00:00.000+00:00", "who": "ann", "action": "call",
        "server": "github", "tool": "create issue", "outcome": "failed", "detail": "no such repository",
        "request_id": "r1", "chain_id": "c1", "arguments_bytes": 28,
    }  # fmt: skip
    assert "hush" not in str(execute(path, "SELECT body FROM audit"))


async def test_arguments_can_be_kept_in_full_with_their_secrets_masked(path: Path) -> None:
    """What is too long for that is kept as a hash."""
    async with AuditLog(SqliteDatabase(path), arguments="full") as trail:
        await trail.record(CALL)
        await trail.record(AuditEntry(who="a", action="call", arguments=["x" * 30_000]))
        short, long = await read(trail)

    assert short["arguments"] == {"title": "t", "token": "***"}
    assert "arguments" not in long
    assert long["arguments_bytes"] == 30_004


async def test_arguments_need_not_be_kept_at_all(path: Path) -> None:
    """Not even their hash, which could be guessed where there are few possibilities."""
    async with AuditLog(SqliteDatabase(path), arguments="none") as trail:
        await trail.record(CALL)
        assert not any(key.startswith("arguments") for key in (await read(trail))[0])


async def test_arguments_that_have_no_hash_are_told_as_such(path: Path) -> None:
    """They came with a call that was refused; that it was is written down all the same."""
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    async with AuditLog(SqliteDatabase(path)) as trail:
        await trail.record(AuditEntry(who="a", action="call", arguments=deep))
        assert (await read(trail))[0]["arguments_hash"] == "nested too deep"


async def test_with_a_key_the_same_arguments_have_another_hash(path: Path) -> None:
    """Nobody can find out by trying whether they were these."""
    hashes = []
    for key in (b"", b"k" * 32):
        async with AuditLog(SqliteDatabase(path), key=key) as trail:
            await trail.record(CALL)
            hashes.append((await read(trail))[-1]["arguments_hash"])

    assert hashes[0] != hashes[1]


async def test_a_recorded_act_is_in_the_file_when_the_call_returns(path: Path) -> None:
    """With everything that was noted before it, in that order."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        trail.note(AuditEntry(who="a", action="search"))
        assert execute(path, "SELECT count(*) FROM audit") == [(0,)]
        await trail.record(CALL)
        rows = execute(path, "SELECT body FROM audit ORDER BY seq")

    assert [json.loads(body)["action"] for (body,) in rows] == ["search", "call"]


async def test_noted_acts_are_written_in_the_background_and_at_the_end(path: Path) -> None:
    """Nobody has to ask for it."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=0.01) as trail:
        trail.note(CALL)
        await eventually(lambda: execute(path, "SELECT count(*) FROM audit") == [(1,)])
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        trail.note(CALL)

    assert execute(path, "SELECT count(*) FROM audit") == [(2,)]


async def test_acts_that_are_recorded_at_once_share_transactions_and_are_all_there(path: Path) -> None:
    """Each once."""
    async with AuditLog(SqliteDatabase(path)) as trail:
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(trail.record, AuditEntry(who=str(number), action="call"))
        lines = await read(trail)
        found = await trail.verify()

    assert sorted(int(line["who"]) for line in lines) == list(range(200))
    assert (found.lines, found.faults) == (200, ())


async def test_while_the_file_cannot_be_written_nothing_is_lost_and_the_caller_is_told(path: Path) -> None:
    """It is tried again, and the log says so once."""
    away = path.with_suffix(".away")
    async with AuditLog(SqliteDatabase(path), flush_every_s=0.01) as trail:
        await trail.record(AuditEntry(who="0", action="a"))
        shutil.move(path, away)
        with capture_logs() as logged:
            with pytest.raises(StoreError):
                await trail.record(AuditEntry(who="1", action="a"))
            trail.note(AuditEntry(who="2", action="a"))
            await eventually(lambda: bool(logged))
        shutil.move(away, path)
        await trail.record(AuditEntry(who="3", action="a"))
        lines = await read(trail)

    assert [line["who"] for line in lines] == ["0", "1", "2", "3"]
    assert [entry["log_level"] for entry in logged] == ["warning"]


async def test_what_is_too_much_to_keep_in_memory_is_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trail itself says how many acts are missing from it."""
    monkeypatch.setattr(log, "_MAX_WAITING", 3)
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        for number in range(5):
            trail.note(AuditEntry(who=str(number), action="a"))
        await trail.record(AuditEntry(who="5", action="a"))
        lines = await read(trail)

    assert [line["who"] for line in lines] == ["maitred", "3", "4", "5"]
    assert lines[0]["detail"].startswith("lost 3 acts: ")


async def test_an_act_whose_caller_gives_up_is_written_once(path: Path) -> None:
    """Wherever it gives up."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=0.01) as trail:
        for steps in range(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(trail.record, AuditEntry(who=str(steps), action="a"))
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
    rows = execute(path, "SELECT body FROM audit ORDER BY seq")
    who = [int(json.loads(body)["who"]) for (body,) in rows]

    assert who == sorted(set(who))
    assert len(who) >= 28  # one that gives up before it began did nothing


async def test_old_lines_are_dropped_and_the_rest_can_still_be_verified(path: Path) -> None:
    """That they were dropped, and by whom, is a line as well."""
    clock = Clock()
    async with AuditLog(SqliteDatabase(path), clock=clock) as trail:
        for day in range(10):
            clock.now += timedelta(days=1)
            await trail.record(AuditEntry(who=str(day), action="a"))

        assert await trail.prune(3, who="ann") == 6
        assert await trail.prune(3, who="ann") == 0
        lines = await read(trail)
        found = await trail.verify()
        clock.now += timedelta(days=100)
        assert await trail.prune(3, who="ann") == 4
        assert (await trail.verify()).faults == ()

    assert [line["who"] for line in lines] == ["6", "7", "8", "9", "ann"]
    assert lines[-1]["detail"] == "dropped 6 lines up to 6"
    assert (found.lines, found.anchor.seq, found.head.seq, found.faults) == (5, 6, 11, ())


async def test_a_long_trail_is_exported_whole(path: Path) -> None:
    """More lines than are read at once; and only those after a number, if wanted."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        for number in range(2_500):
            trail.note(AuditEntry(who=str(number), action="é"))
        await trail.record(CALL)
        lines = await read(trail)
        assert len(await read(trail, after=2_400)) == 101

    assert [line["seq"] for line in lines] == list(range(1, 2_502))
    assert lines[0]["action"] == "é"
    assert all(line["prev"] == before["digest"] for before, line in pairwise(lines))


WRITING = """
import sys
from pathlib import Path
import anyio
from maitred.storage.sqlite import SqliteDatabase
from maitred.audit.log import AuditEntry, AuditLog

async def main():
    async with AuditLog(SqliteDatabase(Path(sys.argv[1]))) as trail:
        for number in range(60):
            await trail.record(AuditEntry(who=sys.argv[2], action="call", detail=str(number)))
            trail.note(AuditEntry(who=sys.argv[2], action="search", detail=str(number)))

anyio.run(main)
"""


async def test_several_processes_write_one_chain(path: Path) -> None:
    """No line is lost, doubled, or out of its process's order."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITING, str(path), name])  # noqa: ASYNC220
        for name in ("a", "b", "c")
    ]
    assert [await anyio.to_thread.run_sync(writer.wait) for writer in writers] == [0, 0, 0]
    trail = AuditLog(SqliteDatabase(path))
    lines = await read(trail)

    assert (await trail.verify()).faults == ()
    for name in ("a", "b", "c"):
        own = [(line["action"], int(line["detail"])) for line in lines if line["who"] == name]
        assert own == [(action, n) for n in range(60) for action in ("call", "search")]


async def test_nobody_else_waits_while_another_process_writes(path: Path) -> None:
    """The line waits for the file, the program goes on; then it is there, once."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        await trail.record(CALL)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        recorded = anyio.Event()

        async def record() -> None:
            await trail.record(CALL)
            recorded.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(record)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert not recorded.is_set()
            other.execute("COMMIT")
        other.close()
        found = await trail.verify()

    assert (found.lines, found.faults) == (2, ())


async def test_the_log_of_the_file_does_not_grow_for_ever(path: Path) -> None:
    """What was appended is moved into the file from time to time."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        for _ in range(1_300):
            await trail.record(CALL)
        waiting = path.with_name(f"{path.name}-wal").stat().st_size

    assert waiting < 6_000_000


@pytest.mark.alone
async def test_writing_a_line_takes_less_than_a_few_milliseconds(path: Path) -> None:
    """The target is a millisecond in the median; the bound here is for machines that are shared."""
    noted, recorded = [], []
    async with AuditLog(SqliteDatabase(path), flush_every_s=NEVER_S) as trail:
        for _ in range(200):
            started = time.perf_counter()
            await trail.record(CALL)
            recorded.append(time.perf_counter() - started)
            started = time.perf_counter()
            trail.note(CALL)
            noted.append(time.perf_counter() - started)

    assert statistics.median(noted) < 0.001
    assert statistics.median(recorded) < 0.01
