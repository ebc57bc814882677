"""Filters of the audit trail by its index: the same lines as without it, also where a process was killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from alembic import command
from tests.catalog.databases import execute

from maitred.audit import hash_chain, line_index
from maitred.audit.hash_chain import AuditFilter
from maitred.audit.log import AuditLog
from maitred.audit.service import AuditService
from maitred.config.settings import Audit
from maitred.errors import StoreError
from maitred.storage import migrate
from maitred.storage.database import HEAD, Database, DriverConnection
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

Line = dict[str, Any]

STEP = hash_chain._INDEX_STEP
FILTERS = [
    AuditFilter(),
    AuditFilter(who="person-3"),
    AuditFilter(who="person"),
    AuditFilter(client="editor"),
    AuditFilter(tool="notes/rare ü%_"),
    AuditFilter(tool="notes__add"),
    AuditFilter(tool="notes"),
    AuditFilter(server="files"),
    AuditFilter(outcome="failed"),
    AuditFilter(outcome="timeout"),
    AuditFilter(outcome="begun"),
    AuditFilter(outcome="ok", who="person-1"),
    AuditFilter(chain="0000000000000007"),
    AuditFilter(chain="000000000"),
    AuditFilter(chain="00"),
    AuditFilter(tool="no such tool"),
    AuditFilter(tool="add", server="notes", outcome="failed", who="person-2", client="own", chain=""),
    AuditFilter(who="person-4", since="2026-03-01T00:20"),
    AuditFilter(who="person-4", since="2026-04-01"),
]


def lines(count: int) -> Iterator[Line]:
    """Calls of some tools by some principals; every seventh has two lines, and every fiftieth never ends."""
    seq = 0
    while seq < count:
        seq += 1
        line: Line = {
            "at": f"2026-03-01T{seq // 60 // 60:02}:{seq // 60 % 60:02}:{seq % 60:02}.000+00:00",
            "who": f"person-{seq % 5}",
            "client": "editor" if seq % 3 else "own",
            "action": "call",
            "server": "notes" if seq % 2 else "files",
            "tool": "notes/rare ü%_" if seq % 311 == 0 else "add",
            "published": "notes__add",
            "outcome": "tool_error" if seq % 10 == 0 else "timeout" if seq % 90 == 1 else "ok",
        }
        if seq % 40 == 3:
            line["chain_id"] = f"{seq % 9:016}"
        if seq % 7 == 0:
            yield {**line, "outcome": "begun"}
            line["begun"] = seq
            if seq % 50 == 0:
                continue
            seq += 1
        yield line


async def write(database: Database, count: int) -> None:
    made = list(lines(count))[:count]
    await database.write_driver(lambda connection: hash_chain.append(connection, made, b""))


def every_page(connection: DriverConnection, criteria: AuditFilter, limit: int) -> Sequence[Sequence[int]]:
    """The numbers of all lines that match, page by page."""
    pages, before = [], 0
    while True:
        found = hash_chain.latest(connection, criteria, before, limit)
        pages.append([line["seq"] for line in found.lines])
        before = found.before
        if not before:
            return pages


async def answers(database: Database) -> Mapping[AuditFilter, Any]:
    return await database.read_driver(
        lambda connection: {one: every_page(connection, one, limit=70) for one in FILTERS}
    )


async def indexed(database: Database) -> int:
    return await database.read_driver(lambda connection: hash_chain.mark(connection, "indexed").seq)


async def fill(trail: AuditLog) -> None:
    while await trail.index():
        pass


async def test_a_filter_finds_the_same_lines_with_any_part_of_the_index(database: Database) -> None:
    """With none, with some steps of it, with all of it, and with lines behind it; page by page."""
    await write(database, 3 * STEP + 40)
    trail = AuditLog(database)
    expected = await answers(database)
    assert [len(expected[one]) for one in FILTERS[:2]] > [1, 1]

    for step in range(1, 4):
        assert await trail.index()
        assert await indexed(database) == step * STEP
        assert await answers(database) == expected

    assert not await trail.index()  # what is left is little
    assert await indexed(database) == 3 * STEP


async def test_two_gateways_fill_one_index(database: Database, other: Database) -> None:
    """Whichever reads a step first; nothing is left out or done wrong."""
    await write(database, 6 * STEP)
    expected = await answers(database)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill, AuditLog(database))
        tasks.start_soon(fill, AuditLog(other))

    assert await indexed(database) == 6 * STEP
    assert await answers(database) == expected
    assert (await AuditLog(database).verify()).faults == ()


async def test_a_filter_reads_only_lines_that_the_index_names(database: Database) -> None:
    """By the plan of the engine: neither the lines nor the index are read from one end to the other."""
    await write(database, 12 * STEP)
    await fill(AuditLog(database))
    for count, query in line_index.CHOSEN.items():
        values = line_index.chosen_values(list(range(count)), 10**6, 0, "", 100)

        plan = await explain(database, query, values)

        assert "audit_terms" in plan or "PRIMARY KEY" in plan, count
        for whole in ("SCAN", "TEMP B-TREE", "Seq Scan"):
            assert whole not in plan, count


@pytest.mark.parametrize("most", [1, 50, 5_000])
async def test_a_time_has_the_same_first_line_by_either_index(
    database: Database, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of times for a few lines, that of numbers for many; the clock was set back in between."""
    times = [f"2026-03-01T00:{minute:02}:00.000+00:00" for minute in (1, 5, 9, 3, 4, 8, 10)]
    made = [{"at": at, "who": str(number), "action": "call"} for number, at in enumerate(times, 1)]
    await database.write_driver(lambda connection: hash_chain.append(connection, made, b""))
    monkeypatch.setattr(hash_chain, "_MOST_SINCE", most)

    for minute in range(12):
        since = f"2026-03-01T00:{minute:02}"
        expected = [str(number) for number, at in enumerate(times, 1) if at >= since]
        found = await AuditLog(database).latest(AuditFilter(since=since))
        assert [line["who"] for line in reversed(found.lines)] == expected


