"""A gateway whose catalog holds given tools, with no server behind them: it can be searched, not called.

The catalog is an ordinary one in a folder of its own, filled as discoveries fill it, so a search takes the
same way as one over real servers.
"""

import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maitred.catalog.live import LiveCatalog
from maitred.catalog.names import publish
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import DiscoveredServer, plan
from maitred.config.settings import Catalog, Disclosure, Search, Settings
from maitred.evaluation.labelled_queries import LabelledTool
from maitred.model.servers import ServerFacts, ServerSpec
from maitred.model.tools import RawTool, ToolKey
from maitred.wiring import open_gateway, open_store

if TYPE_CHECKING:  # they take a second to import, which `--help` need not wait for
    from mcp.server import Server

    from maitred.gateway import Gateway

NO_SERVER = "tools"
"""The server of tools that name none."""

_FACTS = ServerFacts(era="handshake", protocol_version="2025-11-25")
_NOWHERE = "none"
_CHARACTERS_PER_TOKEN = 4


@asynccontextmanager
async def stocked(
    tools: Sequence[RawTool], search: Search, in_process: "Mapping[str, Server[Any]] | None" = None
) -> "AsyncIterator[Gateway]":
    """Open a gateway over tools, ready to be searched.

    Args:
        tools: All that can be found; no two may share server and name.
        search: How it finds.
        in_process: Further servers, which can be called and can change; none may have the name of another.
    """
    specs = {key.server: _spec(key.server) for key in (tool.key for tool in tools)}
    more = {name: ServerSpec(name=name, transport="memory") for name in in_process or {}}
    with tempfile.TemporaryDirectory(prefix="maitred-eval-") as folder:
        path = Path(folder) / "catalog.db"
        settings = Settings(
            source=Path(folder) / "maitred.yaml",
            servers=specs | more,
            catalog=Catalog(path=str(path)),
            disclosure=Disclosure(mode="menu"),
            search=search,
        )
        async with open_store(settings) as store:
            await _fill(LiveCatalog(store), tools, specs)
        async with open_gateway(settings, in_process=in_process) as gateway:
            await gateway.settled(settings.limits.start_timeout_s)
            yield gateway


def keys(tools: Iterable[LabelledTool]) -> dict[ToolKey, str]:
    """Who each tool of a set is in a catalog -> its id; those that share server and name get a number."""
    found: dict[ToolKey, str] = {}
    for tool in tools:
        server, name, count = tool.server or NO_SERVER, tool.name, 1
        while ToolKey(server=server, name=name) in found:
            count += 1
            name = f"{tool.name}_{count}"
        found[ToolKey(server=server, name=name)] = tool.id
    return found


def raw_tools(tools: Sequence[LabelledTool]) -> list[RawTool]:
    """The tools of a set as servers would publish them; the keys are those of `keys`, in the same order."""
    return [
        RawTool(key=key, description=tool.description, input_schema=tool.input_schema)
        for key, tool in zip(keys(tools), tools, strict=True)
    ]


def _spec(server: str) -> ServerSpec:
    return ServerSpec(name=server, command=_NOWHERE)


async def _fill(catalog: LiveCatalog, tools: Sequence[RawTool], specs: Mapping[str, ServerSpec]) -> None:
    """Write all servers at once: planned one after the other, each would name the tools of all anew."""
    groups: dict[str, list[RawTool]] = {name: [] for name in specs}
    for tool in tools:
        groups[tool.key.server].append(tool)
    names = publish(tool.key for tool in tools)

    async def planned(_: Snapshot) -> Change:
        changes = [
            await plan(Snapshot(), DiscoveredServer(spec=specs[name], facts=_FACTS, tools=group), _count)
            for name, group in groups.items()
        ]
        return Change(
            servers=[record for change in changes for record in change.servers],
            tools=[replace(tool, name=names[tool.key]) for change in changes for tool in change.tools],
            schemas={digest: body for change in changes for digest, body in change.schemas.items()},
        )

    await catalog.change(planned)


async def _count(texts: Sequence[str]) -> Sequence[int]:
    """Roughly: what a definition costs has no influence on a search."""
    return [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
