"""A program in the jail: what it is granted, what it is refused, and what others see of it."""

import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from tests.backends.container_rig import Probe, options, probing
from tests.backends.jail_rig import CAGE, SOON_S, JailRig, jail_rig
from tests.support.jails import means, require_jail
from tests.support.real_servers import Place, RealServer, require

from maitred.backends.base import NOT_ASKED, ConnectError
from maitred.backends.isolation import jail
from maitred.backends.isolation.jail import JailMeans, ProgramJail, find_means
from maitred.backends.stdio import StdioBackend
from maitred.model.servers import Mount
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio
SECRET = "s3cret-that-was-granted"


@pytest.fixture
def rig() -> Iterator[JailRig]:
    with jail_rig() as made:
        yield made


@asynccontextmanager
async def running(backend: StdioBackend) -> AsyncIterator[Probe]:
    """A session with the probe server, which may not last for ever."""
    with anyio.fail_after(SOON_S):
        async with probing(backend) as probe:
            yield probe


async def refused(backend: StdioBackend) -> str:
    """Why a server cannot be started."""
    with anyio.fail_after(SOON_S), pytest.raises(ConnectError) as caught:
        async with backend.connect(options()):
            raise AssertionError("it was started")
    return str(caught.value)


# --- what it is granted -----------------------------------------------------------------------------------


async def test_granted_folders_are_seen_where_they_were_granted(rig: JailRig, tmp_path: Path) -> None:
    """To read, or to change where that was granted too; a link in one leads to nothing that was not.

    A socket in one can be spoken to, as docs/security.md says.
    """
    read, change = tmp_path / "read", tmp_path / "change"
    for folder in (read, change):
        folder.mkdir()
        (folder / "note").write_text("granted", encoding="utf-8")
    (tmp_path / "secret").write_text(SECRET, encoding="utf-8")
    (read / "out").symlink_to(tmp_path / "secret")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(read / "socket"))
    listener.listen()
    mounts = (Mount(path=str(read), at="/srv/data"), Mount(path=str(change), at=str(change), writable=True))
    async with running(rig.backend(*mounts)) as probe:
        assert (await probe.call("read", path="/srv/data/note"))["text"] == "granted"
        assert (await probe.call("write", path="/srv/data/new"))["error"] == "EROFS"
        assert (await probe.call("unix", path="/srv/data/socket"))["ok"]
        assert (await probe.call("read", path="/srv/data/out"))["error"] == "ENOENT"
        assert (await probe.call("write", path=f"{change}/new", bytes=3))["ok"]
        assert (await probe.call("list", path=str(tmp_path)))["names"] == ["change"]

    assert (change / "new").stat().st_size == 3
    listener.close()


async def test_what_is_not_what_was_granted_is_not_given(rig: JailRig, tmp_path: Path) -> None:
    """It became a link, is below one, is gone, or is a socket."""
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    expected = {
        "link": f"is a link, or below one, and leads to {tmp_path}/real: grant that itself",
        "link/below": f"is a link, or below one, and leads to {tmp_path}/real/below",
        "gone": "cannot be used: No such file",
        "socket": "is a socket, which gives control over another program",
    }
    for name, why in expected.items():
        path = str(tmp_path / name)
        told = await refused(rig.backend(Mount(path=path, at=path)))
        assert f"{path}, which it was granted, {why}" in told
    listener.close()


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777])
@pytest.mark.parametrize("at_once", [False, True])
async def test_no_program_that_runs_as_its_owner_is_left_where_it_may_write(
    mode: int, at_once: bool, rig: JailRig, tmp_path: Path
) -> None:
    """Outside it would run as whoever runs the gateway. Source: issue "What broke", 9."""
    backend = rig.backend(Mount(path=str(tmp_path), at=str(tmp_path), writable=True))
    async with probing(backend) as probe:
        told = await probe.call("mode", path=str(tmp_path / "evil"), mode=mode, at_once=at_once)
        usual = await probe.call("mode", path=str(tmp_path / "usual"), mode=0o755, at_once=at_once)

    assert (told["ok"], told.get("error")) == (False, "EPERM")
    assert usual["ok"]
    made = [
        await anyio.Path(tmp_path / name).stat()
        for name in ("evil", "usual")
        if name == "usual" or not at_once
    ]
    assert [one for one in made if one.st_mode & 0o6000] == []


