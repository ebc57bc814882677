"""Compare a server's lists with the catalog, and compute the smallest change.

Nothing here talks to a server or to the store: values in, a `Change` out. Definitions are compared by
canonical content, since some servers change the order of keys at every start.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from maitred.catalog.names import publish_offers, wanted_name
from maitred.catalog.naming import named_after
from maitred.catalog.snapshot import Change, Snapshot
from maitred.model.resources import Offer
from maitred.model.servers import ServerFacts, ServerRecord, ServerSpec
from maitred.model.tools import RawTool, Tool, ToolKey, as_written, canonical, content_hash

CountTokens = Callable[[Sequence[str]], Awaitable[Sequence[int]]]
"""Counts the o200k tokens of several texts at once."""

_MAX_SCHEMA_BYTES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class DiscoveredServer:
    """The result of one discovery of a server; `withheld` says which tools may not be used, and why.

    `judged_by` is that of `maitred.catalog.stages.WithheldParts`. `is_part` says that an instance for some
    clients was listed. Its tools are added to the known ones, and nothing else of it counts. `gone` is as
    in `maitred.backends.base.Listing`.
    """

    spec: ServerSpec
    facts: ServerFacts
    tools: Sequence[RawTool]
    offers: Sequence[Offer] = ()
    notes: tuple[str, ...] = ()
    withheld: Mapping[ToolKey, str] = field(default_factory=dict)
    judged_by: str = ""
    is_part: bool = False
    gone: frozenset[str] | None = None


async def plan(snapshot: Snapshot, found: DiscoveredServer, count: CountTokens) -> Change:
    """The change that makes the catalog agree with a discovery; it contains only differing rows."""
    schemas: dict[str, bytes] = {}
    notes = list(found.notes)
    drafts = [_draft(raw, schemas, notes, found.withheld.get(raw.key, "")) for raw in found.tools]
    known = {tool.key: tool for tool in snapshot.by_server.get(found.spec.name, ())}
    fresh = [draft for draft in drafts if not _same(draft, known.get(draft.key))]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    costs = await count([definition_text(draft, schemas) for draft in fresh])
    priced = [replace(draft, cost_tokens=cost, since=now) for draft, cost in zip(fresh, costs, strict=True)]
    counted = {draft.key: _continued(draft, known.get(draft.key)) for draft in priced}
    stays = found.is_part or found.gone is not None
    kept = {key: tool for key, tool in known.items() if stays and key.name not in (found.gone or ())}
    merged = {**kept, **{draft.key: counted.get(draft.key) or known[draft.key] for draft in drafts}}
    named = _names_of_all(snapshot, found.spec.name, known, merged)
    changed = [tool for key, tool in named.items() if snapshot.by_key.get(key) != tool]
    removed = [key for key in known if key not in merged]
    before = snapshot.servers.get(found.spec.name)
    record = ServerRecord(
        name=found.spec.name,
        fingerprint=found.spec.fingerprint,
        facts=before.facts if found.is_part and before else found.facts,
        synced_at=now,
        notes=before.notes if found.is_part and before else tuple(notes),
        judged_by=found.judged_by,
    )
    used = {digest for tool in changed for digest in tool.hashes}
    offers = None if found.is_part else _offers(snapshot, found)
    seen = changed or removed or offers is not None
    return Change(
        servers=[record],
        tools=changed,
        removed_tools=removed,
        schemas={k: v for k, v in schemas.items() if k in used or k not in snapshot.schemas},
        offers=offers,
        visible=bool(seen) or _noticeable(before) != _noticeable(record),
    )


def _continued(draft: Tool, known: Tool | None) -> Tool:
    """A tool with what its last version has of us: its name, and what was decided of it."""
    return replace(draft, name=_name(known), **_curated(known))


def _names_of_all(
    snapshot: Snapshot, server: str, known: Mapping[ToolKey, Tool], merged: Mapping[ToolKey, Tool]
) -> Mapping[ToolKey, Tool]:
    """The tools of one server with their published names, and those of others whose names change by them."""
    was, now = _marks(known), _marks(merged)
    touched: dict[ToolKey, Tool | None] = dict.fromkeys(key for key in was if key not in now)
    touched |= {key: merged[key] for key in now if now[key] != was.get(key)}
    if not touched:  # as with every call that finds its server unchanged
        return merged
    named = named_after(snapshot, touched)
    own = {key: replace(merged[key], name=named[key].name) for key in merged if key in named}
    return {**{key: tool for key, tool in named.items() if key.server != server}, **merged, **own}


def _offers(snapshot: Snapshot, found: DiscoveredServer) -> Sequence[Offer] | None:
    """All offers after a discovery; `None` if it changes none."""
    known = {offer.key: offer for offer in snapshot.offers if offer.server == found.spec.name}
    same = (o.key in known and replace(o, name=known[o.key].name) == known[o.key] for o in found.offers)
    if len(known) == len(found.offers) and all(same):  # names of offers depend on all of them
        return None
    others = [offer for offer in snapshot.offers if offer.server != found.spec.name]
    named = publish_offers([*others, *found.offers])
    return None if {o.key: o for o in named} == snapshot.offers_by_key else named


def failure(snapshot: Snapshot, spec: ServerSpec, reason: str) -> Change:
    """The change that records why a server could not be discovered; its known tools stay."""
    before = snapshot.servers.get(spec.name)
    known = before is not None and before.fingerprint == spec.fingerprint
    record = replace(before, error=reason) if before and known else _unknown(spec, reason)
    return Change(servers=[record], visible=_noticeable(before) != _noticeable(record))


def removal(snapshot: Snapshot, configured: Mapping[str, ServerSpec]) -> Change:
    """The change that forgets servers that are not configured any more, and frees their names."""
    gone = [name for name in snapshot.servers if name not in configured]
    if not gone:
        return Change()
    removed = dict.fromkeys(tool.key for name in gone for tool in snapshot.by_server.get(name, ()))
    named = named_after(snapshot, removed)
    renamed = [tool for key, tool in named.items() if snapshot.by_key[key] != tool]
    left = [offer for offer in snapshot.offers if offer.server in configured]
    offers = publish_offers(left) if len(left) < len(snapshot.offers) else None
    return Change(removed_servers=gone, tools=renamed, offers=offers)


def _unknown(spec: ServerSpec, reason: str) -> ServerRecord:
    return ServerRecord(name=spec.name, fingerprint=spec.fingerprint, error=reason)


def _noticeable(record: ServerRecord | None) -> object:
    """The parts of a server's record that a reader could notice; not the time or result of the last sync."""
    return record and (record.facts, record.fingerprint)


