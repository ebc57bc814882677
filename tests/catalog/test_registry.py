"""The registry: what was written is read, two writers do not mix, being killed loses and doubles nothing."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.catalog.databases import execute, new_catalog

from maitred.admission.registry import Registry
from maitred.errors import StoreError
from maitred.model.approvals import Binding, Event, Registration
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

ONE = Binding(manifest="m1", image="i1", definition="d1")
REGISTERED = Event(kind="registered", binding=ONE, who="ann", why="needed", at="2026-01-01")
APPROVED = Event(kind="approved", binding=ONE, who="bob")
MANIFEST = Registration(
    server="s",
    manifest="{}",
    manifest_hash="m1",
    source="s.yml",
    who="ann",
    at="2026-01-01",
    record='{"a": 1}',
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


async def test_what_was_registered_is_read_by_the_next_process(path: Path) -> None:
    """The registration, its log in order, and the definition that was decided on."""
    registry = Registry(SqliteDatabase(path))
    assert await registry.append("s", [REGISTERED], after=0, registration=MANIFEST, definition=("d1", b"[]"))
    assert await registry.append("s", [APPROVED], after=1)
    assert await registry.append("t", [REGISTERED], after=0)
    registry = Registry(SqliteDatabase(path))
    assert await registry.log("s") == [REGISTERED, APPROVED]
    logs, _ = await registry.everything()
    assert logs == {"s": [REGISTERED, APPROVED], "t": [REGISTERED]}
    assert (await registry.everything())[1] == {"s": MANIFEST}
    assert await registry.definition("d1") == b"[]"
    assert await registry.definition("d2") is None
    assert await registry.log("unknown") == []


async def test_of_two_who_plan_the_same_turn_one_is_told_to_look_again(path: Path) -> None:
    """Nothing of the late one is written."""
    one, two = Registry(SqliteDatabase(path)), Registry(SqliteDatabase(path))
    assert await one.append("s", [REGISTERED], after=0, registration=MANIFEST)
    other = replace(MANIFEST, manifest_hash="m2")
    assert not await two.append("s", [REGISTERED], after=0, registration=other, definition=("d2", b"x"))

    assert await two.log("s") == [REGISTERED]
    assert (await two.everything())[1] == {"s": MANIFEST}
    assert await two.definition("d2") is None


async def test_many_who_write_at_once_leave_one_log(path: Path) -> None:
    """Every turn is taken once, whoever took it."""
    one, two = Registry(SqliteDatabase(path)), Registry(SqliteDatabase(path))

    async def write(registry: Registry, name: str) -> None:
        left = 10
        while left:
            event = replace(APPROVED, who=name, why=str(left))
            left -= await registry.append("s", [event], after=len(await registry.log("s")))

    async with anyio.create_task_group() as tasks:
        for registry, name in ((one, "a"), (two, "b"), (one, "c")):
            tasks.start_soon(write, registry, name)
    log = await one.log("s")

    assert len(log) == 30
    assert sorted((event.who, int(event.why)) for event in log) == [
        (w, n) for w in "abc" for n in range(1, 11)
    ]


async def test_a_withdrawal_ends_the_registration_and_keeps_the_log(path: Path) -> None:
    """Who let what in, and who refused it, is not forgotten."""
    registry = Registry(SqliteDatabase(path))
    await registry.append("s", [REGISTERED], after=0, registration=MANIFEST)
    await registry.append("s", [Event(kind="withdrawn")], after=1)

    assert (await registry.everything())[1] == {}
    assert [event.kind for event in await registry.log("s")] == ["registered", "withdrawn"]


async def test_an_event_may_take_the_place_of_the_last_with_its_definition(path: Path) -> None:
    """A server that is another one at every look does not fill the disk; a decision since then stands."""
    changed = [
        Event(kind="definition_changed", binding=Binding(definition=digest)) for digest in ("d2", "d3")
    ]
    registry = Registry(SqliteDatabase(path))
    await registry.append("s", [REGISTERED], after=0, definition=("d1", b"1"))
    await registry.append("s", [changed[0]], after=1, definition=("d2", b"2"))

    assert await registry.append("s", [changed[1]], after=1, instead=True, definition=("d3", b"3"))
    assert await registry.log("s") == [REGISTERED, changed[1]]
    assert [await registry.definition(d) for d in ("d1", "d2", "d3")] == [b"1", None, b"3"]
    await registry.append("s", [APPROVED], after=2)
    assert not await registry.append("s", [changed[0]], after=1, instead=True)
    assert await registry.turns() == 3


async def test_a_write_that_fails_leaves_nothing_and_says_so(path: Path) -> None:
    """The event and what belongs to it are written together or not at all."""
    execute(path, "DROP TABLE definitions")
    registry = Registry(SqliteDatabase(path))
    with pytest.raises(StoreError, match="no such table: definitions"):
        await registry.append("s", [REGISTERED], after=0, registration=MANIFEST, definition=("d", b""))
    assert await registry.log("s") == []
    assert (await registry.everything())[1] == {}


async def test_a_registry_without_its_file_does_not_make_one(tmp_path: Path) -> None:
    """An empty one would have forgotten every approval."""
    with pytest.raises(StoreError, match="its file is not there"):
        await Registry(SqliteDatabase(tmp_path / "c.db")).log("s")
    assert not (tmp_path / "c.db").exists()


# --- killed at any moment ---------------------------------------------------------------------------------

KILLS = 15
WRITING = """
import os, sys
from pathlib import Path
import anyio
from maitred.admission.registry import Registry
from maitred.storage.sqlite import SqliteDatabase
from maitred.model.approvals import Binding, Event, Registration

