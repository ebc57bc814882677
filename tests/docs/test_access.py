"""The page on access is true: its commands are run, its settings read, its tables those of the code."""

import json
import re
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.access.claims import claim_mapping, grant_from_claims
from maitred.access.oidc import AFTER, CALLBACK
from maitred.config.load import parse
from maitred.config.settings import AccessSettings, Http
from maitred.model.access import LEAST, Grant, Scope

PAGE = (Path(__file__).parents[2] / "docs" / "access.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \|", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    write(tmp_path, {"maitred.yaml": "servers: {github: {command: none, enabled: false}}\n"})
    return runner(tmp_path, monkeypatch, capsys)


def test_the_table_of_abilities_is_the_one_that_decides() -> None:
    """In its order, from the weakest ability to the strongest."""
    assert _ROW.findall(PAGE.partition("## Tokens")[0]) == list(LEAST.items())


def test_the_commands_print_what_the_page_says(run: Run) -> None:
    """Line by line; … stands for anything."""
    for block in blocks("console"):
        for part in block.split("$ maitred ")[1:]:
            command, *expected = part.splitlines()
            printed = " ".join(run(*command.split()).fine.split())
            for line in expected:
                pattern = ".*".join(re.escape(" ".join(piece.split())) for piece in line.split("…"))
                assert re.search(pattern, printed), (line, printed)


def test_the_settings_of_the_page_are_read() -> None:
    """And say what the text beside them says."""
    issuer, groups, sign_in, limits, teams = (parse(Path("maitred.yaml"), text) for text in blocks("yaml"))
    _, claims, person = map(json.loads, blocks("json"))
    jwt = issuer.http.jwt
    assert jwt is not None

    assert grant_from_claims(claims, claim_mapping(jwt, AccessSettings())) == Grant(
        principal="oauth:ann", role="agent", scope=Scope(servers=frozenset({"github"}), read_only=True)
    )
    assert limits.access == AccessSettings(calls_per_minute=120, burst=20, calls_at_once=8)
    assert f"`http.anonymous`: `{Http().anonymous}`" in PAGE
    eve = grant_from_claims(person, claim_mapping(None, groups.access))
    assert isinstance(eve, Grant)
    assert [(part.group, part.role) for part in eve.scope.parts] == [
        ("payments", "operator"), ("support", "agent"), ("*", "viewer"),
    ]  # fmt: skip
    assert sign_in.access.sign_in is not None
    assert f"`{sign_in.access.sign_in.url}{CALLBACK}`" in PAGE
    assert f"`{sign_in.access.sign_in.url}{AFTER}`" in PAGE
    assert teams.access.teams["payments"].calls_per_minute == 300