def _draft(raw: RawTool, schemas: dict[str, bytes], notes: list[str], withheld: str) -> Tool:
    def keep(schema: object, what: str) -> str:
        if schema is None:
            return ""
        body = as_written(schema)
        if len(body) > _MAX_SCHEMA_BYTES:
            notes.append(f"the {what} schema of {raw.key.name!r} has {len(body):,} bytes and was left out")
            return ""
        digest = content_hash(canonical(schema))
        schemas.setdefault(digest, body)
        return digest

    return Tool(
        key=raw.key,
        name="",
        title=raw.title,
        description=raw.description,
        input_hash=keep(raw.input_schema, "input"),
        output_hash=keep(raw.output_schema, "output"),
        annotations=raw.annotations,
        extra=raw.extra,
        cost_tokens=0,
        withheld=withheld,
    )


def _marks(tools: Mapping[ToolKey, Tool]) -> Mapping[ToolKey, tuple[bool, str]]:
    """Everything on which names depend."""
    return {key: (bool(tool.withheld), wanted_name(tool)) for key, tool in tools.items()}


def _name(tool: Tool | None) -> str:
    return tool.name if tool else ""


def _same(draft: Tool, known: Tool | None) -> bool:
    if known is None:
        return False
    raw = known.raw
    same = replace(draft, name=raw.name, cost_tokens=raw.cost_tokens, since=raw.since, **_curated(raw))
    return same == raw


def _curated(known: Tool | None) -> dict[str, Any]:
    """The fields that a tool keeps, whatever its server publishes now."""
    names = ("placement", "use_cases", "use_cases_by")
    return {name: getattr(known, name) for name in names} if known else {}


def definition_text(tool: Tool, schemas: Mapping[str, bytes]) -> str:
    """The definition as a model gets it, for counting: name, description, schemas, annotations."""
    parts = [f'{{"name":"{tool.key.server}__{tool.key.name}"']
    if tool.title:
        parts.append('"title":' + canonical(tool.title).decode())
    if tool.description:
        parts.append('"description":' + canonical(tool.description).decode())
    for key, digest in (("inputSchema", tool.input_hash), ("outputSchema", tool.output_hash)):
        if digest:
            parts.append(f'"{key}":' + schemas[digest].decode("utf-8", "replace"))
    if tool.annotations:
        parts.append('"annotations":' + canonical(tool.annotations).decode())
    return ",".join(parts) + "}"
