"""What each engine promises to the stores: whole transactions, one writer beside readers, clear errors."""

import threading
from collections.abc import Callable

import anyio
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from maitred.errors import ConfigError, StoreError
from maitred.storage import core
from maitred.storage.database import HEAD, Database, DriverConnection, WriteOptions
from maitred.storage.tables import memos, metadata, state

pytestmark = pytest.mark.anyio

GENERATION = sa.select(state.c.generation)
RAISE = sa.update(state).values(generation=state.c.generation + 1)
RAISE_DRIVER = "UPDATE state SET generation = generation + ?"


def generation(connection: sa.Connection) -> int:
    return int(connection.execute(GENERATION).scalar_one())


async def test_a_new_database_has_the_tables_that_the_code_uses(database: Database) -> None:
    """Alembic finds no difference between the migrated database and the metadata."""

    def differences(connection: sa.Connection) -> object:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == HEAD
        return compare_metadata(context, metadata)

    assert await database.read(differences) == []
    assert await database.read(generation) == 0


async def test_what_was_written_is_read_by_another_process_either_way(
    database: Database, other: Database
) -> None:
    """With SQLAlchemy and with the driver alone."""
    await database.write(lambda connection: connection.execute(RAISE))
    await database.write_driver(lambda connection: connection.execute(RAISE_DRIVER, (2,)))

    assert await other.read(generation) == 3
    assert await other.read_driver(
        lambda connection: connection.execute("SELECT generation FROM state WHERE id = ?", (1,)).fetchall()
    ) == [(3,)]


@pytest.mark.parametrize("way", ["write", "write_driver"])
async def test_a_write_that_fails_leaves_nothing_half_done(database: Database, way: str) -> None:
    """What was done before the error is undone, and the error leaves as itself."""

    def fail(connection: sa.Connection | DriverConnection) -> None:
        if isinstance(connection, sa.Connection):
            connection.execute(RAISE)
        else:
            connection.execute(RAISE_DRIVER, (1,))
        raise LookupError("in the middle")

    with pytest.raises(LookupError, match="in the middle"):
        await getattr(database, way)(fail)

    assert await database.read(generation) == 0


async def test_writers_come_one_after_the_other(database: Database, other: Database) -> None:
    """Each reads what the one before it wrote, so that no count is lost."""

    def count(connection: sa.Connection) -> None:
        connection.execute(sa.update(state).values(generation=generation(connection) + 1))

    async def write(to: Database) -> None:
        for _ in range(10):
            await to.write(count)

    async with anyio.create_task_group() as tasks:
        for to in (database, other, database, other):
            tasks.start_soon(write, to)

    assert await database.read(generation) == 40


async def test_readers_are_not_stopped_by_a_writer(database: Database, other: Database) -> None:
    """They see what was there before it."""
    begun, go_on = threading.Event(), threading.Event()

    def write(connection: sa.Connection) -> None:
        connection.execute(RAISE)
        begun.set()
        assert go_on.wait(600)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write, write)
        await anyio.to_thread.run_sync(begun.wait, 60)
        assert await other.read(generation) == 0
        assert await database.read(generation) == 0
        go_on.set()
    assert await other.read(generation) == 1


async def test_a_read_sees_the_database_as_it_is_at_one_moment(database: Database, other: Database) -> None:
    """Also where another process writes between its statements."""
    begun, go_on = threading.Event(), threading.Event()

    def read(connection: DriverConnection) -> list[object]:
        query = "SELECT generation FROM state"
        first = connection.execute(query).fetchone()[0]
        begun.set()
        assert go_on.wait(600)
        return [first, connection.execute(query).fetchone()[0]]

    seen: list[object] = []

    async def look() -> None:
        seen.extend(await database.read_driver(read))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.to_thread.run_sync(begun.wait, 60)
        await other.write(lambda connection: connection.execute(RAISE))
        go_on.set()
    assert seen == [0, 0]


async def test_a_writer_that_waited_too_long_for_another_says_so(database: Database, other: Database) -> None:
    """After the time that it was given; nothing of it is written."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(connection: DriverConnection) -> None:
        connection.execute(RAISE_DRIVER, (1,))
        begun.set()
        assert go_on.wait(600)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write_driver, hold)
        await anyio.to_thread.run_sync(begun.wait, 60)
        with pytest.raises(StoreError, match="another process has locked it"):
            await other.write(lambda connection: connection.execute(RAISE), WriteOptions(wait_s=0.05))
        go_on.set()
    assert await database.read(generation) == 1


MANY = 60
"""More than the threads that all parts of the gateway share."""


async def test_writers_that_wait_hold_up_neither_readers_nor_other_threads(
    database: Database, other: Database
) -> None:
    """As when another process writes for long: the rest of the gateway goes on."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(connection: DriverConnection) -> None:
        begun.set()
        assert go_on.wait(600)

    async def write() -> None:
        await other.write(lambda connection: connection.execute(RAISE), WriteOptions(wait_s=600))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write_driver, hold)
        await anyio.to_thread.run_sync(begun.wait, 60)
        for _ in range(MANY):
            tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        try:
            with anyio.fail_after(60):
                assert await anyio.to_thread.run_sync(lambda: "done") == "done"
                assert await other.read(generation) == 0
        finally:
            go_on.set()
    assert await database.read(generation) == MANY


