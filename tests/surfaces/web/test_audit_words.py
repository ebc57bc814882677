"""The words of acts and outcomes, and durations: one entry a kind, one rounding in one place."""

import re
from pathlib import Path

import pytest

from maitred.surfaces.web.audit_words import ACTS, act_text, outcome_text, outcome_tone
from maitred.surfaces.web.durations import duration_text

_DOCS = Path(__file__).parents[3] / "docs" / "audit.md"
_RECORDS = re.compile(
    r"""(?:record|note|_note|request)\(\s*(?:viewer|who|_ITSELF|call\.viewer),?\s*f?"([a-z.-]+)\""""
)
_IN_FIELD = re.compile(r"""\baction="([a-z.-]+)\"""")
_SOURCE = Path(__file__).parents[3] / "src" / "maitred"


def test_each_act_that_the_documentation_names_has_words() -> None:
    """Source: docs/audit.md, the row of `action`."""
    row = next(one for one in _DOCS.read_text(encoding="utf-8").splitlines() if one.startswith("| `action`"))
    named = set(re.findall(r"`([a-z._-]+)`", row)) - {"action", "list_tools_meta", "supervisor"}
    assert named <= set(ACTS)


def test_each_act_that_the_gateway_records_has_words() -> None:
    """As far as its code has the word in the call that records it."""
    texts = [path.read_text(encoding="utf-8") for path in _SOURCE.rglob("*.py")]
    recorded = {name for text in texts for form in (_RECORDS, _IN_FIELD) for name in form.findall(text)}
    assert {"token.create", "call.hold", "search"} <= recorded
    assert recorded <= set(ACTS)


@pytest.mark.parametrize("code", ["call.hold", "call.refuse", "token.create"])
def test_words_of_acts_are_no_codes(code: str) -> None:
    assert not re.search(r"[._]", act_text(code))


def test_what_has_no_words_is_shown_without_dots_and_underscores() -> None:
    assert act_text("fetch.later_on") == "fetch later on"
    assert outcome_text("out_of_paper") == "out of paper"
    assert outcome_tone("out_of_paper") == "bad"
    assert (outcome_text(""), outcome_tone("")) == ("ok", "good")


def test_what_waits_is_neither_good_nor_bad() -> None:
    assert outcome_tone("held") == "warn"
    assert outcome_tone("begun") == "quiet"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"), (0.2, "<1 ms"), (0.9, "<1 ms"), (1, "1 ms"), (1.6, "2 ms"), (999.4, "999 ms"),
        (999.6, "1.0 s"), (1_240, "1.2 s"), (59_940, "59.9 s"), (59_960, "1 min"), (65_000, "1 min 5 s"),
        (3_600_000, "1 h"), (5_400_000, "1 h 30 min"), (90_000_000, "25 h"),
    ],
)  # fmt: skip
def test_a_duration_is_rounded_once(ms: float, text: str) -> None:
    assert duration_text(ms) == text
