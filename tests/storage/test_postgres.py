"""What is of PostgreSQL alone: its address, connections that the server ends, texts that it cannot keep."""

import threading
from collections.abc import Callable

import anyio
import pytest
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

from maitred.background import Background
from maitred.errors import ConfigError, StoreError
from maitred.storage.database import Database, DriverConnection, WriteOptions
from maitred.storage.signals import Signals

pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")

from maitred.storage import postgres_listener
from maitred.storage.postgres import PostgresDatabase, without_password
from maitred.storage.postgres_listener import PostgresListener
from maitred.storage.postgres_pool import connection_text

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@db.example:5433/maitred", "postgresql://ann@db.example:5433/maitred"),
        ("postgresql://db/maitred?password=secret", "postgresql://db/maitred"),
        ("postgresql:///maitred", "postgresql:///maitred"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """Errors and `maitred doctor` name the database by this."""
    assert without_password(url) == shown


async def test_a_server_that_does_not_answer_is_an_error_with_advice() -> None:
    """It names the address without its password, and the setting."""
    with pytest.raises(StoreError, match=r"its server does not answer .*correct `catalog\.url`") as caught:
        await PostgresDatabase("postgresql://ann:secret@127.0.0.1:1/maitred").open()
    assert "secret" not in str(caught.value)


async def test_connections_that_the_server_ended_are_replaced(postgres: Postgres) -> None:
    """As after a restart of the server: nobody who reads or writes notices."""
    async with PostgresDatabase(postgres.new_database()) as database:
        query = "SELECT pg_backend_pid()"
        [before] = await database.read_driver(lambda connection: connection.execute(query).fetchall())
        async with PostgresDatabase(database._url) as other:
            await other.read_driver(
                lambda connection: connection.execute("SELECT pg_terminate_backend(?)", before).fetchall()
            )
        assert await database.read_driver(lambda connection: connection.execute(query).fetchall()) != [before]
        assert await database.check() == ""


async def test_a_nul_in_a_text_is_kept_as_its_sign(postgres: Postgres) -> None:
    """PostgreSQL refuses it, and one odd description must not keep a server out of the catalog."""
    async with PostgresDatabase(postgres.new_database()) as database:
        await database.write_driver(
            lambda connection: connection.execute("UPDATE state SET placed_by = ?", ("a\0b",))
        )
        assert await database.read_driver(
            lambda connection: connection.execute("SELECT placed_by FROM state").fetchall()
        ) == [("a␀b",)]


async def test_tables_of_a_newer_maitred_are_left_alone(postgres: Postgres) -> None:
    """The message names the setting of this engine."""
    url = postgres.new_database()
    async with PostgresDatabase(url) as database:
        newer = "UPDATE alembic_version SET version_num = '9999'"
        await database.write_driver(lambda connection: connection.execute(newer))
    with pytest.raises(ConfigError, match=r"newer maitred .*or set `catalog\.url` to another database"):
        await PostgresDatabase(url).open()


async def test_tables_of_another_program_are_left_alone(postgres: Postgres) -> None:
    """Those that are named as ours are; others in the same database stop nothing."""
    import psycopg  # noqa: PLC0415  # of an extra

    taken, free = postgres.new_database(), postgres.new_database()
    for url, table in ((taken, "tools"), (free, "bookmarks")):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {table} (name TEXT)".encode())
    with pytest.raises(
        ConfigError, match=r"not those of a catalog \(tools\).* set `catalog\.url` to another"
    ):
        await PostgresDatabase(taken).open()
    async with PostgresDatabase(free) as database:
        assert await database.check() == ""
    with psycopg.connect(taken) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert found == [("tools",)]


async def execute(database: Database, statement: str, *values: object) -> None:
    await database.write_driver(lambda connection: connection.execute(statement, values))


class Ear:
    """Counts the news of one topic."""

    def __init__(self, signals: Signals) -> None:
        self.count = 0
        signals.listen("catalog", self._note)

    def _note(self) -> None:
        self.count += 1

    def hears_more(self) -> Callable[[], bool]:
        before = self.count
        return lambda: self.count > before


async def test_a_change_is_heard_at_once_and_again_after_the_connection_was_lost(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was missed in between is news, too; a change that no reader notices is none."""
    monkeypatch.setattr(postgres_listener, "_AGAIN_S", 0.05)
    raised = "UPDATE state SET generation = generation + 1"
    url = postgres.new_database()
    async with PostgresDatabase(url) as database, PostgresDatabase(url) as other, Background() as background:
        signals, ear = database.signals, Ear(database.signals)
        background.start(database.watch)
        await eventually(lambda: signals.is_live)

        more, before = ear.hears_more(), ear.count
        await execute(other, raised)
        await eventually(more)
        assert await other.check() == ""  # it writes the same row
        assert ear.count == before + 1

        more = ear.hears_more()
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN maitred'"
        await execute(other, ended)
        await eventually(more)
        await eventually(lambda: signals.is_live)
        more = ear.hears_more()
        await execute(other, raised)
        await eventually(more)


async def test_a_listener_that_a_pooler_makes_deaf_has_its_process_poll(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages to itself do not arrive, as they do not through one that lends connections."""
    monkeypatch.setattr(postgres_listener, "_PROBE_WAIT_S", 0.05)
    monkeypatch.setattr(postgres_listener, "_PROBE_EVERY_S", 0.01)
    sent: list[str] = []

    async def lose(text: str) -> None:
        sent.append(text)

    signals = Signals()
    async with Background() as background:
        background.start(PostgresListener(connection_text(postgres.url), signals, lose).run)
        await eventually(lambda: len(sent) > 2)
        assert not signals.is_live


async def test_a_process_has_no_more_connections_than_it_may(postgres: Postgres) -> None:
    """Those that wait for one get theirs, whether they read or write, with either kind of statement."""
    url = postgres.new_database()
    counts = list[int]()

    def count(connection: DriverConnection) -> None:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
        counts.append(found[0])

    async with PostgresDatabase(url, connections=3) as database, anyio.create_task_group() as tasks:
        for _ in range(15):
            tasks.start_soon(database.read_driver, count)
            tasks.start_soon(database.write_driver, count)
            tasks.start_soon(database.write, lambda connection: connection.exec_driver_sql("SELECT 1"))
    assert len(counts) == 30
    assert max(counts) <= 3


async def test_only_a_barrier_waits_for_writers_that_write_together(postgres: Postgres) -> None:
    """Two of them meet inside their transactions; whoever needs all of them to be over sees both."""
    url = postgres.new_database()
    both, over = threading.Barrier(2, timeout=60), list[str]()

    def meet(_: DriverConnection) -> None:
        both.wait()
        over.append("together")

    def note(_: DriverConnection) -> None:
        over.append("barrier")

    together, barrier = WriteOptions(lane="together"), WriteOptions(lane="barrier")
    async with PostgresDatabase(url) as one, PostgresDatabase(url) as two:
        async with anyio.create_task_group() as tasks:
            for database in (one, two):
                tasks.start_soon(database.write_driver, meet, together)
        await one.write_driver(note, barrier)
    assert over == ["together", "together", "barrier"]
