"""How a container's end is told, and that nothing is left of it or runs twice, whatever went wrong."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.backends.container_rig import CAGE, PODMAN, SOON_S, Rig, options, probing
from tests.support.podman import IMAGE, Podman

from maitred.backends.base import NOT_ASKED, ConnectError
from maitred.backends.isolation.container import ContainerBackend
from maitred.backends.isolation.engine_api import Engine, Engines
from maitred.backends.orphans import ClaimRegistry
from maitred.config.settings import Isolation
from maitred.errors import CallTimeoutError
from maitred.model.tools import ToolCall
from maitred.wiring.isolation import make_engines

pytestmark = PODMAN


@pytest.mark.parametrize(("code", "said"), [(0, "it exited with code 0"), (3, "it exited with code 3")])
async def test_an_exit_is_told_with_its_code_and_last_words(rig: Rig, code: int, said: str) -> None:
    """As of any other process."""
    backend = rig.backend()
    async with probing(backend) as probe:
        reason = await probe.last_call("exit", code=code)

    assert reason == f"{said}; its last words: leaving with {code}"
    assert backend.ending(reason).kind == "exit"


KILLS: dict[str, tuple[Callable[[Podman, int, str], object], str]] = {
    "by the engine": (lambda podman, _, name: podman.run("kill", name), "was ended from outside"),
    "by a signal": (lambda _, pid, __: os.kill(pid, signal.SIGKILL), "was ended by SIGKILL"),
    "by removal": (
        lambda podman, _, name: podman.run("rm", "-f", "-t0", name),
        "SIGKILL|removed from outside",
    ),
}


@pytest.mark.parametrize("how", KILLS)
async def test_a_kill_is_told_from_an_exit_and_from_want_of_memory(
    rig: Rig, podman: Podman, how: str
) -> None:
    """Whoever did it, and however."""
    kill, said = KILLS[how]
    backend = rig.backend()
    async with probing(backend) as probe:
        assert backend.pid is not None
        (name,) = podman.containers()
        await anyio.to_thread.run_sync(kill, podman, backend.pid, name)
        reason = await probe.connection.closed()

    assert re.search(said, reason)
    assert backend.ending(reason).kind == "killed"
    assert podman.containers() == []


async def test_want_of_memory_leaves_nothing_where_the_tests_run(rig: Rig) -> None:
    """The monitor of a container writes the file `oom` into the folder in which its engine was started."""
    trace = Path("oom")
    async with probing(rig.backend()) as probe:
        await probe.last_call("memory", bytes=CAGE.memory * 4)

    assert not await anyio.to_thread.run_sync(trace.exists)


async def test_one_that_answers_no_more_is_removed_all_the_same(rig: Rig, podman: Podman) -> None:
    """It reads nothing, and takes no notice of being asked to end."""
    async with probing(rig.backend()) as probe:
        with pytest.raises(CallTimeoutError):
            await probe.connection.call_tool(
                "hang", ToolCall(name="hang", arguments={}), timeout_s=0.1, caller=NOT_ASKED
            )
        assert probe.connection.alive

    assert podman.containers() == []


async def test_what_is_no_server_is_told_with_its_last_words(rig: Rig, podman: Podman) -> None:
    """Of a program that ends at once, and of one that is not there."""
    refused = {
        ("-c", "raise SystemExit('no token')"): "it exited with code 1; its last words: no token",
        ("/srv/gone.py",): "it exited with code 2; its last words: .*No such file",
    }
    for args, said in refused.items():
        with pytest.raises(ExceptionGroup) as raised:
            async with rig.backend(args=args).connect(options()):
                raise AssertionError
        assert raised.group_contains(ConnectError, match=said)
    assert podman.containers() == []


@pytest.mark.parametrize("after_s", [0.0, 0.03, 0.06, 0.1, 0.15, 0.2])
async def test_a_start_that_was_given_up_leaves_nothing(rig: Rig, podman: Podman, after_s: float) -> None:
    """At whatever moment."""
    backend = rig.backend()
    await rig.engines.engine()
    with anyio.move_on_after(after_s):
        async with probing(backend) as probe:
            await probe.call("sleep", seconds=60)

    assert podman.containers() == []


# --- the engine -------------------------------------------------------------------------------------------


async def test_an_engine_that_is_killed_ends_the_session_and_no_server_runs_twice(
    rig: Rig, podman: Podman
) -> None:
    """The container outlives it; it is removed before the next is made, once the engine is back."""
    backend = rig.backend()
    async with probing(backend) as probe:
        podman.kill()
        reason = await probe.connection.closed()
    assert "does not answer any more" in reason
    assert backend.ending(reason).kind == "lost"
    assert len(podman.containers()) == 1
    with pytest.raises(ConnectError, match="no engine for containers answers: start Docker, or Podman's"):
        async with backend.connect(options()):
            raise AssertionError

    podman.start()
    async with probing(backend) as probe:
        assert (await probe.call("hello"))["ok"]
        assert len(podman.containers()) == 1
    assert podman.containers() == []


async def test_a_container_that_could_not_be_removed_is_before_an_edited_server_starts(
    rig: Rig, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backend is another one then, and still none runs twice."""
    monkeypatch.setattr("maitred.backends.isolation.container._REMOVE_S", 0.0)
    async with probing(rig.backend()) as probe:
        await probe.call("hello")
        (old,) = podman.containers()
    monkeypatch.undo()
    async with probing(rig.backend(cage={"cpu_shares": 512})) as probe:
        await probe.call("hello")
        (new,) = podman.containers()

    assert new != old