@pytest.mark.parametrize("below", ["", "lib/python/site-packages/server"])
async def test_nothing_is_laid_over_the_program_that_was_approved(
    below: str, rig: JailRig, tmp_path: Path
) -> None:
    """Else a folder that anybody may write would be the program."""
    place = Path(sys.executable).parent.parent
    backend = rig.backend(Mount(path=str(tmp_path), at=str(place / below)))

    assert "would cover the program itself" in await refused(backend)


async def test_a_folder_for_the_socket_of_an_engine_is_not_given(
    rig: JailRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that the environment or the settings name, and before it is there."""
    mount = Mount(path=str(tmp_path), at=str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    of_environment = await refused(rig.backend(mount))
    monkeypatch.delenv("DOCKER_HOST")
    rig.jail = ProgramJail(mark=rig.warden.mark, marks={}, sockets=[f"{tmp_path}/below/engine.sock"])
    of_settings = await refused(rig.backend(mount))

    assert of_environment == of_settings
    assert of_settings.endswith("holds the socket of a container engine, which controls this machine")


async def test_a_folder_below_one_where_another_server_may_write_is_not_given(
    rig: JailRig, tmp_path: Path
) -> None:
    """It could become a link after it was looked at; what the server itself may write is no reason."""
    below = tmp_path / "below"
    below.mkdir()
    above = Mount(path=str(tmp_path), at=str(tmp_path), writable=True)
    other, own = (rig.backend(above, name=name).spec for name in ("other", "probe"))
    rig.jail = ProgramJail(mark=rig.warden.mark, marks={}, others=lambda: [own, other])
    told = await refused(rig.backend(Mount(path=str(below), at=str(below))))

    assert f"{below}, which it was granted, lies in {tmp_path}, where other may write" in told


async def test_a_folder_that_hangs_does_not_hold_who_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a network may: the start is left at once, and whatever it made is cleared up."""
    began, goes_on, cleared = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object) -> str:
        began.set()
        goes_on.wait(SOON_S)
        return "hung"

    def leave(cell: jail._Cell) -> None:
        leave_really(cell)
        cleared.set()

    leave_really = jail._Cell.leave
    monkeypatch.setattr(jail, "why_refused", hang)
    monkeypatch.setattr(jail._Cell, "leave", leave)
    with jail_rig() as rig, anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, rig.backend(Mount(path=str(tmp_path), at=str(tmp_path))))
            await anyio.to_thread.run_sync(began.wait)
            tasks.cancel_scope.cancel()
        assert not cleared.is_set()
        goes_on.set()
        assert await anyio.to_thread.run_sync(cleared.wait, SOON_S)


async def test_a_network_that_was_granted_is_that_of_the_machine(rig: JailRig) -> None:
    """With its loopback address and its names; processes and files stay out of reach."""
    with socket.create_server(("127.0.0.1", 0)) as service:
        async with running(rig.backend(cage={"network": True})) as probe:
            port = service.getsockname()[1]
            assert (await probe.call("connect", host="127.0.0.1", port=port))["ok"]
            assert (await probe.call("resolve", host="localhost"))["ok"]
            assert (await probe.call("kill", pid=os.getpid(), signal=0))["error"] == "ESRCH"


async def test_without_a_network_its_own_name_is_known(rig: JailRig) -> None:
    """A server may well listen to itself; that nothing else is there is told in the table of probes."""
    async with running(rig.backend()) as probe:
        assert "127.0.0.1" in (await probe.call("resolve", host="localhost"))["addresses"]


# --- what is refused --------------------------------------------------------------------------------------


async def test_without_bubblewrap_nothing_is_started_and_it_is_said_what_to_do() -> None:
    """Not even where the program itself is missing: first things first."""
    rig = JailRig(JailMeans(why_not="bubblewrap (bwrap) is not installed"))

    assert await refused(rig.backend(command="no-such-program")) == (
        "it may only run in a jail, and there is none here: bubblewrap (bwrap) is not installed. Install"
        " bubblewrap, or set `isolation.jail: none` to run such programs as they are"
        " (`maitred docs isolation`)"
    )
    rig.warden.close()


