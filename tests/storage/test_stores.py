"""Every store on both engines: what one gateway writes, another one on the same database reads."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.makers import Counter, found, one, raw

from maitred.access.token_store import Grants
from maitred.admission.allow_list import AllowEvent, AllowLog
from maitred.admission.registry import Registry
from maitred.audit.hash_chain import AuditFilter, Mark
from maitred.audit.log import AuditEntry, AuditLog
from maitred.backends.oauth.vault import Vault
from maitred.catalog.snapshot import Snapshot
from maitred.catalog.store import CatalogStore
from maitred.catalog.sync import plan, removal
from maitred.held_calls.store import HeldCallStore
from maitred.mediation.memo import MemoEntry
from maitred.mediation.memo_store import SqlMemos
from maitred.model.access import Grant, RefusedAccess, Scope
from maitred.model.approvals import Binding, Event, Registration
from maitred.model.categories import Placement
from maitred.model.held_calls import CallBinding, HeldCall
from maitred.model.resources import Offer, OfferKey
from maitred.model.tools import ToolKey
from maitred.model.usage import ToolStanding, Usage
from maitred.search.vector_store import SqlVectors
from maitred.storage.database import Database
from maitred.usage.observations import ToolObservations
from maitred.usage.recorder import UsageRecorder

pytestmark = pytest.mark.anyio

NEVER_S = 3_600.0
NAUGHTY = {"type": "object", "properties": {"z": {"pattern": "é\ud83d"}, "a": {"const": "\0"}}}


def at(day: int) -> Callable[[], datetime]:
    return lambda: datetime(2026, 3, day, 12, tzinfo=UTC)


async def test_the_catalog(database: Database, other: Database) -> None:
    """Tools with schemas, placements and offers come back as they were; a stale plan is refused."""
    tool = raw("s", "créer / x", title="Título", input_schema=NAUGHTY, extra={"_meta": {"k": [1]}})
    store, second = CatalogStore(database), CatalogStore(other)
    empty = await store.load()
    change = await plan(empty, found("s", tool, raw("s", "b"), notes=("one",)), Counter())
    placed = Placement(category="files", confidence=0.5, by="rules", tags=("a", "b"), subcategory="folders")
    key = OfferKey(server="s", kind="resource", key="file:///a")
    offer = Offer(key=key, name="a", definition={"uri": "file:///a"})
    standing = ToolStanding(score=0.25, level="hot", usage=Usage(calls=3))
    change = replace(
        change,
        tools=tuple(replace(one, placement=placed) for one in change.tools),
        offers=(offer,),
        standings={tool.key: standing},
        placed_by="rules 1",
    )

    assert await store.write(change, planned_on=empty.generation) == 1
    assert await second.write(change, planned_on=empty.generation) is None
    async with second:
        read = await second.load()

    written = empty.after(change, 1)
    assert read == written
    assert await second.write(read.completed(removal(read, {})), planned_on=1) == 2
    left = await store.load()
    assert (left.tools, dict(left.schemas)) == ((), {})


async def test_a_catalog_of_thousands_of_tools(database: Database) -> None:
    """More rows than fit into one statement."""
    tools = [raw("s", f"t{n:04}", input_schema={"type": "object", "title": str(n)}) for n in range(1_201)]
    store = CatalogStore(database)
    await store.write(await plan(Snapshot(), found("s", *tools), Counter()), planned_on=0)

    read = await store.load()
    assert len(read.tools) == len(read.schemas) == 1_201


async def test_usage(database: Database, other: Database) -> None:
    """Two gateways add to the same counts; old days are dropped."""
    key = ToolKey(server="s", name="half \ud83d")
    for to in (database, other):
        recorder = UsageRecorder(to, clock=at(3), flush_every_s=NEVER_S)
        for ok in (True, True, False):
            recorder.called(key, ok=ok, elapsed_ms=7.5)
        recorder.spent("ann", lists=1, list_tokens=300)
        assert await recorder.flush()
    later = UsageRecorder(other, clock=at(9))

    [usage] = (await later.usage()).values()
    assert (usage.calls, usage.errors) == (6, 2)
    assert list((await later.calls(days=7)).values()) == [6]
    assert await later.calls(days=6) == {}
    [total] = (await later.totals(days=7)).values()
    assert (total.calls, total.errors, total.mean_ms, total.last_used[:10]) == (6, 2, 7.5, "2026-03-03")
    assert await later.totals(days=6) == {}
    [row] = await later.spending(30)
    assert (row.principal, row.lists, row.list_tokens) == ("ann", 2, 600)
    await later.prune(older_than_days=2)
    assert await later.spending(30) == []


async def test_observations(database: Database, other: Database) -> None:
    """What one gateway saw of a tool, the next one shows; for another definition, and after 90 days, not."""
    _, tool = one(input_schema={"type": "object"})
    answer = {"structuredContent": {"name": "x", "odd \0": 1}}
    async with ToolObservations(database, lambda value: value, clock=at(1)) as seen:
        seen.allow_examples(allowed=True)
        seen.note(tool, {"path": "\0 \ud83d"}, {"structuredContent": {"name": "x"}})
        seen.note(tool, {"path": "later"}, answer)
    async with ToolObservations(other, lambda value: value, clock=at(2)) as again:
        again.allow_examples(allowed=True)
        known = again.of(tool)
        assert again.of(replace(tool, input_hash="another")) is None
        assert again.of(replace(tool, withheld="waits")) is None
    async with ToolObservations(
        other, lambda value: value, clock=lambda: datetime(2026, 9, 1, tzinfo=UTC)
    ) as late:
        assert late.of(tool) is None

    assert known is not None
    assert (known.answers, known.arguments) == (2, {"path": "\0 \ud83d"})
    assert known.returns == {"type": "object"}


async def test_the_allow_list(database: Database, other: Database) -> None:
    """Two processes write one history; none adds what is there, or removes what is not."""
    first, second = AllowLog(database), AllowLog(other)
    added = AllowEvent(kind="images", pattern="ghcr.io/é/*", action="added", who="ann", why="ours", at="2026")
    gone = replace(added, action="removed", who="bob")

    assert [await first.append(added), await second.append(added)] == [True, False]
    assert [await second.append(gone), await first.append(gone)] == [True, False]
    assert await first.append(added)
    assert await second.history() == [added, gone, added]


async def test_the_audit_trail(database: Database, other: Database) -> None:
    """Two gateways write one chain; it can be verified, searched and pruned, and a change of it is found."""
    async with AuditLog(database, clock=at(1)) as one, AuditLog(other, clock=at(2)) as two:
        for number in range(3):
            for trail in (one, two):
                begun = await trail.record(AuditEntry(who="ann", action="call", tool="t", outcome="begun"))
                await trail.record(AuditEntry(who="ann", action="call", tool="t", begun=begun))
            two.note(AuditEntry(who="bob", action="search", detail=str(number)))
        await two.record(AuditEntry(who="eve", action="call"))
        found = await one.verify()
        assert (found.lines, found.faults) == (16, ())
        page = await one.latest(AuditFilter(who="ann", since="2026-03-02"), limit=2)
        assert [line["outcome"] for line in page.lines] == ["ok", "ok"]
        rest = await one.latest(AuditFilter(who="ann"), before=page.before, limit=50)
        assert {line["outcome"] for line in rest.lines} == {"ok"}
        assert await two.prune(0, who="ann") == 2  # what comes after a younger line is kept
        assert (await one.verify()).faults == ()

    await database.write_driver(
        lambda connection: connection.execute("UPDATE audit SET body = ? WHERE seq = ?", ("{}", 16))
    )
    assert (await AuditLog(other).verify(known=Mark(seq=16, digest="0" * 64))).faults


async def test_access_tokens(database: Database, other: Database) -> None:
    """A token that one gateway made is known to another, with its scope, until it is revoked."""
    one, two = Grants(database), Grants(other, fresh_s=0)
    scope = Scope(servers=frozenset({"a", "b"}), categories=None, read_only=True)
    made = await one.make("ann", "agent", scope=scope)
    assert isinstance(grant := await two.grant_of(made.token), Grant)
    assert (grant.principal, grant.scope) == ("ann", scope)
    assert [record.id for record in await two.listed()] == [made.record.id]

    assert await one.revoke(made.record.id)
    assert not await two.revoke(made.record.id)
    assert isinstance(await two.grant_of(made.token), RefusedAccess)


async def test_the_registry(database: Database, other: Database) -> None:
    """Events are written only as the turns they were planned for; definitions go with their last event."""
    one, two = Registry(database), Registry(other)
    registered = Event(kind="registered", binding=Binding(manifest="m1"), who="ann", at="2026")
    changed = Event(kind="definition_changed", binding=Binding(definition="d1"), at="2026")
    manifest = Registration(
        server="s", manifest="{}", manifest_hash="m1", source="file", who="ann", at="2026", record="{}"
    )
    assert await one.append("s", [registered], after=0, registration=manifest)
    assert not await two.append("s", [registered], after=0)
    assert await two.append("s", [changed], after=1, definition=("d1", b"\x00one"))
    assert await one.definition("d1") == b"\x00one"
    again = replace(changed, binding=Binding(definition="d2"))
    assert not await one.append("s", [again], after=1, last=registered, instead=True)
    assert await one.append("s", [again], after=1, last=changed, instead=True, definition=("d2", b"two"))
    assert await two.definition("d1") is None
    assert await two.log("s") == [registered, again]
    assert await two.turns() == 2
    assert await two.everything() == ({"s": [registered, again]}, {"s": manifest})
    assert await two.append("s", [Event(kind="withdrawn", at="2026")], after=2)
    assert (await one.everything())[1] == {}


async def test_logins(database: Database, other: Database, tmp_path: Path) -> None:
    """One gateway at a time may renew a login; without the key nothing is read."""
    key = tmp_path / "state" / "c.key"
    one, two = Vault(database, key), Vault(other, key)
    assert await one.save("s", b"first")
    first = await two.load("s")
    assert first is not None
    assert first.body == b"first"
    assert await one.claim("s", first.version, for_s=60)
    assert not await two.claim("s", first.version, for_s=60)
    await one.release("s", first.version)
    assert await two.claim("s", first.version, for_s=60)
    assert await two.save("s", b"second", after=first.version)
    assert not await one.save("s", b"late", after=first.version)
    assert not await one.forget("s", after=first.version)
    assert await one.forget("s")
    assert await two.load("s") is None


async def test_memories_of_models(database: Database, other: Database) -> None:
    """Thousands at once, the newer in place of the older; what is too old is dropped."""
    many = {f"k{n}": MemoEntry(answer=b"\x00\xff", at=1.0) for n in range(2_000)}
    one, two = SqlMemos(database), SqlMemos(other)
    await one.save(many)
    await two.save({"k1": MemoEntry(answer=b"new", at=9.0)})

    kept = await one.load([*many, "unknown"])
    assert len(kept) == 2_000
    assert kept["k1"].answer == b"new"
    await one.prune(5.0)
    assert list(await two.load(many)) == ["k1"]


async def test_vectors(database: Database, other: Database) -> None:
    """By model and content; those of other models and of tools that are gone are dropped."""
    one, two = SqlVectors(database), SqlVectors(other)
    await one.save("m", {f"d{n}": bytes([n % 256]) for n in range(1_500)})
    await two.save("old", {"d1": b"x"})
    assert len(await two.load("m", [f"d{n}" for n in range(3_000)])) == 1_500
    await two.prune("m", {"d1", "d2"})
    assert await one.load("m", ["d1", "d2", "d3"]) == {"d1": b"\x01", "d2": b"\x02"}
    assert await one.load("old", ["d1"]) == {}


def held(name: str, *, arguments: str = "{}", principal: str = "ann", **fields: Any) -> HeldCall:
    binding = CallBinding(
        principal=principal,
        server="half \ud83d",
        tool="\0",
        definition="d",
        arguments=arguments,
        policy="p",
    )
    times = {"held_at": "2026-03-01T12:00:00.000+00:00", "expires_at": "2026-03-01T12:05:00.000+00:00"}
    more: dict[str, Any] = {**times, **fields}
    return HeldCall(
        id=name,
        binding=binding,
        name="s__t",
        arguments='{"a": "é"}',
        why="`true`",
        by="caller",
        choices=("once", "session", "any", "refuse"),
        session="s1",
        **more,
    )


async def test_held_calls(database: Database, other: Database) -> None:
    """What one gateway holds, another one decides; an approval for one call is used once."""
    one = HeldCallStore(database, gateway="1", clock=at(1))
    two = HeldCallStore(other, gateway="2", clock=at(1))
    call = held("a")
    assert await one.add(call)
    [shown] = await two.waiting()
    assert (shown.id, shown.arguments, shown.choices) == (call.id, call.arguments, call.choices)
    assert (shown.binding.server, shown.binding.tool) == ("half \\ud83d", "\\0")
    assert not await one.use("a")
    assert await two.decide("a", "once", "eve")
    assert not await one.decide("a", "refuse", "bob")
    assert await one.use("a")
    assert not await two.use("a")
    assert await two.take(call.binding, "s1") == ""
    used = await two.get("a")
    assert used is not None
    assert (used.state, used.decided_by, used.arguments) == ("used", "eve", "")
    assert await two.is_seen(call.binding)
    assert not await two.is_seen(held("a", principal="bob").binding)

    assert await one.add(held("b"))
    assert await one.decide("b", "once", "eve")
    assert [await store.take(call.binding, "") for store in (two, one)] == ["b", ""]


async def test_held_calls_for_a_session(database: Database) -> None:
    """The same call there, or any of the tool; in no other session."""
    store = HeldCallStore(database, gateway="1", clock=at(1))
    call, longer = held("a"), held("b", arguments="{1}")
    assert await store.add(call)
    assert await store.decide("a", "session", "eve")
    assert await store.use("a")
    takes = [(call, "s1"), (call, "s1"), (longer, "s1"), (call, "s2"), (call, "")]
    assert [await store.take(one.binding, session) for one, session in takes] == ["a", "a", "", "", ""]
    assert await store.add(longer)
    assert await store.decide("b", "any", "eve")
    assert await store.take(held("c", arguments="{2}").binding, "s1")
    later = HeldCallStore(database, gateway="1", clock=at(2))
    assert not await later.take(call.binding, "s1")


async def test_held_calls_end_with_their_time_or_their_gateway(database: Database, other: Database) -> None:
    """Nothing is decided after that, and the arguments are dropped."""
    store = HeldCallStore(database, gateway="1", clock=at(1))
    for name in ("late", "left", "again"):
        assert await store.add(held(name))
    assert await store.expire(["late"]) == ["late"]
    longer = "2026-03-01T12:09:00.000+00:00"
    assert await store.join(held("again", client="other", expires_at=longer))
    assert not await store.join(held("late"))
    joined = await store.get("again")
    assert joined
    assert (joined.client, joined.expires_at, joined.arguments) == ("other", longer, '{"a": "é"}')
    assert await store.expire(["late", "again"]) == ["again"]
    assert await store.add(held("more"))
    assert [one.id for one in await store.waiting()] == ["left", "more"]
    after = HeldCallStore(other, gateway="2", clock=lambda: datetime(2026, 3, 1, 12, 0, 31, tzinfo=UTC))
    assert await after.waiting() == []  # its gateway did not say that it lives
    assert not await after.decide("left", "once", "eve")
    await after.keep_alive()
    assert sorted(await store.leave()) == ["left", "more"]
    assert await store.leave() == []
    assert set((await after.states(["late", "left", "again", "more"])).values()) == {"expired"}
    rows = await database.read_driver(lambda c: c.execute("SELECT arguments FROM held_calls").fetchall())
    assert {row[0] for row in rows} == {""}
    for number in range(32):
        assert await store.add(held(f"n{number}"))
    assert await store.is_full("ann")
    assert not await store.is_full("bob")
    assert not await store.add(held("one too many"))
    assert await store.add(held("bob's", principal="bob"))
