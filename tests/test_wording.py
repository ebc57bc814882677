"""Counts and suggestions read the same everywhere, since one module makes them."""

import re
from pathlib import Path

import pytest

from maitred.wording import count_of, did_you_mean, near_names

SOURCE = Path(__file__).parents[1] / "src" / "maitred"
OTHERS = {
    "wording.py": "the one",
    "search/index.py": "ranks names of tools by what the index finds",
    "gateway/settings_file.py": "shows which lines of a section change, and suggests nothing",
    "surfaces/web/approvals/review.py": "shows which words of a text changed, and suggests nothing",
}


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "tool", "0 tools"),
        (1, "tool", "1 tool"),
        (2, "tool", "2 tools"),
        (1_200, "more server", "1,200 more servers"),
        (1, "category", "1 category"),
        (2, "category", "2 categories"),
        (2, "day", "2 days"),
        (3, "match", "3 matches"),
        (3, "address", "3 addresses"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, said: str) -> None:
    """Nobody reads "1 tools"."""
    assert count_of(number, noun) == said


@pytest.mark.parametrize(
    ("typed", "known", "near"),
    [
        ("tiem", ["time", "git"], ["time"]),
        ("nope", ["chrome"], []),
        ("CHROM", ["chrome"], ["chrome"]),
        ("file", ["files", "text_files", "tile"], ["files", "tile", "text_files"]),
        ("chrome-devtools", ["chrome", "git"], ["chrome"]),
        ("it", ["git", "writer"], ["git"]),
        ("", ["git"], []),
        ("x", [], []),
    ],
)
def test_only_near_names_are_suggested(typed: str, known: list[str], near: list[str]) -> None:
    """A wrong suggestion is worse than none."""
    assert near_names(typed, known) == near


def test_a_suggestion_stands_behind_its_lead_and_gives_way_to_what_there_is() -> None:
    """So that a sentence ends well with it and without it."""
    assert did_you_mean("tiem", ["time"], lead="; ") == "; did you mean 'time'?"
    assert did_you_mean("nope", ["time"], lead="; ") == ""
    assert did_you_mean("nope", ["time"], otherwise="there is time") == "there is time"


def test_no_other_module_has_a_measure_of_its_own() -> None:
    """One helper, one threshold."""
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"^(?:import|from) difflib", path.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert users <= set(OTHERS)
