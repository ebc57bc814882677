"""The catalog on disk: read as it was written, migrated, safe with two writers, and clear in its errors."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.catalog.databases import new_catalog
from tests.catalog.makers import FACTS, Counter, after, found, open_store, raw

import maitred.storage.migrations
from maitred.catalog.live import Store
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import DiscoveredServer, failure, plan, removal
from maitred.errors import ConfigError, StoreError
from maitred.storage import migrate as migrations
from maitred.storage.database import HEAD
from maitred.storage.migrate import migrate
from maitred.storage.tables import metadata

pytestmark = pytest.mark.anyio

DEVELOPMENT = Path(__file__).parents[1] / "storage" / "data" / "development_0005.sql"
SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"pattern": "é\ud83d"}}}


async def write(store: Store, *discoveries: DiscoveredServer) -> Snapshot:
    """Write discoveries one after the other, each planned on what the store holds; what it holds then."""
    for discovery in discoveries:
        known = await store.load()
        change = await plan(known, discovery, Counter())
        assert await store.write(change, planned_on=known.generation) is not None
    return await store.load()


def never(_: sa.Connection, revision: str | None) -> None:
    raise AssertionError(f"migrated from {revision}")


def content(snapshot: Snapshot) -> tuple[Any, ...]:
    """All that a snapshot holds, but for its generation."""
    return dict(snapshot.servers), snapshot.tools, dict(snapshot.schemas)


async def test_what_was_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    """Texts, annotations, extras, schemas in the order of their keys, facts and notes: all come back."""
    tool = raw(
        "s", "créer / x", title="Título", description="Line\nline", input_schema=SCHEMA,
        output_schema={"type": "array"}, annotations={"readOnlyHint": True}, extra={"_meta": {"k": [1]}},
    )  # fmt: skip
    discovery = found("s", tool, raw("s", "b"), notes=("one", "two"))
    async with open_store(tmp_path / "c.db") as store:
        written = await write(store, discovery)
    async with open_store(tmp_path / "c.db") as store:
        read = await store.load()

    planned = await after(Snapshot(), discovery)
    assert read.tools == written.tools == planned.tools
    assert read.schemas == planned.schemas
    assert replace(read.servers["s"], synced_at="") == replace(planned.servers["s"], synced_at="")
    assert read.servers["s"].facts == FACTS
    assert list(read.schema(read.by_key[tool.key].input_hash)["properties"]) == ["z", "a"]
    assert read.generation == written.generation == 1


async def test_the_generation_is_raised_only_by_what_a_reader_can_notice(tmp_path: Path) -> None:
    """A new tool counts; the time of a sync, or why the last one failed, does not."""
    async with open_store(tmp_path / "c.db") as store:
        first = await write(store, found("s", raw("s", "a")))
        same = await write(store, found("s", raw("s", "a")))
        change = failure(same, found("s").spec, "down")
        assert await store.write(change, planned_on=same.generation) == 1
        failed = await store.load()
        changed = await write(store, found("s", raw("s", "a", title="New")))

    assert [s.generation for s in (first, same, failed, changed)] == [1, 1, 1, 2]
    assert failed.servers["s"].error == "down"
    assert changed.servers["s"].error == ""


async def test_an_empty_change_does_nothing(tmp_path: Path) -> None:
    """It is answered with the generation as it is."""
    async with open_store(tmp_path / "c.db") as store:
        assert await store.write(Change(), planned_on=0) == 0
        assert await store.generation() == 0


async def test_a_change_that_was_planned_on_an_older_catalog_is_not_written(tmp_path: Path) -> None:
    """Two processes planned on the same catalog: the second is told so and nothing of its change is kept."""
    async with open_store(tmp_path / "c.db") as one, open_store(tmp_path / "c.db") as two:
        known = await two.load()
        late = await plan(known, found("b", raw("b", "t")), Counter())
        first = await write(one, found("a", raw("a", "t")))

        assert await two.write(late, planned_on=known.generation) is None
        assert content(await two.load()) == content(first)
        assert await two.generation() == first.generation


async def test_a_removed_server_takes_its_tools_and_schemas_with_it(tmp_path: Path) -> None:
    """A schema that another tool still has is kept."""
    shared: dict[str, Any] = {"type": "object", "title": "shared"}
    own = {"type": "object", "title": "own"}
    a = found("a", raw("a", "t", input_schema=shared), raw("a", "u", input_schema=own))
    async with open_store(tmp_path / "c.db") as store:
        known = await write(store, a, found("b", raw("b", "t", input_schema=shared)))
        assert len(known.schemas) == 2
        await store.write(
            known.completed(removal(known, {"b": found("b").spec})), planned_on=known.generation
        )
        left = await store.load()

    assert list(left.servers) == ["b"]
    assert [tool.name for tool in left.tools] == ["b__t"]
    assert list(left.schemas) == [left.tools[0].input_hash]


async def test_a_failed_write_leaves_nothing_half_done(tmp_path: Path) -> None:
    """The database refuses a tool without its server; the rest of the change is not kept either."""
    snapshot = await after(Snapshot(), found("s", raw("s", "a")))
    orphan = Change(tools=snapshot.tools, schemas=snapshot.schemas)
    async with open_store(tmp_path / "c.db") as store:
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            await store.write(orphan, planned_on=0)
        left = await store.load()

    assert (left.generation, content(left)) == (0, ({}, (), {}))


async def test_a_change_of_many_tools_is_written_whole(tmp_path: Path) -> None:
    """More rows than fit into one statement."""
    tools = [raw("s", f"t{n:04}", input_schema={"type": "object", "title": str(n)}) for n in range(1_201)]
    async with open_store(tmp_path / "c.db") as store:
        snapshot = await write(store, found("s", *tools))

    assert len(snapshot.tools) == len(snapshot.schemas) == 1_201


# --- opening ----------------------------------------------------------------------------------------------


def test_the_newest_migration_is_the_one_that_the_store_knows() -> None:
    """A store at `HEAD` is opened without Alembic, so the two must agree."""
    config = Config()
    config.set_main_option("script_location", str(Path(str(maitred.storage.migrations.__file__)).parent))

    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


async def test_migrating_from_nothing_gives_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    """Alembic finds no difference between the migrated database and the metadata."""
    async with open_store(tmp_path / "deep" / "er" / "c.db") as store:
        assert await store.generation() == 0
    engine = sa.create_engine(f"sqlite:///{tmp_path}/deep/er/c.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == HEAD
        assert compare_metadata(context, metadata) == []
    engine.dispose()


async def test_a_store_that_is_up_to_date_is_not_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alembic is slow to import, so it is left alone; what is there stays."""
    async with open_store(tmp_path / "c.db") as store:
        before = await write(store, found("s", raw("s", "a")))
    monkeypatch.setattr(migrations, "migrate", never)
    async with open_store(tmp_path / "c.db") as store:
        assert content(await store.load()) == content(before)


