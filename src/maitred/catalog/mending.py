"""Keep every tool mended: when a server is discovered, and when rules or a person's overrides change.

What mends stands above (`maitred.mediation`) and comes in as a `Mender`. Tools are mended in the same write
that brings them, so that no reader sees them otherwise; what the server says is kept beside it. Tools that
are withheld stay as they are: what they say may be meant for a model, and a mender may be one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import CountTokens, definition_text, named_anew
from maitred.model.tools import Mending, RawTool, Tool, ToolKey, as_written, canonical, content_hash


@dataclass(frozen=True, kw_only=True)
class Mended:
    """How a tool is to be published; `mending` holds the rest, its originals are filled in here."""

    title: str
    description: str
    input_schema: Any
    mending: Mending


class Mender(Protocol):
    """Makes tools better. The same tools always get the same, until the fingerprint changes."""

    @property
    def fingerprint(self) -> str:
        """Changes when the same tools might be mended otherwise."""
        ...

    async def mend(self, server: str, tools: Sequence[RawTool]) -> Sequence[Mended | None]:
        """One answer a tool, in their order; `None` for one that stays as it is."""
        ...


async def with_mendings(
    snapshot: Snapshot, change: Change, servers: Sequence[str], mender: Mender, count: CountTokens
) -> Change:
    """A change, such as that of a server's discovery, with all tools of some servers mended."""
    touches = change.tools or change.removed_tools or change.removed_servers
    after = snapshot.after(change, snapshot.generation) if touches else snapshot
    renamed = any(
        tool.mending and tool.mending.rename for name in servers for tool in snapshot.by_server.get(name, ())
    )
    mended, schemas = await _mended(after, servers, mender, count, named=not renamed)
    if not mended:
        return change
    fresh = {tool.key: tool for tool in (*change.tools, *mended)}
    return replace(change, tools=list(fresh.values()), schemas={**change.schemas, **schemas}, visible=True)


async def remending(snapshot: Snapshot, mender: Mender, count: CountTokens) -> Change:
    """The change that mends all tools by these rules; empty when they are the rules they were mended by."""
    if snapshot.mended_by == mender.fingerprint:
        return Change()
    mended, schemas = await _mended(snapshot, list(snapshot.by_server), mender, count, named=True)
    return Change(tools=mended, schemas=schemas, mended_by=mender.fingerprint, visible=bool(mended))


async def _mended(
    snapshot: Snapshot, servers: Sequence[str], mender: Mender, count: CountTokens, *, named: bool
) -> tuple[list[Tool], dict[str, bytes]]:
    """The tools that are published otherwise than before, of any server if names change, and new schemas.

    `named` says that all tools have the names that they have together, if none is mended otherwise.
    """
    schemas: dict[str, bytes] = {}
    fresh: list[Tool] = []
    for server in servers:
        before = snapshot.by_server.get(server, ())
        mendable = mendable_tools(snapshot, server)
        told = await mender.mend(server, raw_tools(snapshot, server))
        answers = {tool.key: answer for tool, answer in zip(mendable, told, strict=True)}
        for tool in before:
            now = _applied(tool.raw, answers.get(tool.key), schemas)
            if replace(now, cost_tokens=tool.cost_tokens) != tool:
                fresh.append(now)
    if named and not fresh:  # naming thousands of tools anew takes longer than all the rest
        return [], schemas
    known = {**snapshot.schemas, **schemas}
    costs = await count([definition_text(tool, known) for tool in fresh])
    tools: dict[ToolKey, Tool] = {tool.key: tool for tool in snapshot.tools}
    tools |= {tool.key: replace(tool, cost_tokens=cost) for tool, cost in zip(fresh, costs, strict=True)}
    published = named_anew(tools)
    return [tool for key, tool in published.items() if snapshot.by_key[key] != tool], schemas


def mendable_tools(snapshot: Snapshot, server: str) -> list[Tool]:
    """The tools of a server that are not withheld, in the order of `by_server`."""
    return [tool for tool in snapshot.by_server.get(server, ()) if not tool.withheld]


def raw_tools(snapshot: Snapshot, server: str) -> list[RawTool]:
    """The tools that `mendable_tools` has, in that order, as their server describes them."""
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


def _applied(tool: Tool, answer: Mended | None, schemas: dict[str, bytes]) -> Tool:
    """The tool as it is to be published; `tool` is as its server has it."""
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
