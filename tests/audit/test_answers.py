"""Texts of answers beside the audit trail: what is kept of them, for how long, and in how much space."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.databases import execute, new_catalog

from maitred.audit import answers
from maitred.audit.hash_chain import AuditFilter
from maitred.audit.log import AuditEntry, AuditLog
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
KEPT_DAYS = 7


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


def entry(answer: str, **more: Any) -> AuditEntry:
    return AuditEntry(who="ann", action="search", tokens=3, answer=answer, **more)


async def digests(trail: AuditLog) -> list[str]:
    """What the lines have of their texts, the oldest line first."""
    found = await trail.latest(AuditFilter(), limit=500)
    return [str(line.get("answer", "")) for line in reversed(found.lines)]


async def test_a_text_is_kept_masked_and_its_line_has_its_digest_alone(path: Path) -> None:
    """The trail stays whole when the text goes."""
    async with AuditLog(SqliteDatabase(path)) as trail:
        trail.bound_answers(most_bytes=answers.MEBIBYTE)
        await trail.record(entry(f"files__read: reads a file, with {SECRET}"))
        [digest] = await digests(trail)
        found = await trail.answers([digest], newer_than_days=KEPT_DAYS)
        assert found[digest].text == "files__read: reads a file, with ***"
        assert found[digest].is_whole
        assert found[digest].is_same

        execute(path, "DELETE FROM audit_answers")
        assert await trail.answers([digest], newer_than_days=KEPT_DAYS) == {}
        assert (await trail.verify()).faults == ()
    assert "reads a file" not in str(execute(path, "SELECT body FROM audit"))


async def test_equal_texts_are_stored_once_and_long_ones_to_a_bound(path: Path) -> None:
    async with AuditLog(SqliteDatabase(path)) as trail:
        trail.bound_answers(most_bytes=answers.MEBIBYTE)
        for text in ("the same", "the same", "x" * (answers.MOST_CHARACTERS + 1)):
            await trail.record(entry(text))
        one, other, long = await digests(trail)
        found = await trail.answers([one, long], newer_than_days=KEPT_DAYS)
    assert one == other
    assert execute(path, "SELECT count(*) FROM audit_answers") == [(2,)]
    assert not found[long].is_whole
    assert len(found[long].text) == answers.MOST_CHARACTERS + 1


async def test_a_text_that_was_changed_does_not_fit_its_line(path: Path) -> None:
    async with AuditLog(SqliteDatabase(path), key=b"k") as trail:
        trail.bound_answers(most_bytes=answers.MEBIBYTE)
        await trail.record(entry("one"))
        await trail.record(entry("two"))
        one, two = await digests(trail)
        [(body,)] = execute(path, "SELECT body FROM audit_answers WHERE digest = ?", two)
        execute(path, "UPDATE audit_answers SET body = ? WHERE digest = ?", body, one)
        found = await trail.answers([one, two], newer_than_days=KEPT_DAYS)
        assert [found[one].is_same, found[two].is_same] == [False, True]

        execute(path, "UPDATE audit_answers SET body = ? WHERE digest = ?", b"no text", two)
        assert not (await trail.answers([two], newer_than_days=KEPT_DAYS))[two].is_same


async def test_texts_go_with_their_age_and_lines_stay(path: Path) -> None:
    """An old text is not shown even before it is deleted; one that came again is as new as its last line."""
    clock = Clock()
    async with AuditLog(SqliteDatabase(path), clock=clock) as trail:
        trail.bound_answers(most_bytes=answers.MEBIBYTE)
        await trail.record(entry("old"))
        await trail.record(entry("again"))
        clock.now += timedelta(days=KEPT_DAYS, hours=1)
        await trail.record(entry("again"))
        old, again, _ = await digests(trail)
        assert set(await trail.answers([old, again], newer_than_days=KEPT_DAYS)) == {again}
        assert await trail.prune_answers(KEPT_DAYS) == 1
        assert len(await digests(trail)) == 3
        assert (await trail.verify()).faults == ()


async def test_texts_take_no_more_space_than_they_may(path: Path) -> None:
    """The oldest ones go first."""
    clock, most = Clock(), 300 * 1024
    async with AuditLog(SqliteDatabase(path), clock=clock) as trail:
        trail.bound_answers(most_bytes=most)
        seed = 1
        for number in range(60):
            clock.now += timedelta(seconds=1)
            words = []
            for _ in range(4_000):  # nothing that would become small
                seed = seed * 6_364_136_223_846_793_005 % 2**64
                words.append(f"{seed:x}"[:10])
            await trail.record(entry(f"{number} {' '.join(words)}"))
        all_of_them = await digests(trail)
        found = await trail.answers(all_of_them, newer_than_days=KEPT_DAYS)
    kept = [digest in found for digest in all_of_them]
    assert kept[-1]
    assert not kept[0]
    assert kept == sorted(kept)
    [(size,)] = execute(path, "SELECT sum(bytes) FROM audit_answers")
    assert size <= most + 2 * 256 * 1024


async def test_what_waits_for_a_database_that_fails_is_bounded(tmp_path: Path) -> None:
    """The lines wait; of their texts only some, so that memory is not filled."""
    folder = tmp_path / "later"
    async with AuditLog(SqliteDatabase(folder / "c.db")) as trail:
        trail.bound_answers(most_bytes=answers.MEBIBYTE)
        for _ in range(200):
            trail.note(entry("y" * answers.MOST_CHARACTERS))
        folder.mkdir()
        new_catalog(folder)
        await trail.record(entry("z"))
        found = await digests(trail)
    assert len(found) == 201
    assert 0 < sum(map(bool, found)) < 200