def test_a_start_reads_the_catalog_without_sqlalchemy(tmp_path: Path) -> None:
    """To import it takes longer than to read a large catalog; the first write does it."""
    program = (
        "import sys, anyio\n"
        "from pathlib import Path\n"
        "from maitred.catalog.store import CatalogStore\n"
        "from maitred.storage.sqlite import SqliteDatabase\n"
        "async def main():\n"
        "    async with CatalogStore(SqliteDatabase(Path(sys.argv[1]))) as store:\n"
        "        assert (await store.load()).generation == await store.generation() == 0\n"
        "    print('sqlalchemy' in sys.modules, 'alembic' in sys.modules)\n"
        "anyio.run(main)\n"
    )
    path = new_catalog(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False False\n", done.stderr


def test_migrating_what_is_migrated_changes_nothing(tmp_path: Path) -> None:
    """A process that came second may be handed a database that the first one has just migrated."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/c.db")
    with engine.begin() as connection:
        migrate(connection, None)
        migrate(connection, HEAD)
        assert connection.execute(sa.text("SELECT count(*) FROM state")).scalar() == 1
    engine.dispose()


async def test_a_catalog_of_a_newer_maitred_is_refused_with_advice(tmp_path: Path) -> None:
    """It is neither read nor overwritten."""
    async with open_store(tmp_path / "c.db"):
        pass
    database = sqlite3.connect(tmp_path / "c.db")
    with database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()

    with pytest.raises(
        ConfigError, match=r"newer maitred .revision 9999.; upgrade maitred, or set `catalog.path`"
    ):
        async with open_store(tmp_path / "c.db"):
            pass


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004"])
async def test_a_catalog_from_before_the_first_release_is_refused_and_kept(
    revision: str, mode: str, tmp_path: Path
) -> None:
    """No release wrote such a file. The message names it and says what to do; not a byte of it changes."""
    path = tmp_path / "c.db"
    async with open_store(path) as store:
        await write(store, found("s", raw("s", "a")))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = kept(path, mode)

    told = rf"before the first release wrote it .revision {revision}.; it is left as it is: move it away"
    with pytest.raises(ConfigError, match=told) as refused:
        async with open_store(path):
            pass
    assert str(path) in str(refused.value)
    assert look(path) == before
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM tools").fetchall() == [("s__a",)]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
async def test_a_file_of_another_program_is_refused_and_kept(mode: str, tmp_path: Path) -> None:
    """As when `catalog.path` names the wrong file: no table of ours is made in it."""
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE bookmarks (name TEXT)")
    before = kept(path, mode)

    with pytest.raises(
        ConfigError, match=r"not those of a catalog \(bookmarks\).* set `catalog\.path`"
    ) as refused:
        async with open_store(path):
            pass
    assert str(path) in str(refused.value)
    assert look(path) == before


def kept(path: Path, mode: str) -> tuple[bytes, int]:
    """A file that others may read, in a mode of the log; what is in it and who may read it."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode={mode}")
    path.chmod(0o644)
    return look(path)


