"""Which parts of what a server publishes are withheld: how sync asks, and how the catalog keeps the answer.

What decides stands above (`maitred.admission`, in the gateway) and comes in as an `Admitter`. The answer is
written together with the tools that it is about, so that no reader ever sees a tool before it was judged.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from maitred.catalog.names import publish_offers
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import Discovery, named_anew
from maitred.model.offers import Offer, OfferKey
from maitred.model.servers import ServerSpec
from maitred.model.tools import RawTool, Tool, ToolKey


@dataclass(frozen=True, kw_only=True)
class Published:
    """All that a server says of itself, as it came; `brought` are tools that a result brought."""

    tools: Sequence[RawTool] = ()
    brought: Sequence[RawTool] = ()
    offers: Sequence[Offer] = ()
    title: str = ""
    instructions: str = ""


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """The parts that are withheld, each with the reason in words that go on from "it".

    A server's title goes with its instructions.

    `judged_by` changes with all that decided it; `notes` are for whoever looks at the server's notes.
    """

    judged_by: str = ""
    tools: Mapping[ToolKey, str] = field(default_factory=dict)
    offers: Mapping[OfferKey, str] = field(default_factory=dict)
    instructions: str = ""
    notes: tuple[str, ...] = ()


class Admitter(Protocol):
    """Judges what a server publishes; the same is judged alike until somebody decides otherwise."""

    async def admit(self, spec: ServerSpec, published: Published) -> Withheld:
        """Take note of what a server publishes now, and say which parts are withheld.

        Raises:
            StoreError: What was approved cannot be read; nothing new may be taken in then.
        """
        ...

    async def holds(self, spec: ServerSpec, withheld: Withheld) -> bool:
        """Whether a judgement is still what it would be, as far as persons have to do with it."""
        ...


def admitted(found: Discovery, withheld: Withheld) -> Discovery:
    """A discovery as it goes into the catalog: what is withheld is marked so."""
    facts = replace(found.facts, title="", instructions="") if withheld.instructions else found.facts
    return replace(
        found,
        facts=facts,
        offers=[withheld_offer(offer, withheld) for offer in found.offers],
        notes=(*found.notes, *withheld.notes),
        withheld=withheld.tools,
        judged_by=withheld.judged_by,
    )


def rejudged(
    snapshot: Snapshot,
    server: str,
    withheld: Withheld,
    instructions: str,
    *,
    title: str,
    of: Collection[str] | None,
) -> Change:
    """The change that withholds exactly these parts of what is known of a server.

    `instructions` and `title` are those of the server, cleaned, for where they are not withheld any more.
    `of` names the tools that were judged: what else is withheld stays so. It is `None` where the catalog has
    not what was judged but what the server published another time: then all stays withheld, and it has to be
    listed again. Tools are not mended: whose mark was lifted has to be afterwards (`Keeper.remend`).
    """
    record = snapshot.servers.get(server)
    if record is None:
        return Change()
    if of is None:
        instructions, title = record.facts.instructions, record.facts.title
        record = replace(record, fingerprint="")  # as if it was not known
    marked = {
        tool.key: withheld_tool(tool, withheld, keep=of is None or tool.key.name not in of)
        for tool in snapshot.by_server.get(server, ())
    }
    tools = _changed(snapshot, marked)
    if any(bool(tool.withheld) != bool(snapshot.by_key[tool.key].withheld) for tool in tools):
        tools = _changed(snapshot, named_anew({**snapshot.by_key, **marked}))
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


def withheld_tool(tool: Tool, withheld: Withheld, *, keep: bool = False) -> Tool:
    """The tool with the reason why it is withheld; the very same where that is no other than before.

    With `keep` it stays withheld for the reason that it was, if there is no other.
    """
    why = withheld.tools.get(tool.key) or (tool.withheld if keep else "")
    return tool if tool.withheld == why else replace(tool, withheld=why)


def withheld_offer(offer: Offer, withheld: Withheld, *, keep: bool = False) -> Offer:
    """The offer with the reason why it is withheld; see `withheld_tool`."""
    why = withheld.offers.get(offer.key) or (offer.withheld if keep else "")
    return offer if offer.withheld == why else replace(offer, withheld=why)
