"""Every promise is held by a test, and each behavior by one."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.interaction.requirements import REQUIREMENTS, requirement

_DECORATOR = re.compile(r"^@requirement\(([^)]*)\)", re.MULTILINE)


def test_every_requirement_has_exactly_one_test() -> None:
    """A promise without a test is a wish, and one with two is tested by accident. Source: style notes."""
    found: Counter[str] = Counter()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for decorator in _DECORATOR.findall(path.read_text(encoding="utf-8")):
            found.update(re.findall(r'"([^"]+)"', decorator))

    assert set(found) == set(REQUIREMENTS)
    assert [key for key, count in found.items() if count > 1] == []


def test_a_requirement_that_is_not_listed_is_refused() -> None:
    """A mistyped id would otherwise pass for a promise. Source: maitred."""
    with pytest.raises(KeyError):
        requirement("menu:budgett")
