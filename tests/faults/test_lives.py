"""When servers run: started on first need, stopped when idle, left alone for a while after failures."""

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.backends.rig import SOON_S, eventually, is_gone, read_pid
from tests.faults.house import faulty, open_house, settings_for

from maitred.errors import ServerError, ServerUnavailableError
from maitred.model.access import LOCAL_USER
from maitred.model.servers import State

pytestmark = pytest.mark.anyio

SPY = Path(__file__).parent / "spy_server.py"


def spied(log: Path, mode: str, *arguments: str, **keys: Any) -> dict[str, Any]:
    args = ["-I", "-S", str(SPY), str(log), mode, *arguments]
    return {"command": sys.executable, "args": args} | keys


def starts(log: Path) -> list[Sequence[str]]:
    """The methods that each start of the server was sent."""
    text = log.read_text() if log.exists() else ""
    lives = text.split("\n\n") if text else []
    return [[json.loads(line).get("method", "") for line in life.split("\n") if line] for life in lives]


async def test_a_known_server_is_started_by_the_first_call_and_not_before(tmp_path: Path) -> None:
    """The menu, search and details come from the catalog. Source: issue "Foundation", Catalog."""
    log = tmp_path / "log"
    async with open_house(tmp_path, {"s": spied(log, "count")}):
        pass
    log.unlink()
    async with open_house(tmp_path, {"s": spied(log, "count")}) as house:
        assert sorted(house.tools()) == ["add", "echo", "pid"]
        assert (await house.gateway.search(["add"], viewer=LOCAL_USER)).results[0].tool.name == "s__add"
        assert "s__add" in (await house.gateway.info(["s__add"], viewer=LOCAL_USER)).text
        assert not log.exists()
        assert house.status().health.state == State.IDLE
        assert await house.text("s__add", a=1, b=2) == "3"
        assert len(starts(log)) == 1


async def test_the_era_is_probed_once_and_remembered_over_a_restart_of_the_gateway(tmp_path: Path) -> None:
    """Source: issue "Foundation", Backends."""
    log = tmp_path / "log"
    async with open_house(tmp_path, {"s": spied(log, "count")}) as house:
        assert house.status().facts.era == "handshake"
    [first] = starts(log)
    assert list(first[:2]) == ["server/discover", "initialize"]
    log.unlink()
    async with open_house(tmp_path, {"s": spied(log, "count")}) as house:
        assert await house.text("s__add", a=1, b=2) == "3"
    [second] = starts(log)
    assert second[0] == "initialize"
    assert "server/discover" not in second


async def test_two_first_calls_at_once_start_one_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with open_house(tmp_path, {"s": spied(log, "count")}):
        pass
    log.unlink()
    answers: list[str] = []
    async with open_house(tmp_path, {"s": spied(log, "count")}) as house:

        async def call() -> None:
            answers.append(await house.text("s__pid"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(call)
    assert len(starts(log)) == 1
    assert len(set(answers)) == 1
    assert len(answers) == 10


async def test_an_idle_server_is_stopped_and_the_next_call_starts_it_again(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("count", idle_stop_s=0.2)}) as house:
        first = int(await house.text("s__pid"))
        await eventually(lambda: is_gone(first))
        await eventually(lambda: house.status().health.state == State.IDLE)
        assert house.status().health.error == ""
        assert int(await house.text("s__pid")) != first


async def test_a_server_is_not_idle_while_a_call_runs(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("slow-call", idle_stop_s=0.1)}) as house:
        assert await house.text("s__wait", seconds=1) == "waited 1 s"


