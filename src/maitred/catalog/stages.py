"""The stages of a discovery: tools are judged, mended and placed in the same write that adds them.

So no reader ever sees a tool before it was judged, with its raw text, or without a category. The stages
are implemented above and come in as protocols: `Admitter` (`maitred.admission`), `ToolMediator`
(`maitred.mediation`) and `Placer` (`maitred.disclosure.categories`).
They run when a server is discovered, and when rules or an operator's decisions change. The server's own
text is stored as well. Withheld tools are not mended: their text may attack a model, and a mediator may
be a model.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from anyio import to_thread

from maitred.catalog.names import publish_offers
from maitred.catalog.naming import named_after
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import CountTokens, DiscoveredServer, definition_text
from maitred.model.resources import Offer, OfferKey
from maitred.model.servers import ServerRecord, ServerSpec
from maitred.model.tools import Mediation, RawTool, Tool, ToolKey, as_written, canonical, content_hash


@dataclass(frozen=True, kw_only=True)
class PublishedDefinition:
    """All that a server publishes, as it sent it; `brought` are tools from its results.

    `is_part` says that these are not all tools: an instance for some clients published them, or others come
    again later.
    """

    tools: Sequence[RawTool] = ()
    brought: Sequence[RawTool] = ()
    offers: Sequence[Offer] = ()
    title: str = ""
    instructions: str = ""
    is_part: bool = False


@dataclass(frozen=True, kw_only=True)
class WithheldParts:
    """The withheld parts, each with a reason that continues a sentence after "it".

    A server's title is withheld with its instructions.

    `judged_by` changes with all that affected the decision; `notes` are added to the server's notes.
    """

    judged_by: str = ""
    tools: Mapping[ToolKey, str] = field(default_factory=dict)
    offers: Mapping[OfferKey, str] = field(default_factory=dict)
    instructions: str = ""
    notes: tuple[str, ...] = ()


class Admitter(Protocol):
    """Judges what a server publishes: the same always alike, until the operator decides otherwise."""

    async def admit(self, spec: ServerSpec, published: PublishedDefinition) -> WithheldParts:
        """Record what a server publishes now, and return which parts are withheld.

        Raises:
            StoreError: The approvals cannot be read; then nothing new may be added.
        """
        ...

    async def holds(self, spec: ServerSpec, withheld: WithheldParts) -> bool:
        """Whether a judgement is still valid, as far as operators' decisions are concerned."""
        ...


def mark_withheld(found: DiscoveredServer, withheld: WithheldParts) -> DiscoveredServer:
    """A discovery as it goes into the catalog, with its withheld parts marked."""
    facts = replace(found.facts, title="", instructions="") if withheld.instructions else found.facts
    return replace(
        found,
        facts=facts,
        offers=[withheld_offer(offer, withheld) for offer in found.offers],
        notes=(*found.notes, *withheld.notes),
        withheld=withheld.tools,
        judged_by=withheld.judged_by,
    )


def withholding_change(
    snapshot: Snapshot,
    server: str,
    withheld: WithheldParts,
    instructions: str,
    *,
    title: str,
    of: Collection[str] | None,
) -> Change:
    """The change that withholds exactly these parts of what is known of a server.

    `instructions` and `title` are the server's own, cleaned, and are used if they are not withheld any
    more. `of` names the judged tools; other withheld tools stay withheld.
    `of` is `None` if the judgement was about another version than the catalog has. Then all stays
    withheld, and the server must be listed again. Tools are not mended here: call `Discoverer.remend` for
    those that are no longer withheld.
    """
    record = snapshot.servers.get(server)
    if record is None:
        return Change()
    if of is None:
        instructions, title = record.facts.instructions, record.facts.title
        record = replace(record, fingerprint="")  # as if the server was not known
    marked = {
        tool.key: withheld_tool(tool, withheld, keep=of is None or tool.key.name not in of)
        for tool in snapshot.by_server.get(server, ())
    }
    tools = _changed(snapshot, marked)
    if any(bool(tool.withheld) != bool(snapshot.by_key[tool.key].withheld) for tool in tools):
        tools = _changed(snapshot, named_after(snapshot, {tool.key: tool for tool in tools}))
    offers = [
        withheld_offer(offer, withheld, keep=of is None) if offer.server == server else offer
        for offer in snapshot.offers
    ]
    if other_offers := offers != list(snapshot.offers):
        offers = publish_offers(offers)
    told = ("", "") if withheld.instructions else (title, instructions)
    facts = replace(record.facts, title=told[0], instructions=told[1])
    return Change(
        servers=[replace(record, judged_by=withheld.judged_by, facts=facts)],
        tools=tools,
        offers=offers if other_offers else None,
        visible=bool(tools) or other_offers or facts != record.facts,
    )


