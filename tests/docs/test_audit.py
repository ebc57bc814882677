"""The pages on the audit trail and on answers are true: fields, outcomes, figures, and the commands shown."""

import re
import subprocess
from pathlib import Path
from typing import Any, get_args, get_type_hints

import anyio
import pytest
from tests.catalog.databases import new_catalog
from tests.surfaces.cli.rig import runner, write

from maitred.audit import answers, log, service
from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.masking import mask_text
from maitred.calls import screening
from maitred.config.settings import Audit, Results
from maitred.gateway import REQUEST_KEY
from maitred.storage.sqlite import SqliteDatabase
from maitred.surfaces.http.errors import REQUEST_HEADER

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "audit.md").read_text(encoding="utf-8")
ANSWERS = (DOCS / "answers.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(SHOWN,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ACTS = (
    AuditEntry(who="ann", client="editor", action="call", server="notes", tool="add", outcome="begun"),
    AuditEntry(who="ann", client="editor", action="call", server="notes", tool="add", begun=1,
        request_id="0f3c2a9b51d7e486"),
)  # fmt: skip


def fill(folder: Path) -> None:
    async def record() -> None:
        async with AuditLog(SqliteDatabase(new_catalog(folder))) as trail:
            for act in ACTS:
                await trail.record(act)

    anyio.run(record)


def named(column: str) -> set[str]:
    return {
        name for cell in re.findall(r"^\| (`.*?) \|", column, re.MULTILINE) for name in cell.split("`")[1::2]
    }


def test_the_table_names_every_field_of_a_line_and_no_other() -> None:
    """A new field cannot be left out."""
    table = PAGE.partition("## What a line says")[2].partition("What is empty")[0]
    kept = {"seq", "replica", "place", "prev", "at", "arguments_hash", "arguments_bytes"}

    assert named(table) == kept | set(AuditEntry._fields)


def test_the_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for times and digests."""
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\n"})
    fill(tmp_path)
    run = runner(tmp_path, monkeypatch, capsys)
    for block in SHOWN.split("$ maitred ")[1:]:
        command, _, shown = block.partition("\n")
        pattern = re.escape(" ".join(shown.split())).replace("2026\\-03\\-01\\ 09:41:00", r"\S+ \S+")
        pattern = pattern.replace("8e1d…", "[0-9a-f]{64}")
        assert re.fullmatch(pattern, " ".join(run(*command.split()).fine.split())), command


def test_a_digest_can_be_checked_with_the_tools_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is written on the page."""
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\n"})
    fill(tmp_path)
    runner(tmp_path, monkeypatch, capsys)("audit", "export", "FILE.jsonl")
    done = subprocess.run(SHELL[0], shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    first = (tmp_path / "FILE.jsonl").read_text(encoding="utf-8").splitlines()[0]

    assert f'"digest":"{done.stdout.split()[0]}"' in first


def test_the_settings_and_figures_of_the_pages_are_the_real_ones() -> None:
    """Values that may be chosen, what is kept of arguments, how many lines wait, what is read of answers."""
    for value in get_args(hints(Audit)["arguments"]):
        assert f"`{value}`" in PAGE or f"audit.arguments: {value}" in PAGE
    assert named(PAGE.partition("## Texts of answers")[2].partition("Secrets are")[0]) == set(
        get_args(hints(Audit)["answers"])
    )
    assert f"first {answers.MOST_CHARACTERS:,} characters" in PAGE
    assert f"`audit.answers_days` ({Audit().answers_days})" in PAGE
    assert f"`audit.answers_mib` ({Audit().answers_mib})" in PAGE
    assert f"at most {service._MOST_SHOWN}" in PAGE
    assert f"({Audit().keep_days})" in PAGE
    assert f"up to {log._MAX_WAITING:,} lines wait" in PAGE
    assert f"more than {log._MAX_ARGUMENTS:,} bytes stay a hash" in PAGE
    assert service._ID.fullmatch("a" * 128)
    assert not service._ID.fullmatch("a" * 129)
    assert all(service._ID.fullmatch(sign) for sign in "._:/=+@-")
    assert f'_meta["{REQUEST_KEY}"]' in PAGE
    assert f"`{REQUEST_HEADER}`" in PAGE
    modes = ANSWERS.partition("## Screening")[2].partition("`_meta")[0]
    assert named(modes) == set(get_args(hints(Results)["screening"]))
    assert f"up to {screening.MAX_CHARACTERS:,} characters" in ANSWERS
    assert f'_meta["{screening.FINDINGS_KEY}"]' in ANSWERS
    assert f'_meta["{service.SOURCE_KEY}"]' in ANSWERS


def hints(section: type) -> dict[str, Any]:
    return get_type_hints(section)


def test_what_is_masked_and_what_stays_is_as_the_page_says() -> None:
    """Its own examples."""
    for secret in ("Bearer abcdefgh12345678", "https://me:hunter2@example.com", "DB_PASSWORD=hunter2"):
        assert "***" in mask_text(secret), secret
    for plain in ("DB_PASSWORD=$NAME", "API_TOKEN=<your token>", '{"next_token": "eDF9"}'):
        assert mask_text(plain) == plain
