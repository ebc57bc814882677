"""A catalog that cannot be written when maitred starts: what it holds is served, nothing is given up."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.faults.disk_rig import (
    FAULTS,
    Place,
    diary,
    full_after_a_kill,
    leave_log,
    made,
    read_only,
)
from tests.interaction.harness import Json, over_http, serving, text_of, write_settings
from tests.support.disks import Disk, small_disk

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest, tmp_path: Path, disk: Disk) -> Iterator[tuple[Place, str]]:
    """A catalog that cannot be written, and why."""
    breaks, why = FAULTS[request.param]
    with breaks(made(tmp_path, disk.path / "state"), disk) as place:
        yield place, why


def test_what_is_known_is_served_from_a_catalog_that_cannot_be_written(fault: tuple[Place, str]) -> None:
    """Lists, search, details, calls that only read; the trail, the tokens, what was approved. It says why."""
    place, why = fault

    assert "diary" in place.fine("list")
    assert "diary__read()" in place.fine("search", "read the diary")
    assert "diary__write" in place.fine("info", "diary__write")
    assert place.fine("call", "diary__read") == "1 entries\n"
    assert "diary/write" in place.fine("audit")
    assert "each is as it was written" in place.fine("audit", "verify")
    assert "ann" in place.fine("tokens", "list")
    assert "diary" in place.fine("approvals", "--all")
    assert f"catalog {place.catalog}: cannot be written: {why}" in place.run("doctor").stdout
    assert why in place.run("list").stderr


def test_what_may_change_something_is_refused_and_not_done(fault: tuple[Place, str]) -> None:
    """A call that the trail could not tell of; a decision that would not last. The reason is the true one."""
    place, why = fault

    told = place.refused("call", "diary__write")
    assert "The call was not made: the audit trail cannot be written" in told
    assert why in told
    assert why in place.refused("suspend", "diary")
    assert why in place.refused("tokens", "create", "bob", "--role", "agent")
    assert place.fine("call", "diary__read") == "1 entries\n"


def test_nobody_is_sent_to_a_browser_for_a_login_that_cannot_be_kept(tmp_path: Path, disk: Disk) -> None:
    """It would be lost, and its tokens be good all the same."""
    place = made(tmp_path, disk.path / "state")
    document: Json = json.loads(place.config.read_text(encoding="utf-8"))
    document["servers"]["far"] = {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}
    place.config.write_text(json.dumps(document), encoding="utf-8")
    disk.fill()

    assert "the login could not be stored: its disk is full" in place.refused("login", "far", "--no-browser")


def test_a_changed_configuration_is_taken_over_by_a_start_that_can_keep_nothing(
    fault: tuple[Place, str],
) -> None:
    """A server that was taken out is gone, and one that was not known yet does not stop the others."""
    place, _ = fault
    document: Json = json.loads(place.config.read_text(encoding="utf-8"))
    document["servers"]["twin"] = document["servers"]["diary"]
    place.config.write_text(json.dumps(document), encoding="utf-8")

    assert place.fine("call", "diary__read") == "1 entries\n"

    del document["servers"]["diary"]
    place.config.write_text(json.dumps(document), encoding="utf-8")

    assert "diary" not in json.loads(place.fine("list", "--json"))


def test_what_the_configuration_withholds_now_is_withheld_by_a_start_that_can_keep_nothing(
    tmp_path: Path, disk: Disk
) -> None:
    """That it could not be noted in the catalog is no reason to let a tool through."""
    place = made(tmp_path, disk.path / "state")
    (tmp_path / "diary.txt.more").touch()
    place.fine("doctor", "diary")
    assert "diary__burn" in place.fine("info", "diary__burn")
    document: Json = json.loads(place.config.read_text(encoding="utf-8"))
    document["admission"] = {"pinning": "quarantine"}
    place.config.write_text(json.dumps(document), encoding="utf-8")
    disk.fill()

    told = place.refused("call", "diary__burn")

    assert "cannot be called now" in told
    assert "its disk is full" not in told.partition("error: ")[2]
    assert "burn" not in place.fine("search", "burn the diary").replace("'burn the diary'", "")


def test_what_the_log_of_a_killed_gateway_holds_is_served(tmp_path: Path, disk: Disk) -> None:
    """It was confirmed to somebody; a full disk does not undo it."""
    with full_after_a_kill(made(tmp_path, disk.path / "state"), disk) as place:
        assert "eve" in place.fine("stats")


# --- a gateway that starts on such a disk, and lives to see it mended -------------------------------------


async def test_a_gateway_that_starts_on_a_full_disk_goes_on_by_itself_once_there_is_room(
    tmp_path: Path, disk: Disk
) -> None:
    """Status says what is wrong. With room, calls that write are made, and new servers become known."""
    place = made(tmp_path, disk.path / "state")
    document: Json = json.loads(place.config.read_text(encoding="utf-8"))
    document["servers"]["twin"] = document["servers"]["diary"]
    place.config.write_text(json.dumps(document), encoding="utf-8")
    disk.fill()
    state = {"XDG_STATE_HOME": str(disk.path / "state")}

    with serving(place.config, "--token", "t", env=state) as gateway:
        async with over_http(gateway.url, "legacy", token="t", limit_s=None) as client:

            async def called(tool: str) -> str:
                return text_of(await client.call_tool("call_tool", {"name": tool, "arguments": {}}))

            assert await called("diary__read") == "1 entries"
            assert "its disk is full" in await called("diary__write")
            [status] = json.loads(place.fine("status", "--json"))
            assert status["catalog"] == {"path": str(place.catalog), "fault": "its disk is full"}
            assert f"catalog {place.catalog}: cannot be written: its disk is full" in place.fine("status")

            disk.free()
            await gateway.says_after(0, "the catalog can be written again")

            assert await called("diary__write") == "written"
            with anyio.fail_after(120):
                while "entries" not in await called("twin__read"):  # noqa: ASYNC110  # it is found in the background
                    await anyio.sleep(0.05)
        [status] = json.loads(place.fine("status", "--json"))
        assert status["catalog"]["fault"] == ""
    assert "diary/write" in place.fine("audit")


async def test_a_gateway_that_starts_on_a_read_only_disk_goes_on_by_itself_once_it_can_be_written(
    tmp_path: Path, disk: Disk
) -> None:
    """Nothing holds on to a file that was opened to be read."""
    place = made(tmp_path, disk.path / "state")
    leave_log(place.catalog)
    with read_only(place, disk), serving(place.config, "--token", "t") as gateway:
        async with over_http(gateway.url, "legacy", token="t", limit_s=None) as client:

            async def write() -> str:
                return text_of(await client.call_tool("call_tool", {"name": "diary__write", "arguments": {}}))

            assert "its disk is mounted read-only" in await write()
            disk.remount("rw")
            assert await write() == "written"


def test_clients_on_standard_streams_are_served_from_a_full_disk(tmp_path: Path, disk: Disk) -> None:
    """Also where the folder of the gateway that they share, with its log, is on that disk."""
    place = made(tmp_path, disk.path / "state")
    disk.fill()
    env = {**os.environ, "XDG_STATE_HOME": str(disk.path / "state"), "PYTHONUNBUFFERED": "1"}
    del env["XDG_RUNTIME_DIR"]
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    asked: list[Json] = [
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "diary__read", "arguments": {}}},
    ]
    command = [sys.executable, "-m", "maitred", "serve", "--config", str(place.config)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for message in asked:
            client.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            client.stdin.flush()
        answers = [json.loads(client.stdout.readline()) for _ in range(2)]
        disk.free()
        client.stdin.close()
        client.wait(120)
    subprocess.run(
        [sys.executable, "-m", "maitred", "stop", "--config", str(place.config)], env=env, check=False
    )

    assert answers[1]["result"]["content"][0]["text"] == "1 entries"


# --- nothing there yet, and nothing can be made -----------------------------------------------------------


@pytest.fixture(params=["full", "read-only"])
def barren(request: pytest.FixtureRequest, tmp_path: Path, disk: Disk) -> Iterator[tuple[Place, str, Disk]]:
    """A place where no catalog is, and none can be made."""
    catalog = disk.path / "state" / "catalog.db"
    place = Place(
        write_settings(tmp_path, {"diary": diary(tmp_path)}, catalog={"path": str(catalog)}), catalog
    )
    breaks, why = FAULTS[request.param]
    with breaks(place, disk):
        yield place, why, disk


def test_without_a_catalog_servers_are_asked_anew_and_what_reads_works(
    barren: tuple[Place, str, Disk],
) -> None:
    """In memory, for as long as the command runs; what may change something would be written down nowhere."""
    place, why, _ = barren

    assert "diary" in place.fine("list")
    assert "diary__read()" in place.fine("search", "read the diary")
    assert place.fine("call", "diary__read") == "no entries\n"
    assert why in place.run("list").stderr
    assert "kept in memory" in place.run("list").stderr
    assert why in place.refused("call", "diary__write")
    for words in (["suspend", "diary"], ["tokens", "create", "bob", "--role", "agent"], ["audit"]):
        assert why in place.refused(*words)


def test_who_wants_no_trail_may_write_without_a_catalog(
    barren: tuple[Place, str, Disk], tmp_path: Path
) -> None:
    """The operator said so."""
    place, _, _ = barren
    document: Json = json.loads(place.config.read_text(encoding="utf-8"))
    document["audit"] = {"enabled": False}
    place.config.write_text(json.dumps(document), encoding="utf-8")

    assert place.fine("call", "diary__write") == "written\n"


async def test_a_catalog_in_memory_becomes_a_file_once_one_can_be_made(tmp_path: Path, disk: Disk) -> None:
    """With all that was found until then; and what may change something is made from then on."""
    catalog = disk.path / "state" / "catalog.db"
    config = write_settings(tmp_path, {"diary": diary(tmp_path)}, catalog={"path": str(catalog)})
    place = Place(config, catalog)
    disk.fill()
    with serving(config, "--token", "t") as gateway:
        async with over_http(gateway.url, "legacy", token="t", limit_s=None) as client:

            async def called(tool: str) -> str:
                return text_of(await client.call_tool("call_tool", {"name": tool, "arguments": {}}))

            assert await called("diary__read") == "no entries"
            assert "its disk is full" in await called("diary__write")
            assert "its disk is full" in place.fine("status")

            disk.free()
            await gateway.says_after(0, "the catalog can be written again")

            written = await called("diary__write")  # the audit trail is a moment behind, and says so
            assert written.partition("\n")[0] == "written"
    assert catalog.stat().st_size
    disk.remount("ro")  # nothing is asked anew
    assert "diary__read()" in place.fine("search", "read the diary")
    disk.remount("rw")
    assert "diary/write" in place.fine("audit")


# --- other faults -----------------------------------------------------------------------------------------


def test_a_damaged_catalog_is_refused_with_what_it_holds_and_how_to_save_it(tmp_path: Path) -> None:
    """Whoever moves it away loses more than a list of tools."""
    place = made(tmp_path, tmp_path / "state")
    content = place.catalog.read_bytes()
    place.catalog.write_bytes(b"no database " * 1_000 + content[12_000:])

    for words in (["list"], ["audit"], ["tokens", "list"], ["approvals"], ["doctor"]):
        told = place.refused(*words)
        assert "its file is damaged" in told
        assert "approvals, access tokens, logins to servers and the audit trail: copy it first" in told
        assert "catalog.db-wal" in told
        assert ".recover" in told


def test_a_catalog_that_another_process_writes_for_long_is_read_beside_it(tmp_path: Path) -> None:
    """A start does not wait for it."""
    place = made(tmp_path, tmp_path / "state")
    writer = sqlite3.connect(place.catalog, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        assert "diary__read()" in place.fine("search", "read the diary")
    finally:
        writer.close()


def test_a_catalog_that_another_process_has_for_itself_is_told_as_such(tmp_path: Path) -> None:
    """Nothing is wrong with it, and nothing is lost."""
    place = made(tmp_path, tmp_path / "state")
    other = sqlite3.connect(place.catalog, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    other.execute("PRAGMA user_version=1")
    other.execute("COMMIT")
    try:
        told = place.refused("list")
    finally:
        other.close()

    assert "another process has locked it" in told
    assert "End that process" in told


def test_too_few_descriptors_are_told_as_such_and_with_the_limit(tmp_path: Path) -> None:
    """Not as a fault of the disk."""
    place = made(tmp_path, tmp_path / "state")
    program = (
        "import os, resource, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from maitred.storage.diagnosis import store_error\n"
        "from maitred.storage.sqlite_file import connect\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open(os.devnull, os.O_RDONLY))\n"
        "except OSError: pass\n"
        "try:\n"
        "    connect(Path(sys.argv[1]), wait_s=1)\n"
        "except sqlite3.Error as error: print(store_error(Path(sys.argv[1]), error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(place.catalog)], capture_output=True, text=True, check=True
    )

    assert "may have no more than 64 open files" in done.stdout
    assert "`ulimit -n`" in done.stdout
    assert "disk" not in done.stdout


def test_a_file_that_may_not_grow_is_told_as_such(tmp_path: Path) -> None:
    """As by a limit of the shell that started maitred."""
    place = made(tmp_path, tmp_path / "state")

    def bounded(_: Path, *words: str) -> subprocess.CompletedProcess[str]:
        # -B: Python 3.11 would leave compiled modules cut off at the limit
        program = f"{sys.executable} -B -m maitred {' '.join(words)} --config {place.config}"
        command = ["bash", "-c", f"ulimit -f 16; exec {program}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    bound = Place(place.config, place.catalog, bounded)
    assert bound.fine("call", "diary__read") == "1 entries\n"
    told = bound.refused("call", "diary__write")
    assert "it may not grow any more" in told
    assert "`ulimit -f`" in told
