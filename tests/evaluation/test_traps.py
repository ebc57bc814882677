"""Answers of a model that misreads a tool are not used, right ones are; `maitred eval traps` says so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.test_commands import maitred

from maitred.errors import ConfigError
from maitred.evaluation.traps import ALLOWED_THROUGH, WANTED_USED, read_traps
from maitred.mediation import SourceTool, misreadings

FOLDER = Path(__file__).parents[1] / "data" / "mediation" / "traps"
HELD_BACK_THROUGH, HELD_BACK_USED = 0.03, 0.85
"""The part by which nothing was tuned misses the aims a little; it must not get worse. See the README."""

BLIND = FOLDER.with_name("blind_traps")
BLIND_THROUGH = 0.06
"""Of traps by an author who did not know the check: far from the aim. See their README."""

FEW = 12


def shares(*, held_back: bool, folder: Path = FOLDER) -> tuple[float, float]:
    """The shares of wrong and of right answers that fit their tools, without a search."""
    trap_set = read_traps(folder)
    traps = [trap for trap in trap_set.traps if (trap.server in trap_set.held_back) == held_back]
    servers: dict[str, list[SourceTool]] = {}
    for tool in trap_set.tools:
        source = SourceTool(
            name=tool.key.name,
            description=tool.description,
            input_schema=tool.input_schema if isinstance(tool.input_schema, dict) else None,
            annotations=tool.annotations,
        )
        servers.setdefault(tool.key.server, []).append(source)
    fitting = {"wrong": 0, "right": 0}
    for trap in traps:
        before = servers[trap.server]
        for kind, answer in (("wrong", trap.wrong), ("right", trap.right)):
            after = [replace(tool, **answer) if tool.name == trap.tool else tool for tool in before]
            fitting[kind] += not misreadings(before, after)
    return fitting["wrong"] / len(traps), fitting["right"] / len(traps)


def test_wrong_answers_that_the_author_of_the_check_did_not_write_are_refused_too() -> None:
    """Most of them: 6 of 120 get through by all of the proof. Source: the README of that set."""
    through, _ = shares(held_back=True, folder=BLIND)

    assert through <= BLIND_THROUGH


def test_the_set_is_as_large_as_its_page_says_and_each_kind_is_held_back_too() -> None:
    """At least 200 traps, a fifth or more of them held back, of all ten kinds."""
    found = read_traps(FOLDER)
    held_back = [trap for trap in found.traps if trap.server in found.held_back]
    page = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert len(found.traps) >= 200
    assert len(held_back) >= len(found.traps) / 5
    assert {trap.kind for trap in held_back} == {trap.kind for trap in found.traps}
    assert f"{len(found.traps)} traps on {len({tool.key.server for tool in found.tools})} servers" in page
    assert all(f"| {trap.kind} |" in page for trap in found.traps)


def test_few_wrong_answers_fit_and_nearly_all_right_ones_do() -> None:
    """At most 2 % and at least 90 %, by the cross-check alone. Source: the README of the set."""
    through, used = shares(held_back=False)

    assert through <= ALLOWED_THROUGH
    assert used >= WANTED_USED


def test_of_the_held_back_traps_hardly_more_get_through() -> None:
    """The same for servers by which nothing was tuned."""
    through, used = shares(held_back=True)

    assert through <= HELD_BACK_THROUGH
    assert used >= HELD_BACK_USED


def small(folder: Path, *, extra: str = "") -> Path:
    """The first traps of the set, in a folder of their own."""
    folder.mkdir()
    (folder / "servers.jsonl").write_bytes((FOLDER / "servers.jsonl").read_bytes())
    lines = (FOLDER / "traps.jsonl").read_text(encoding="utf-8").splitlines()[:FEW]
    (folder / "traps.jsonl").write_text("\n".join([*lines, extra]).strip(), encoding="utf-8")
    return folder


def test_the_command_prints_a_row_for_each_kind_and_a_verdict(tmp_path: Path) -> None:
    """On the way of the gateway, rules and search included. Source: docs/cli.md."""
    done = maitred("eval", "traps", small(tmp_path / "few"))

    assert done.returncode == 0, done.stderr
    assert "abbreviation" in done.stdout
    assert "tuned: 0.0 % through" in done.stdout
    assert "pass (wanted: at most 2 % through, at least 90 % used)" in done.stdout


def test_the_command_names_the_traps_with_the_reasons_as_json(tmp_path: Path) -> None:
    """Why each wrong answer is refused. Source: docs/cli.md."""
    found = json.loads(maitred("eval", "traps", small(tmp_path / "few"), "--json").stdout)

    assert found["tuned"]["traps"] == FEW
    assert all(one["why_wrong_is_refused"] for one in found["traps"] if not one["wrong_is_used"])


def test_a_trap_about_a_tool_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    """So that a set of one's own can be mended."""
    line = json.dumps({"server": "files", "tool": "none", "kind": "verb", "wrong": {}, "right": {}})
    with pytest.raises(ConfigError, match=rf"line {FEW + 1}: there is no tool 'none' of a server 'files'"):
        read_traps(small(tmp_path / "few", extra=line))
