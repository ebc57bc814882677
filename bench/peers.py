"""FastMCP's BM25 search transform over tools of ours, searched as its own `search_tools` does.

Tools are in it under the names that a mounted proxy gives them, `server_tool`. What its tool does besides,
which is to collect the visible tools and to write the answer, is left out in its favour.

`python -m bench.peers QUERIES FILE` measures it for `bench/growth.py`, in a process of its
own, so that its memory is its own. FILE holds definitions of servers, one JSON object a line.
"""

import json
import os
import sys
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool
from tests.support import corpus

from bench.logs import quiet
from bench.processes import rss_mib
from bench.queries import make_queries
from bench.replicas import tools_of
from maitred.evaluation.metrics import percentile
from maitred.model.tools import RawTool, ToolKey

_RESULTS = 5
_CHANGED = 10


class Bm25:
    """An index over tools; the first search makes it, and so does the first after any change."""

    def __init__(self, tools: Sequence[RawTool], results: int) -> None:
        self._transform = BM25SearchTransform(max_results=results)
        self._tools = [_tool(tool) for tool in tools]
        self._keys = {made.name: tool.key for made, tool in zip(self._tools, tools, strict=True)}

    async def search(self, query: str) -> list[ToolKey]:
        """The best tools; looks through the texts of all tools for changes first, as its searches do."""
        found = await self._transform._search(self._tools, query)  # noqa: SLF001  # its tool needs a session
        return [self._keys[tool.name] for tool in found]

    def rank(self, query: str, results: int) -> list[ToolKey]:
        """The best tools of an index that has been made, without looking for changes: the same, sooner."""
        places = self._transform._index.query(query, results)  # noqa: SLF001  # as above
        return [self._keys[self._tools[place].name] for place in places]

    def change(self, tools: Sequence[RawTool]) -> None:
        """Put tools in the place of the first ones."""
        self._tools[: len(tools)] = [_tool(tool) for tool in tools]
        self._keys |= {_name(tool): tool.key for tool in tools}


def _name(tool: RawTool) -> str:
    return f"{tool.key.server}_{tool.key.name}"


def _tool(tool: RawTool) -> Tool:
    schema: Any = tool.input_schema
    readable = isinstance(schema, Mapping) and isinstance(schema.get("properties", {}), Mapping)
    parameters = dict(schema) if readable else {"type": "object"}
    return Tool(name=_name(tool), description=tool.description, parameters=parameters)


async def _timed(action: Awaitable[object]) -> dict[str, float]:
    started, used = time.perf_counter(), time.process_time()
    await action
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - used
    return {"wall_ms": wall_s * 1e3, "cpu_ms": cpu_s * 1e3}


async def main(asked: int, path: Path) -> None:
    """Measure, and print what was found as fields of `bench.growth.Sized`."""
    quiet()
    records = corpus.read(path)
    tools = tools_of(records)
    queries = list(dict.fromkeys(make_queries(records, 2 * asked)))[:asked]
    index = Bm25(tools, _RESULTS)
    indexed = await _timed(index.search(queries[0]))
    taken = [await _timed(index.search(query)) for query in queries]
    index.change([replace(tool, description=f"{tool.description} Changed.") for tool in tools[:_CHANGED]])
    changed = await _timed(index.search(queries[0]))
    found = {
        "indexed": indexed,
        "p50_ms": percentile([one["wall_ms"] for one in taken], 0.5),
        "p95_ms": percentile([one["wall_ms"] for one in taken], 0.95),
        "cpu_ms": sum(one["cpu_ms"] for one in taken) / len(taken),
        "changed": changed,
        "mib": rss_mib(os.getpid()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), Path(sys.argv[2]))