async def write(path):
    registry = Registry(SqliteDatabase(path))
    turn = len(await registry.log("s"))
    while True:
        kind = ("registered", "approved", "withdrawn")[turn % 3]
        event = Event(kind=kind, binding=Binding(manifest=str(turn)), why=str(turn))
        made = Registration(server="s", manifest=str(turn), manifest_hash=str(turn))
        assert await registry.append(
            "s", [event], after=turn, registration=made if kind == "registered" else None,
            definition=(str(turn), b"x" * 2_000),
        )
        turn += 1
        os.write(1, b"%d\\n" % turn)

for _ in sys.stdin:  # a child for every line; importing only once makes many of them quick
    child = os.fork()
    if not child:
        anyio.run(write, Path(sys.argv[1]))
    os.write(1, b"child %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"ended\\n")
"""


def test_being_killed_at_any_moment_loses_and_doubles_nothing(path: Path) -> None:
    """At random: what was told is there once, and whole. Source: issue "Admission"."""
    random.seed(7)
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        told = sum(_kill_a_writer(process) for _ in range(KILLS))
        process.stdin.close()
    turns = execute(path, "SELECT turn, why, kind FROM approvals ORDER BY turn")

    assert told >= KILLS
    assert [(turn, why) for turn, why, _ in turns] == [(n + 1, str(n)) for n in range(len(turns))]
    assert execute(path, "PRAGMA integrity_check") == [("ok",)]


def _kill_a_writer(process: subprocess.Popen[str]) -> int:
    """Let it write a little, kill it, and look at what it left; returns how many turns it was told of."""
    assert process.stdin is not None
    assert process.stdout is not None
    path = Path(str(process.args[-1]))  # type: ignore[index]
    process.stdin.write("go\n")
    process.stdin.flush()
    child, told, wanted, last = 0, 0, random.randint(1, 4), 0
    while True:
        line = process.stdout.readline().split()
        if line[0] == "ended":
            break
        if line[0] == "child":
            child = int(line[1])
        else:
            told, last = told + 1, int(line[0])
        if child and told >= wanted:
            until = time.perf_counter() + random.random() * 0.005
            while time.perf_counter() < until:
                pass
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            wanted = sys.maxsize
    _is_whole(path, last)
    return told


def _is_whole(path: Path, last: int) -> None:
    """The last turn told of is there, and at most one more; the registration is that of the log."""
    [(count,)] = execute(path, "SELECT count(*) FROM approvals")
    assert count in (last, last + 1)
    kind = ("registered", "approved", "withdrawn")[(count - 1) % 3]
    registered = str((count - 1) // 3 * 3)
    expected = [] if kind == "withdrawn" else [(registered, registered)]
    assert execute(path, "SELECT manifest, manifest_hash FROM registrations") == expected
    assert execute(path, "SELECT count(*) FROM definitions") == [(count,)]
