"""What a rule of the poisoning scan is, and which rules a sentence breaks.

The rules are in `orders`, `exfiltration`, `scope` and `conduct`. A rule names the ideas that must meet in one
sentence. Where their order matters, it also has a shape that the sentence must match. Every gap in a shape is
bounded and sentences have a maximum length, so the time is linear in the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from maitred.model.approvals import Severity
from maitred.poisoning.ideas import mask
from maitred.poisoning.subjects import ideas_with_traits

_MOST_NEEDS: Final = 4

_compile = cache(re.compile)  # compiled at first use: to compile all of them would delay every import


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One phrase. A sentence must have an idea of each set in `needs`, one to four, and none of `unless`.

    The folded sentence must match `shape`; the rule spares one that matches `but`.
    """

    id: str
    severity: Severity
    reason: str
    needs: tuple[int, ...]
    unless: int = 0
    shape: str = ""
    but: str = ""

    def holds(self, sentence: str) -> bool:
        """Return whether a folded sentence is such a phrase, once its ideas allow it."""
        if self.shape and not _compile(self.shape).search(sentence):
            return False
        return not self.but or not _compile(self.but).search(sentence)


def rule(
    identifier: str,
    reason: str,
    needs: str,
    *shapes: str,
    severity: Severity = "ask",
    unless: str = "",
    but: str = "",
) -> Rule:
    """Make a rule; `needs` is written `idea idea|idea`, and one of the `shapes` has to match, if any."""
    return Rule(
        id=identifier,
        severity=severity,
        reason=reason,
        needs=tuple(mask(need.replace("|", " ")) for need in needs.split()),
        unless=mask(unless),
        shape="|".join(shapes),
        but=but,
    )


class RuleTable:
    """A table of rules, the surest first. It caches its results, because servers repeat sentences."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(one.unless, *_four(one.needs), one) for one in rules]
        self._possible = lru_cache(maxsize=16_384)(self._may_hold)
        self.broken_rules = lru_cache(maxsize=8_192)(self._find_broken)
        """The rules that a folded sentence breaks, at most one of each id.

        Optional arguments after the sentence: the ideas to leave out, and the ideas to add.
        """

    def _find_broken(self, sentence: str, excused: int = 0, given: int = 0) -> tuple[Rule, ...]:
        ideas = ideas_with_traits(sentence)
        ideas = (ideas | given) & ~excused if ideas else 0
        broken: dict[str, Rule] = {}
        for one in self._possible(ideas) if ideas else ():
            if one.id not in broken and one.holds(sentence):
                broken[one.id] = one
        return tuple(broken.values())

    def _may_hold(self, ideas: int) -> tuple[Rule, ...]:
        return tuple(
            one
            for unless, first, second, third, fourth, one in self._rules
            if ideas & first and ideas & second and ideas & third and ideas & fourth and not ideas & unless
        )


def _four(needs: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Four needs that mean the same; a loop over as many as there are would take several times as long."""
    first, second, third, fourth = (*needs, *needs[-1:] * (_MOST_NEEDS - len(needs)))
    return first, second, third, fourth
