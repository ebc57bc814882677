"""Resident memory of the gateway's process after the menu, and after one search.

The gateway alone counts in the first figures; what runs below it (servers, where they had to be started) is
given beside it. The yardstick is a Python that has imported `mcp.server.lowlevel`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import psutil

from bench.processes import Held, below, held_by
from bench.stage import Command, Known, Stage, serve
from bench.values import Failure, PeerError, Size
from bench.wire import connect

_BARE = "import mcp.server.lowlevel, sys; print('ready', flush=True); sys.stdin.read()"
_PHRASES = {"phrases": ["send a message", "list open issues"]}


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """One program: medians over the samples. `below` is the sum of its children's resident memory."""

    name: str
    servers: int
    tools: int
    after_list: Held
    after_search: Held | None
    children: int
    below_mib: float


@dataclass(frozen=True, kw_only=True)
class Memory:
    """All footprints; `bare` is the SDK imported and nothing else."""

    samples: int
    bare: Held
    footprints: Sequence[Footprint]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> Memory:
    """Measure maitred with few servers known and with all, and FastMCP's proxy with few."""
    few = stage.known(min(10, size.corpus_servers))
    every = stage.generated.known
    footprints: list[Footprint] = []
    failures: list[Failure] = []
    plan: list[tuple[str, Command, Known]] = [
        ("maitred", serve(few.config), few),
        ("maitred", serve(every.config), every),
    ]
    plan += [
        (f"fastmcp {variant}", stage.proxy(variant, few.config.stem, few.servers), few)
        for variant in size.variants
    ]
    for name, command, known in plan:
        try:
            samples = [anyio.run(_sample, name, command, known) for _ in range(size.memory_samples)]
        except PeerError as error:
            failures.append(Failure(what=f"{name}, {len(known.servers)} servers", why=str(error)))
        else:
            footprints.append(
                sorted(samples, key=lambda sample: sample.after_list.rss_mib)[len(samples) // 2]
            )
    return Memory(
        samples=size.memory_samples, bare=anyio.run(_bare), footprints=footprints, failures=failures
    )


async def _sample(name: str, command: Command, known: Known) -> Footprint:
    async with connect(command) as wire:
        tools = await wire.list_tools()
        if name != "maitred" and len(tools) < known.tools:
            raise PeerError(f"it lists {len(tools)} tools of {known.tools}")
        after_list = held_by(wire.pid)
        after_search = None
        if name == "maitred":
            await wire.call("search_tools", _PHRASES)
            after_search = held_by(wire.pid)
        children = below(wire.pid)
        return Footprint(
            name=name,
            servers=len(known.servers),
            tools=known.tools,
            after_list=after_list,
            after_search=after_search,
            children=len(children),
            below_mib=sum(_rss_mib(child) for child in children),
        )


def _rss_mib(process: psutil.Process) -> float:
    try:
        return held_by(process.pid).rss_mib
    except psutil.NoSuchProcess:
        return 0.0


async def _bare() -> Held:
    async with await anyio.open_process([sys.executable, "-c", _BARE]) as process:
        if process.stdout is None or process.stdin is None:
            raise PeerError("the process has no standard streams")
        await process.stdout.receive()
        held = held_by(process.pid)
        await process.stdin.aclose()
        await process.wait()
    return held
