"""Servers that do not start: what an operator and an agent are told, and what it costs the others."""

import os
import stat
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests.backends.rig import eventually, is_gone, read_pid
from tests.faults.house import faulty, open_house, settings_for

from maitred.errors import ServerError, ServerUnavailableError
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio


async def test_a_server_that_exits_at_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """42 of 233 servers tried died so: a network, a credential or an interpreter was missing."""
    async with open_house(tmp_path, {"s": faulty("exit-at-start"), "t": faulty("count")}) as house:
        told = house.status().error
        assert "exited with code 1" in told
        assert "RuntimeError: API_KEY is not set" in told
        assert list(house.gateway.last_output("s", LOCAL_USER)) == [
            "Traceback (most recent call last):",
            "RuntimeError: API_KEY is not set",
        ]
        assert await house.text("t__add", a=1, b=1) == "2"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"command": "no-such-program-anywhere"}, "'no-such-program-anywhere' is not on PATH; install it"),
        ({"command": "/no/such/program"}, "'/no/such/program' does not exist or is not executable"),
        (
            {"command": sys.executable, "cwd": "/no/such/folder"},
            "working directory '/no/such/folder' does not exist",
        ),
        ({"command": "${MAITRED_TEST_NOT_SET}"}, "MAITRED_TEST_NOT_SET"),
        ({"command": sys.executable, "args": ["-c", "print('hello')"]}, "exited with code 0"),
        ({"command": sys.executable, "args": ["-c", "import os; os.abort()"]}, "ended by SIGABRT"),
    ],
    ids=["not-on-path", "no-file", "no-folder", "no-variable", "no-server", "abort"],
)
async def test_what_cannot_be_started_is_reported_with_what_to_correct(
    tmp_path: Path, entry: dict[str, object], told: str
) -> None:
    async with open_house(tmp_path, {"s": {"era": "handshake"} | entry}) as house:
        assert told in house.status().error


async def test_a_text_file_that_is_no_program_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("neither a script nor a program")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    async with open_house(tmp_path, {"s": {"command": str(program)}}) as house:
        assert f"program {str(program)!r} cannot be started" in house.status().error


async def test_a_program_that_disappears_is_reported_and_works_again_when_it_is_back(tmp_path: Path) -> None:
    """A package is upgraded or removed while the gateway runs. Source: issue "Foundation", faults."""
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    entry = faulty("die-in-call", command=str(program))
    async with open_house(tmp_path, {"s": entry}) as house:
        program.unlink()
        with pytest.raises(ServerError):
            await house.call("s__fault")
        with pytest.raises(ServerUnavailableError, match="does not exist or is not executable"):
            await house.call("s__echo", text="gone")
        program.symlink_to(sys.executable)
        assert await house.text("s__echo", text="back") == "back"


async def test_a_slow_server_is_waited_for_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, {"s": faulty("slow-start", "6"), "t": faulty("count")})
    with anyio.fail_after(120):
        async with open_gateway(settings) as gateway:
            await eventually(lambda: gateway.snapshot.by_server.get("t"))
            assert not gateway.snapshot.by_server.get("s")
            await eventually(lambda: gateway.snapshot.by_server.get("s"))


async def test_a_server_that_is_slower_than_its_time_limit_is_stopped_and_the_setting_is_named(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, {"s": faulty("slow-start", "60", start_timeout_s=0.3)}) as house:
        assert "not ready within 0.3 s" in house.status().error
        assert house.status().health.pid is None


@pytest.mark.parametrize("mode", ["hang-at-initialize", "silent-discover"])
async def test_a_server_that_never_answers_the_handshake_is_stopped_at_its_time_limit(
    tmp_path: Path, mode: str
) -> None:
    era = "stateless" if mode == "silent-discover" else "handshake"
    async with open_house(tmp_path, {"s": faulty(mode, era=era, start_timeout_s=0.5)}) as house:
        assert "not ready within 0.5 s" in house.status().error
        assert house.status().health.pid is None


async def test_a_server_that_is_silent_about_the_new_era_is_spoken_to_in_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe has a time limit. Source: https://modelcontextprotocol.io/specification, Versioning."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.3)
    async with open_house(tmp_path, {"s": faulty("silent-discover", era="auto")}) as house:
        assert house.status().facts.era == "handshake"
        assert await house.text("s__echo", text="hello") == "hello"


async def test_a_server_of_the_first_revision_is_understood(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("old-protocol", era="auto")}) as house:
        assert house.status().facts.protocol_version == "2024-11-05"
        assert await house.text("s__echo", text="hello") == "hello"


async def test_a_server_that_speaks_before_it_is_asked_is_understood(tmp_path: Path) -> None:
    """It sends notices and a request before it answers `initialize`. Source: notes/real-servers.md."""
    async with open_house(tmp_path, {"s": faulty("early-notification")}) as house:
        assert sorted(house.tools()) == ["echo", "replies"]
        assert '"id": "roots-1"' in await house.text("s__replies")


async def test_a_server_that_fills_its_standard_error_at_start_is_read(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("stderr-flood")}) as house:
        lines = house.gateway.last_output("s", LOCAL_USER)
        assert len(lines) == 200
        assert lines[-1].startswith("line 10000 of")
        assert await house.text("s__echo", text="hello") == "hello"


async def test_at_most_the_configured_number_of_servers_start_at_once(tmp_path: Path) -> None:
    """All servers of a long list at once would want 20 GiB. Source: notes/real-servers.md."""
    running = tmp_path / "running"
    running.mkdir()
    code = (
        "import os, sys, time, pathlib; own = pathlib.Path(sys.argv[1]) / str(os.getpid()); own.touch();"
        "print(len(list(own.parent.iterdir())), file=sys.stderr, flush=True);"
        "time.sleep(0.3); own.unlink(); sys.exit(1)"
    )
    entry = {"command": sys.executable, "args": ["-I", "-S", "-c", code, str(running)], "era": "handshake"}
    servers = {f"s{number}": entry for number in range(8)}
    async with open_house(tmp_path, servers, limits={"max_starting": 2}) as house:
        at_once = [int(house.gateway.last_output(name, LOCAL_USER)[0]) for name in servers]
    assert max(at_once) <= 2


async def test_a_gateway_that_closes_while_servers_start_leaves_none_of_them(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    servers = {
        "a": faulty("hang-at-initialize"),
        "b": faulty("slow-start", "600"),
        "c": faulty("grandchild", str(pid_file)) | {"era": "stateless"},
        "d": faulty("ignore-eof"),
    }
    async with open_gateway(settings_for(tmp_path, servers)) as gateway:
        await eventually(lambda: all(health.pid for health in gateway._pool.health().values()))
        await eventually(pid_file.exists)
        pids = [health.pid or 0 for health in gateway._pool.health().values()]
        started = time.monotonic()
    assert time.monotonic() - started < 60  # one of them would take 600 s to start
    assert all(is_gone(pid) for pid in [*pids, read_pid(pid_file)])
    assert os.getpid() not in pids
