"""The writes of the catalog's store. Loaded with the first change, since SQLAlchemy is slow to load."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa

from maitred.catalog.snapshot import Change
from maitred.model.resources import Offer
from maitred.model.servers import ServerRecord
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.model.usage import ToolStanding
from maitred.storage.core import put
from maitred.storage.leader import Fence
from maitred.storage.tables import job_fences, offers, schemas, servers, standings, state, tools

_MARKS: Final = ("placed_by", "tiers_at", "mended_by")


def write(
    connection: sa.Connection, change: Change, planned_on: int, fence: Fence | None = None
) -> int | None:
    """Apply a change in the open transaction; see `maitred.catalog.live.Store`."""
    if fence is not None:
        last = sa.select(job_fences.c.number).where(job_fences.c.name == fence.name)
        fence.compare(connection.execute(last).scalar_one_or_none() or 0)
    if (generation := _generation(connection)) != planned_on:
        return None
    if change:
        _apply(connection, change)
        if change.visible:
            raised = sa.update(state).where(state.c.id == 1).values(generation=state.c.generation + 1)
            connection.execute(raised)
            generation = _generation(connection)
    return generation


def _generation(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(state.c.generation)).scalar_one())


def _apply(connection: sa.Connection, change: Change) -> None:
    _delete(connection, tools, change.removed_tools)
    for name in change.removed_servers:
        connection.execute(sa.delete(tools).where(tools.c.server == name))
        connection.execute(sa.delete(servers).where(servers.c.name == name))
    put(connection, servers, [_server_row(record) for record in change.servers])
    put(connection, schemas, [{"hash": digest, "body": body} for digest, body in change.schemas.items()])
    put(connection, tools, [_tool_row(tool) for tool in change.tools])
    for digest in change.unused_schemas:
        connection.execute(sa.delete(schemas).where(schemas.c.hash == digest))
    _apply_whole(connection, change)


def _apply_whole(connection: sa.Connection, change: Change) -> None:
    """Write the parts that a change replaces as a whole: offers, standings, and the marks of the state."""
    if change.offers is not None:
        connection.execute(sa.delete(offers))
        put(connection, offers, [asdict(offer.key) | _offer_row(offer) for offer in change.offers])
    if change.standings is not None:
        connection.execute(sa.delete(standings))
        put(connection, standings, [_standing_row(*one) for one in change.standings.items()])
    marks = {name: mark for name in _MARKS if (mark := getattr(change, name))}
    if marks:
        connection.execute(sa.update(state).where(state.c.id == 1).values(**marks))


def _delete(connection: sa.Connection, table: sa.Table, keys: Iterable[ToolKey]) -> None:
    for key in keys:
        where = (table.c.server == key.server) & (table.c.raw_name == key.name)
        connection.execute(sa.delete(table).where(where))


def _server_row(record: ServerRecord) -> dict[str, Any]:
    row = asdict(record)
    return row | {"notes": list(record.notes)}


def _tool_row(tool: Tool) -> dict[str, Any]:
    return {
        "server": tool.key.server,
        "raw_name": tool.key.name,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "annotations": dict(tool.annotations),
        "extra": dict(tool.extra),
        "input_hash": tool.input_hash,
        "output_hash": tool.output_hash,
        "cost_tokens": tool.cost_tokens,
        "category": tool.placement.category,
        "confidence": tool.placement.confidence,
        "placed_by": tool.placement.by,
        "tags": list(tool.placement.tags),
        "use_cases": list(tool.use_cases),
        "use_cases_by": tool.use_cases_by,
        "mending": _mending(tool.mending) if tool.mending else {},
        "raw_input_hash": tool.mending.input_hash if tool.mending else "",
        "withheld": tool.withheld,
        "subcategory": tool.placement.subcategory,
        "tool_group": asdict(tool.placement.group) if tool.placement.group else {},
        "since": tool.since,
    }


def _mending(mending: Mediation) -> dict[str, Any]:
    """The mending of a tool as JSON, without its hash, which has a column of its own."""
    return {name: value for name, value in asdict(mending).items() if name != "input_hash" and value}


def _offer_row(offer: Offer) -> dict[str, Any]:
    return {"name": offer.name, "definition": dict(offer.definition), "withheld": offer.withheld}


def _standing_row(key: ToolKey, standing: ToolStanding) -> dict[str, Any]:
    return {
        "server": key.server,
        "raw_name": key.name,
        "score": standing.score,
        "level": standing.level,
        "usage": asdict(standing.usage),
    }
