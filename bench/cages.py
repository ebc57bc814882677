"""What a cage costs a start and a call: a server plain, in a jail of bubblewrap, in a container of Podman.

Each way is a backend of the gateway without the gateway around it, which would hide what is to be seen. Every
round starts a server anew in each way, and makes calls on connections that stay open through all rounds; the
ways take turns, and ratios are to plain within a round. The image is made of this machine's interpreter, so
that all three run the same one.
"""

import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from tests.support import probe_server
from tests.support.podman import IMAGE, podman_service

from bench.stage import Stage
from bench.values import Failure, PeerError, Size, Skipped, Spread, leaf, ratios, spread
from maitred.backends.base import NOT_ASKED, Backend, Connection, ConnectOptions
from maitred.backends.isolation.container import ContainerBackend
from maitred.backends.isolation.images import Images
from maitred.backends.isolation.jail import find_means
from maitred.backends.isolation.scan import Trivy
from maitred.backends.process import Warden
from maitred.config.interpolate import resolver
from maitred.config.settings import Isolation, Limits, Settings
from maitred.evaluation.metrics import percentile
from maitred.model.servers import Cage, Mount, ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring.isolation import Programs, make_engines

PLAIN, JAIL, CONTAINER = "plain", "jail", "container"
_CATALOG: Final = "0be4c000"
_ANSWER_S: Final = 30.0
_PATIENCE_S: Final = 60.0
_PROBE: Final = str(Path(probe_server.__file__))
_OPTIONS: Final = ConnectOptions(era="handshake", on_notice=lambda _: None)


@dataclass(frozen=True, kw_only=True)
class _Server:
    """A server in Python, and a call of it; Python's arguments `here`, and `inside` the image."""

    name: str
    here: tuple[str, ...]
    inside: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