async def test_an_engine_that_hangs_holds_all_starts_up_once() -> None:
    """Not one after the other: who comes while it is looked for is told what came of that."""
    looked, told = [], []
    waiting = anyio.Event()

    async def opened() -> Engine:
        looked.append(1)
        await waiting.wait()
        raise ConnectError("none answers")

    engines = Engines(opened, catalog="c0ffee00")

    async def ask() -> None:
        with pytest.raises(ConnectError, match="none answers"):
            await engines.engine()
        told.append(1)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        waiting.set()
    assert (len(looked), len(told)) == (1, 20)
    await ask()
    assert len(looked) == 2


async def test_an_engine_that_hangs_holds_nobody_up(rig: Rig, podman: Podman) -> None:
    """Whoever does not want to wait does not."""
    await rig.engines.engine()
    podman.pause(on=True)
    try:
        with anyio.move_on_after(0.2) as scope, anyio.fail_after(120):
            async with rig.backend().connect(options()):
                raise AssertionError
    finally:
        podman.pause(on=False)

    assert scope.cancelled_caught


async def test_where_no_engine_is_the_error_says_what_was_tried(rig: Rig) -> None:
    """And what to do."""
    for address, said in {
        "unix:///nowhere/engine.sock": "or DOCKER_HOST to its address (unix:///nowhere/engine.sock: ",
        "tcp://127.0.0.1:1": "(tcp://127.0.0.1:1: ",
        "ssh://elsewhere": "(ssh://elsewhere: only unix:// and tcp:// addresses without TLS can be used)",
    }.items():
        engines = make_engines(Isolation(engine=address), rig.warden.mark)
        with pytest.raises(ConnectError) as raised:
            await engines.engine()
        assert said in str(raised.value)


async def test_an_image_that_was_removed_is_named(rig: Rig, podman: Podman) -> None:
    """With the command that brings it back."""
    name = "localhost/maitred-gone:1"
    podman.run("tag", IMAGE, name)
    backend = rig.backend(image=name)
    async with probing(backend) as probe:
        await probe.call("hello")
    podman.run("rmi", name)

    with pytest.raises(ConnectError, match=f"{name} is not on this machine.*with podman pull {name}"):
        async with backend.connect(options()):
            raise AssertionError


# --- the gateway ------------------------------------------------------------------------------------------

_GATEWAY = """
import sys, anyio
from tests.backends.container_rig import Rig, probing
class Socket:
    address = sys.argv[1]
async def main():
    async with probing(Rig(Socket()).backend()) as probe:
        await probe.call("hello")
        print("ready", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def test_a_gateway_that_is_killed_takes_its_containers_with_it(podman: Podman) -> None:
    """By the warden."""
    command = [sys.executable, "-c", _GATEWAY, podman.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        gateway.stdout.readline()
        assert len(podman.containers()) == 1
        gateway.kill()
    until = time.monotonic() + SOON_S
    while podman.containers():
        assert time.monotonic() < until


async def test_what_a_gateway_and_its_warden_left_is_removed_by_the_next(
    rig: Rig, podman: Podman, tmp_path: Path
) -> None:
    """Of the same catalog; what others started, and what lives, stays."""
    catalog = tmp_path / "c.db"
    dead, other = (f"c0ffee00-{os.getpid()}-1-{number:08}" for number in range(2))
    ClaimRegistry(catalog, "containers").take(dead).release(left=True)
    await left(rig, "orphan", mark=dead)
    await left(rig, "other-catalog", mark=other)
    await left(rig, "alive", mark=rig.warden.mark)
    engines = make_engines(Isolation(engine=podman.address), rig.warden.mark, path=catalog)

    await engines.remove_orphans()
    assert sorted(podman.containers()) == ["alive", "other-catalog"]
    engines.close()
    podman.run("rm", "--all", "--force", "--time=0")


async def left(rig: Rig, name: str, *, mark: str) -> None:
    """A container that somebody made and did not remove."""
    backend: ContainerBackend = rig.backend()
    engine = await rig.engines.engine()
    made = await backend._container_spec(engine)
    await engine.create(name, replace(made, labels={**made.labels, "maitred.gateway": mark}))
