"""The statements of the store of held calls; loaded with the first held call, since SQLAlchemy is slow.

Each function runs in a transaction of `maitred.held_calls.store`. Times are texts in UTC, which sort by time.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from maitred.model.held_calls import CallBinding
from maitred.storage.tables import held_calls

C = held_calls.c
_LASTING = ("session", "any")


def _waits(now: str) -> sa.ColumnElement[bool]:
    """That a call waits: undecided, in time, held by a gateway that lives, and with arguments to look at."""
    return sa.and_(C.state == "waiting", C.expires_at > now, C.alive_until > now, C.arguments != "")


def _is_valid(now: str) -> sa.ColumnElement[bool]:
    return sa.and_(C.state == "approved", C.expires_at > now)


def _change(connection: sa.Connection, which: sa.ColumnElement[bool], **values: Any) -> int:
    return connection.execute(sa.update(held_calls).where(which).values(**values)).rowcount


def waiting_of(connection: sa.Connection, principal: str, now: str) -> int:
    """How many calls of a principal wait."""
    which = sa.and_(_waits(now), C.principal == principal)
    query = sa.select(sa.func.count()).select_from(held_calls).where(which)
    return int(connection.execute(query).scalar_one())


def add(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Add a call."""
    connection.execute(sa.insert(held_calls).values(**row))


def join(connection: sa.Connection, held_id: str, now: str, values: Mapping[str, Any]) -> bool:
    """Give a call that waits at this gateway to another caller; false if it does not wait any more."""
    waits = sa.and_(C.state == "waiting", C.expires_at > now, C.arguments != "")
    return _change(connection, sa.and_(waits, C.id == held_id), **values) == 1


def drop_old(connection: sa.Connection, *, before: str, now: str) -> None:
    """Drop calls from before a time, and the arguments of those that can be neither decided nor made now."""
    connection.execute(sa.delete(held_calls).where(C.held_at < before))
    _change(connection, sa.and_(C.arguments != "", ~_waits(now), ~_is_valid(now)), arguments="")


def use_for_session(connection: sa.Connection, bound: CallBinding, session: str, now: str) -> str:
    """The id of a held call whose approval for the session covers a call; empty if there is none."""
    same = sa.and_(C.decision == "session", C.digest == bound.digest)
    any_of_tool = sa.and_(C.decision == "any", C.tool_digest == bound.tool_digest)
    which = sa.and_(_is_valid(now), C.session == session, sa.or_(same, any_of_tool))
    return str(connection.execute(sa.select(C.id).where(which).limit(1)).scalar() or "")


def use_equal(connection: sa.Connection, digest: str, now: str) -> str:
    """Use up an approval for an equal call; returns the id of its held call, empty if there is none."""
    once = sa.and_(_is_valid(now), C.decision == "once", C.digest == digest)
    first = sa.select(C.id).where(once).order_by(C.held_at).limit(1)
    while held_id := connection.execute(first).scalar():
        if _change(connection, sa.and_(C.id == held_id, once), state="used", arguments="") == 1:
            return str(held_id)
    return ""


def use(connection: sa.Connection, held_id: str, now: str) -> bool:
    """Use a call's own approval, up if it is for one call; false if there is none, or not any more."""
    valid = sa.and_(_is_valid(now), C.id == held_id)
    if _change(connection, sa.and_(valid, C.decision == "once"), state="used", arguments="") == 1:
        return True
    query = sa.select(C.id).where(valid, C.decision.in_(_LASTING))
    return connection.execute(query).first() is not None


def decide(connection: sa.Connection, held_id: str, now: str, values: Mapping[str, Any], least: str) -> bool:
    """Change a call that waits; false if it does not wait any more. It ends at `least` or later, if given."""
    if least:
        values = {**values, "expires_at": sa.case((C.expires_at < least, least), else_=C.expires_at)}
    return _change(connection, sa.and_(_waits(now), C.id == held_id), **values) == 1


def expire(connection: sa.Connection, ids: Collection[str]) -> Sequence[str]:
    """End the waiting of some calls; returns those whose state this changed."""
    ended = {"state": "expired", "arguments": ""}
    return [one for one in ids if _change(connection, sa.and_(C.id == one, C.state == "waiting"), **ended)]


def expire_gateway(connection: sa.Connection, gateway: str) -> Sequence[str]:
    """End the waiting of all calls of a gateway; returns those whose state this changed."""
    query = sa.select(C.id).where(C.gateway == gateway, C.state == "waiting")
    return expire(connection, connection.execute(query).scalars().all())


def keep_alive(connection: sa.Connection, gateway: str, until: str) -> None:
    """Say until when a gateway certainly lives."""
    _change(connection, sa.and_(C.gateway == gateway, C.state == "waiting"), alive_until=until)


def rows(connection: sa.Connection, which: sa.ColumnElement[bool]) -> Sequence[Mapping[str, Any]]:
    """Calls, the oldest first."""
    query = sa.select(held_calls).where(which).order_by(C.held_at, C.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def waiting(connection: sa.Connection, now: str) -> Sequence[Mapping[str, Any]]:
    """All calls that wait."""
    return rows(connection, _waits(now))


def by_id(connection: sa.Connection, ids: Collection[str]) -> Sequence[Mapping[str, Any]]:
    """Some calls."""
    return rows(connection, C.id.in_(ids))


def is_seen(connection: sa.Connection, bound: CallBinding) -> bool:
    """Whether a person approved a call of this tool, as it is defined now, for this principal before."""
    same = [C.principal == bound.principal, C.server == bound.server, C.tool == bound.tool]
    approved = sa.or_(C.state == "used", C.decision.in_(_LASTING))
    which = sa.and_(*same, C.definition == bound.definition, approved)
    return connection.execute(sa.select(C.id).where(which).limit(1)).first() is not None
