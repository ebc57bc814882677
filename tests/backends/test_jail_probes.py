"""What a program in the jail can reach: it tries, and a table says what it is told.

All rows are tried in one run of the program, so that each of them costs a call.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.backends.container_rig import probing
from tests.backends.jail_rig import CAGE, PROBE, SOON_S, jail_rig
from tests.support.jails import means

SECRET = "s3cret-of-the-gateway"
Arguments = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Host:
    """What there is on this machine to be reached, or not to be."""

    file: Path
    unix: Path
    abstract: str
    tcp: int
    udp: socket.socket

    @property
    def udp_port(self) -> int:
        return int(self.udp.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One attempt, and the error that it ends with."""

    what: str
    tool: str
    error: str
    arguments: Callable[[Host], Arguments]


def row(what: str, tool: str, error: str, **arguments: Any) -> Row:
    return Row(what=what, tool=tool, error=error, arguments=lambda _: arguments)


def own(port: int) -> Arguments:
    return {"host": "127.0.0.1", "port": port}


def of_host(what: str, tool: str, error: str, arguments: Callable[[Host], Arguments]) -> Row:
    return Row(what=what, tool=tool, error=error, arguments=arguments)


FILES = [
    of_host("a file of this machine", "read", "ENOENT", lambda host: {"path": str(host.file)}),
    of_host("its folder", "list", "ENOENT", lambda host: {"path": str(host.file.parent)}),
    row("the hashes of passwords", "read", "ENOENT", path="/etc/shadow"),
    row("the name of this machine", "read", "ENOENT", path="/etc/hostname"),
    row("what runs", "list", "ENOENT", path="/run"),
    row("data of services", "list", "ENOENT", path="/var"),
    row("devices of the kernel", "list", "ENOENT", path="/sys"),
    row("disks", "read", "ENOENT", path="/dev/vda"),
    row("memory of the machine", "read", "ENOENT", path="/dev/mem"),
    row("another process", "read", "ENOENT", path=f"/proc/{os.getpid()}/environ"),
    row("write to the system", "write", "EROFS", path="/usr/bin/probe"),
    row("write to the root", "write", "EROFS", path="/probe"),
    row("write to the settings", "write", "EROFS", path="/etc/probe"),
    row("write to the devices", "write", "EROFS", path="/dev/probe"),
    row("write to what it is installed in", "write", "EROFS", path=f"{sys.prefix}/probe"),
    row("change a program", "remove", "EROFS", path="/usr/bin/env"),
]
NETWORK = [
    of_host("a service of this machine", "connect", "ECONNREFUSED", lambda host: own(host.tcp)),
    of_host("a socket of this machine", "unix", "ENOENT", lambda host: {"path": str(host.unix)}),
    of_host("an abstract socket", "unix", "ECONNREFUSED", lambda host: {"path": host.abstract}),
    row("the socket of Docker", "unix", "ENOENT", path="/var/run/docker.sock"),
    row("a public address", "connect", "ENETUNREACH", host="1.1.1.1", port=443),
    row("one of version 6", "connect", "ENETUNREACH", host="2606:4700:4700::1111", port=443),
    row("metadata of the cloud", "connect", "ENETUNREACH", host="169.254.169.254", port=80),
    row("a datagram", "datagram", "ENETUNREACH", host="8.8.8.8", port=53),
    row("DNS", "resolve", "gaierror", host="example.com"),
]
RIGHTS = [
    row("a namespace of users", "namespace", "ENOSPC", kind="user"),
    row("a namespace of mounts", "namespace", "EPERM", kind="mnt"),
    row("a namespace of processes", "namespace", "EPERM", kind="pid"),
    row("a namespace of networks", "namespace", "EPERM", kind="net"),
    row("mount", "mount", "EPERM", path="/tmp"),
    row("keys that are kept in the kernel", "keys", "EPERM"),
    row("a socket to the machine around this one", "family", "EAFNOSUPPORT", number=socket.AF_VSOCK),
    row("become root", "setuid", "EINVAL"),
    row("end another process", "kill", "ESRCH", pid=os.getpid()),
    row("look into another process", "ptrace", "EPERM", pid=os.getpid()),
    row("make a program that runs as its owner", "mode", "EPERM", path="/tmp/own", mode=0o4755),
]
LIMITS = [
    row("fill the temporary folder", "write", "ENOSPC", path="/tmp/probe", bytes=2 * CAGE.disk),
    row("fill its home", "write", "ENOSPC", path="/tmp/home/probe", bytes=2 * CAGE.disk),
    row("fill the shared memory", "write", "ENOSPC", path="/dev/shm/probe", bytes=2 * CAGE.disk),
    row("more processes than it may have", "fork", "EAGAIN", number=4 * CAGE.pids),
]
TABLE = [*FILES, *NETWORK, *RIGHTS, *LIMITS]
HOMES = ("/home", "/root")
SETTING = "/proc/sys/kernel/hostname"
OTHERS = ("hello", "environment", "processes", "status", "interfaces")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A file and services that are only on this machine."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "secret").write_text(SECRET, encoding="utf-8")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        for address in (str(folder / "socket"), f"\0maitred-{os.getpid()}"):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
        yield Host(
            file=folder / "secret",
            unix=folder / "socket",
            abstract=f"@maitred-{os.getpid()}",
            tcp=tcp.getsockname()[1],
            udp=udp,
        )


