"""How a program in the jail ends: why is told apart, and nothing of it is left."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.backends.container_rig import options, probing
from tests.backends.jail_rig import CAGE, SOON_S, JailRig, inside, jail_rig
from tests.backends.rig import Left, eventually, is_gone
from tests.support import prefork
from tests.support.jails import means, require_groups, require_jail

from maitred.backends.base import ConnectError, Ending
from maitred.backends.isolation.cgroups import sweep
from maitred.backends.stdio import StdioBackend
from maitred.errors import ConnectionLostError
from maitred.model.servers import Mount

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig() -> Iterator[JailRig]:
    with jail_rig() as made:
        yield made


async def ending_of(backend: StdioBackend, tool: str, **arguments: Any) -> tuple[str, str]:
    """Call a tool that does not come back; how that ended, as the backend tells it afterwards."""
    reason = ""
    with anyio.fail_after(SOON_S):
        async with probing(backend) as probe:
            reason = await probe.last_call(tool, **arguments)
    told = backend.ending("nothing")
    assert told.reason == reason
    return told.kind, told.reason


# --- why --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "reason"),
    [
        ("exit", {"code": 3}, "exit", "it exited with code 3; its last words: leaving with 3"),
        ("exit", {"code": 200}, "exit", "it exited with code 200; its last words: leaving with 200"),
        ("die", {"signal": signal.SIGSEGV}, "exit", "it was ended by SIGSEGV"),
        ("die", {"signal": signal.SIGKILL}, "killed", "it was ended by SIGKILL"),
        ("die", {"signal": signal.SIGTERM}, "killed", "it was ended by SIGTERM"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_an_end_is_told_by_what_the_kernel_says(
    tool: str, arguments: Any, kind: str, reason: str, rig: JailRig
) -> None:
    """A code, a fault of its own, a signal that somebody sent; through bubblewrap, with the last words."""
    assert await ending_of(rig.backend(), tool, **arguments) == (kind, reason)


async def test_an_end_for_want_of_memory_is_told(rig: JailRig) -> None:
    """The kernel ended it, and says so."""
    require_groups()
    kind, reason = await ending_of(rig.backend(), "memory", bytes=2 * CAGE.memory)

    assert kind == "memory"
    assert reason == "the kernel ended it: it needed more memory than its 96 MiB"


@pytest.mark.parametrize(("code", "kind"), [(0, "exit"), (4, "memory")])
async def test_that_a_child_of_it_ended_for_want_of_memory_counts_if_it_fails_too(
    code: int, kind: str, rig: JailRig
) -> None:
    """It went on and left in peace; if it fails later, the kernel is believed, as of a container."""
    require_groups()
    backend = rig.backend()
    with anyio.fail_after(SOON_S):
        async with probing(backend) as probe:
            hog = [sys.executable, "-IS", "-c", f"b'x' * {2 * CAGE.memory}"]
            assert (await probe.call("run", argv=hog))["code"] == -signal.SIGKILL
            await probe.last_call("exit", code=code)

    assert backend.ending("nothing").kind == kind


@pytest.mark.parametrize("which", ["the program", "its jailer"])
async def test_whoever_is_killed_from_outside_was_killed(which: str, rig: JailRig) -> None:
    """The program itself, or what stands around it."""
    backend = rig.backend()
    with anyio.fail_after(SOON_S):
        async with probing(backend) as probe:
            program = inside(backend)
            (program if which == "the program" else psutil.Process(backend.pid)).kill()
            assert await probe.connection.closed() == "it was ended by SIGKILL"
            await eventually(lambda: is_gone(program.pid))

    assert backend.ending("nothing").kind == "killed"


async def test_an_end_of_our_doing_has_no_cause_of_its_own(rig: JailRig) -> None:
    """The reason is that of whoever ended it, such as a check of health."""
    backend = rig.backend()
    async with probing(backend):
        pass

    assert backend.ending("it was stopped") == Ending(kind="lost", reason="it was stopped")


async def test_a_program_that_cannot_start_says_why(rig: JailRig, tmp_path: Path) -> None:
    """A library or an interpreter that it does not see is named by its last words."""
    kind, reason = await failed_start(rig, tmp_path / "server", "exec /nowhere/python server.py")

    assert (kind, "it exited with code 127; its last words" in reason) == ("exit", True)
    assert "/nowhere/python" in reason


async def test_a_program_that_fetches_packages_is_told_that_it_cannot(rig: JailRig, tmp_path: Path) -> None:
    """It gives up at once instead of trying again and again, and whoever reads of it knows why."""
    told = 'echo "offline: $npm_config_offline $UV_OFFLINE" >&2; exit 1'
    kind, reason = await failed_start(rig, tmp_path / "npx", told)
    _, granted = await failed_start(rig, tmp_path / "uvx", told, network=True)

    assert kind == "exit"
    assert "fetches its package when it is started, and was granted no network: install" in reason
    assert reason.endswith("its last words: offline: true 1")
    assert granted == "it exited with code 1; its last words: offline:"


def install(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


async def failed_start(rig: JailRig, program: Path, script: str, **cage: Any) -> tuple[str, str]:
    """How a program ends that is no server."""
    install(program, script)
    backend = rig.backend(command=str(program), args=(), cage=cage)
    with anyio.fail_after(SOON_S), pytest.raises((ConnectError, ConnectionLostError, ExceptionGroup)):
        async with backend.connect(options()):
            raise AssertionError("it was started")
    told = backend.ending("nothing")
    return told.kind, told.reason


# --- what is left -----------------------------------------------------------------------------------------

GRACEFUL = """
import json, signal, sys, time

