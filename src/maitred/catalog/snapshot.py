"""The immutable state of one generation of the catalog, which serves all reads, and changes of it.

A change costs what changes: the next snapshot gets the tables of this one, and shares with it all parts that
have no changed tool (`SharedMap`). Only the tuple of all tools is copied as a whole.
"""

import json
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from pydantic_core import from_json

from maitred.catalog.names import is_short_hashed, plain_name, wanted_name
from maitred.model.resources import Offer, OfferKey, OfferKind
from maitred.model.servers import ServerRecord
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import ToolStanding
from maitred.shared_map import SharedMap

_BY_NAME: Final = attrgetter("name")
_TABLES: Final = (
    "by_name",
    "by_key",
    "by_category",
    "crowded",
    "formerly",
    "has_usual_names",
    "_unused",
    "_uses",
)
"""The properties that depend on the tools alone."""
_MANY: Final = 8
"""Where one of so many tools changes, all are sorted, since single insertions would take longer."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one write does to the catalog.

    Schemas are added when missing. Those in `unused_schemas`, which no tool has any more, are dropped; see
    `Snapshot.completed`. `offers` and `standings` replace all former
    ones, and `None` leaves them. Likewise an empty text leaves the marks of the state.
    `visible` says whether a reader could notice the change, and so whether the generation increases.
    """

    servers: Sequence[ServerRecord] = ()
    removed_servers: Sequence[str] = ()
    tools: Sequence[Tool] = ()
    removed_tools: Sequence[ToolKey] = ()
    schemas: Mapping[str, bytes] = field(default_factory=dict)
    unused_schemas: Sequence[str] = ()
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
    def by_name(self) -> SharedMap[str, Tool]:
        """Tools by published name, in no order."""
        return SharedMap((tool.name, tool) for tool in self.tools)

    @cached_property
    def by_key(self) -> SharedMap[ToolKey, Tool]:
        """Tools by server and raw name, in no order."""
        return SharedMap((tool.key, tool) for tool in self.tools)

    @cached_property
    def by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        """Tools of each server, in the order of their names; servers without tools are there too."""
        groups: dict[str, list[Tool]] = {name: [] for name in self.servers}
        for tool in self.tools:
            groups.setdefault(tool.server, []).append(tool)
        return {name: tuple(tools) for name, tools in groups.items()}

    @cached_property
    def crowded(self) -> SharedMap[str, tuple[ToolKey, ...]]:
        """The tools that did not get the name that they want, by that name; see `maitred.catalog.naming`."""
        groups: dict[str, list[ToolKey]] = {}
        for tool in self.tools:
            if (wanted := wanted_name(tool)) != tool.name:
                groups.setdefault(wanted, []).append(tool.key)
        return SharedMap((wanted, tuple(keys)) for wanted, keys in groups.items())

    @cached_property
    def has_usual_names(self) -> bool:
        """Whether each tool has the name that it wants, or the usual hash behind it."""
        return all(is_short_hashed(self.by_key[key]) for keys in self.crowded.values() for key in keys)

    @cached_property
    def _unused(self) -> Collection[str]:
        """The hashes of schemas that no tool has, as another process may have left them."""
        return frozenset(digest for digest in self.schemas if not self._uses.get(digest))

    @cached_property
    def _uses(self) -> SharedMap[str, int]:
        """How many tools have a schema, by its hash."""
        return SharedMap(Counter(digest for tool in self.tools for digest in tool.hashes))

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

    def completed(self, change: Change) -> Change:
        """A change with the hashes of the schemas that no tool has after it."""
        if not (touched := self._touched(change)):
            return change
        steps = self._steps(touched)
        digests = [*self._unused, *(digest for digest in steps if digest not in self._unused)]
        unused = [
            digest
            for digest in digests
            if self._uses.get(digest, 0) + steps.get(digest, 0) == 0
            and (digest in self.schemas or digest in change.schemas)
        ]
        return replace(change, unused_schemas=unused) if unused else change

    def portion(self, change: Change, servers: Collection[str]) -> "Snapshot":
        """The tools of some servers after a change, with their schemas, as a snapshot of them alone."""
        touched = self._touched(change)
        kept = [t for name in servers for t in self.by_server.get(name, ()) if t.key not in touched]
        tools = [*kept, *(tool for tool in touched.values() if tool and tool.server in servers)]
        digests = {digest for tool in tools for digest in tool.hashes if digest}
        records = {name: self.servers[name] for name in servers if name in self.servers}
        return Snapshot(
            generation=self.generation,
            servers=records | {one.name: one for one in change.servers if one.name in servers},
            tools=tuple(sorted(tools, key=_BY_NAME)),
            schemas={d: body for d in digests if (body := change.schemas.get(d) or self.schemas.get(d))},
        )

    def after(self, change: Change, generation: int) -> "Snapshot":
        """The snapshot after a change, without asking the store."""
        gone = set(change.removed_servers)
        servers = {name: record for name, record in self.servers.items() if name not in gone}
        servers |= {record.name: record for record in change.servers}
        touched = self._touched(change)
        tools, schemas = self.tools, self.schemas
        if touched or change.schemas:  # most changes concern no tool
            tools = self._tools_after(touched)
            unused = self.completed(change).unused_schemas
            fresh = {digest: body for digest, body in change.schemas.items() if digest not in unused}
            schemas = SharedMap.of(self.schemas).updated(fresh, unused)
        offers = self.offers
        if gone or change.offers is not None:
            left = offers if change.offers is None else change.offers
            offers = tuple(sorted((one for one in left if one.server not in gone), key=_BY_NAME))
        after = Snapshot(
            generation=generation,
            servers=servers,
            tools=tools,
            schemas=schemas,
            offers=offers,
            standings=self.standings if change.standings is None else change.standings,
            placed_by=change.placed_by or self.placed_by,
            tiers_at=change.tiers_at or self.tiers_at,
            mended_by=change.mended_by or self.mended_by,
        )
        after.__dict__.update(self._tables_after(touched, servers))
        return after

    def _touched(self, change: Change) -> Mapping[ToolKey, Tool | None]:
        """The tools that a change removes, as `None`, and those that it adds or replaces."""
        gone = [tool.key for name in change.removed_servers for tool in self.by_server.get(name, ())]
        touched: dict[ToolKey, Tool | None] = dict.fromkeys([*gone, *change.removed_tools])
        touched.update((tool.key, tool) for tool in change.tools)
        return touched

    def _tools_after(self, touched: Mapping[ToolKey, Tool | None]) -> tuple[Tool, ...]:
        """All tools by name, after some of them changed."""
        before = list(filter(None, map(self.by_key.get, touched)))
        places = [bisect_left(self.tools, tool.name, key=_BY_NAME) for tool in before]
        found = all(self.tools[at : at + 1] == (tool,) for at, tool in zip(places, before, strict=True))
        if not found or len(touched) * _MANY > len(self.tools):
            kept = [tool for tool in self.tools if tool.key not in touched]
            return tuple(sorted([*kept, *filter(None, touched.values())], key=_BY_NAME))
        tools = list(self.tools)
        for at in sorted(places, reverse=True):
            del tools[at]
        for now in filter(None, touched.values()):
            insort(tools, now, key=_BY_NAME)
        return tuple(tools)

    def _steps(self, touched: Mapping[ToolKey, Tool | None]) -> Mapping[str, int]:
        """How many tools more, or less, have a schema after some tools changed."""
        steps: Counter[str] = Counter()
        for now in filter(None, touched.values()):
            steps.update(now.hashes)
        for before in filter(None, map(self.by_key.get, touched)):
            steps.subtract(before.hashes)
        return steps

    def _uses_after(self, touched: Mapping[ToolKey, Tool | None]) -> SharedMap[str, int]:
        """How many tools have a schema after some tools changed; schemas of no tool are left out."""
        counts = {digest: self._uses.get(digest, 0) + step for digest, step in self._steps(touched).items()}
        return self._uses.updated({digest: count for digest, count in counts.items() if count > 0}, counts)

    def _tables_after(
        self, touched: Mapping[ToolKey, Tool | None], servers: Mapping[str, ServerRecord]
    ) -> Mapping[str, Any]:
        """The tables of the snapshot after a change, by the names of the properties that hold them."""
        if not touched:
            tables = {name: self.__dict__[name] for name in _TABLES if name in self.__dict__}
            return tables | {"by_server": self._servers_after(touched, servers)}
        before = [tool.name for tool in map(self.by_key.get, touched) if tool is not None]
        now = {key: tool for key, tool in touched.items() if tool is not None}
        return {
            "by_name": self.by_name.updated({tool.name: tool for tool in now.values()}, before),
            "by_key": self.by_key.updated(now, touched),
            "by_server": self._servers_after(touched, servers),
            "crowded": self._crowded_after(touched),
            **self._usual_after(touched),
            "_unused": frozenset(),
            "_uses": self._uses_after(touched),
        }

    def _servers_after(
        self, touched: Mapping[ToolKey, Tool | None], servers: Mapping[str, ServerRecord]
    ) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of each server after some tools changed."""
        now: dict[str, list[Tool]] = {key.server: [] for key in touched}
        for tool in filter(None, touched.values()):
            now[tool.server].append(tool)
        groups = {name: tools for name, tools in self.by_server.items() if tools or name in servers}
        groups |= {name: () for name in servers if name not in groups}
        for name, added in now.items():
            kept = [tool for tool in self.by_server.get(name, ()) if tool.key not in touched]
            groups[name] = tuple(sorted([*kept, *added], key=_BY_NAME))
            if not groups[name] and name not in servers:
                del groups[name]
        return groups

    def _usual_after(self, touched: Mapping[ToolKey, Tool | None]) -> Mapping[str, bool]:
        """Whether all names are usual after a change; empty if only a look at all of them can tell."""
        if not self.has_usual_names:
            return {}
        return {"has_usual_names": all(map(is_short_hashed, filter(None, touched.values())))}

    def _crowded_after(self, touched: Mapping[ToolKey, Tool | None]) -> SharedMap[str, tuple[ToolKey, ...]]:
        """The tools without the name that they want, after some tools changed."""
        groups: dict[str, tuple[ToolKey, ...]] = {}
        for before in filter(None, map(self.by_key.get, touched)):
            if (wanted := wanted_name(before)) in self.crowded:
                keys = groups.get(wanted, self.crowded[wanted])
                groups[wanted] = tuple(key for key in keys if key != before.key)
        for now in filter(None, touched.values()):
            if (wanted := wanted_name(now)) != now.name:
                groups[wanted] = (*groups.get(wanted, self.crowded.get(wanted, ())), now.key)
        return self.crowded.updated({wanted: keys for wanted, keys in groups.items() if keys}, groups)

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
        definition |= tool.extra
        return with_inferred(definition, tool.inferred) if tool.inferred else definition


INFERRED_KEY: Final = "maitred/inferred"
"""The key in `_meta` of a definition for the names of inferred parameters."""
_INFERRED: Final = "(inferred)"


def with_inferred(definition: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A definition whose inferred parameters are marked, in `_meta` and in their descriptions."""
    schema = definition["inputSchema"]
    properties = schema.get("properties", {})
    marked = {name: _marked(part) if name in names else part for name, part in properties.items()}
    meta = definition.get("_meta")
    return {
        **definition,
        "inputSchema": {**schema, "properties": marked},
        "_meta": {**(meta if isinstance(meta, Mapping) else {}), INFERRED_KEY: list(names)},
    }


def _marked(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {**part, "description": f"{part.get('description', '')} {_INFERRED}".strip()}


def _object_schema(schema: Any) -> dict[str, Any]:
    """The schema as registered; if only the type is missing, with the type that the protocol requires."""
    if not isinstance(schema, dict):
        return {"type": "object"}
    if "type" not in schema and isinstance(schema.get("properties"), dict):
        return {"type": "object", **schema}
    return schema if schema.get("type") == "object" else {"type": "object"}