@pytest.fixture(scope="module")
def answers(host: Host) -> Mapping[str, Any]:
    """What the program was told, by attempt; the gateway has a secret in its own environment."""
    told: dict[str, Any] = {}

    async def attempt() -> None:
        with jail_rig() as rig, anyio.fail_after(3 * SOON_S):
            async with probing(rig.backend(env={"GRANTED": "to it"})) as probe:
                for tool in OTHERS:
                    told[tool] = await probe.call(tool)
                for place in HOMES:
                    told[place] = await probe.call("list", path=place)
                told["to itself"] = await probe.call("datagram", **own(host.udp_port))
                told["setting"] = await probe.call("run", argv=["/bin/sh", "-c", f"echo jail > {SETTING}"])
                for one in TABLE:
                    told[one.what] = await probe.call(one.tool, **one.arguments(host))
                    if told[one.what].get("written"):
                        await probe.call("remove", path=one.arguments(host)["path"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAITRED_KEY", SECRET)
        anyio.run(attempt)
    return told


@pytest.mark.parametrize("one", TABLE, ids=lambda one: one.what)
def test_what_is_not_granted_is_not_reached(one: Row, answers: Mapping[str, Any]) -> None:
    """Files, network, rights, and more than it may use: each attempt fails, and as it is told here."""
    if one.tool == "fork" and means().groups is None and os.geteuid() == 0:
        pytest.skip(f"as root, processes are bounded by control groups alone: {means().why_no_groups}")
    answer = answers[one.what]

    assert (answer["ok"], answer["error"]) == (False, one.error), answer


def test_it_is_told_what_it_is_granted_and_nothing_of_the_gateway(answers: Mapping[str, Any]) -> None:
    """Neither a secret nor the mark by which its processes are known."""
    seen = answers["environment"]["variables"]

    assert seen["GRANTED"] == "to it"
    assert (seen["HOME"], seen["TMPDIR"]) == ("/tmp/home", "/tmp")
    assert SECRET not in str(answers)
    assert not [name for name in seen if "MAITRED" in name]


def test_it_sees_no_process_but_its_own(answers: Mapping[str, Any]) -> None:
    """Itself, and the first of its space, which waits for it."""
    assert len(answers["processes"]["processes"]) == 2
    assert answers["hello"]["ppid"] == 1


@pytest.mark.parametrize("place", HOMES)
def test_of_homes_it_sees_the_way_to_what_it_is_installed_in(place: str, answers: Mapping[str, Any]) -> None:
    """And nothing beside that way."""
    ways = [Path(one) for one in (sys.prefix, sys.base_prefix, PROBE) if Path(one).is_relative_to(place)]

    assert set(answers[place].get("names", ())) == {way.relative_to(place).parts[0] for way in ways}


def test_settings_of_the_kernel_cannot_be_changed(answers: Mapping[str, Any]) -> None:
    """Not even one that is its own."""
    assert not answers["setting"]["ok"]
    assert "Read-only file system" in answers["setting"]["output"]


def test_it_is_nobody_without_any_privilege(answers: Mapping[str, Any]) -> None:
    """No capability is left, none can be had again, and no program gives it one."""
    status = answers["status"]["status"]

    assert (answers["hello"]["uid"], answers["hello"]["gid"]) == (65534, 65534)
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == "1"


def test_its_network_is_its_own(answers: Mapping[str, Any], host: Host) -> None:
    """What it sends to itself goes to nobody else."""
    assert answers["interfaces"]["names"] == ["lo"]
    assert answers["to itself"]["ok"]
    with pytest.raises(BlockingIOError):
        host.udp.recv(64)


def test_limits_let_through_what_they_allow(answers: Mapping[str, Any]) -> None:
    """Each of the three places holds what it may, and so many processes do run."""
    for what in ("fill the temporary folder", "fill its home", "fill the shared memory"):
        assert answers[what]["written"] == CAGE.disk
    started = answers["more processes than it may have"]["started"]
    assert started == CAGE.pids - 1 or means().groups is None