async def explain(database: Database, statement: str, values: Sequence[object]) -> str:
    def read(connection: DriverConnection) -> str:
        how = "EXPLAIN QUERY PLAN" if isinstance(database, SqliteDatabase) else "EXPLAIN"
        return "\n".join(str(row[-1]) for row in connection.execute(f"{how} {statement}", values))

    if not isinstance(database, SqliteDatabase):
        await database.write(lambda connection: connection.execute(sa.text("ANALYZE audit, audit_terms")))
    return await database.read_driver(read)


async def test_lines_that_are_dropped_leave_the_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some at once, so that others can write in between; the number is that of all."""
    monkeypatch.setattr(hash_chain, "MOST_DROPPED", 400)
    await write(database, 3 * STEP)
    await fill(AuditLog(database))
    await database.write_driver(
        lambda connection: hash_chain.append(
            connection, [{"at": "2099-01-01T00:00:00.000+00:00", "who": "ann", "action": "call"}], b""
        )
    )

    async with AuditLog(database) as trail:
        assert await trail.prune(0, who="ann") == 3 * STEP
        assert [line["who"] for line in (await trail.latest(AuditFilter())).lines] == ["ann"] * 5
        assert (await trail.verify()).faults == ()
    assert await database.read_driver(
        lambda connection: connection.execute("SELECT count(*) FROM audit_terms").fetchone()[0]
    ) == 0  # fmt: skip


async def test_an_index_that_was_changed_is_noticed_and_filled_again(database: Database) -> None:
    """A line cannot be hidden from filters there for long: the index follows from the lines."""
    await write(database, 3 * STEP)
    trail = AuditLog(database)
    expected = await answers(database)
    await fill(trail)
    await database.write_driver(
        lambda connection: connection.execute("DELETE FROM audit_terms WHERE seq = ?", (8,))
    )
    assert await answers(database) != expected

    found = await trail.verify()

    assert found.faults == ("filters did not find 1 line, such as line 8",)
    assert await answers(database) == expected
    await fill(trail)
    assert await answers(database) == expected
    assert (await trail.verify()).faults == ()


async def test_a_gateway_fills_the_index_when_a_person_looks(database: Database) -> None:
    """Lines that were there before it started, as after a migration."""
    await write(database, 6 * STEP)
    async with AuditLog(database) as trail, anyio.create_task_group() as tasks:
        service = AuditService(trail, Audit(), estimate=len)
        tasks.start_soon(service.keep_up)
        await trail.latest(AuditFilter(who="person-1"))
        with anyio.fail_after(120):
            while await indexed(database) < 6 * STEP:  # noqa: ASYNC110  # another task fills it
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


# --- an SQLite file in particular ---------------------------------------------------------------------------

KILLED_WHILE_FILLING = """
import os, signal, sys
from pathlib import Path
import anyio
from maitred.audit import hash_chain, line_index
from maitred.audit.log import AuditLog
from maitred.storage.sqlite import SqliteDatabase

async def main():
    trail = AuditLog(SqliteDatabase(Path(sys.argv[1])))
    await trail.index()
    add = line_index.add
    def die(connection, rows):
        add(connection, rows[: len(rows) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    line_index.add = die
    await trail.index()

anyio.run(main)
"""
KILLED_WHILE_MIGRATING = """
import os, signal, sys
from pathlib import Path
import anyio
from alembic import op
from maitred.storage.sqlite import SqliteDatabase

op.execute = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
anyio.run(SqliteDatabase(Path(sys.argv[1])).open)
"""


def killed(program: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_process_that_is_killed_while_it_fills_the_index_leaves_a_right_one(
    database: SqliteDatabase,
) -> None:
    """In the middle of a step: the step before it is there, and the next process goes on behind it."""
    await write(database, 4 * STEP)
    expected = await answers(database)

    killed(KILLED_WHILE_FILLING, database.path)

    assert await indexed(database) == STEP
    assert await answers(database) == expected
    await fill(AuditLog(database))
    assert await indexed(database) == 4 * STEP
    assert await answers(database) == expected
    assert (await AuditLog(database).verify()).faults == ()


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_file_from_before_the_index_is_taken_over_although_a_process_was_killed(
    database: SqliteDatabase,
) -> None:
    """Its lines are found at once. The process dies after the table was made, within the migration."""
    await write(database, STEP)
    expected = await answers(database)
    with sa.create_engine(f"sqlite:///{database.path}").begin() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0006")

    killed(KILLED_WHILE_MIGRATING, database.path)

    assert execute(database.path, "SELECT name FROM sqlite_master WHERE name = 'audit_terms'") == []
    async with SqliteDatabase(database.path) as again:
        assert execute(database.path, "SELECT version_num FROM alembic_version") == [(HEAD,)]
        assert await answers(again) == expected
        await fill(AuditLog(again))
        assert await indexed(again) == STEP
        assert await answers(again) == expected


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_file_that_cannot_be_written_is_searched_without_more_index(database: SqliteDatabase) -> None:
    """While another process writes for long, a step is given up; filters still find all lines."""
    await write(database, 2 * STEP)
    expected = await answers(database)
    execute(
        database.path, "CREATE TRIGGER no BEFORE INSERT ON audit_terms BEGIN SELECT RAISE(FAIL, 'no'); END"
    )

    with pytest.raises(StoreError):
        await AuditLog(database).index()

    assert await answers(database) == expected
