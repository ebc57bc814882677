"""The constant statements, for starts and single calls, are those that SQLAlchemy makes of the tables."""

import re
from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from maitred.access import suspended_principals, teams, token_store
from maitred.admission import allow_list, registry
from maitred.audit import answers as audit_answers
from maitred.audit import hash_chain, line_index, replica_chain, stream_store
from maitred.backends.oauth import vault
from maitred.catalog import store
from maitred.mediation import memo_store
from maitred.search import vector_store
from maitred.storage import leader
from maitred.storage import tables as t
from maitred.usage import observations, recorder

Insert = Callable[[sa.Table], "sqlite.Insert | postgresql.Insert"]

USAGE = ("day", "server", "raw_name", "calls", "errors", "total_ms", "histogram", "last_used")
SPENDING = (
    "day", "principal", "lists", "list_tokens", "answers", "answer_tokens", "results", "result_tokens",
    "raw_tokens", "calls", "argument_tokens", "cost_micros",
)  # fmt: skip


def columns(table: sa.Table, names: Sequence[str]) -> list[sa.Column[object]]:
    return [table.c[name] for name in names]


def add_calls(insert: Insert) -> sa.ClauseElement:
    made = insert(t.usage)
    new, old = made.excluded, t.usage.c
    later = sa.case((old.last_used > new.last_used, old.last_used), else_=new.last_used)
    sums = {name: old[name] + new[name] for name in ("calls", "errors", "total_ms")}
    fresh = {**sums, "histogram": new.histogram, "last_used": later}
    return made.on_conflict_do_update(index_elements=["day", "server", "raw_name"], set_=fresh)


def add_tokens(insert: Insert) -> sa.ClauseElement:
    made = insert(t.spending)
    sums = {name: t.spending.c[name] + made.excluded[name] for name in SPENDING[2:]}
    return made.on_conflict_do_update(index_elements=["day", "principal"], set_=sums)


def put_observation(insert: Insert) -> sa.ClauseElement:
    made = insert(t.observations)
    fresh = {name: made.excluded[name] for name in observations.COLUMNS[2:]}
    return made.on_conflict_do_update(index_elements=["server", "raw_name"], set_=fresh)


def put_groups(insert: Insert) -> sa.ClauseElement:
    made = insert(t.principal_groups)
    return made.on_conflict_do_update(index_elements=["principal"], set_={"groups": made.excluded.groups})


def put_answer(insert: Insert) -> sa.ClauseElement:
    made = insert(t.audit_answers)
    return made.on_conflict_do_update(index_elements=["digest"], set_={"at": made.excluded.at})


def put_fence(insert: Insert) -> sa.ClauseElement:
    made = insert(t.job_fences)
    fresh = {name: made.excluded[name] for name in ("number", "held_until")}
    return made.on_conflict_do_update(index_elements=["name"], set_=fresh)


def lines_with_terms(count: int) -> sa.Select[tuple[object, ...]]:
    """Lines of the audit trail that have so many terms."""
    one = t.audit_terms.alias("term_1")
    found = sa.select(A.seq, A.at, A.body).select_from(one.join(t.audit, A.seq == one.c.seq))
    found = found.where(one.c.term == 1, one.c.seq < 1, one.c.seq >= 1, A.at >= X)
    for number in range(2, count + 1):
        other = t.audit_terms.alias(f"term_{number}")
        named: sa.Select[tuple[int]] = sa.select(sa.literal_column("1")).where(
            other.c.term == 1, other.c.seq == one.c.seq
        )
        found = found.where(named.correlate(one).exists())
    return found.order_by(one.c.seq.desc()).limit(1)


