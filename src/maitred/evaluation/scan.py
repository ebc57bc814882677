"""Measure the scan on labelled texts: how many attacks it finds, and how many honest texts it holds.

A definition counts as held if a finding has severity `refuse` or `ask`, an answer if it has any finding.
Shares are given by kind, language and surface, each with its 95 % interval.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from maitred.evaluation.intervals import Interval, share_interval
from maitred.evaluation.labelled_texts import LabelledText
from maitred.poisoning.scan import PoisonScan, scan_text

GROUPS: Final = ("place", "kind", "language", "surface", "tone")
"""By what the shares are given; a `place` is all definitions, or all that a call brings."""


@dataclass(frozen=True, kw_only=True)
class TextVerdict:
    """What the scan says of one text: whether it is held, and by which rules."""

    text: LabelledText
    held: bool
    rules: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Whether the text is a definition, or what a call brings."""
        return "definitions" if self.text.surface == "definition" else "answers"


@dataclass(frozen=True, kw_only=True)
class ScanShares:
    """Of some texts: how many attacks are found, and how many honest ones are held, of how many."""

    found: int
    attacks: int
    mistaken: int
    honest: int

    @property
    def recall(self) -> Interval | None:
        """The share of the attacks that is found."""
        return share_interval(self.found, self.attacks)

    @property
    def false_positives(self) -> Interval | None:
        """The share of the honest texts that is held."""
        return share_interval(self.mistaken, self.honest)

    def to_json(self) -> dict[str, Any]:
        """All counts and shares."""
        shares = {"recall": self.recall, "false_positives": self.false_positives}
        return asdict(self) | {name: share and asdict(share) for name, share in shares.items()}


@dataclass(frozen=True, kw_only=True)
class ScanEvaluation:
    """The verdict of each text, and what they come to."""

    verdicts: Sequence[TextVerdict]

    @property
    def all(self) -> ScanShares:
        """The shares of all texts."""
        return shares_of(self.verdicts)

    def by(self, group: str) -> dict[str, ScanShares]:
        """The shares of each value of a group of `GROUPS`; texts without a value are left out."""
        parts: dict[str, list[TextVerdict]] = {}
        for one in self.verdicts:
            if value := one.place if group == "place" else getattr(one.text, group):
                parts.setdefault(value, []).append(one)
        return {value: shares_of(parts[value]) for value in sorted(parts)}

    def by_rule(self) -> dict[str, ScanShares]:
        """How many texts each rule holds; a text may be held by several."""
        rules = sorted({rule for one in self.verdicts for rule in one.rules})
        alone = [(rule, [_by_rule(one, rule) for one in self.verdicts]) for rule in rules]
        return {rule: shares_of(verdicts) for rule, verdicts in alone}

    def to_json(self) -> dict[str, Any]:
        """All shares, for programs."""
        groups = {group: self.by(group) for group in GROUPS} | {"rule": self.by_rule()}
        parts = {
            group: {name: shares.to_json() for name, shares in part.items()} for group, part in groups.items()
        }
        return {"all": self.all.to_json(), **parts}

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """One object for each text, for a file."""
        for one in self.verdicts:
            label = "attack" if one.text.is_attack else "honest"
            yield {"id": one.text.pair, "label": label, "held": one.held, "rules": list(one.rules)}


def evaluate(texts: Sequence[LabelledText], step: Callable[[], None] = lambda: None) -> ScanEvaluation:
    """Scan every text as the gateway does; `step` is called after each."""
    scan = PoisonScan()
    verdicts = []
    for text in texts:
        verdicts.append(_verdict(scan, text))
        step()
    return ScanEvaluation(verdicts=verdicts)


def definition_of(text: LabelledText) -> Mapping[str, Any]:
    """The definition of a tool that a text is, or is the description of."""
    parts = text.definition or {"description": text.text}
    return {"name": text.name or "tool", **parts}


def shares_of(verdicts: Sequence[TextVerdict]) -> ScanShares:
    """Count some verdicts."""
    attacks = [one for one in verdicts if one.text.is_attack]
    honest = [one for one in verdicts if not one.text.is_attack]
    return ScanShares(
        found=sum(one.held for one in attacks),
        attacks=len(attacks),
        mistaken=sum(one.held for one in honest),
        honest=len(honest),
    )


def _verdict(scan: PoisonScan, text: LabelledText) -> TextVerdict:
    is_definition = text.surface == "definition"
    findings = scan.scan("own", definition_of(text)) if is_definition else scan_text(text.text)
    rules = tuple(sorted({one.rule for one in findings if not is_definition or one.severity != "warn"}))
    return TextVerdict(text=text, held=bool(rules), rules=rules)


def _by_rule(one: TextVerdict, rule: str) -> TextVerdict:
    return TextVerdict(text=one.text, held=rule in one.rules)
