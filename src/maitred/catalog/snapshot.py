"""The immutable picture of one generation of the catalog, which serves all reads, and changes of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from maitred.model.servers import ServerRecord
from maitred.model.tools import Tool, ToolKey


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one write does to the catalog.

    Schemas are added when missing; those that nothing names any more are dropped. `visible` says whether a
    reader could notice, and so whether the generation is raised.
    """

    servers: Sequence[ServerRecord] = ()
    removed_servers: Sequence[str] = ()
    tools: Sequence[Tool] = ()
    removed_tools: Sequence[ToolKey] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)
    visible: bool = True

    def __bool__(self) -> bool:
        return bool(self.servers or self.removed_servers or self.tools or self.removed_tools)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All servers and tools at one generation. `tools` is sorted by published name."""

    generation: int = 0
    servers: Mapping[str, ServerRecord] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """Tools by published name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def by_key(self) -> Mapping[ToolKey, Tool]:
        """Tools by server and raw name."""
        return {tool.key: tool for tool in self.tools}

    @cached_property
    def by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        """Tools of each server, in the order of their names; servers without tools are there too."""
        groups: dict[str, list[Tool]] = {name: [] for name in self.servers}
        for tool in self.tools:
            groups.setdefault(tool.server, []).append(tool)
        return {name: tuple(tools) for name, tools in groups.items()}

    @cached_property
    def known(self) -> frozenset[str]:
        """The servers that were discovered at least once."""
        return frozenset(name for name, record in self.servers.items() if record.facts.era)

    def after(self, change: Change, generation: int) -> "Snapshot":
        """The snapshot that a change leads to, without asking the store."""
        gone = set(change.removed_servers)
        servers = {name: record for name, record in self.servers.items() if name not in gone}
        servers |= {record.name: record for record in change.servers}
        tools = {tool.key: tool for tool in self.tools if tool.server not in gone}
        for key in change.removed_tools:
            tools.pop(key, None)
        tools |= {tool.key: tool for tool in change.tools}
        used = {digest for tool in tools.values() for digest in (tool.input_hash, tool.output_hash)}
        schemas = {k: v for k, v in (*self.schemas.items(), *change.schemas.items()) if k in used}
        ordered = tuple(sorted(tools.values(), key=lambda tool: tool.name))
        return Snapshot(generation=generation, servers=servers, tools=ordered, schemas=schemas)

    def schema(self, digest: str) -> Any:
        """A parsed schema by its hash; `None` when the server gave none."""
        body = self.schemas.get(digest)
        try:
            return None if body is None else from_json(body)
        except ValueError:  # half a character, which a JavaScript pattern may contain
            return json.loads((body or b"null").decode("utf-8", "replace"))

    def definition(self, tool: Tool) -> dict[str, Any]:
        """The definition as a client sees it in `tools/list`: as registered, under the published name."""
        schema = self.schema(tool.input_hash)
        definition: dict[str, Any] = {"name": tool.name}
        if tool.title:
            definition["title"] = tool.title
        if tool.description:
            definition["description"] = tool.description
        definition["inputSchema"] = schema if _is_object_schema(schema) else {"type": "object"}
        output = self.schema(tool.output_hash)
        if isinstance(output, dict):
            definition["outputSchema"] = output
        if tool.annotations:
            definition["annotations"] = dict(tool.annotations)
        return definition | dict(tool.extra)


def _is_object_schema(schema: Any) -> bool:
    """Whether a client may be given it: the protocol asks for a schema of type object."""
    return isinstance(schema, dict) and schema.get("type") == "object"
