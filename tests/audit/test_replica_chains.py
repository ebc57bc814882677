"""The audit trail of several processes on PostgreSQL: a chain for each, and a chain of anchors over them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from tests.support.postgres import Postgres

from maitred.audit import hash_chain, replica_chain
from maitred.audit.hash_chain import AuditFilter, Mark, Verification
from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.trail_check import verify_export
from maitred.storage.database import Database, WriteOptions

pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")

from maitred.storage.postgres import PostgresDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

EACH = 5
TOGETHER = WriteOptions(lane="together")


class Clock:
    """Goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass(frozen=True, kw_only=True)
class Trails:
    """The trails of two processes in one database."""

    one: AuditLog
    two: AuditLog
    database: Database
    clock: Clock

    async def write(self, count: int = EACH) -> None:
        for number in range(count):
            await self.one.record(act(f"one-{number}"))
            await self.two.record(act(f"two-{number}"))

    async def execute(self, statement: str, *values: Any) -> None:
        await self.database.write_driver(lambda connection: connection.execute(statement, values))

    async def unanchored(self) -> Verification:
        """Check what there is, without another anchor."""
        from maitred.audit import trail_check  # noqa: PLC0415  # what a check does after it has anchored

        return await self.database.read_driver(
            lambda connection: trail_check.verify(connection, b"k" * 32, None)
        )


def act(who: str) -> AuditEntry:
    return AuditEntry(who=who, action="call")


@pytest.fixture
async def trails(postgres: Postgres) -> AsyncIterator[Trails]:
    url, clock, key = postgres.new_database(), Clock(), b"k" * 32
    async with (
        PostgresDatabase(url) as first,
        PostgresDatabase(url) as second,
        AuditLog(first, key=key, clock=clock, replica="one") as one,
        AuditLog(second, key=key, clock=clock, replica="two") as two,
    ):
        yield Trails(one=one, two=two, database=first, clock=clock)


async def test_two_processes_have_chains_of_their_own_in_one_list(trails: Trails) -> None:
    """The list is by time, over both; the check counts both, and anchors what is there."""
    async with anyio.create_task_group() as tasks:
        for number in range(EACH):
            tasks.start_soon(trails.one.record, act(f"one-{number}"))
            tasks.start_soon(trails.two.record, act(f"two-{number}"))
    lines = (await trails.one.latest(AuditFilter())).lines
    times = [line["at"] for line in lines]
    found = await trails.two.verify()

    assert times == sorted(times, reverse=True)
    assert {line["seq"] for line in lines} == set(range(1, 2 * EACH + 1))
    for replica in ("one", "two"):
        places = [line["place"] for line in lines if line["replica"] == replica]
        assert sorted(places) == list(range(1, EACH + 1))
    assert (found.lines, found.replicas, found.faults) == (2 * EACH, 2, ())
    assert found.anchors >= 1
    assert (await trails.one.verify(known=found.head)).faults == ()


async def test_a_process_does_not_wait_for_the_line_of_another(trails: Trails) -> None:
    """Neither does an anchor, which takes up that line later."""
    await trails.write(1)
    written = anyio.Event()

    def write_slowly(connection: Any) -> None:
        replica_chain.append(connection, [{"at": "2026-03-02", "who": "slow"}], b"k" * 32, "one")
        anyio.from_thread.run(record_two)

    async def record_two() -> None:
        await trails.two.record(act("two"))
        await trails.two.anchor()
        written.set()

    with anyio.fail_after(60):
        await trails.database.write_driver(write_slowly, TOGETHER)
        await written.wait()
    assert (await trails.one.verify()).faults == ()
    assert {line["who"] for line in (await trails.one.latest(AuditFilter())).lines} >= {"slow", "two"}


LAST_OF_ONE = 'SELECT max(seq) FROM audit WHERE body LIKE \'%"replica":"one"%\''


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        (["UPDATE audit SET body = replace(body, 'one-2', 'ann') WHERE seq = 5"], "line 5 was changed"),
        (["DELETE FROM audit WHERE seq = 5"], "places 3 to 3 of replica one are missing"),
        (["DELETE FROM audit WHERE seq = 9"], "places 5 to 5 of replica one are missing at the end"),
        (
            [
                "DELETE FROM audit WHERE seq = 9",
                "UPDATE audit_replicas SET (seq, digest, place) ="
                " (SELECT seq, digest, 4 FROM audit WHERE seq = 7) WHERE replica = 'one'",
            ],
            "line 9 of replica one is missing: anchor 1 has it",
        ),
        (
            [
                "DELETE FROM audit WHERE position('one-' IN body) > 0",
                "DELETE FROM audit_replicas WHERE replica = 'one'",
            ],
            "line 9 of replica one is missing: anchor 1 has it",
        ),
        (["UPDATE audit_anchors SET body = replace(body, 'one', 'new')"], "anchor 1 was changed"),
        (["DELETE FROM audit_anchors"], "anchors 1 to 1 are missing at the end"),
    ],
)
async def test_what_was_taken_from_a_chain_is_noticed(
    trails: Trails, statements: Sequence[str], fault: str
) -> None:
    """Also a tail, or a whole chain, that somebody removed together with the note of its end."""
    await trails.write()
    await trails.one.anchor()
    assert (await trails.unanchored()).faults == ()
    for statement in statements:
        await trails.execute(statement)
    assert fault in (await trails.unanchored()).faults


