"""Keep every tool in its category: when a server is discovered, and when rules or a person's choices change.

The rules themselves are above (`maitred.disclosure.categories`) and come in as a `Placer`. Tools are placed
in the same write that brings them, so that no reader ever sees them without a category.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from anyio import to_thread

from maitred.catalog.snapshot import Change, Snapshot
from maitred.model.servers import ServerRecord
from maitred.model.tools import Tool


class Placer(Protocol):
    """Puts tools in categories. The same tools always get the same; it may be slow, and is run in threads."""

    @property
    def fingerprint(self) -> str:
        """Changes when the same tools might be placed otherwise."""
        ...

    def place(self, tools: Sequence[Tool], schema: Callable[[str], Any], about: str = "") -> Sequence[Tool]:
        """All tools of one server in their order, with placement and use cases.

        `about` is what the server says of itself.
        """
        ...


async def with_placements(snapshot: Snapshot, change: Change, server: str, placer: Placer) -> Change:
    """The change of one server's discovery, with all its tools placed."""
    after = snapshot.after(change, snapshot.generation)
    placed = await to_thread.run_sync(_place, after, server, placer)
    if not placed:
        return change
    fresh = {tool.key: tool for tool in (*change.tools, *placed)}
    return replace(change, tools=list(fresh.values()), visible=True)


async def replacement(snapshot: Snapshot, placer: Placer, *, again: bool = False) -> Change:
    """The change that places all tools by these rules; empty when they are the rules they stand by.

    With `again` they are placed in any case, since what is said of them is new.
    """
    if snapshot.placed_by == placer.fingerprint and not again:
        return Change()

    def place() -> list[Tool]:
        return [tool for server in snapshot.by_server for tool in _place(snapshot, server, placer)]

    moved = await to_thread.run_sync(place)
    return Change(tools=moved, placed_by=placer.fingerprint, visible=bool(moved))


def _place(snapshot: Snapshot, server: str, placer: Placer) -> list[Tool]:
    """The tools of a server that stand elsewhere by these rules."""
    before = snapshot.by_server.get(server, ())
    after = placer.place(before, snapshot.schema, _about(snapshot.servers.get(server)))
    return [now for was, now in zip(before, after, strict=True) if was != now]


def _about(record: ServerRecord | None) -> str:
    return f"{record.facts.title}. {record.facts.instructions}" if record else ""