_Make = Callable[[_Server], Backend]
_TIME: Final = ("-m", "mcp_server_time", "--local-timezone", "UTC")
_SERVERS: Final = (
    _Server(
        name="probe",
        here=("-I", "-S", _PROBE),
        inside=("-I", "-S", "/srv/probe_server.py"),
        mounts=(Mount(path=_PROBE, at=_PROBE),),
        tool="hello",
    ),
    _Server(
        name="time",
        here=_TIME,
        inside=_TIME,
        tool="convert_time",
        arguments={"source_timezone": "Europe/Paris", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    ),
)


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run a server: spreads over the rounds, in milliseconds, and ratios to plain.

    A start lasts until the first call can be made, a stop until nothing of it is left.
    """

    name: str
    start_ms: Spread
    start_ratio: Spread
    stop_ms: Spread
    call_ms: Spread
    call_ratio: Spread
    call_p95_ms: float


@dataclass(frozen=True, kw_only=True)
class Caged:
    """One server in all ways that this machine has."""

    server: str
    ways: Sequence[Way]


@dataclass(frozen=True, kw_only=True)
class Cages:
    """All servers; `means` is what this machine has for cages, in words."""

    rounds: int
    calls: int
    means: Sequence[str]
    servers: Sequence[Caged]
    skipped: Sequence[Skipped]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class _Amount:
    servers: int
    rounds: int
    calls: int


_FULL: Final = _Amount(servers=2, rounds=9, calls=100)
_QUICK: Final = _Amount(servers=1, rounds=3, calls=40)


def measure(_: Stage, size: Size) -> Cages:
    """Compare all ways, for each server."""
    return anyio.run(_measure, _QUICK if size.quick else _FULL)


async def _measure(amount: _Amount) -> Cages:
    compared: list[Caged] = []
    failures: list[Failure] = []
    async with _makers() as makers:
        for server in _SERVERS[: amount.servers]:
            try:
                compared.append(await _compare(server, makers.ways, amount))
            except Exception as error:  # noqa: BLE001  # whatever fails with one server is reported
                failures.append(Failure(what=f"maitred, {server.name}", why=leaf(error)))
        return Cages(
            rounds=amount.rounds,
            calls=amount.calls,
            means=makers.means,
            servers=compared,
            skipped=makers.skipped,
            failures=failures,
        )


# --- the ways -------------------------------------------------------------------------------------------


class _Makers:
    """Makes the backends of a server in each way that this machine has; says why the others are missing."""

    def __init__(self) -> None:
        self.warden = Warden(_CATALOG)
        self.programs = Programs(Settings(source=Path("maitred.yaml")), self.warden)
        self.ways: dict[str, _Make] = {PLAIN: self._plain}
        self.means: list[str] = []
        self.skipped: list[Skipped] = []

    def _plain(self, server: _Server) -> Backend:
        return self.programs.backend(_spec(server, command=sys.executable, args=server.here))

    def _jailed(self, server: _Server) -> Backend:
        cage = Cage(mounts=server.mounts)
        spec = _spec(server, command=sys.executable, args=server.here, cage=cage, registered=True)
        return self.programs.backend(spec)

    def add_jail(self) -> None:
        """Add the jail, if there is one."""
        means = find_means(self.warden.mark)
        if means.why_not:
            self.skipped.append(Skipped(what=JAIL, why=means.why_not))
            return
        limits = "control groups" if means.groups else f"limits of each process ({means.why_no_groups})"
        self.means.append(f"{means.version}, {limits}")
        self.ways[JAIL] = self._jailed

    def add_container(self, stack: AsyncExitStack) -> None:
        """Add containers, if Podman can run them."""
        try:
            podman = stack.enter_context(podman_service())
        except pytest.skip.Exception as error:
            self.skipped.append(Skipped(what=CONTAINER, why=str(error)))
            return
        engines = make_engines(Isolation(engine=podman.address), self.warden.mark)
        stack.callback(engines.close)
        images = Images(admit=_admit, scanner=Trivy({}), pull="never", scan="off")

        def make(server: _Server) -> Backend:
            spec = _spec(
                server, transport="container", image=IMAGE, args=server.inside, cage=Cage(), registered=True
            )
            return ContainerBackend(
                spec,
                resolve=resolver(os.environ),
                limits=Limits(),
                warden=self.warden,
                engines=engines,
                images=images,
            )

        self.means.append(podman.run("--version"))
        self.ways[CONTAINER] = make


def _spec(server: _Server, **fields: Any) -> ServerSpec:
    return ServerSpec(name=server.name, era="handshake", **fields)


async def _admit(_: str, __: str) -> str:
    return ""


@asynccontextmanager
async def _makers() -> AsyncIterator[_Makers]:
    async with AsyncExitStack() as stack:
        makers = _Makers()
        stack.callback(makers.warden.close)
        makers.add_jail()
        makers.add_container(stack)
        yield makers


# --- the rounds -----------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _Taken:
    """What one way took: a start and a stop for each round, and the calls of each round."""

    start_ms: list[float] = field(default_factory=list)
    stop_ms: list[float] = field(default_factory=list)
    calls_ms: list[list[float]] = field(default_factory=list)

    @property
    def call_ms(self) -> list[float]:
        return [percentile(one, 0.5) for one in self.calls_ms]


async def _compare(server: _Server, ways: Mapping[str, _Make], amount: _Amount) -> Caged:
    taken = {name: _Taken() for name in ways}
    started = {name: make(server) for name, make in ways.items()}
    async with AsyncExitStack() as stack:
        opened = {
            name: await stack.enter_async_context(make(server).connect(_OPTIONS))
            for name, make in ways.items()
        }
        await _check(server, opened)
        names = list(ways)
        for number in range(-1, amount.rounds):  # the first warms up
            turn = number % len(names)
            for name in [*names[turn:], *names[:turn]]:
                into = taken[name] if number >= 0 else _Taken()
                gc.collect()
                into.calls_ms.append([await _called(server, opened[name]) for _ in range(amount.calls)])
                await _start(started[name], into)
    return Caged(server=server.name, ways=[_summary(name, one, taken[PLAIN]) for name, one in taken.items()])


async def _check(server: _Server, opened: Mapping[str, Connection]) -> None:
    """See that all ways answer, so that no error is taken for a fast call."""
    for name, connection in opened.items():
        result = await _call(server, connection)
        if result.get("isError") or not result.get("content"):
            raise PeerError(f"{name} answers {str(result)[:200]}")


async def _call(server: _Server, connection: Connection) -> Mapping[str, Any]:
    call = ToolCall(name=server.tool, arguments=server.arguments)
    return await connection.call_tool(server.tool, call, timeout_s=_ANSWER_S, caller=NOT_ASKED)


async def _called(server: _Server, connection: Connection) -> float:
    started = time.perf_counter()
    await _call(server, connection)
    return (time.perf_counter() - started) * 1e3


async def _start(backend: Backend, into: _Taken) -> None:
    """Start a server and stop it."""
    with anyio.fail_after(_PATIENCE_S):
        started = time.perf_counter()
        async with backend.connect(_OPTIONS):
            into.start_ms.append((time.perf_counter() - started) * 1e3)
            started = time.perf_counter()
        into.stop_ms.append((time.perf_counter() - started) * 1e3)


def _summary(name: str, own: _Taken, plain: _Taken) -> Way:
    return Way(
        name=name,
        start_ms=spread(own.start_ms),
        start_ratio=ratios(own.start_ms, plain.start_ms),
        stop_ms=spread(own.stop_ms),
        call_ms=spread(own.call_ms),
        call_ratio=ratios(own.call_ms, plain.call_ms),
        call_p95_ms=percentile([ms for one in own.calls_ms for ms in one], 0.95),
    )