def look(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mode


async def test_a_catalog_of_the_last_development_version_is_taken_over(tmp_path: Path) -> None:
    """Its tables came by five revisions, so its columns are in another order; later ones add theirs."""
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(DEVELOPMENT.read_text(encoding="utf-8"))
    async with open_store(path) as store:
        await write(store, found("s", raw("s", "a", description="Ä")))
    async with open_store(path) as store:
        assert [tool.description for tool in (await store.load()).tools] == ["Ä"]
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == HEAD
        assert set(sa.inspect(connection).get_table_names()) >= set(metadata.tables)
    engine.dispose()


async def test_a_corrupt_catalog_is_refused_with_advice(tmp_path: Path) -> None:
    """The message names the file, what it holds, and how to go on; the file stays as it is."""
    path = tmp_path / "c.db"
    path.write_bytes(b"this is no database " * 400)

    with pytest.raises(ConfigError) as caught:
        async with open_store(path):
            pass

    told = str(caught.value)
    assert told.startswith(f"{path}: 1 fault\n  the catalog cannot be opened: its file is damaged")
    assert "approvals, access tokens, logins to servers and the audit trail: copy it first" in told
    assert path.read_bytes().startswith(b"this is no database")


async def test_a_folder_that_cannot_be_made_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    """The message names the folder and the key to change."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigError, match=r"set `catalog\.path` to another") as caught:
        async with open_store(tmp_path / "file" / "c.db"):
            pass

    assert caught.value.source == str(tmp_path / "file")


async def test_a_folder_that_is_made_is_private(tmp_path: Path) -> None:
    """Descriptions of tools are nobody else's business."""
    async with open_store(tmp_path / "state" / "c.db"):
        pass

    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def modes_in(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in folder.iterdir()}


@pytest.mark.parametrize("before", [None, 0o644])
async def test_nobody_else_reads_a_catalog(before: int | None, tmp_path: Path) -> None:
    """It has tokens and the audit trail; what an earlier version left readable is closed.

    Source: issue "What broke", 9.
    """
    path = tmp_path / "c.db"
    usual = os.umask(0)
    try:
        if before is not None:
            async with open_store(path):
                pass
            path.chmod(before)
        async with open_store(path) as store:
            await store.check()
            modes = modes_in(tmp_path)
    finally:
        os.umask(usual)

    assert "c.db" in modes
    assert set(modes.values()) == {0o600}


async def test_readers_are_not_stopped_by_a_writer(tmp_path: Path) -> None:
    """The database is in WAL mode: while another process writes, what was there before can be read."""
    async with open_store(tmp_path / "c.db") as store:
        before = await write(store, found("s", raw("s", "a")))
        writer = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM tools")

        assert content(await store.load()) == content(before)
        writer.execute("ROLLBACK")
        writer.close()


async def test_a_store_that_cannot_be_read_any_more_says_so(tmp_path: Path) -> None:
    """Not an SQL error but a text for the user, which names the catalog."""
    async with open_store(tmp_path / "c.db") as store:
        database = sqlite3.connect(tmp_path / "c.db")
        with database:
            database.execute("DROP TABLE state")
        database.close()

        with pytest.raises(StoreError, match="no such table") as caught:
            await store.generation()
        assert caught.value.path == str(tmp_path / "c.db")


async def test_a_write_that_is_given_up_leaves_nothing_that_runs_on(tmp_path: Path) -> None:
    """Wherever it is given up: what runs on would keep the program from ending."""
    async with open_store(tmp_path / "c.db") as store:
        known = await store.load()
        change = await plan(known, found("s", raw("s", "a")), Counter())
        before = asyncio.all_tasks()

        async def attempt() -> None:
            await store.write(change, planned_on=known.generation)

        for steps in range(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(attempt)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert asyncio.all_tasks() <= before