async def test_after_several_failures_calls_fail_at_once_and_the_server_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken server must not cost each caller its start. Source: issue "Foundation", circuit breaker."""
    monkeypatch.setattr("maitred.backends.supervision.FIRST_DELAY_S", 0.2)
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    async with open_house(tmp_path, {"s": faulty("die-in-call", command=str(program))}) as house:
        program.unlink()
        with pytest.raises(ServerError):
            await house.call("s__fault")
        for _ in range(2):
            with pytest.raises(ServerUnavailableError):
                await house.call("s__echo", text="x")
        attempts = house.status().health.failures
        with pytest.raises(ServerUnavailableError) as caught:
            await house.call("s__echo", text="x")
        assert house.status().health.failures == attempts  # nothing was started for it
        assert "does not exist or is not executable" in str(caught.value)
        assert "tried again in 1 s" in str(caught.value)
        assert "failed 3 times" in house.status().withheld
        answer = await house.gateway.search(["echo"], viewer=LOCAL_USER)
        assert answer.results == []
        assert "failed 3 times" in answer.text
        program.symlink_to(sys.executable)
        await eventually(lambda: not house.status().withheld)
        assert await house.text("s__echo", text="back") == "back"
        assert house.status().health.state == State.READY


async def test_a_reported_failure_leaves_no_process(tmp_path: Path) -> None:
    """Whatever it started before it failed is gone when the failure is told."""
    child = tmp_path / "child"
    code = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '1000'], start_new_session=True);"
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(1000)"
    )
    entry = {"command": sys.executable, "args": ["-c", code, str(child)], "start_timeout_s": 1.5}
    async with open_house(tmp_path, {"s": entry}) as house:
        assert "not ready within 1.5 s" in house.status().error
        assert is_gone(read_pid(child))


@pytest.mark.parametrize("mode", ["grandchild", "daemon-grandchild"])
async def test_what_a_server_started_is_gone_when_the_server_is_stopped(tmp_path: Path, mode: str) -> None:
    """Also what left its process group. Source: issue "Foundation", process-group kill."""
    child = tmp_path / "child"
    async with open_house(tmp_path, {"s": faulty(mode, str(child))}) as house:
        pids = [house.status().health.pid or 0, read_pid(child)]
        assert not any(is_gone(pid) for pid in pids)
    assert [is_gone(pid) for pid in pids] == [True, True]


async def test_a_server_that_ignores_the_end_of_its_input_is_ended_all_the_same(tmp_path: Path) -> None:
    """13 of 191 servers do; this one ignores SIGTERM too."""
    started = 0.0
    async with open_house(tmp_path, {"s": faulty("ignore-eof")}) as house:
        pid = house.status().health.pid or 0
        started = time.monotonic()
    assert is_gone(pid)
    assert time.monotonic() - started < 60  # it would never end by itself


async def test_a_removed_server_is_stopped_and_a_changed_one_is_started_anew(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("count"), "t": faulty("count")}) as house:
        old = int(await house.text("s__pid"))
        kept = await house.text("t__pid")
        await house.gateway.configure(
            settings_for(tmp_path, {"s": faulty("count", env={"NEW": "1"}), "t": faulty("count")}),
            viewer=LOCAL_USER,
        )
        assert is_gone(old)
        await house.known()
        assert await house.text("s__pid") != str(old)
        assert await house.text("t__pid") == kept
        new = int(await house.text("s__pid"))
        await house.gateway.configure(settings_for(tmp_path, {"t": faulty("count")}), viewer=LOCAL_USER)
        assert is_gone(new)
        assert house.tools("s") == []
        assert await house.text("t__pid") == kept


async def test_a_server_sees_only_the_environment_that_it_was_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH, HOME, the locale, the ways into the network, what its configuration grants, and our mark."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    ways = {"SSL_CERT_FILE": "/etc/ca.pem", "NODE_EXTRA_CA_CERTS": "/etc/ca.pem", "no_proxy": "localhost"}
    ways |= {
        "SSL_CERT_DIR": "/etc/certs",
        "REQUESTS_CA_BUNDLE": "/etc/ca.pem",
        "https_proxy": "http://proxy:1",
    }
    for name, value in ways.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTP_PROXY", "http://ann:s3cret@proxy:1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for servers")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("OPERATOR_TOKEN", "granted")
    granted = {"TOKEN": "${OPERATOR_TOKEN}", "MODE": "${NOBODY_SET_THIS:-quiet}"}
    async with open_house(tmp_path, {"s": faulty("env", env=granted)}) as house:
        seen = json.loads(await house.text("s__show_env"))
    assert {name: seen.pop(name, "") for name in ways} == ways
    assert seen.pop("TOKEN") == "granted"
    assert seen.pop("MODE") == "quiet"
    assert (seen.pop("PATH"), seen.pop("HOME")) == (os.environ["PATH"], os.environ["HOME"])
    assert seen.pop("LC_ALL") == "C.UTF-8"
    assert re.fullmatch(r"[0-9a-f]{8}-\d+-\d*-[0-9a-f]{8}", seen.pop("MAITRED_GATEWAY"))
    assert [
        name for name in seen if not name.startswith("LC_") and name not in ("LANG", "LANGUAGE", "TZ")
    ] == []


async def test_the_last_lines_of_standard_error_are_kept_also_after_the_end(tmp_path: Path) -> None:
    async with open_house(tmp_path, {"s": faulty("die-in-call")}) as house:
        with pytest.raises(ServerError):
            await house.call("s__fault")
        with anyio.fail_after(SOON_S):
            await eventually(lambda: house.status().health.state == State.FAILED)
        assert list(house.gateway.last_output("s", LOCAL_USER)) == [
            "fatal: the back end closed the connection"
        ]
