"""Catalog values for tests: tools as servers would publish them, and snapshots that hold them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import corpus

from maitred.backends.listing import read_tools
from maitred.catalog.names import publish
from maitred.catalog.snapshot import Snapshot
from maitred.catalog.stages import PublishedDefinition, WithheldParts
from maitred.catalog.store import CatalogStore
from maitred.catalog.sync import DiscoveredServer, plan
from maitred.model.servers import ServerFacts, ServerRecord, ServerSpec
from maitred.model.tools import RawTool, Tool, ToolKey, canonical, content_hash
from maitred.storage.sqlite import SqliteDatabase

FACTS = ServerFacts(era="handshake", protocol_version="2025-11-25", title="A server", version="1")


def raw(server: str, name: str, **fields: Any) -> RawTool:
    """A tool with an object schema, unless the fields say otherwise."""
    fields.setdefault("input_schema", {"type": "object"})
    return RawTool(key=ToolKey(server=server, name=name), **fields)


def spec(name: str, command: str = "run") -> ServerSpec:
    return ServerSpec(name=name, command=command)


def found(server: str, *tools: RawTool, **fields: Any) -> DiscoveredServer:
    """What a discovery of a server found."""
    return replace(DiscoveredServer(spec=spec(server), facts=FACTS, tools=tools), **fields)


class LetsAllIn:
    """Judges nothing."""

    async def admit(self, spec: ServerSpec, published: PublishedDefinition) -> WithheldParts:
        """Withhold nothing."""
        return WithheldParts()

    async def holds(self, spec: ServerSpec, withheld: WithheldParts) -> bool:
        """Nobody decides anything."""
        return True


class Counter:
    """Counts a token for every four characters, and remembers what it was asked to count."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> Sequence[int]:
        self.texts += texts
        return [len(text) // 4 for text in texts]


async def after(snapshot: Snapshot, *discoveries: DiscoveredServer) -> Snapshot:
    """The snapshot that discoveries lead to, one after the other."""
    for discovery in discoveries:
        change = await plan(snapshot, discovery, Counter())
        snapshot = snapshot.after(change, snapshot.generation + change.visible)
    return snapshot


def snapshot_of(raws: Iterable[RawTool], *, generation: int = 1) -> Snapshot:
    """A snapshot of these tools."""
    raws = list(raws)
    schemas: dict[str, bytes] = {}

    def keep(schema: Any) -> str:
        if schema is None:
            return ""
        body = canonical(schema)
        schemas[content_hash(body)] = body
        return content_hash(body)

    names = publish(raw.key for raw in raws)
    tools = [
        Tool(
            key=raw.key,
            name=names[raw.key],
            title=raw.title,
            description=raw.description,
            input_hash=keep(raw.input_schema),
            output_hash=keep(raw.output_schema),
            annotations=raw.annotations,
            extra=raw.extra,
            cost_tokens=1,
        )
        for raw in raws
    ]
    servers = {
        raw.key.server: ServerRecord(name=raw.key.server, fingerprint="f", facts=FACTS) for raw in raws
    }
    ordered = tuple(sorted(tools, key=lambda tool: tool.name))
    return Snapshot(generation=generation, servers=servers, tools=ordered, schemas=schemas)


def one(**fields: Any) -> tuple[Snapshot, Tool]:
    """A snapshot with a single tool, `s__t` unless the fields name it, and that tool."""
    snapshot = snapshot_of([raw(fields.pop("server", "s"), fields.pop("name", "t"), **fields)])
    return snapshot, snapshot.tools[0]


@cache
def records(kind: str) -> list[dict[str, Any]] | None:
    """Definitions of servers: `generated` ones, or the `recorded` real ones where they are."""
    if kind == "generated":
        return corpus.generate(servers=60, tools=1_500)
    path = corpus.recorded()
    return None if path is None else corpus.read(path)


@cache
def corpus_snapshot(kind: str) -> Snapshot | None:
    """All tools of a corpus, read as a discovery reads them."""
    known = records(kind)
    if known is None:
        return None
    return snapshot_of(raw for entry in known for raw in read_tools(entry["server"], entry["tools"])[0])


def definitions(kind: str) -> list[str] | None:
    """Every definition of a corpus as compact JSON."""
    known = records(kind)
    if known is None:
        return None
    return [
        json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
        for entry in known
        for tool in entry["tools"]
    ]


def open_store(path: Path | str) -> CatalogStore:
    return CatalogStore(SqliteDatabase(Path(path)))
