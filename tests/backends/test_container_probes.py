"""What runs in a container tries to get out, and says itself how far it came."""

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.backends.container_rig import CAGE, PODMAN, SOON_S, Probe, Rig, probing
from tests.support.image import VOLUME
from tests.support.podman import Podman

from maitred.backends.isolation.endings import MemoryWatch

pytestmark = PODMAN

Answer = dict[str, Any]
SECRET = "only-of-the-machine"
_ABSTRACT = f"maitred-tests-{os.getpid()}"


def failed(*errors: str) -> Callable[[Answer], bool]:
    """The guest was told one of these errors."""
    return lambda answer: not answer["ok"] and answer["error"] in errors


def said(**values: object) -> Callable[[Answer], bool]:
    """It worked, and the guest found no more than this."""
    return lambda answer: bool(answer["ok"]) and all(answer[key] == value for key, value in values.items())


def has_status(**values: str) -> Callable[[Answer], bool]:
    return lambda answer: all(answer["status"][key] == value for key, value in values.items())


def took(most: int, *errors: str, key: str) -> Callable[[Answer], bool]:
    """The guest got so much at most, and one of these errors then."""
    return lambda answer: failed(*errors)(answer) and 0 < answer[key] <= most


UNREACHABLE = failed("ENETUNREACH")
NOTHING = "0000000000000000"
PROBES: dict[str, tuple[str, dict[str, Any], Callable[[Answer], bool]]] = {
    "a file of the machine": ("read", {"path": "{secret}"}, failed("ENOENT")),
    "the machine's shadow file": ("read", {"path": "/etc/shadow"}, failed("ENOENT")),
    "root's home": ("list", {"path": "/root"}, failed("ENOENT", "EACCES")),
    "the machine by the first process' root": ("read", {"path": "/proc/1/root{secret}"}, failed("ENOENT")),
    "the memory of the machine": ("read", {"path": "/dev/mem"}, failed("ENOENT", "EACCES")),
    "the kernel's memory": ("read", {"path": "/proc/kcore"}, lambda answer: not answer.get("text")),
    "disks": ("list", {"path": "/dev/disk"}, failed("ENOENT")),
    "our environment": ("read", {"path": "/proc/{gateway}/environ"}, failed("ENOENT")),
    "other processes": ("processes", {}, lambda answer: list(answer["processes"]) == ["1"]),
    "ending the gateway": ("kill", {"pid": "{gateway}"}, failed("ESRCH")),
    "network interfaces": ("interfaces", {}, said(names=["lo"])),
    "a port of the machine, by loopback": (
        "connect",
        {"host": "127.0.0.1", "port": "{port}"},
        failed("ECONNREFUSED"),
    ),
    "the machine's address": ("connect", {"host": "{address}", "port": "{port}"}, UNREACHABLE),
    "the internet": ("connect", {"host": "192.0.2.1", "port": 443}, UNREACHABLE),
    "the internet over IPv6": ("connect", {"host": "2001:db8::1", "port": 443}, UNREACHABLE),
    "the metadata address": ("connect", {"host": "169.254.169.254", "port": 80}, UNREACHABLE),
    "a datagram": ("datagram", {"host": "192.0.2.1", "port": 53}, UNREACHABLE),
    "a name": ("resolve", {"host": "example.com"}, failed("gaierror")),
    "the engine's socket": ("unix", {"path": "{engine}"}, failed("ENOENT")),
    "Docker's usual socket": ("unix", {"path": "/var/run/docker.sock"}, failed("ENOENT")),
    "an abstract socket of the machine": ("unix", {"path": "@{abstract}"}, failed("ECONNREFUSED")),
    "a fork bomb": ("fork", {"number": 500}, took(CAGE.pids, "EAGAIN", key="started")),
    "filling its disk": (
        "write",
        {"path": "/tmp/full", "bytes": 10**8},
        took(CAGE.disk, "ENOSPC", key="written"),
    ),
    "filling a volume of its image": (
        "write",
        {"path": f"{VOLUME}/full", "bytes": 10**8},
        took(CAGE.disk, "ENOSPC", key="written"),
    ),
    "filling the disk elsewhere": (
        "write",
        {"path": "/var/tmp/full", "bytes": 10**8},
        took(CAGE.disk, "ENOSPC", key="written"),
    ),
    "writing its root": ("write", {"path": "/probe"}, failed("EROFS")),
    "writing its programs": ("write", {"path": "/usr/bin/probe"}, failed("EROFS")),
    "writing devices": ("write", {"path": "/dev/probe"}, failed("EACCES", "EROFS")),
    "setting the kernel": ("write", {"path": "/proc/sys/kernel/probe"}, failed("EROFS", "EACCES", "ENOENT")),
    "control groups": ("write", {"path": "/sys/fs/cgroup/probe"}, failed("EROFS", "EACCES", "ENOENT")),
    "capabilities": (
        "status",
        {},
        has_status(CapEff=NOTHING, CapPrm=NOTHING, CapBnd=NOTHING, CapAmb=NOTHING),
    ),
    "new privileges": ("status", {}, has_status(NoNewPrivs="1", Seccomp="2")),
    "becoming root": ("setuid", {}, failed("EPERM")),
    "a program with the setuid bit": ("run", {"argv": ["/usr/bin/rootid", "-u"]}, said(output="65534\n")),
    "a user namespace": ("namespace", {"kind": "user"}, failed("EPERM")),
    "a network namespace": ("namespace", {"kind": "net"}, failed("EPERM")),
    "a mount namespace": ("namespace", {"kind": "mnt"}, failed("EPERM")),
    "a process namespace": ("namespace", {"kind": "pid"}, failed("EPERM")),
    "keys of the gateway": ("keys", {}, failed("EPERM")),
    "the machine around this one": ("family", {"number": 40}, failed("ENOSYS", "EPERM", "EAFNOSUPPORT")),
    "raw packets": ("family", {"number": 17}, failed("ENOSYS", "EPERM", "EAFNOSUPPORT")),
    "tracing the gateway": ("ptrace", {"pid": "{gateway}"}, failed("EPERM", "ESRCH")),
    "mounting": ("mount", {"path": "/tmp"}, failed("EPERM")),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def machine(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What there is on the machine to be found: a file, a port, sockets, a process."""
    secret = tmp_path_factory.mktemp("machine") / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    with socket.create_server(("0.0.0.0", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + _ABSTRACT)
        abstract.listen()
        yield {
            "secret": secret,
            "gateway": os.getpid(),
            "port": port.getsockname()[1],
            "address": _address(),
            "engine": podman.socket,
            "abstract": _ABSTRACT,
        }


def _address() -> str:
    """An address of this machine besides loopback, or one that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "192.0.2.1"
        return str(sender.getsockname()[0])


@pytest.fixture(scope="module")
async def probe(podman: Podman) -> AsyncIterator[Probe]:
    """One container for all that leaves it alive."""
    rig = Rig(podman)
    async with probing(rig.backend()) as probe:
        yield probe
    rig.close()


@pytest.mark.parametrize("what", PROBES)
async def test_what_is_tried_from_inside_fails(what: str, probe: Probe, machine: dict[str, Any]) -> None:
    """Each row: what is tried, and what the guest was told."""
    tool, arguments, holds = PROBES[what]
    filled = {key: _filled(value, machine) for key, value in arguments.items()}
    answer = await probe.call(tool, **filled)
    if answer.get("written"):  # no other row finds it there
        await probe.call("remove", path=filled["path"])

    assert holds(answer), answer
    assert SECRET not in str(answer)


def _filled(value: Any, machine: dict[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    text = value.format(**machine)
    return int(text) if text.isdigit() else text


async def test_what_it_wrote_does_not_run(probe: Probe) -> None:
    """Nobody looked at it."""
    assert (await probe.call("write", path="/tmp/program", bytes=100))["ok"]

    answer = await probe.call("run", argv=["/tmp/program"])

    assert failed("EACCES")(answer), answer


async def test_what_is_tried_from_inside_would_be_found_outside(machine: dict[str, Any]) -> None:
    """So the rows above say something of the container, and not of what is missing here."""
    assert machine["secret"].read_text(encoding="utf-8") == SECRET
    with socket.create_connection(("127.0.0.1", machine["port"]), timeout=2):
        pass
    for path in (machine["engine"], "\0" + machine["abstract"]):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(path)


async def test_more_memory_than_it_may_have_ends_it_alone(rig: Rig) -> None:
    """Kernel and machine go on."""
    backend = rig.backend()
    async with probing(backend) as probe:
        reason = await probe.last_call("memory", bytes=CAGE.memory * 4)

    assert "more memory than its 96 MiB" in reason
    assert backend.ending(reason).kind == "memory"


async def test_more_memory_is_told_also_when_the_engine_has_cleared_up_before_we_could_look(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may give us no time until the container's control group is gone."""
    backend, now = rig.backend(), MemoryWatch.counted

    def late(watch: MemoryWatch) -> bool | None:
        until = time.monotonic() + SOON_S
        while (told := now(watch)) is not None and time.monotonic() < until:
            time.sleep(0.01)  # the kernel tells nobody that a folder of it has gone
        return told

    monkeypatch.setattr(MemoryWatch, "counted", late)
    async with probing(backend) as probe:
        reason = await probe.last_call("memory", bytes=CAGE.memory * 4)

    assert "the kernel ended it: it needed more memory than its 96 MiB" in reason
    assert backend.ending(reason).kind == "memory"


async def test_it_gets_no_more_of_the_processors_than_its_share(rig: Rig) -> None:
    """Half of one, with two processes that want one each."""
    async with probing(rig.backend(cage={"nano_cpus": 500_000_000})) as probe:
        used = await probe.call("spin", seconds=0.8, processes=2)

    assert used["cpu_s"] <= 0.75 * used["wall_s"]


async def test_a_flood_on_standard_output_ends_the_session(rig: Rig) -> None:
    """Output that answers no request is accepted up to a limit."""
    async with probing(rig.backend()) as probe:
        reason = await probe.last_call("flood", bytes=4_000_000, stream="noise", line=100)

    assert reason == "it flooded the gateway with output that answers no request"


async def test_a_flood_on_standard_error_is_held_to_its_rate(rig: Rig) -> None:
    """What was not read yet holds it up; the last lines are kept."""
    backend = rig.backend(cage={"output": 1_000_000})
    started = time.monotonic()
    async with probing(backend) as probe:
        await probe.call("flood", bytes=2_500_000, stream="stderr")

    assert time.monotonic() - started >= 1.5
    assert len(backend.last_output()) == 200