def _changed(snapshot: Snapshot, tools: Mapping[ToolKey, Tool]) -> list[Tool]:
    return [tool for key, tool in tools.items() if tool != snapshot.by_key[key]]


def withheld_tool(tool: Tool, withheld: WithheldParts, *, keep: bool = False) -> Tool:
    """The tool with the reason why it is withheld; the same object if the reason is the same.

    With `keep`, a tool without a new reason stays withheld for the former one.
    """
    why = withheld.tools.get(tool.key) or (tool.withheld if keep else "")
    return tool if tool.withheld == why else replace(tool, withheld=why)


def withheld_offer(offer: Offer, withheld: WithheldParts, *, keep: bool = False) -> Offer:
    """The offer with the reason why it is withheld; see `withheld_tool`."""
    why = withheld.offers.get(offer.key) or (offer.withheld if keep else "")
    return offer if offer.withheld == why else replace(offer, withheld=why)


@dataclass(frozen=True, kw_only=True)
class MediatedTool:
    """How a tool is to be published; this module fills in the originals in `mending`."""

    title: str
    description: str
    input_schema: Any
    mending: Mediation


class ToolMediator(Protocol):
    """Improves tools. The same tools always get the same answer, until the fingerprint changes."""

    @property
    def fingerprint(self) -> str:
        """Changes when the same tools might be mended otherwise."""
        ...

    async def mend(self, server: str, tools: Sequence[RawTool]) -> Sequence[MediatedTool | None]:
        """One answer for each tool, in their order; `None` for one that stays as it is."""
        ...


async def with_mendings(
    snapshot: Snapshot, change: Change, servers: Sequence[str], mender: ToolMediator, count: CountTokens
) -> Change:
    """A change, such as that of a server's discovery, with all tools of some servers mended."""
    renamed = any(
        tool.mending and tool.mending.rename for name in servers for tool in snapshot.by_server.get(name, ())
    )
    fresh, schemas = await _mended(snapshot.portion(change, servers), servers, mender)
    if not fresh and not renamed:  # as for nearly every call that finds its server unchanged
        return change
    after = snapshot.after(change, snapshot.generation)
    unnamed = [tool for name in servers for tool in after.by_server.get(name, ())] if renamed else []
    published = await _published(after, fresh, schemas, count, unnamed=unnamed)
    if not published:
        return change
    tools = {tool.key: tool for tool in (*change.tools, *published)}
    return replace(change, tools=list(tools.values()), schemas={**change.schemas, **schemas}, visible=True)


async def remending(snapshot: Snapshot, mender: ToolMediator, count: CountTokens) -> Change:
    """The change that mends all tools by these rules; empty if these rules mended them already."""
    if snapshot.mended_by == mender.fingerprint:
        return Change()
    fresh, schemas = await _mended(snapshot, list(snapshot.by_server), mender)
    published = await _published(snapshot, fresh, schemas, count)
    return Change(tools=published, schemas=schemas, mended_by=mender.fingerprint, visible=bool(published))


async def _mended(
    snapshot: Snapshot, servers: Sequence[str], mender: ToolMediator
) -> tuple[list[Tool], dict[str, bytes]]:
    """The tools that are to be published differently than before, under their old names, and new schemas."""
    schemas: dict[str, bytes] = {}
    fresh: list[Tool] = []
    for server in servers:
        mendable = mendable_tools(snapshot, server)
        told = await mender.mend(server, raw_tools(snapshot, server))
        answers = {tool.key: answer for tool, answer in zip(mendable, told, strict=True)}
        for tool in snapshot.by_server.get(server, ()):
            now = _applied(tool.raw, answers.get(tool.key), schemas)
            if replace(now, cost_tokens=tool.cost_tokens) != tool:
                fresh.append(now)
    return fresh, schemas