async def test_bubblewrap_that_is_installed_later_is_found(tmp_path: Path) -> None:
    """Without another start of the gateway; one that is there is not tried again, one that went is missed."""
    require_jail()
    program = tmp_path / "bwrap"
    later = ProgramJail(mark=f"later-{os.getpid()}", marks={}, program=str(program))
    before = await later.means()
    program.symlink_to(means().bwrap)
    after, again = await later.means(), await later.means()
    program.unlink()

    assert before.why_not == "bubblewrap (bwrap) is not installed"
    assert after.bwrap == str(program)
    assert again is after
    assert (await later.means()).why_not == before.why_not


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("echo 'bwrap: Creating new namespace failed' >&2; exit 1", "bwrap: Creating new namespace failed"),
        ("echo 'bubblewrap 0.4.1'; [ $1 = --version ]", "it ended with code 1"),
        (
            '[ $1 = --version ] && echo "bubblewrap 0.6.1" && exit; echo "Unknown option --disable-userns";'
            " exit 1",
            "bubblewrap 0.6.1 is too old, 0.8.0 is needed",
        ),
    ],
)
def test_bubblewrap_that_does_not_work_is_none(says: str, told: str, tmp_path: Path) -> None:
    """It is tried: containers often forbid it, and old versions cannot do all that is needed."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    program.chmod(0o755)
    found = find_means("0-trial", str(program))

    assert found.bwrap == ""
    assert found.why_not.startswith("bubblewrap does not work here: ")
    assert told in found.why_not or found.why_not.endswith("bubblewrap 0.4.1")


async def test_a_program_that_is_told_of_what_it_does_not_see_is_not_started(
    rig: JailRig, tmp_path: Path
) -> None:
    """A script, a file in an option, a folder to start in, a path in its environment: with what to grant."""
    script = tmp_path / "server.py"
    script.write_text("pass", encoding="utf-8")
    told = f"its configuration names {script}, which its jail does not show;"
    grant = (
        f"grant it in its manifest, such as `filesystem: [{{path: {tmp_path}}}]` (`maitred docs isolation`)"
    )

    assert await refused(rig.backend(args=(str(script),))) == f"{told} {grant}"
    assert told in await refused(rig.backend(args=(f"--config={script}",)))
    assert told in await refused(rig.backend(env={"CONFIG": str(script)}))
    assert f"names {tmp_path}," in await refused(rig.backend(cwd=str(tmp_path)))


async def test_a_path_that_is_nowhere_or_private_to_it_is_its_own_affair(
    rig: JailRig, tmp_path: Path
) -> None:
    """What it is told of may be made by itself, and of folders that every jail has there is one."""
    (tmp_path / "note").write_text("granted", encoding="utf-8")
    spoken = {"OUT": str(tmp_path / "later"), "TMP": "/tmp", "NULL": "/dev/null", "SHELL": "/bin/sh"}
    spoken["LONG"] = "/" + 300 * "long"  # no name of a file can have as many letters
    mount = Mount(path=str(tmp_path), at=str(tmp_path))
    async with running(rig.backend(mount, env=spoken, cwd=str(tmp_path))) as probe:
        assert (await probe.call("hello"))["cwd"] == str(tmp_path)
        assert (await probe.call("read", path="note"))["text"] == "granted"


async def test_a_program_that_is_not_there_is_told(rig: JailRig) -> None:
    """As for one that runs without a jail."""
    assert "'no-such-program' is not on PATH" in await refused(rig.backend(command="no-such-program"))
    assert "does not exist or is not executable" in await refused(rig.backend(command="/no/such/program"))


# --- what others see of it --------------------------------------------------------------------------------


async def test_what_it_is_told_is_seen_by_nobody_else_and_does_not_reach_the_jailer(rig: JailRig) -> None:
    """A secret stands on no command line, and a library to load first is loaded inside alone."""
    told = {"TOKEN": SECRET, "LD_PRELOAD": "/nowhere/first.so"}
    backend = rig.backend(env=told)
    async with running(backend) as probe:
        seen = (await probe.call("environment"))["variables"]
        jailer = psutil.Process(backend.pid)
        family = [jailer, *jailer.children(recursive=True)]
        lines = [" ".join(process.cmdline()) for process in family]
        own = jailer.environ()

    assert told.items() <= seen.items()
    assert len(family) == 3
    assert SECRET not in "\n".join(lines)
    assert own == rig.warden.environment


async def test_a_flood_holds_up_its_server_alone(rig: JailRig) -> None:
    """An answer is given out at the agreed rate and complete; meanwhile another server answers at once."""
    size, rate = 3_000_000, 2_000_000
    slow, other = rig.backend(cage={"output": rate}), rig.backend()
    async with running(slow) as flooding, running(other) as quick:
        started = time.monotonic()
        waited = []

        async def flood() -> None:
            answer = await flooding.call("blob", bytes=size)
            assert answer["data"] == "b" * size
            tasks.cancel_scope.cancel()

        async def ask() -> None:
            while True:
                asked = time.monotonic()
                await quick.call("hello")
                waited.append(time.monotonic() - asked)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            tasks.start_soon(ask)
        took = time.monotonic() - started

    assert took > 0.8 * (size - rate) / rate
    assert len(waited) >= 3
    assert sorted(waited)[len(waited) // 2] < took / 4


async def test_standard_error_counts_as_output(rig: JailRig) -> None:
    """Else it would be a way to keep the gateway busy."""
    async with running(rig.backend(cage={"output": 1_000_000})) as probe:
        answer = await probe.call("flood", bytes=1_500_000, stream="stderr")

    assert answer["wall_s"] > 0.3


# --- real servers -----------------------------------------------------------------------------------------


def real(rig: JailRig, server: RealServer, folder: Path, **cage: Any) -> StdioBackend:
    """The backend of a server that others wrote, which may change files in a folder."""
    server.prepare(folder)
    return rig.backend(
        Mount(path=str(folder), at=str(folder), writable=True),
        command=str(server.program),
        args=tuple(server.args(folder)),
        env=dict(server.env(folder)),
        cage={"memory": 2**30, "pids": 64, **cage},
    )


@pytest.mark.parametrize("name", ["time", "memory"])
async def test_real_servers_answer_in_the_jail(name: str, rig: JailRig, tmp_path: Path) -> None:
    """One of a Python environment, and one of Node that keeps a file in a folder that it was granted."""
    (server,) = require(name)
    with anyio.fail_after(SOON_S):
        async with real(rig, server, tmp_path).connect(replace(options(), era="auto")) as connection:
            listing = await connection.list_tools()
            assert len(listing.tools) == server.tools
            for one in server.calls(Place(folder=tmp_path)):
                call = ToolCall(name=one.tool, arguments=one.arguments)
                answer = await connection.call_tool(one.tool, call, timeout_s=SOON_S, caller=NOT_ASKED)
                assert one.says in str(answer)


async def test_node_lives_with_limits_for_each_process(tmp_path: Path) -> None:
    """Without control groups memory is bounded by what a process may write to, not by what it reserves."""
    (server,) = require("memory")
    with jail_rig(replace(means(), groups=None)) as rig, anyio.fail_after(SOON_S):
        backend = real(rig, server, tmp_path, memory=400 * 2**20)
        async with backend.connect(replace(options(), era="auto")) as connection:
            assert len((await connection.list_tools()).tools) == server.tools
            assert "ulimit -d" in " ".join(psutil.Process(backend.pid).cmdline())


async def test_without_control_groups_memory_is_bounded_for_each_process() -> None:
    """The kernel refuses it, and the program goes on as it likes."""
    with jail_rig(replace(means(), groups=None)) as rig:
        async with running(rig.backend()) as probe:
            take = "import sys; bytes(int(sys.argv[1]))"
            for size, last in ((CAGE.memory // 2, ""), (2 * CAGE.memory, "MemoryError")):
                argv = [sys.executable, "-IS", "-c", take, str(size)]
                assert (await probe.call("run", argv=argv))["output"].strip().endswith(last)