def leave(*_):
    open(sys.argv[1], "w").write("left")
    raise SystemExit

signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2:] else leave)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "unwilling", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize("heeds", [True, False], ids=["heeds", "ignores"])
async def test_a_program_that_does_not_end_with_its_input_is_asked_and_then_ended(
    heeds: bool, rig: JailRig, tmp_path: Path
) -> None:
    """The signal reaches the program in its jail, and nothing is left of it or of its group."""
    mount = Mount(path=str(tmp_path), at=str(tmp_path), writable=True)
    args = ("-IS", "-c", GRACEFUL, str(tmp_path / "left"), *(() if heeds else ("deaf",)))
    left = Left()
    backend = rig.backend(mount, args=args)
    with anyio.fail_after(SOON_S):
        async with backend.connect(options()):
            groups = group_names()
        rig.warden.close()
        await left.nothing()

    assert (tmp_path / "left").exists() == heeds
    assert any(rig.warden.mark in name for name in groups) or means().groups is None
    assert not any(rig.warden.mark in name for name in group_names())


def group_names() -> list[str]:
    tree = means().groups
    return list(tree.names()) if tree else []


async def test_what_a_program_leaves_behind_ends_with_it(rig: JailRig) -> None:
    """A process of its own session that cleared its environment, ignores signals and lost its parent."""
    backend = rig.backend()
    with anyio.fail_after(SOON_S):
        async with probing(backend) as probe:
            await probe.call("stray")
            family = psutil.Process(backend.pid).children(recursive=True)
            assert len(family) == 3
            await probe.last_call("exit")
            await eventually(lambda: all(is_gone(process.pid) for process in family))


GATEWAY = """
import os, anyio, psutil
from tests.backends.container_rig import probing
from tests.backends.jail_rig import JailRig

async def main():
    rig = JailRig()
    backend = rig.backend()
    async with probing(backend) as probe:
        await probe.call("stray")
        family = [backend.pid, *(one.pid for one in psutil.Process(backend.pid).children(recursive=True))]
        print("ready", rig.warden.mark, os.getpid(), *family, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_nothing_outlives_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """All processes of the jail are gone at once; its group is removed by whoever comes next."""
    require_jail()
    (tmp_path / "gateway.py").write_text(GATEWAY, encoding="utf-8")
    command = prefork.script(tmp_path / "gateway.py")
    with anyio.fail_after(SOON_S):
        async with await anyio.open_process(command, stderr=None) as launched:
            assert launched.stdout is not None
            lines = BufferedByteReceiveStream(launched.stdout)
            words: list[str] = []
            while words[:1] != ["ready"]:
                words = (await lines.receive_until(b"\n", 4096)).decode().split()
            _, mark, gateway, *pids = words
            os.kill(int(gateway), signal.SIGKILL)
    await eventually(lambda: all(is_gone(int(pid)) for pid in pids), within_s=SOON_S)
    removed = sweep(lambda found: found == mark)

    assert len(pids) == 4
    assert len(removed) == (means().groups is not None)
    assert not any(mark in name for name in group_names())
