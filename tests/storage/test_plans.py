"""How the engines carry out our statements: by a key or an index, and where not, on purpose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.catalog.databases import new_catalog
from tests.storage.test_statements import STATEMENTS

from maitred.held_calls import statements as held
from maitred.model.held_calls import CallBinding
from maitred.storage import tables
from maitred.usage import recorder

WHOLE: Mapping[str, str] = {
    "observations: drop": "once a day at most, and a row for each tool",
}
"""Statements with a condition that read a whole table, and why they may."""
NOW = "2026-11-27T10:00:00+00:00"
BOUND = CallBinding(principal="ann", server="git", tool="commit", definition="d", arguments="a", policy="p")
HELD: Mapping[str, Callable[[sa.Connection], Any]] = {
    "those that wait": lambda c: held.waiting(c, NOW),
    "how many of a principal wait": lambda c: held.waiting_of(c, "ann", NOW),
    "a caller that joins one": lambda c: held.join(c, "h1", NOW, {"client": "editor"}),
    "an approval for a session": lambda c: held.use_for_session(c, BOUND, "s1", NOW),
    "an approval of an equal call": lambda c: held.use_equal(c, BOUND.digest, NOW),
    "its own approval": lambda c: held.use(c, "h1", NOW),
    "whether it was approved before": lambda c: held.is_seen(c, BOUND),
    "those of a gateway": lambda c: held.expire_gateway(c, "g1"),
    "a gateway lives": lambda c: held.keep_alive(c, "g1", NOW),
    "those of some ids": lambda c: held.by_id(c, ["h1", "h2"]),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[sa.Connection]:
    """The tables of a new catalog, as the migrations make them."""
    engine = sa.create_engine(f"sqlite:///{new_catalog(tmp_path)}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def plan(connection: sa.Connection, statement: str, values: Sequence[Any] = ()) -> Sequence[str]:
    """The steps of SQLite for a statement; what is compared with does not matter to it."""
    given = tuple(values) or (None,) * statement.count("?")
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
    return [str(row[3]) for row in rows]


def scans(steps: Sequence[str]) -> Sequence[str]:
    """The steps that read a whole table or index."""
    return [step for step in steps if step.startswith("SCAN")]


@pytest.mark.parametrize("name", [name for name, (text, _) in STATEMENTS.items() if " WHERE " in text])
def test_a_statement_with_a_condition_reads_by_a_key_or_an_index(catalog: sa.Connection, name: str) -> None:
    """Or is one of few that say why not. Source: docs/benchmarks.md, statements of the database."""
    steps = plan(catalog, STATEMENTS[name][0])

    assert bool(scans(steps)) is (name in WHOLE), steps


@pytest.mark.parametrize("name", HELD)
def test_a_held_call_is_found_by_an_index_however_many_there_were(catalog: sa.Connection, name: str) -> None:
    """Each call asks whether it was approved, and the calls of months are kept."""
    with listened(catalog) as said:
        HELD[name](catalog)

    steps = [step for text, values in said for step in plan(catalog, text, values)]
    assert steps
    assert scans(steps) == []


@contextmanager
def listened(connection: sa.Connection) -> Iterator[list[tuple[str, Sequence[Any]]]]:
    """The statements that reach the driver, each with its values."""
    said: list[tuple[str, Sequence[Any]]] = []

    def note(_: object, __: object, text: str, values: Sequence[Any], *___: object) -> None:
        said.append((text, values))

    sa.event.listen(connection, "before_cursor_execute", note)
    try:
        yield said
    finally:
        sa.event.remove(connection, "before_cursor_execute", note)


def test_the_calls_of_a_server_are_found_on_each_day_without_those_of_others(catalog: sa.Connection) -> None:
    """The primary key has the day first: a range of days would read every server's calls."""
    [step] = plan(catalog, recorder.calls_of_server(30))

    assert "day=? AND server=?" in step


def test_the_calls_of_a_tool_are_found_on_each_day_by_the_primary_key(catalog: sa.Connection) -> None:
    """The page of a tool and the API read them at each request."""
    [step] = plan(catalog, recorder.calls_of_tool(32))

    assert "day=? AND server=? AND raw_name=?" in step


def test_no_statement_chooses_or_orders_tools_by_category_tier_or_score() -> None:
    """So no index on them, and no view of the hottest tools, could be used: a snapshot has all of it.

    Source: ARCHITECTURE.md, floors; docs/benchmarks.md.
    """
    for text, _ in STATEMENTS.values():
        conditions = text.partition(" WHERE ")[2] + text.partition(" ORDER BY ")[2]
        for column in ("category", "subcategory", "level", "score"):
            assert column in tables.tools.c or column in tables.standings.c
            assert f".{column} " not in f"{conditions} "


@pytest.mark.xdist_group("postgres")
def test_postgresql_finds_the_calls_of_a_server_by_the_same_key(request: pytest.FixtureRequest) -> None:
    """With as many rows as a month of 50 servers leaves. Source: docs/benchmarks.md."""
    import psycopg  # noqa: PLC0415  # of an extra

    url = request.getfixturevalue("postgres").new_database()
    with psycopg.connect(url) as connection:
        engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        tables.usage.create(engine)
        engine.dispose()
        connection.execute(
            "INSERT INTO usage SELECT to_char(date '2026-11-01' + d, 'YYYY-MM-DD'), 'server-' || s,"
            " 'tool-' || t, 1, 0, 1, '[]', '' FROM generate_series(0, 29) d, generate_series(1, 50) s,"
            " generate_series(1, 10) t"
        )
        connection.execute("ANALYZE usage")
        statement = recorder.calls_of_server(30).replace("?", "%s")
        days = [f"2026-11-{day:02d}" for day in range(1, 31)]
        rows = connection.execute(f"EXPLAIN {statement}".encode(), (*days, "server-7")).fetchall()

    steps = "\n".join(row[0] for row in rows)
    assert "usage_pkey" in steps
    assert "Seq Scan" not in steps
