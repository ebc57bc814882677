"""What is of PostgreSQL alone: its address, connections that the server ends, texts that it cannot keep."""

import pytest
from tests.support.postgres import Postgres

from maitred.errors import ConfigError, StoreError

pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")

from maitred.storage.postgres import PostgresDatabase, without_password

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
