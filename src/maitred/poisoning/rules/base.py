"""What a rule of the poisoning scan is, and which rules a sentence breaks.

The rules are in `poison_orders`, `poison_taking`, `poison_scope` and `poison_conduct`.

A rule names the ideas that have to meet in one sentence and, where their order matters, a shape that the
sentence must have. Every gap in a shape is bounded and sentences are cut at a fixed length, so the time is
linear whatever a server sends.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from maitred.model.approvals import Severity
from maitred.poisoning.ideas import ideas_in, mask
from maitred.poisoning.subjects import traits

_compiled = cache(re.compile)  # when first needed: all of them would delay whoever imports them


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One phrase. Each of `needs` is a set of ideas of which one has to be there, and none of `unless`.

    `shape` is what the folded sentence must look like; one that looks like `but` is spared.
    """

    id: str
    severity: Severity
    reason: str
    needs: tuple[int, ...]
    unless: int = 0
    shape: str = ""
    but: str = ""

    def may_hold(self, ideas: int) -> bool:
        """Whether a sentence with these ideas can be such a phrase."""
        return not ideas & self.unless and all(ideas & need for need in self.needs)

    def holds(self, sentence: str) -> bool:
        """Whether a folded sentence, whose ideas allow it, is such a phrase."""
        if self.shape and not _compiled(self.shape).search(sentence):
            return False
        return not self.but or not _compiled(self.but).search(sentence)


def rule(
    identifier: str,
    reason: str,
    needs: str,
    *shapes: str,
    severity: Severity = "ask",
    unless: str = "",
    but: str = "",
) -> Rule:
    """A rule whose needs are written `idea idea|idea`, and which has one of the shapes, if any is given."""
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
    """A table of rules, the surest first. It remembers what it found of sentences, which servers repeat."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._possible = lru_cache(maxsize=16_384)(self._may_hold)
        self.broken = lru_cache(maxsize=8_192)(self._broken)
        """The rules that a folded sentence breaks, at most one of each id.

        After it the ideas that are left out may be given, and those that are added.
        """

    def _broken(self, sentence: str, excused: int = 0, given: int = 0) -> tuple[Rule, ...]:
        ideas = _ideas(sentence)
        ideas = (ideas | given) & ~excused if ideas else 0
        found: dict[str, Rule] = {}
        for one in self._possible(ideas) if ideas else ():
            if one.id not in found and one.holds(sentence):
                found[one.id] = one
        return tuple(found.values())

    def _may_hold(self, ideas: int) -> tuple[Rule, ...]:
        return tuple(one for one in self._rules if one.may_hold(ideas))


@lru_cache(maxsize=8_192)
def _ideas(sentence: str) -> int:
    ideas = ideas_in(sentence)
    return traits(sentence, ideas) if ideas else 0
