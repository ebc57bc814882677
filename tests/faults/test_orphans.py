"""However the gateway ends, nothing of it is left: no server, no child of a server, no helper, no zombie."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from structlog.testing import capture_logs
from tests.backends.rig import eventually, is_gone, read_pid, text_of
from tests.faults.client import Client, serve
from tests.faults.house import faulty, open_house

from maitred.config.load import load
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

GONE_WITHIN_S = 120.0
CALLS = 1_000
BACKENDS = 20
LONG_S = 120.0


def write_config(folder: Path, servers: dict[str, Any]) -> Path:
    path = folder / "maitred.json"
    path.write_text(json.dumps({"mcpServers": servers, "catalog": {"path": "c.db"}}))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Servers of all kinds of unwillingness."""
    servers = {
        "willing": faulty("count"),
        "deaf": faulty("ignore-eof"),
        "stuck": faulty("hang-in-call", "blocked"),
        "parent": faulty("grandchild", str(tmp_path / "child")),
        "late": faulty("hang-at-initialize"),
        "broken": faulty("exit-at-start"),
    }
    return write_config(tmp_path, servers)


async def close_input(client: Client) -> None:
    await client.close_input()


def send(number: signal.Signals) -> Callable[[Client], Any]:
    async def end(client: Client) -> None:
        client.signal(number)

    return end


@pytest.mark.parametrize(
    "end",
    [close_input, send(signal.SIGTERM), send(signal.SIGINT), send(signal.SIGHUP), send(signal.SIGKILL)],
    ids=["end-of-input", "SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"],
)
async def test_no_process_is_left_however_the_gateway_ends(
    config: Path, end: Callable[[Client], Any], tmp_path: Path
) -> None:
    """Source: issue "Foundation", Backends: no orphan and no zombie after any exit of the gateway."""
    with anyio.fail_after(LONG_S):
        async with serve(config) as client:
            for server in ("willing", "deaf", "parent", "stuck"):
                await client.echo(server)
            await client.send("tools/call", name="call_tool", arguments={"name": "stuck__fault"})
            assert await client.call("willing__add", a=1, b=2) == "3"
            family = [*client.family()]
            assert len(family) >= 5 + 1 + 1, "five servers, a child of one, and a warden"
            assert read_pid(tmp_path / "child") in [process.pid for process in family]
            started = time.monotonic()
            await end(client)
            await client.process.wait()
            await all_gone(family)
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    print(f"{len(family)} processes gone after {time.monotonic() - started:.1f} s")  # noqa: T201  # the figures for the closing note


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_what_a_server_started_outside_its_group_is_gone_too(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The server itself ends at once with its input; what it put into a session of its own stays behind."""
    config = write_config(tmp_path, {"daemon": faulty("daemon-grandchild", str(tmp_path / "child"))})
    with anyio.fail_after(LONG_S):
        async with serve(config) as client:
            await client.echo("daemon")
            child = psutil.Process(read_pid(tmp_path / "child"))
            assert child in client.family()
            client.signal(number)
            await client.process.wait()
            await all_gone([child])


async def test_the_next_gateway_ends_what_one_left_that_was_killed_together_with_its_warden(
    tmp_path: Path,
) -> None:
    """Before it starts a server of its own, so that none runs twice; and it says so in its log."""
    config = write_config(tmp_path, {"s": faulty("daemon-grandchild", str(tmp_path / "child"))})
    with anyio.fail_after(LONG_S), capture_logs() as logged:
        async with serve(config) as client:
            await client.echo("s")
            child = psutil.Process(read_pid(tmp_path / "child"))
            [warden] = [one for one in client.family() if "warden.py" in " ".join(one.cmdline())]
            warden.kill()
            client.signal(signal.SIGKILL)
            await client.process.wait()
            assert alive([child]) == [child]
            async with open_gateway(load(config), serves=True) as gateway:
                echo = ToolCall(name="s__echo", arguments={"text": "anew"})
                assert text_of(await gateway.call(echo, viewer=LOCAL_USER)) == "anew"
                assert alive([child]) == []
    assert len([line for line in logged if "that was killed" in line["event"]]) == 1


def alive(family: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; a process id that was given to another process since does not count."""
    return [process for process in family if process.is_running() and not is_gone(process.pid)]


async def all_gone(family: Sequence[psutil.Process]) -> None:
    """Wait for the end of all; those that stay are named, and ended so that they disturb no other test."""
    try:
        await eventually(lambda: not alive(family), within_s=GONE_WITHIN_S)
    except TimeoutError:
        left = [str(process) for process in alive(family)]
        parents = [str(process.parent()) for process in alive(family)]
        for process in alive(family):
            process.kill()
        pytest.fail(f"left over: {left}, children of {parents}")


async def test_a_second_signal_ends_the_gateway_at_once_and_still_leaves_nothing(config: Path) -> None:
    with anyio.fail_after(LONG_S):
        async with serve(config) as client:
            await client.echo("deaf")
            family = [*client.family()]
            client.signal(signal.SIGTERM)
            await anyio.sleep(0.2)
            client.signal(signal.SIGTERM)
            await client.process.wait()
            await all_gone(family)


async def test_a_thousand_calls_at_once_over_twenty_servers_each_get_their_own_answer(tmp_path: Path) -> None:
    """Source: issue "Foundation", Tests: no orphan process is left and no answer is lost."""
    answers: dict[int, str] = {}
    servers = {f"s{number}": faulty("count") for number in range(BACKENDS)}
    before = set(psutil.Process().children(recursive=True))
    async with open_house(tmp_path, servers, limits={"max_starting": 8}) as house:

        async def call(number: int) -> None:
            answers[number] = await house.text(f"s{number % BACKENDS}__add", a=number, b=0.5)

        started = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(call, number)
        elapsed = time.monotonic() - started
        family = set(psutil.Process().children(recursive=True)) - before
        assert len(family) == BACKENDS + 1, "the servers and their warden"
    left = alive([*family])
    print(  # noqa: T201  # the figures for the closing note
        f"{len(answers)} of {CALLS} answers over {BACKENDS} servers in {elapsed:.2f} s, {len(left)} orphans"
    )
    assert answers == {number: str(number + 0.5) for number in range(CALLS)}
    assert left == []
