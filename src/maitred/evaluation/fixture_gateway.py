"""A gateway over given tools without servers: a caller can search it, but not call a tool.

The catalog is an ordinary one in a folder of its own, filled as discoveries fill it. So a search takes the
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

if TYPE_CHECKING:  # they take a second to import, too long for `--help`
    from mcp.server import Server

    from maitred.gateway import Gateway

NO_SERVER = "tools"
"""The server of tools that name none."""

_FACTS = ServerFacts(era="handshake", protocol_version="2025-11-25")
_NOWHERE = "none"
_JUDGED_BY = "evaluation"
"""A server that was never judged would be started to be discovered again."""
_CHARACTERS_PER_TOKEN = 4


@asynccontextmanager
async def gateway_with_tools(
    tools: Sequence[RawTool], search: Search, in_process: "Mapping[str, Server[Any]] | None" = None
) -> "AsyncIterator[Gateway]":
    """Open a gateway over tools, ready for searches.

    Args:
        tools: All tools of the catalog; no two may share server and name.
        search: The settings of search.
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
    """Map the catalog key of each tool of a set to its id; equal keys get a number."""
    ids: dict[ToolKey, str] = {}
    for tool in tools:
        server, name, count = tool.server or NO_SERVER, tool.name, 1
        while ToolKey(server=server, name=name) in ids:
            count += 1
            name = f"{tool.name}_{count}"
        ids[ToolKey(server=server, name=name)] = tool.id
    return ids


def raw_tools(tools: Sequence[LabelledTool]) -> list[RawTool]:
    """Return the tools of a set as servers would publish them, with the keys of `keys` in the same order."""
    return [
        RawTool(key=key, description=tool.description, input_schema=tool.input_schema)
        for key, tool in zip(keys(tools), tools, strict=True)
    ]


def _spec(server: str) -> ServerSpec:
    return ServerSpec(name=server, command=_NOWHERE)


async def _fill(catalog: LiveCatalog, tools: Sequence[RawTool], specs: Mapping[str, ServerSpec]) -> None:
    """Write all servers at once: one after the other, each would rename the tools of all the others."""
    groups: dict[str, list[RawTool]] = {name: [] for name in specs}
    for tool in tools:
        groups[tool.key.server].append(tool)
    names = publish(tool.key for tool in tools)

    async def make_change(_: Snapshot) -> Change:
        changes = [
            await plan(Snapshot(), _discovered(specs[name], group), _count) for name, group in groups.items()
        ]
        return Change(
            servers=[record for change in changes for record in change.servers],
            tools=[replace(tool, name=names[tool.key]) for change in changes for tool in change.tools],
            schemas={digest: body for change in changes for digest, body in change.schemas.items()},
        )

    await catalog.change(make_change)


def _discovered(spec: ServerSpec, tools: Sequence[RawTool]) -> DiscoveredServer:
    return DiscoveredServer(spec=spec, facts=_FACTS, tools=tools, judged_by=_JUDGED_BY)


async def _count(texts: Sequence[str]) -> Sequence[int]:
    """Estimate tokens roughly: the price of a definition has no influence on a search."""
    return [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