async def test_other_threads_that_wait_hold_up_no_call_of_the_database(database: Database) -> None:
    """As when a model or a disk elsewhere is slow: the audit trail is written all the same."""
    go_on = threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(anyio.to_thread.run_sync, go_on.wait, 600)
        await anyio.wait_all_tasks_blocked()
        try:
            with anyio.fail_after(60):
                await database.write(lambda connection: connection.execute(RAISE))
                await database.write_driver(lambda connection: connection.execute(RAISE_DRIVER, (1,)))
                writer = database.quick_writer()
                await writer.write(lambda connection: connection.execute(RAISE_DRIVER, (1,)), rows=1)
                await writer.close()
                assert await database.read(generation) == 3
                assert await database.check() == ""
        finally:
            go_on.set()


async def test_a_write_that_is_given_up_is_done_whole_or_not_at_all(database: Database) -> None:
    """Its thread is waited for, so that nothing runs on behind a caller that has gone."""
    ended = threading.Event()
    begun = anyio.Event()

    def write(connection: DriverConnection) -> None:
        connection.execute(RAISE_DRIVER, (1,))
        anyio.from_thread.run_sync(begun.set)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write_driver, write)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended.is_set()
    assert await database.read(generation) == 1


async def test_an_error_of_the_database_names_it_and_no_secret(database: Database) -> None:
    """Not an SQL error but a text for the user."""
    with pytest.raises(StoreError, match="gone_table") as caught:
        await database.read_driver(lambda connection: connection.execute("SELECT 1 FROM gone_table"))
    assert caught.value.path == database.name
    with pytest.raises(StoreError, match="gone_table"):
        await database.read(lambda connection: connection.execute(sa.text("SELECT 1 FROM gone_table")))


@pytest.mark.parametrize(
    ("revision", "told"), [("9999", "newer maitred"), ("0003", "before the first release")]
)
async def test_a_database_of_another_version_is_refused_and_kept(
    database: Database, other: Database, revision: str, told: str
) -> None:
    """It is neither read nor overwritten."""
    await database.write_driver(
        lambda connection: connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    )

    with pytest.raises(ConfigError, match=f"{told}.*revision {revision}"):
        await other.open()
    assert await database.read(core.revision) == revision


async def test_check_finds_that_it_can_be_written(database: Database) -> None:
    """And changes nothing by that."""
    assert await database.check() == ""
    assert database.faults == 0


async def test_check_tells_why_nothing_can_be_written(database: Database, other: Database) -> None:
    """Here another process writes for longer than it waits."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: DriverConnection) -> None:
        begun.set()
        assert go_on.wait(600)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write_driver, hold)
        await anyio.to_thread.run_sync(begun.wait, 60)
        assert await other.check() == "another process has locked it"
        assert other.faults == 1
        go_on.set()


async def test_rows_are_put_in_place_of_those_with_their_key(database: Database) -> None:
    """More than fit into one statement; bytes and texts come back as they were."""
    rows = [{"key": f"k{n}", "answer": bytes([n % 256, 0]), "at": n / 2} for n in range(1_201)]
    await database.write(lambda connection: core.put(connection, memos, rows))
    await database.write(
        lambda connection: core.put(connection, memos, [{"key": "k7", "answer": b"new", "at": 1.0}])
    )

    kept = await database.read_driver(
        lambda connection: connection.execute("SELECT key, answer FROM memos ORDER BY at").fetchall()
    )
    assert len(kept) == 1_201
    assert ("k7", b"new") in kept
    assert ("k255", b"\xff\x00") in kept


async def test_a_quick_writer_keeps_the_order_and_writes_whole_transactions(
    database: Database, other: Database
) -> None:
    """Small or not; what fails is undone."""
    writer = database.quick_writer()

    def write(key: str) -> Callable[[DriverConnection], str]:
        def add(connection: DriverConnection) -> str:
            connection.execute("INSERT INTO memos (key, answer, at) VALUES (?, ?, ?)", (key, b"", 0.0))
            if key == "bad":
                raise LookupError(key)
            return key

        return add

    assert await writer.write(write("a"), rows=1) == "a"
    assert await writer.write(write("b"), rows=1) == "b"
    with pytest.raises(LookupError):
        await writer.write(write("bad"), rows=1)
    assert await writer.write(write("c"), rows=1_000, is_small=False) == "c"
    await writer.close()

    kept = await other.read_driver(
        lambda connection: connection.execute("SELECT key FROM memos ORDER BY key").fetchall()
    )
    assert kept == [("a",), ("b",), ("c",)]
