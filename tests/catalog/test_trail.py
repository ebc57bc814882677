"""The chain: whatever is done to the lines behind its back is noticed, and said where."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.catalog.databases import execute, new_catalog

from maitred.audit.hash_chain import Mark, Verification, digest_of
from maitred.audit.log import AuditEntry, AuditLog
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A trail of ten lines."""
    path = new_catalog(tmp_path)
    async with AuditLog(SqliteDatabase(path)) as trail:
        for number in range(1, 11):
            await trail.record(AuditEntry(who=f"w{number}", action="call"))
    return path


async def verified(path: Path, known: Mark | None = None) -> Verification:
    return await AuditLog(SqliteDatabase(path)).verify(known=known)


def swap(path: Path) -> None:
    execute(path, "UPDATE audit SET seq = -4 WHERE seq = 4")
    execute(path, "UPDATE audit SET seq = 4 WHERE seq = 5")
    execute(path, "UPDATE audit SET seq = 5 WHERE seq = -4")


def forge(path: Path) -> None:
    """Change a line and give it the hash that it has now."""
    [(body,)] = execute(path, "SELECT body FROM audit WHERE seq = 3")
    body = body.replace("w3", "eve")
    execute(path, "UPDATE audit SET body = ?, digest = ? WHERE seq = 3", body, digest_of(body, b""))


def append_forged(path: Path) -> None:
    [(prev,)] = execute(path, "SELECT digest FROM audit WHERE seq = 10")
    body = json.dumps({"seq": 11, "prev": prev, "at": "z", "who": "eve"})
    execute(path, "INSERT INTO audit VALUES (11, 'z', ?, ?)", body, digest_of(body, b""))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda p: execute(p, "UPDATE audit SET body = replace(body, 'w3', 'w4') WHERE seq = 3"),
         "line 3 was changed"),
        (lambda p: execute(p, "UPDATE audit SET digest = '0' WHERE seq = 3"), "line 3 was changed"),
        (lambda p: execute(p, "UPDATE audit SET at = '1999' WHERE seq = 3"), "line 3 was moved"),
        (forge, "line 4 does not follow the line before it"),
        (lambda p: execute(p, "DELETE FROM audit WHERE seq = 5"), "lines 5 to 5 are missing"),
        (lambda p: execute(p, "DELETE FROM audit WHERE seq <= 2"), "lines 1 to 2 are missing"),
        (lambda p: execute(p, "DELETE FROM audit WHERE seq > 8"), "lines 9 to 10 are missing at the end"),
        (lambda p: execute(p, "DELETE FROM audit"), "lines 1 to 10 are missing at the end"),
        (swap, "line 4 was moved"),
        (append_forged, "the trail ends with line 11, which is not the one noted as its head"),
        (lambda p: execute(p, "UPDATE audit_ends SET seq = 9 WHERE name = 'head'"), "noted as its head"),
        (lambda p: execute(p, "DELETE FROM audit_ends WHERE name = 'head'"), "the mark 'head' is missing"),
        (lambda p: execute(p, "DELETE FROM audit_ends WHERE name = 'anchor'"), "mark 'anchor' is missing"),
        (lambda p: execute(p, "UPDATE audit SET body = '[', digest = ? WHERE seq = 2", digest_of("[", b"")),
         "line 2 cannot be read"),
    ],
)  # fmt: skip
async def test_a_changed_removed_moved_added_or_cut_off_line_is_noticed(
    path: Path, damage: Callable[[Path], None], fault: str
) -> None:
    """And said which. Source: issue "Admission", done when 5."""
    assert (await verified(path)).faults == ()
    damage(path)
    found = await verified(path)

    assert any(fault in told for told in found.faults)


async def test_one_changed_line_is_told_once(path: Path) -> None:
    """The lines after it are checked against it as it stands, so they are not all reported."""
    execute(path, "UPDATE audit SET body = replace(body, 'w3', 'w4') WHERE seq = 3")

    assert (await verified(path)).faults == ("line 3 was changed",)


async def test_a_tail_that_was_cut_together_with_the_head_is_noticed_by_a_mark_noted_elsewhere(
    path: Path,
) -> None:
    """Whoever can write the file can make it agree with itself, but not with what was noted."""
    known = await AuditLog(SqliteDatabase(path)).head()
    assert (await verified(path, known)).faults == ()
    execute(path, "DELETE FROM audit WHERE seq > 8")
    execute(path, "UPDATE audit_ends SET seq = 8, digest = (SELECT digest FROM audit WHERE seq = 8)"
                  " WHERE name = 'head'")  # fmt: skip

    assert (await verified(path)).faults == ()
    assert "line 10 is not the one that was noted elsewhere" in (await verified(path, known)).faults[0]


async def test_an_older_mark_still_holds_when_lines_came_and_went(path: Path) -> None:
    """A mark of a line that is kept, and one of a line that was dropped by retention."""
    trail = AuditLog(SqliteDatabase(path))
    old = Mark(seq=2, digest=execute(path, "SELECT digest FROM audit WHERE seq = 2")[0][0])
    assert (await trail.verify(known=old)).faults == ()
    execute(path, "DELETE FROM audit WHERE seq <= 5")
    execute(path, "UPDATE audit_ends SET seq = 5, digest = (SELECT json_extract(body, '$.prev') FROM audit"
                  " WHERE seq = 6) WHERE name = 'anchor'")  # fmt: skip

    assert (await trail.verify(known=old)).faults == ()


async def test_with_a_key_nobody_can_forge_the_chain_from_the_file_alone(tmp_path: Path) -> None:
    """Hashes computed without it are wrong, and so is another key."""
    path = new_catalog(tmp_path)
    async with AuditLog(SqliteDatabase(path), key=b"secret") as trail:
        for number in range(1, 4):
            await trail.record(AuditEntry(who=f"w{number}", action="call"))
        assert (await trail.verify()).faults == ()
    forge(path)

    assert "line 3 was changed" in (await AuditLog(SqliteDatabase(path), key=b"secret").verify()).faults
    assert (await AuditLog(SqliteDatabase(path), key=b"other").verify()).faults


async def test_a_trail_of_nothing_is_whole(tmp_path: Path) -> None:
    """The day after the installation."""
    found = await verified(new_catalog(tmp_path))

    assert (found.lines, found.faults, found.head) == (0, (), Mark())