C, J = t.audit_replicas.c, t.job_fences.c
A, E, R, T, U = t.audit.c, t.audit_ends.c, t.audit_answers.c, t.audit_terms.c, t.usage.c
S = t.audit_stream.c
EVENT = columns(t.approvals, ["kind", "manifest", "image", "definition", "who", "why", "at"])
X = "x"
CAST = re.compile(r"::[A-Z]+")
"""SQLAlchemy names the type of each value; without that PostgreSQL takes the one of the column."""
STATEMENTS: dict[str, tuple[str, Callable[[Insert], sa.ClauseElement]]] = {
    "generation": (store.GENERATION, lambda _: sa.select(t.state.c.generation)),
    "state": (store.STATE, lambda _: sa.select(*columns(t.state, store.STATE_COLUMNS))),
    "servers": (store.SERVERS, lambda _: sa.select(*columns(t.servers, store.SERVER_COLUMNS))),
    "tool names": (store.TOOL_NAMES, lambda _: sa.select(t.tools.c.name)),
    "tools": (store.TOOLS, lambda _: sa.select(*columns(t.tools, store.TOOL_COLUMNS))),
    "schemas": (store.SCHEMAS, lambda _: sa.select(*columns(t.schemas, store.SCHEMA_COLUMNS))),
    "offers": (store.OFFERS, lambda _: sa.select(*columns(t.offers, store.OFFER_COLUMNS))),
    "standings": (store.STANDINGS, lambda _: sa.select(*columns(t.standings, store.STANDING_COLUMNS))),
    "usage: add calls": (recorder._ADD_CALLS, add_calls),
    "usage: add tokens": (recorder._ADD_TOKENS, add_tokens),
    "usage: histogram": (
        recorder._HISTOGRAM,
        lambda _: sa.select(U.histogram).where(U.day == X, U.server == X, U.raw_name == X),
    ),
    "usage: calls": (recorder._CALLS, lambda _: sa.select(*columns(t.usage, USAGE)).where(U.day >= X)),
    "usage: calls of a server": (
        recorder._CALLS_OF_SERVER,
        lambda _: sa.select(*columns(t.usage, USAGE)).where(U.day >= X, U.server == X),
    ),
    "usage: calls of a server by days": (
        recorder.calls_of_server(2),
        lambda _: sa.select(*columns(t.usage, USAGE)).where(U.day.in_(["a", "b"]), U.server == X),
    ),
    "usage: calls of a tool by days": (
        recorder.calls_of_tool(2),
        lambda _: sa.select(*columns(t.usage, USAGE)).where(
            U.day.in_(["a", "b"]), U.server == X, U.raw_name == X
        ),
    ),
    "usage: calls between two days": (
        recorder._CALLS_BETWEEN,
        lambda _: sa.select(*columns(t.usage, USAGE)).where(U.day >= X, U.day < X),
    ),
    "usage: stamp": (
        recorder._STAMP,
        lambda _: (
            sa.select(sa.func.count(), sa.func.sum(U.calls)).select_from(t.usage).where(U.day >= X, U.day < X)
        ),
    ),
    "usage: call counts": (
        recorder._CALL_COUNTS,
        lambda _: (
            sa.select(U.server, U.raw_name, sa.func.sum(U.calls))
            .where(U.day >= X, U.day < X)
            .group_by(U.server, U.raw_name)
        ),
    ),
    "usage: totals": (
        recorder._TOTALS,
        lambda _: (
            sa.select(
                U.server,
                U.raw_name,
                sa.func.sum(U.calls),
                sa.func.sum(U.errors),
                sa.func.sum(U.total_ms),
                sa.func.max(U.last_used),
            )
            .where(U.day >= X)
            .group_by(U.server, U.raw_name)
        ),
    ),
    "observations": (
        observations.OBSERVED,
        lambda _: sa.select(*columns(t.observations, observations.COLUMNS)),
    ),
    "observations: put": (observations.PUT, put_observation),
    "observations: drop": (
        observations.DROP,
        lambda _: sa.delete(t.observations).where(t.observations.c.day < X),
    ),
    "allow list: history": (
        allow_list.HISTORY,
        lambda _: sa.select(*columns(t.allow_events, allow_list.COLUMNS)).order_by(t.allow_events.c.turn),
    ),
    "allow list: last": (allow_list.LAST, lambda _: sa.select(sa.func.max(t.allow_events.c.turn))),
    "allow list: add": (allow_list.ADD, lambda insert: insert(t.allow_events)),
    "usage: spent": (
        recorder._SPENT,
        lambda _: sa.select(*columns(t.spending, SPENDING)).where(t.spending.c.day >= X),
    ),
    "usage: drop": (recorder._DROPS[0], lambda _: sa.delete(t.usage).where(U.day < X)),
    "spending: drop": (recorder._DROPS[1], lambda _: sa.delete(t.spending).where(t.spending.c.day < X)),
    "memos": (
        memo_store.select_memos(3),
        lambda _: sa.select(t.memos.c.key, t.memos.c.answer, t.memos.c.at).where(
            t.memos.c.key.in_(["a", "b", "c"])
        ),
    ),
    "vectors": (
        vector_store.select_vectors(2),
        lambda _: sa.select(t.vectors.c.digest, t.vectors.c.body).where(
            t.vectors.c.model == X, t.vectors.c.digest.in_(["a", "b"])
        ),
    ),
    "vectors: known": (vector_store.KNOWN, lambda _: sa.select(t.vectors.c.model, t.vectors.c.digest)),
    "login": (
        vault._LOGIN,
        lambda _: sa.select(t.logins.c.body, t.logins.c.version).where(
            t.logins.c.server == X, t.logins.c.principal == X
        ),
    ),
    "logins: owners": (
        vault._OWNERS,
        lambda _: sa.select(t.logins.c.server, t.logins.c.principal).order_by(
            t.logins.c.server, t.logins.c.principal
        ),
    ),
    "tokens": (
        token_store._NEWEST_FIRST,
        lambda _: sa.select(*columns(t.tokens, token_store._COLUMNS)).order_by(
            t.tokens.c.made_at.desc(), t.tokens.c.id
        ),
    ),
    "groups: all": (
        teams.ALL,
        lambda _: sa.select(t.principal_groups.c.principal, t.principal_groups.c.groups),
    ),
    "groups: put": (
        teams.PUT,
        put_groups,
    ),
    "suspended: all": (
        suspended_principals.ALL,
        lambda _: sa.select(*columns(t.suspended_principals, suspended_principals.COLUMNS)).order_by(
            t.suspended_principals.c.at, t.suspended_principals.c.principal
        ),
    ),
    "suspended: add": (
        suspended_principals.ADD,
        lambda insert: insert(t.suspended_principals).on_conflict_do_nothing(index_elements=["principal"]),
    ),
    "suspended: drop": (
        suspended_principals.DROP,
        lambda _: sa.delete(t.suspended_principals).where(t.suspended_principals.c.principal == X),
    ),
    "token": (
        token_store._BY_ID,
        lambda _: sa.select(*columns(t.tokens, token_store._COLUMNS)).where(t.tokens.c.id == X),
    ),
    "approvals: turns": (registry._TURNS, lambda _: sa.select(sa.func.count()).select_from(t.approvals)),
    "approvals: log": (
        registry._LOG,
        lambda _: sa.select(*EVENT).where(t.approvals.c.server == X).order_by(t.approvals.c.turn),
    ),
    "approvals: logs": (
        registry._LOGS,
        lambda _: sa.select(t.approvals.c.server, *EVENT).order_by(t.approvals.c.server, t.approvals.c.turn),
    ),
    "registrations": (
        registry._REGISTERED,
        lambda _: sa.select(*columns(t.registrations, registry._REGISTRATION)).order_by(
            t.registrations.c.server
        ),
    ),
    "definition": (
        registry._DEFINITION,
        lambda _: sa.select(t.definitions.c.body).where(t.definitions.c.hash == X),
    ),
    "audit: add": (hash_chain._ADD, lambda insert: insert(t.audit)),
    "audit: move": (
        hash_chain._MOVE,
        lambda _: sa.update(t.audit_ends).where(E.name == X).values(seq=1, digest=X),
    ),
    "audit: mark": (hash_chain._MARK, lambda _: sa.select(E.seq, E.digest).where(E.name == X)),
    "audit: first since": (
        hash_chain._FIRST_SINCE,
        lambda _: sa.select(sa.func.min(A.seq)).where(A.at >= X),
    ),
    "audit: since": (
        hash_chain._SINCE,
        lambda _: sa.select(A.seq).where(A.at >= X).order_by(A.at).limit(1),
    ),
    "audit: last up to": (
        hash_chain._LAST_UP_TO,
        lambda _: sa.select(A.seq, A.digest).where(A.seq < 1).order_by(A.seq.desc()).limit(1),
    ),
    "audit: drop": (hash_chain._DROP, lambda _: sa.delete(t.audit).where(A.seq <= 1)),
    "audit: rows": (
        hash_chain._ROWS,
        lambda _: sa.select(A.seq, A.at, A.body, A.digest).where(A.seq > 1).order_by(A.seq).limit(1),
    ),
    "audit: latest": (
        hash_chain._LATEST,
        lambda _: (
            sa.select(A.seq, A.at, A.body)
            .where(A.seq < 1, A.seq >= 1, A.at >= X, *(A.body.like(X) for _ in range(8)))
            .order_by(A.seq.desc())
            .limit(1)
        ),
    ),
    "audit: add mark": (hash_chain._ADD_MARK, lambda insert: insert(t.audit_ends)),
    **{
        f"audit: lines with {count} terms": (
            line_index.CHOSEN[count],
            lambda _, count=count: lines_with_terms(count),  # type: ignore[misc]
        )
        for count in line_index.CHOSEN
    },
    "audit terms: add": (
        line_index._ADD,
        lambda insert: insert(t.audit_terms).on_conflict_do_nothing(),
    ),
    "audit terms: drop": (
        line_index._DROP,
        lambda _: sa.delete(t.audit_terms).where(T.term == 1, T.seq == 1),
    ),
    "audit terms: known": (
        line_index._KNOWN,
        lambda _: sa.select(T.seq).where(T.term == 1, T.seq >= 1, T.seq <= 1),
    ),
    "audit answers: add": (audit_answers._ADD, put_answer),
    "audit answers: get": (
        audit_answers._GET,
        lambda _: sa.select(R.body).where(R.digest == X, R.at >= X),
    ),
    "audit answers: total": (audit_answers._TOTAL, lambda _: sa.select(sa.func.sum(R.bytes))),
    "audit answers: oldest": (
        audit_answers._OLDEST,
        lambda _: sa.select(R.at, R.bytes).order_by(R.at).limit(1),
    ),
    "audit answers: drop": (audit_answers._DROP, lambda _: sa.delete(t.audit_answers).where(R.at < X)),
    "audit answers: drop up to": (
        audit_answers._DROP_UP_TO,
        lambda _: sa.delete(t.audit_answers).where(R.at <= X),
    ),
    "audit stream: add": (
        stream_store.ADD,
        lambda insert: insert(t.audit_stream).on_conflict_do_nothing(index_elements=["name"]),
    ),
    "audit stream: take": (
        stream_store.TAKE,
        lambda _: (
            sa.update(t.audit_stream)
            .values(owner=X, alive_until=X)
            .where(S.name == X, sa.or_(S.owner == X, S.alive_until < X))
        ),
    ),
    "audit stream: advance": (
        stream_store.ADVANCE,
        lambda _: (
            sa.update(t.audit_stream)
            .values(seq=1, count=S["count"] + 1, skipped=S.skipped + 1, sent_at=X, error=X)
            .where(S.name == X, S.owner == X)
        ),
    ),
    "audit stream: fail": (
        stream_store.FAIL,
        lambda _: sa.update(t.audit_stream).values(error=X, failed_at=X).where(S.name == X, S.owner == X),
    ),
    "audit stream: leave": (
        stream_store.LEAVE,
        lambda _: sa.update(t.audit_stream).values(alive_until=X).where(S.name == X, S.owner == X),
    ),
    "audit stream: all": (
        stream_store.ALL,
        lambda _: sa.select(S.name, S.seq, S["count"], S.skipped, S.sent_at, S.error, S.failed_at),
    ),
    "audit: newest": (hash_chain._NEWEST_LINE, lambda _: sa.select(sa.func.max(A.seq))),
    "audit replicas: join": (
        replica_chain._JOIN,
        lambda insert: insert(t.audit_replicas).on_conflict_do_nothing(),
    ),
    "audit replicas: move head": (
        replica_chain._MOVE_HEAD,
        lambda _: sa.update(t.audit_replicas).where(C.replica == X).values(place=1, digest=X, seq=1, at=X),
    ),
    "audit replicas: move first": (
        replica_chain._MOVE_FIRST,
        lambda _: sa.update(t.audit_replicas).where(C.replica == X).values(first_place=1, first_digest=X),
    ),
    "audit replicas": (
        replica_chain._REPLICAS,
        lambda _: sa.select(*columns(t.audit_replicas, replica_chain.Replica._fields)).order_by(C.replica),
    ),
    "audit anchors: add": (replica_chain._ADD_ANCHOR, lambda insert: insert(t.audit_anchors)),
    "audit anchors: rows": (
        replica_chain._ANCHOR_ROWS,
        lambda _: (
            sa.select(*columns(t.audit_anchors, ("seq", "at", "body", "digest")))
            .where(t.audit_anchors.c.seq > 1)
            .order_by(t.audit_anchors.c.seq)
            .limit(1)
        ),
    ),
    "audit anchors: drop": (
        replica_chain._DROP_ANCHORS,
        lambda _: sa.delete(t.audit_anchors).where(t.audit_anchors.c.seq <= 1),
    ),
    "jobs: number": (leader._NUMBER, lambda _: sa.select(J.number).where(J.name == X)),
    "jobs: row": (leader._ROW, lambda _: sa.select(J.number, J.held_until).where(J.name == X)),
    "jobs: put": (leader._PUT, put_fence),
    "jobs: end": (
        leader._END,
        lambda _: sa.update(t.job_fences).where(J.name == X, J.number == 1).values(held_until=1.0),
    ),
    "audit: naming": (
        hash_chain._NAMING,
        lambda _: sa.select(A.body).where(A.seq > 1, A.body.like(X)),
    ),
}


def compiled(statement: sa.ClauseElement, dialect: sa.Dialect) -> str:
    made = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    return CAST.sub("", " ".join(str(made).split()).replace('"', ""))


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_constant_is_what_the_tables_give_for_sqlite(name: str) -> None:
    """Word for word, but for white space, quotes that no name needs, and a second number in `LIMIT`."""
    constant, make = STATEMENTS[name]
    expected = compiled(make(sqlite.insert), sqlite.dialect())
    assert constant == expected.removesuffix(" OFFSET ?")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_constant_is_what_the_tables_give_for_postgresql(name: str) -> None:
    """With `%s` for each `?`, as the driver gets it."""
    constant, make = STATEMENTS[name]
    dialect = postgresql.dialect(paramstyle="format")  # type: ignore[no-untyped-call]
    assert constant.replace("?", "%s") == compiled(make(postgresql.insert), dialect)
