"""`maitred audit`: what it prints, what it exports, and that `verify` ends with 1 if something is wrong."""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.catalog.databases import new_catalog
from tests.surfaces.cli.rig import Run, runner, write

from maitred.audit.log import AuditEntry, AuditLog
from maitred.storage.sqlite import SqliteDatabase

CALL = AuditEntry(
    who="ann", client="editor", action="call", server="desk", tool="write", published="desk__write",
    request_id="r1",
)  # fmt: skip


def fill(folder: Path, key: bytes = b"") -> None:
    """A trail of five lines, of which the first is very old, and one began and never ended."""

    async def record() -> None:
        async with AuditLog(SqliteDatabase(new_catalog(folder)), key=key) as trail:
            await trail.record(AuditEntry(who="old", action="login"))
            await trail.record(CALL)
            begun = await trail.record(AuditEntry(who="bob", action="call", tool="lost", outcome="begun"))
            await trail.record(AuditEntry(who="bob", action="call", tool="wipe\x1b[2J", outcome="begun"))
            await trail.record(
                AuditEntry(who="bob", action="call", tool="wipe\x1b[2J", begun=begun + 1, cached=True)
            )

    anyio.run(record)


@pytest.fixture
def maitred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in a folder with a trail."""
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\naudit: {keep_days: 30}\n"})
    monkeypatch.delenv("MAITRED_AUDIT_KEY", raising=False)
    fill(tmp_path)
    return runner(tmp_path, monkeypatch, capsys)


def execute(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "c.db")) as connection, connection:
        connection.execute(statement)


def test_the_list_shows_who_did_what_and_what_came_of_it(maitred: Run) -> None:
    """The newest last; what began and ended is one line; nothing that a terminal obeys is printed."""
    said = maitred("audit").fine.splitlines()

    assert [line.split()[0] for line in said] == ["line", "1", "2", "3", "5"]
    assert said[2].split()[3:] == ["ann", "(editor)", "call", "desk/write", "ok", "r1"]
    assert said[3].endswith("begun") or "begun" in said[3]
    assert "(cached)" in said[4]
    assert "\x1b" not in "".join(said)


def test_the_list_can_be_narrowed(maitred: Run) -> None:
    """By principal, tool under either name, server, time; as JSON for programs."""

    def found(*options: str) -> list[int]:
        return [line["seq"] for line in json.loads(maitred("audit", "list", "--json", *options).fine)]

    assert found("--principal", "ann") == found("--tool", "desk__write") == found("--tool", "desk") == [2]
    assert found("--limit", "1") == [5]
    assert found("--since", "1h") == found("--since", "2020-01-01") == [5, 3, 2, 1]
    assert maitred("audit", "--since", "2999-01-01").fine.strip() == "The trail has no such line."
    assert "'soon' is no time; write 2026-03-01" in maitred("audit", "--since", "soon").refused


def test_verify_ends_well_with_the_head_of_a_trail_that_is_whole(maitred: Run) -> None:
    """And compares with a head that was noted before."""
    said = maitred("audit", "verify").fine
    head = said.partition("head: ")[2].strip()

    assert "5 lines, 1 to 5: each is as it was written." in said
    assert "each is as it was written" in maitred("audit", "verify", "--head", head).fine
    assert "is no head" in maitred("audit", "verify", "--head", "5").refused
    assert maitred("audit", "verify", "--head", f"5:{'0' * 64}").code == 1


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE audit SET body = replace(body, 'ann', 'eve') WHERE seq = 2", "line 2 was changed"),
        ("DELETE FROM audit WHERE seq = 3", "lines 3 to 3 are missing"),
        ("UPDATE audit SET seq = 9 - seq WHERE seq IN (4, 5)", "line 4 was moved"),
        ("DELETE FROM audit WHERE seq > 3", "lines 4 to 5 are missing at the end"),
    ],
)
def test_verify_ends_with_1_and_says_which_line_is_wrong(
    maitred: Run, tmp_path: Path, damage: str, fault: str
) -> None:
    """Changed, removed, moved, cut off. Source: issue "Admission", done when 5."""
    execute(tmp_path, damage.replace("9 - seq", "-seq"))
    execute(tmp_path, "UPDATE audit SET seq = 9 + seq WHERE seq < 0")
    done = maitred("audit", "verify")
    told = json.loads(maitred("audit", "verify", "--json").out)

    assert done.code == 1
    assert fault in done.err
    assert (told["ok"], fault in " ".join(told["faults"])) == (False, True)


def test_an_export_is_verified_without_the_catalog(maitred: Run, tmp_path: Path) -> None:
    """Only its owner may read it; its last line says who made it; the printed head belongs to it."""
    said = maitred("audit", "export", "trail.jsonl").err
    (tmp_path / "c.db").unlink()
    head = said.partition("head: ")[2].strip()
    file = tmp_path / "trail.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)

    assert "Exported 6 lines" in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(lines[-1])["action"] == "audit.export"
    assert "6 lines, 1 to 6" in maitred("audit", "verify", "--file", "trail.jsonl", "--head", head).fine
    file.write_text("".join(lines[:5]), encoding="utf-8")
    assert maitred("audit", "verify", "--file", "trail.jsonl").code == 0
    assert maitred("audit", "verify", "--file", "trail.jsonl", "--head", head).code == 1
    file.write_text("".join(lines).replace("ann", "eve"), encoding="utf-8")
    assert "line 2 was changed" in maitred("audit", "verify", "--file", "trail.jsonl").err
    assert "cannot be read" in maitred("audit", "verify", "--file", "none.jsonl").refused


def test_an_export_can_be_printed(maitred: Run) -> None:
    """For a program that takes it further."""
    printed = maitred("audit", "export", "-").out.splitlines()

    assert [json.loads(line)["seq"] for line in printed] == [1, 2, 3, 4, 5, 6]
    assert "export needs a FILE" in maitred("audit", "export").refused
    assert "cannot be written" in maitred("audit", "export", "no/such/folder.jsonl").refused


def test_old_lines_are_dropped_and_the_rest_is_still_whole(maitred: Run, tmp_path: Path) -> None:
    """By `audit.keep_days`; 0 keeps all."""
    execute(tmp_path, "UPDATE audit SET at = '2000' WHERE seq = 1")
    assert "Dropped 1 line older than 30 days." in maitred("audit", "prune").fine
    assert "5 lines, 2 to 6" in maitred("audit", "verify").fine
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\naudit: {keep_days: 0}\n"})
    assert "Dropped 0 lines as `audit.keep_days` is 0." in maitred("audit", "prune").fine


def test_a_trail_with_a_key_is_verified_with_it_alone(
    maitred: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nobody can make lines that fit."""
    (tmp_path / "c.db").unlink()
    fill(tmp_path, b"secret")
    assert "written with another key" in maitred("audit", "verify").err
    monkeypatch.setenv("MAITRED_AUDIT_KEY", "secret")
    assert maitred("audit", "verify").code == 0


def test_a_call_that_is_refused_in_a_terminal_is_written_down(maitred: Run) -> None:
    """As anywhere else."""
    assert "There is no tool named 'nothing'" in maitred("call", "nothing").refused
    [line] = json.loads(maitred("audit", "--limit", "1", "--json").fine)

    assert (line["who"], line["surface"], line["action"]) == ("local", "cli", "call")
    assert (line["published"], line["outcome"]) == ("nothing", "tool_not_found")
