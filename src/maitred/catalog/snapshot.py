"""The immutable state of one generation of the catalog, which serves all reads, and changes of it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from maitred.catalog.names import plain_name
from maitred.model.resources import Offer, OfferKey, OfferKind
from maitred.model.servers import ServerRecord
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import ToolStanding


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one write does to the catalog.

    Schemas are added when missing; unused ones are dropped. `offers` and `standings` replace all former
    ones, and `None` leaves them. Likewise an empty text leaves the marks of the state.
    `visible` says whether a reader could notice the change, and so whether the generation increases.
    """

    servers: Sequence[ServerRecord] = ()
    removed_servers: Sequence[str] = ()
    tools: Sequence[Tool] = ()
    removed_tools: Sequence[ToolKey] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)
    offers: Sequence[Offer] | None = None
    standings: Mapping[ToolKey, ToolStanding] | None = None
    placed_by: str = ""
    tiers_at: str = ""
    mended_by: str = ""
    visible: bool = True

    def __bool__(self) -> bool:
        rows = self.servers or self.removed_servers or self.tools or self.removed_tools
        whole = self.offers is not None or self.standings is not None
        return bool(rows or whole or self.placed_by or self.tiers_at or self.mended_by)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All servers and what they offer at one generation. `tools` and `offers` are sorted by published name.

    `placed_by` is the fingerprint of the rules that put tools in categories, `mended_by` of those that
    mended them. `tiers_at` says when the standings were computed. A tool that was never called has no
    standing.
    """

    generation: int = 0
    servers: Mapping[str, ServerRecord] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)
    offers: tuple[Offer, ...] = ()
    standings: Mapping[ToolKey, ToolStanding] = field(default_factory=dict)
    placed_by: str = ""
    tiers_at: str = ""
    mended_by: str = ""

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
    def by_category(self) -> Mapping[str, tuple[Tool, ...]]:
        """Tools of each category that has any, without those of the categories below it, by name."""
        groups: dict[str, list[Tool]] = {}
        for tool in self.tools:
            groups.setdefault(tool.placement.category, []).append(tool)
        return {name: tuple(tools) for name, tools in groups.items()}

    @cached_property
    def formerly(self) -> Mapping[str, Tool]:
        """Renamed tools by the published names that they would have otherwise; clients may know those."""
        renamed = [tool for tool in self.tools if tool.mending is not None and tool.mending.rename]
        return {name: tool for tool in renamed if (name := plain_name(tool.key)) not in self.by_name}

    @cached_property
    def offers_by_name(self) -> Mapping[tuple[OfferKind, str], Offer]:
        """Offers by kind and published name."""
        return {(offer.key.kind, offer.name): offer for offer in self.offers}

    @cached_property
    def offers_by_key(self) -> Mapping[OfferKey, Offer]:
        """Offers by server, kind, and the server's own name or URI."""
        return {offer.key: offer for offer in self.offers}

    @cached_property
    def withheld_parts(self) -> Mapping[str, int]:
        """How many tools, prompts and templates of each server await an operator's approval."""
        tools = Counter(tool.server for tool in self.tools if tool.withheld)
        return tools + Counter(offer.server for offer in self.offers if offer.withheld)

    @cached_property
    def known(self) -> frozenset[str]:
        """The servers that were discovered at least once."""
        return frozenset(name for name, record in self.servers.items() if record.facts.era)

    def after(self, change: Change, generation: int) -> "Snapshot":
        """The snapshot after a change, without asking the store."""
        gone = set(change.removed_servers)
        servers = {name: record for name, record in self.servers.items() if name not in gone}
        servers |= {record.name: record for record in change.servers}
        tools, schemas = self.tools, self.schemas
        if gone or change.removed_tools or change.tools or change.schemas:  # most changes concern no tool
            tools, schemas = self._tools_after(change)
        offers = self.offers if change.offers is None else change.offers
        return Snapshot(
            generation=generation,
            servers=servers,
            tools=tools,
            schemas=schemas,
            offers=tuple(sorted((o for o in offers if o.server not in gone), key=lambda o: o.name)),
            standings=self.standings if change.standings is None else change.standings,
            placed_by=change.placed_by or self.placed_by,
            tiers_at=change.tiers_at or self.tiers_at,
            mended_by=change.mended_by or self.mended_by,
        )

    def _tools_after(self, change: Change) -> tuple[tuple[Tool, ...], Mapping[str, bytes]]:
        """The tools by name, and the schemas that any of them has."""
        gone = set(change.removed_servers)
        tools = {tool.key: tool for tool in self.tools if tool.server not in gone}
        for key in change.removed_tools:
            tools.pop(key, None)
        tools |= {tool.key: tool for tool in change.tools}
        used = {digest for tool in tools.values() for digest in tool.hashes}
        schemas = {k: v for k, v in (*self.schemas.items(), *change.schemas.items()) if k in used}
        return tuple(sorted(tools.values(), key=lambda tool: tool.name)), schemas

    def schema(self, digest: str) -> Any:
        """A parsed schema by its hash; `None` if the server gave none."""
        body = self.schemas.get(digest)
        try:
            return None if body is None else from_json(body)
        except ValueError:  # an unpaired surrogate, as in some JavaScript patterns
            return json.loads((body or b"null").decode("utf-8", "replace"))

    def definition(self, tool: Tool) -> dict[str, Any]:
        """The definition as a client sees it in `tools/list`: as registered, under the published name."""
        schema = self.schema(tool.input_hash)
        definition: dict[str, Any] = {"name": tool.name}
        if tool.title:
            definition["title"] = tool.title
        if tool.description:
            definition["description"] = tool.description
        definition["inputSchema"] = _object_schema(schema)
        output = self.schema(tool.output_hash)
        if isinstance(output, dict):
            definition["outputSchema"] = output
        if tool.annotations:
            definition["annotations"] = dict(tool.annotations)
        return definition | dict(tool.extra)


def _object_schema(schema: Any) -> dict[str, Any]:
    """The schema as registered; if only the type is missing, with the type that the protocol requires."""
    if not isinstance(schema, dict):
        return {"type": "object"}
    if "type" not in schema and isinstance(schema.get("properties"), dict):
        return {"type": "object", **schema}
    return schema if schema.get("type") == "object" else {"type": "object"}
