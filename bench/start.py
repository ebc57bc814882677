"""Time and memory from starting the process to the answer of the first `tools/list`, its servers being known.

maitred answers from its catalog and must not start a server for it: whatever runs below it at the answer and
half a second later is reported. FastMCP's proxy has to start its servers, so it is measured with
few. The yardstick is `python -c "import mcp.server.lowlevel"`, taken in the same rounds.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import anyio

from bench.processes import all_cpu_s, all_rss_mib, below, descendants, describe
from bench.stage import Command, Known, Stage
from bench.values import Failure, PeerError, Size, Spread, ratios, spread
from bench.wire import connect

YARDSTICK = "import mcp.server.lowlevel"
_LATER_S = 0.5
_MENU_TOOLS = 5


@dataclass(frozen=True, kw_only=True)
class Start:
    """One program's starts. `children` are the command lines of processes that it had started.

    `cpu_s` and `mib` are processor time and resident memory of the program, for a shared gateway of all its
    processes, without those of servers.
    """

    name: str
    servers: int
    tools_behind: int
    tools_listed: int
    seconds: Spread
    to_yardstick: Spread
    cpu_s: Spread
    cpu_to_yardstick: Spread
    mib: float
    children: Sequence[str]
    each_s: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Starts:
    """All starts; the yardstick is the import alone."""

    rounds: int
    yardstick_s: Spread
    yardstick_cpu_s: Spread
    starts: Sequence[Start]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class _Taken:
    seconds: float
    cpu_s: float
    mib: float = 0.0


@dataclass(kw_only=True)
class _Contender:
    name: str
    command: Command
    known: Known
    least_tools: int
    may_start: bool
    stop: Command | None = None
    taken: list[_Taken] = field(default_factory=list)
    children: set[str] = field(default_factory=set)
    listed: int = 0


def measure(stage: Stage, size: Size) -> Starts:
    """Start every contender in turn, several times; first times that are not counted warm the caches."""
    contenders = _contenders(stage, size)
    failures: list[Failure] = []
    imports = []
    for number in range(-size.warm_up_starts, size.starts):
        imported = _import()
        if number >= 0:
            imports.append(imported)
        for contender in list(contenders):
            try:
                taken = anyio.run(_start, contender)
            except PeerError as error:
                failures.append(
                    Failure(what=f"{contender.name}, {len(contender.known.servers)} servers", why=str(error))
                )
                contenders.remove(contender)
                continue
            if number >= 0:
                contender.taken.append(taken)
    return Starts(
        rounds=size.starts,
        yardstick_s=spread([one.seconds for one in imports]),
        yardstick_cpu_s=spread([one.cpu_s for one in imports]),
        starts=[_summary(contender, imports) for contender in contenders],
        failures=failures + [_trespass(c) for c in contenders if c.children and not c.may_start],
    )


def _contenders(stage: Stage, size: Size) -> list[_Contender]:
    found = []
    for count, checkout in product(size.known_servers, stage.checkouts):
        known = stage.known(count, checkout)
        alone = _Contender(
            name=checkout.name,
            command=checkout.serve(known.config),
            known=known,
            least_tools=_MENU_TOOLS,
            may_start=False,
        )
        shared = replace(
            alone,
            name=f"{checkout.name}, the first of a shared gateway",
            command=checkout.serve(known.config, shared=True),
            may_start=True,
            stop=checkout.command("stop", "--config", str(known.config)),
            taken=[],
            children=set(),
        )
        found += [alone, shared]
    for count in size.proxied_servers:
        known = stage.known(count)
        for variant in size.variants:
            command = stage.proxy(variant, f"known-{count}", known.servers)
            found.append(
                _Contender(
                    name=f"fastmcp {variant}",
                    command=command,
                    known=known,
                    least_tools=known.tools,
                    may_start=True,
                )
            )
    return found


def _import() -> _Taken:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", YARDSTICK], check=True)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Taken(seconds=seconds, cpu_s=spent)


async def _start(contender: _Contender) -> _Taken:
    if contender.stop:
        await anyio.run_process(contender.stop, check=False)  # what is shared must not be there yet
    before = descendants()
    started = time.perf_counter()
    async with connect(contender.command) as wire:
        tools = await wire.list_tools()
        seconds = time.perf_counter() - started
        gateway = sorted(descendants() - before) if contender.stop else [wire.pid]
        taken = _Taken(seconds=seconds, cpu_s=all_cpu_s(gateway), mib=all_rss_mib(gateway))
        found = below(wire.pid)
        if not contender.may_start:
            await anyio.sleep(_LATER_S)
            found += below(wire.pid)
        contender.children.update(describe(process) for process in found)
        contender.listed = len(tools)
        if len(tools) < contender.least_tools:
            raise PeerError(f"it lists {len(tools)} tools of {contender.least_tools}")
    if contender.stop:
        await anyio.run_process(contender.stop, check=False)
    return taken


def _trespass(contender: _Contender) -> Failure:
    what = f"{contender.name}, {len(contender.known.servers)} servers"
    return Failure(what=what, why=f"it started processes for tools/list: {sorted(contender.children)[:3]}")


def _summary(contender: _Contender, imports: Sequence[_Taken]) -> Start:
    seconds, cpu = [one.seconds for one in contender.taken], [one.cpu_s for one in contender.taken]
    return Start(
        name=contender.name,
        servers=len(contender.known.servers),
        tools_behind=contender.known.tools,
        tools_listed=contender.listed,
        seconds=spread(seconds),
        to_yardstick=ratios(seconds, [one.seconds for one in imports]),
        cpu_s=spread(cpu),
        cpu_to_yardstick=ratios(cpu, [one.cpu_s for one in imports]),
        mib=spread([one.mib for one in contender.taken]).median,
        children=sorted(contender.children),
        each_s=seconds,
    )