async def test_a_head_that_was_noted_elsewhere_shows_that_anchors_were_cut_off(trails: Trails) -> None:
    """With all that they were about: without it, that would be a shorter trail."""
    await trails.write(1)
    await trails.one.anchor()
    await trails.write(1)
    head = await trails.one.head()
    for statement in (
        "DELETE FROM audit WHERE seq > 2",
        "DELETE FROM audit_anchors WHERE seq > 1",
        "UPDATE audit_replicas SET (place, seq, digest) ="
        " (SELECT 1, audit.seq, audit.digest FROM audit WHERE position(replica IN body) > 0)",
        "UPDATE audit_ends SET (seq, digest) = (SELECT seq, digest FROM audit_anchors)"
        " WHERE name = 'anchors'",
    ):
        await trails.execute(statement)

    assert head.is_anchor
    assert (await trails.unanchored()).faults == ()
    assert f"anchor {head.seq} is not the one that was noted elsewhere" in str(
        (await trails.one.verify(known=head)).faults
    )


async def test_a_trail_from_before_goes_on_and_stays_verified(trails: Trails) -> None:
    """Its lines are one chain without a replica, whose end is anchored, too; a head of it still counts."""
    old = [{"at": f"2026-02-01T00:00:0{number}", "who": "old"} for number in range(3)]
    await trails.database.write_driver(lambda connection: hash_chain.append(connection, old, b"k" * 32))
    known = await trails.database.read_driver(lambda connection: hash_chain.mark(connection, "head"))
    await trails.write()

    assert (await trails.one.verify(known=known)).faults == ()
    assert (await trails.one.verify(known=Mark(seq=3, digest="0" * 64))).faults != ()
    await trails.execute("DELETE FROM audit WHERE seq = 3")
    await trails.execute(
        "UPDATE audit_ends SET seq = 2, digest = (SELECT digest FROM audit WHERE seq = 2) WHERE name = 'head'"
    )
    assert "line 3 is missing: anchor 1 has it" in (await trails.unanchored()).faults


async def test_old_lines_are_dropped_from_all_chains_and_what_is_left_is_verified(trails: Trails) -> None:
    """A chain of which nothing is left is forgotten once no anchor has it any more."""
    await trails.write()
    await trails.one.anchor()
    trails.clock.now += timedelta(days=10)
    await trails.two.record(act("late"))
    await trails.two.anchor()
    assert await trails.two.prune(5, who="ann") == 2 * EACH
    found = await trails.two.verify()
    replicas = await trails.database.read_driver(replica_chain.replicas)

    assert (found.lines, found.faults) == (2, ())
    assert list(replicas) == ["two"]
    await trails.one.record(act("again"))  # a process that was quiet for very long
    assert (await trails.two.verify()).faults == ()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda lines: None, ""),
        (lambda lines: lines.pop(4), "places 3 to 3 of replica one are missing"),
        (lambda lines: lines.pop(9), "line 10 of replica two is missing: anchor 1 has it"),
        (lambda lines: lines.__setitem__(1, lines[1].replace("two-0", "ann")), "line 2 was changed"),
        (lambda lines: lines.__setitem__(-1, lines[-1].replace("two", "new")), "anchor 1 was changed"),
    ],
)
async def test_an_export_has_the_anchors_and_is_verified_by_itself(
    trails: Trails, damage: Callable[[list[str]], Any], fault: str
) -> None:
    """Lines first, then anchors; a tail that is missing is noticed without a head that was noted."""
    await trails.write()
    lines = [line async for line in trails.one.lines()]
    assert len(lines) == 2 * EACH + 1
    damage(lines)
    found = verify_export(lines, b"k" * 32, None)
    assert fault in found.faults if fault else not found.faults


async def test_filters_find_lines_of_all_chains_by_the_index(trails: Trails) -> None:
    """It is filled only up to a line before which none can come any more."""
    many = [AuditEntry(who="ann" if number % 9 == 0 else "ben", action="call") for number in range(600)]
    for number, one in enumerate(many):
        (trails.one if number % 2 else trails.two).note(one)
    await trails.one.record(act("last"))
    await trails.two.record(act("last"))
    while await trails.one.index():
        pass
    found = await trails.two.latest(AuditFilter(who="ann"), limit=1_000)
    assert len(found.lines) == len([one for one in many if one.who == "ann"])
    assert (await trails.one.verify()).faults == ()
