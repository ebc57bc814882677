"""One index over many tools, measured from inside its own process, so that its memory is its own.

Run as `python -m bench.probe PROGRAM MODE TOOLS QUERIES FILE` from the top of the checkout; FILE holds the
definitions of servers, one JSON object a line. Prints a `Probed` as JSON. `bench/scale.py` runs it.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from tests.support import corpus

from bench.logs import quiet
from bench.processes import held_by
from bench.queries import make_queries
from bench.replicas import replicate, tools_of
from bench.values import PeerError
from maitred.catalog.discovery import Report
from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.evaluation.metrics import percentile
from maitred.model.access import LOCAL_USER
from maitred.model.tools import RawTool
from maitred.search.results import Mode

CHANGED = 10
"""How many tools are changed at once to see what an update costs."""

_RESULTS = 5
_LIVE = "live"


@dataclass(frozen=True, kw_only=True)
class Took:
    """Wall and processor milliseconds."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One index. `build` is from nothing, `update` after `CHANGED` tools changed; MiB are what both added.

    `discovery` is the listing, judging and storing of the changed tools; `None` for what has no catalog.
    """

    tools: int
    servers: int
    queries: int
    build: Took
    discovery: Took | None
    update: Took
    p50: Took
    p95: Took
    mib: float
    note: str


async def probe_maitred(tools: Sequence[RawTool], queries: Sequence[str], mode: Mode) -> Probed:
    """Search a gateway; ten of its tools are those of a live server, which then changes them."""
    server = LiveServer(tools[:CHANGED])
    async with gateway_with_tools(tools[CHANGED:], Search(mode=mode), {_LIVE: server.server}) as gateway:
        before = _resident()
        build = await timed(gateway.warm(wholly=True))
        taken = [await timed(gateway.search([query], limit=_RESULTS, viewer=LOCAL_USER)) for query in queries]
        mib = _resident() - before
        server.change()
        reports: list[Report] = []

        async def discover() -> None:
            reports.extend(await gateway.sync([_LIVE], viewer=LOCAL_USER))

        discovery = await timed(discover())
        if reports[0].changed != CHANGED:
            raise PeerError(f"{reports[0].changed} tools changed, not {CHANGED}: {reports[0].error}")
        update = await timed(gateway.warm(wholly=True))
        note = gateway.semantics.note
    return _probed(tools, taken, build=build, discovery=discovery, update=update, mib=mib, note=note)


async def probe_fastmcp(tools: Sequence[RawTool], queries: Sequence[str]) -> Probed:
    """Search FastMCP's transform; its first search builds, and so does the first after a change."""
    from bench.peers import Bm25  # noqa: PLC0415  # its import would count as ours

    index = Bm25(tools, _RESULTS)
    before = _resident()
    build = await timed(index.search(queries[0]))
    taken = [await timed(index.search(query)) for query in queries]
    mib = _resident() - before
    index.change([replace(tool, description=f"{tool.description} Changed.") for tool in tools[:CHANGED]])
    update = await timed(index.search(queries[0]))
    return _probed(tools, taken, build=build, discovery=None, update=update, mib=mib, note="")


class LiveServer:
    """A server in this process whose tools all change at once."""

    def __init__(self, tools: Sequence[RawTool]) -> None:
        self._tools = tools
        self._suffix = ""
        self.server: Server[Any] = Server(_LIVE, on_list_tools=self._list)

    def change(self) -> None:
        """From now on every tool has another description."""
        self._suffix = " Changed."

    async def _list(self, *_: Any) -> types.ListToolsResult:
        listed = [
            types.Tool(
                name=f"{number}_{tool.key.name}"[:64],
                description=tool.description + self._suffix,
                input_schema={"type": "object"},
            )
            for number, tool in enumerate(self._tools)
        ]
        return types.ListToolsResult(tools=listed)


async def timed(action: Awaitable[object]) -> Took:
    """What an action took of the clock, and of the processor in all threads of this process."""
    started, used = time.perf_counter(), time.process_time()
    await action
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - used
    return Took(wall_ms=wall_s * 1e3, cpu_ms=cpu_s * 1e3)


def _probed(
    tools: Sequence[RawTool],
    taken: Sequence[Took],
    *,
    build: Took,
    discovery: Took | None,
    update: Took,
    mib: float,
    note: str,
) -> Probed:
    return Probed(
        tools=len(tools),
        servers=len({tool.key.server for tool in tools}),
        queries=len(taken),
        build=build,
        discovery=discovery,
        update=update,
        p50=_at(taken, 0.5),
        p95=_at(taken, 0.95),
        mib=mib,
        note=note,
    )


def _at(taken: Sequence[Took], share: float) -> Took:
    """Percentiles of both, each on its own."""
    return Took(
        wall_ms=percentile([one.wall_ms for one in taken], share),
        cpu_ms=percentile([one.cpu_ms for one in taken], share),
    )


def _resident() -> float:
    gc.collect()
    return held_by(os.getpid()).rss_mib


async def main(program: str, mode: str, wanted: int, asked: int, path: Path) -> None:
    """Measure, and print what was found."""
    quiet()
    records = corpus.read(path)
    tools = replicate(tools_of(records), wanted)
    queries = list(dict.fromkeys(make_queries(records, 2 * asked)))[:asked]  # a second time is from a cache
    del records
    if program == "fastmcp":
        found = await probe_fastmcp(tools, queries)
    else:
        [chosen] = [one for one in get_args(Mode) if one == mode]
        found = await probe_maitred(tools, queries, chosen)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