async def _published(
    snapshot: Snapshot,
    fresh: Sequence[Tool],
    schemas: Mapping[str, bytes],
    count: CountTokens,
    *,
    unnamed: Sequence[Tool] = (),
) -> list[Tool]:
    """Mended tools and those of `unnamed` with their names, and all others whose names change by it."""
    digests = {digest for tool in fresh for digest in (tool.input_hash, tool.output_hash) if digest}
    known = {digest: schemas[digest] if digest in schemas else snapshot.schemas[digest] for digest in digests}
    costs = await count([definition_text(tool, known) for tool in fresh])
    tools: dict[ToolKey, Tool | None] = {tool.key: tool for tool in unnamed}
    tools |= {tool.key: replace(tool, cost_tokens=cost) for tool, cost in zip(fresh, costs, strict=True)}
    named = named_after(snapshot, tools)
    return [tool for key, tool in named.items() if snapshot.by_key[key] != tool]


def mendable_tools(snapshot: Snapshot, server: str) -> list[Tool]:
    """The tools of a server that are not withheld, in the order of `by_server`."""
    return [tool for tool in snapshot.by_server.get(server, ()) if not tool.withheld]


def raw_tools(snapshot: Snapshot, server: str) -> list[RawTool]:
    """The tools of `mendable_tools`, in that order, as their server describes them."""
    return [
        RawTool(
            key=own.key,
            title=own.title,
            description=own.description,
            input_schema=snapshot.schema(own.input_hash),
            output_schema=snapshot.schema(own.output_hash),
            annotations=own.annotations,
            extra=own.extra,
        )
        for own in (tool.raw for tool in mendable_tools(snapshot, server))
    ]


def _applied(tool: Tool, answer: MediatedTool | None, schemas: dict[str, bytes]) -> Tool:
    """The tool as it is to be published; `tool` is the server's own."""
    if answer is None:
        return tool
    digest = tool.input_hash
    if answer.input_schema is not None:
        digest = content_hash(canonical(answer.input_schema))
        if digest != tool.input_hash:
            schemas[digest] = as_written(answer.input_schema)
    mending = replace(
        answer.mending, title=tool.title, description=tool.description, input_hash=tool.input_hash
    )
    return replace(
        tool,
        title=answer.title,
        description=answer.description,
        input_hash=digest,
        mending=mending,
    )


class Placer(Protocol):
    """Puts tools in categories, the same tools always in the same ones. May be slow, and runs in threads."""

    @property
    def fingerprint(self) -> str:
        """Changes when the same tools might be placed otherwise."""
        ...

    def place(self, tools: Sequence[Tool], schema: Callable[[str], Any], about: str = "") -> Sequence[Tool]:
        """All tools of one server in their order, with placement and use cases.

        `about` is the server's description of itself.
        """
        ...


async def with_placements(snapshot: Snapshot, change: Change, server: str, placer: Placer) -> Change:
    """The change of one server's discovery, with all its tools placed."""
    placed = await to_thread.run_sync(_place, snapshot.portion(change, [server]), server, placer)
    if not placed:
        return change
    fresh = {tool.key: tool for tool in (*change.tools, *placed)}
    return replace(change, tools=list(fresh.values()), visible=True)


async def replacement(snapshot: Snapshot, placer: Placer, *, again: bool = False) -> Change:
    """The change that places all tools by these rules; empty if these rules placed them already.

    With `again` they are placed in any case, since their descriptions are new.
    """
    if snapshot.placed_by == placer.fingerprint and not again:
        return Change()

    def place() -> list[Tool]:
        return [tool for server in snapshot.by_server for tool in _place(snapshot, server, placer)]

    moved = await to_thread.run_sync(place)
    return Change(tools=moved, placed_by=placer.fingerprint, visible=bool(moved))


def _place(snapshot: Snapshot, server: str, placer: Placer) -> list[Tool]:
    """The tools of a server that these rules place elsewhere."""
    before = snapshot.by_server.get(server, ())
    after = placer.place(before, snapshot.schema, _about(snapshot.servers.get(server)))
    return [now for was, now in zip(before, after, strict=True) if was != now]


def _about(record: ServerRecord | None) -> str:
    return f"{record.facts.title}. {record.facts.instructions}" if record else ""
