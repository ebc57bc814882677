"""The trail outside of its file: what an export proves by itself, and which lines are found again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.databases import execute, new_catalog

from maitred.audit.hash_chain import AuditFilter, Mark
from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.trail_check import verify_export
from maitred.errors import StoreError
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

TEN = range(1, 11)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


async def written(path: Path, key: bytes = b"") -> list[str]:
    """An export of ten lines."""
    async with AuditLog(SqliteDatabase(path), key=key) as trail:
        for number in TEN:
            await trail.record(AuditEntry(who=f"w{number}", action="call", detail='é "digest"'))
        return [line async for line in trail.lines()]


async def test_an_export_is_verified_by_itself_from_whichever_line_it_begins(path: Path) -> None:
    """The text of a line without its digest is what the digest is of."""
    lines = await written(path)
    whole, rest = verify_export(lines, b"", None), verify_export(lines[4:], b"", None)

    assert (whole.lines, whole.anchor, whole.head.seq, whole.faults) == (10, Mark(), 10, ())
    assert (rest.lines, rest.anchor.seq, rest.head, rest.faults) == (6, 4, whole.head, ())
    assert json.loads(lines[0])["detail"] == 'é "digest"'
    assert verify_export([], b"", None).faults == ()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda lines: lines.__setitem__(2, lines[2].replace("w3", "w4")), "line 3 was changed"),
        (lambda lines: lines.pop(4), "lines 5 to 5 are missing"),
        (lambda lines: lines.insert(4, lines.pop(5)), "line 5 is too many"),
        (lambda lines: lines.__setitem__(9, lines[9][:40]), "line 10 of the file cannot be read"),
        (lambda lines: lines.insert(0, "[]"), "line 1 of the file cannot be read"),
        (lambda lines: lines.append(lines[3]), "line 4 is too many"),
    ],
)
async def test_a_damaged_export_is_noticed(
    path: Path, damage: Callable[[list[str]], Any], fault: str
) -> None:
    """Whatever was done to its lines, and said where."""
    lines = await written(path)
    damage(lines)

    assert fault in verify_export(lines, b"", None).faults


async def test_an_export_that_was_cut_short_is_noticed_by_its_head(path: Path) -> None:
    """By itself it proves nothing about lines that would come after it."""
    lines = await written(path)
    head = await AuditLog(SqliteDatabase(path)).head()

    assert verify_export(lines, b"", head).faults == ()
    assert verify_export(lines[:8], b"", None).faults == ()
    assert "line 10 is not the one that was noted" in verify_export(lines[:8], b"", head).faults[0]


async def test_with_the_wrong_key_every_line_is_a_fault_and_the_key_is_suspected(path: Path) -> None:
    """In the file and in an export."""
    lines = await written(path, b"k" * 32)
    for found in (
        verify_export(lines, b"", None),
        await AuditLog(SqliteDatabase(path), key=b"other").verify(),
    ):
        assert found.faults[0] == "line 1 was changed"
        assert found.faults[-1] == "no line fits; was the trail written with another key, or with none?"
    assert verify_export(lines, b"k" * 32, None).faults == ()


async def test_the_newest_lines_come_first_in_pages_and_may_be_chosen(path: Path) -> None:
    """By time, by principal, by a tool under either name, by server."""
    async with AuditLog(SqliteDatabase(path)) as trail:
        for number in TEN:
            who, tool = ("ann", "add") if number % 2 else ("bob", "list")
            await trail.record(
                AuditEntry(who=who, action="call", server="s", tool=tool, published=f"s__{tool}")
            )
        first = await trail.latest(AuditFilter(), limit=6)
        second = await trail.latest(AuditFilter(), before=first.before, limit=6)

        async def chosen(**wanted: str) -> list[Any]:
            return [line["seq"] for line in (await trail.latest(AuditFilter(**wanted))).lines]

        assert [line["seq"] for line in first.lines] == [10, 9, 8, 7, 6, 5]
        assert ([line["seq"] for line in second.lines], second.before) == ([4, 3, 2, 1], 0)
        assert await chosen(who="ann") == await chosen(tool="add") == await chosen(tool="s__add")
        assert await chosen(who="ann") == [9, 7, 5, 3, 1]
        assert len(await chosen(tool="s")) == 10
        assert await chosen(since="2999") == await chosen(who="ann", tool="list") == []


@pytest.mark.parametrize(
    "name", ['a"b', "a%b", "a_b", "a\\\\b", "a\\nb", "\u00e4\u202e\U0001f600", "\x00", "x" * 900]
)
@pytest.mark.parametrize(
    ("field", "asked_by"),
    [
        ("who", "who"), ("client", "client"), ("server", "server"), ("chain_id", "chain"),
        *((field, "tool") for field in ("tool", "server", "published")),
    ],
)  # fmt: skip
async def test_lines_are_chosen_by_exactly_the_name_that_is_asked_for(
    path: Path, field: str, asked_by: str, name: str
) -> None:
    """Whatever characters it has, none is a wildcard; it is found in its own fields alone."""
    likenesses = {name.replace("%", "?").replace("_", "-"), name.upper(), f"{name} ", f"a{name}", name}
    async with AuditLog(SqliteDatabase(path)) as trail:
        for value in likenesses:
            act: dict[str, Any] = {"who": "w", "action": "call", field: value}
            await trail.record(AuditEntry(**act))
            await trail.record(AuditEntry(who="w", action="call", detail=value))
        found = await trail.latest(AuditFilter(**{asked_by: name}))

    whole = {
        value for value in likenesses if value == name or (asked_by == "chain" and value.startswith(name))
    }
    assert sorted(line[field] for line in found.lines) == sorted(whole)


@pytest.mark.parametrize("outcome", ["", "ok", "begun", "failed", "tool_error"])
async def test_what_ended_is_chosen_by_its_outcome_alone(path: Path, outcome: str) -> None:
    """The line that began it is never among what is chosen, whatever it ended with."""
    ends = ("ok", "tool_error", "timeout")
    async with AuditLog(SqliteDatabase(path)) as trail:
        for end in ends:
            begun = await trail.record(AuditEntry(who="a", action="call", tool="t", outcome="begun"))
            await trail.record(AuditEntry(who="a", action="call", tool="t", outcome=end, begun=begun))
        lost = await trail.record(AuditEntry(who="a", action="call", tool="t", outcome="begun"))
        found = await trail.latest(AuditFilter(tool="t", outcome=outcome))

    shown = {"": {"begun", *ends}, "failed": {"tool_error", "timeout"}}.get(outcome, {outcome})
    assert {line["outcome"] for line in found.lines} == shown
    assert [line["seq"] for line in found.lines if line["outcome"] == "begun"] == [lost] * ("begun" in shown)


async def test_what_began_and_ended_is_one_line_and_what_never_ended_is_seen(path: Path) -> None:
    """Also where a page ends between the two."""
    async with AuditLog(SqliteDatabase(path)) as trail:
        lost = await trail.record(AuditEntry(who="a", action="call", outcome="begun"))
        begun = await trail.record(AuditEntry(who="a", action="call", outcome="begun"))
        await trail.record(AuditEntry(who="a", action="call", outcome="ok", begun=begun))
        whole = await trail.latest(AuditFilter())
        first = await trail.latest(AuditFilter(), limit=1)
        second = await trail.latest(AuditFilter(), before=first.before)

    assert [line["seq"] for line in whole.lines] == [3, lost]
    assert [line["seq"] for line in (*first.lines, *second.lines)] == [3, lost]


async def test_a_line_that_cannot_be_read_is_shown_as_such(path: Path) -> None:
    """Rather than the others not at all."""
    await written(path)
    execute(path, "UPDATE audit SET body = '[' WHERE seq = 10")
    found = await AuditLog(SqliteDatabase(path)).latest(AuditFilter(), limit=2)

    assert [line["outcome"] for line in found.lines] == ["cannot be read", "ok"]


async def test_an_act_that_is_not_to_be_kept_is_gone_if_it_cannot_be_written(path: Path) -> None:
    """What waited before it stays, and goes first once the file can be written again."""
    async with AuditLog(SqliteDatabase(path), flush_every_s=3_600) as trail:
        execute(path, "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'full'); END")
        trail.note(AuditEntry(who="noted", action="a"))
        with pytest.raises(StoreError, match="full"):
            await trail.record(AuditEntry(who="given up", action="a"), keep=False)
        execute(path, "DROP TRIGGER full")
        assert await trail.record(AuditEntry(who="later", action="a")) == 2
        lines = [json.loads(line)["who"] async for line in trail.lines()]

    assert lines == ["noted", "later"]
