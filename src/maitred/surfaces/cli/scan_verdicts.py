"""What `maitred scan` says of each finding: what is withheld, and how to allow it. Text, JSON and SARIF.

SARIF is the format in which CI systems show what tools found (OASIS standard, version 2.1.0).
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from maitred import __version__
from maitred.admission.published_parts import PublishedPart, PublishedServer
from maitred.poisoning.kinds import KINDS
from maitred.poisoning.scan import PoisonFinding
from maitred.surfaces.cli.console import visible
from maitred.wording import count_of

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"refuse": "error", "ask": "warning", "warn": "note"}
_LABELS: Final = {"refuse": ("attack", "red"), "ask": ("suspicious", "yellow"), "warn": ("note", "")}
_WITHHELD: Final = {
    "refuse": "by every gateway that scans, until a person approves it",
    "ask": "where `admission.scan` or `admission.scan_registered` is `block`, and after any change",
    "warn": "nothing; it is for information",
}
_SCREENED: Final = "the passage where `results.screening` is `redact`, the answer where it is `block`"


@dataclass(frozen=True, kw_only=True)
class ScanVerdict:
    """One finding in one part of a server. `file` and `line` say where a part of a file is."""

    server: str
    part: PublishedPart
    finding: PoisonFinding
    allowed: bool = False
    file: str = ""
    line: int = 1

    @property
    def target(self) -> str:
        """What `--allow` takes to allow this finding and no other kind or part."""
        return f"{self.part.name}/{self.finding.rule}" if self.part.name else self.finding.rule

    @property
    def counts(self) -> bool:
        """Whether a gateway withholds the part for it, and it is not allowed."""
        return self.finding.severity != "warn" and not self.allowed

    @property
    def withheld(self) -> str:
        """What a gateway withholds for it, and when."""
        return _SCREENED if self.part.kind == "answer" else _WITHHELD[self.finding.severity]

    @property
    def allows(self) -> str:
        """How an author, and how an operator, allows it."""
        if self.part.kind == "answer":
            return f"here: `--allow {self.target}`; in a gateway: `results.screening: warn`"
        return (
            f"here: `--allow {self.target}`; in a gateway: `maitred explain {self.server}`, then"
            f" `maitred approve {self.server}`, which approves these texts and no later ones"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        one = self.finding
        return {
            "server": self.server,
            "part": self.part.kind,
            "name": self.part.name,
            "kind": one.rule,
            "title": KINDS[one.rule].title,
            "severity": one.severity,
            "where": one.where,
            "sentence": one.excerpt,
            "nearest": one.nearest,
            "reason": one.reason,
            "fix": one.fix,
            "withheld": self.withheld,
            "allow": self.target,
            "allowed": self.allowed,
            **({"file": self.file, "line": self.line} if self.file else {}),
        }

    def lines(self) -> Iterator[Text]:
        """It for a person."""
        one, label = self.finding, _LABELS[self.finding.severity]
        if self.allowed:
            label = ("allowed", "")
        place = f" at {visible(one.where)}" if one.where else ""
        kind = f"{one.rule}, {KINDS[one.rule].title}"
        yield Text.assemble(label, f": {visible(str(self.part))}{place}: {kind}")
        yield Text(f"  why: {visible(one.reason)}")
        if one.excerpt:
            yield Text(f"  sentence: {visible(one.excerpt)}")
        if one.nearest:
            yield Text(f"  nearest example: {visible(one.nearest)}")
        if self.counts:
            yield Text(f"  withheld: {self.withheld}")
            yield Text(f"  change: {one.fix}")
            yield Text(f"  allow: {visible(self.allows)}")


def is_allowed(allowed: Collection[str], part: PublishedPart, rule: str) -> bool:
    """Whether a kind is allowed everywhere or in this part, or the part for all kinds."""
    return bool({rule, f"{part.name}/{rule}", part.name} & set(allowed) - {""})


def unknown_allowed(allowed: Sequence[str], servers: Sequence[PublishedServer]) -> list[str]:
    """The values of `--allow` that are neither a kind nor a part, with or without a kind."""
    names = {part.name for server in servers for part in server.parts}
    known = {*KINDS, *names}
    return [
        one
        for one in allowed
        if one not in known and not (one.rpartition("/")[0] in names and one.rpartition("/")[2] in KINDS)
    ]


def line_of(text: str, part: PublishedPart) -> int:
    """The line of a file that has the name of a part; 1 if none has, as in a file of one line."""
    place = text.find(json.dumps(part.name, ensure_ascii=False)) if part.name else -1
    return text.count("\n", 0, place) + 1 if place >= 0 else 1


def false_alarm(verdict: ScanVerdict) -> dict[str, Any]:
    """A labelled honest text for `maitred eval scan` and for training, made of what was allowed."""
    one, part = verdict.finding, verdict.part
    is_answer = part.kind == "answer"
    body = {"text": part.definition["text"]} if is_answer else {"definition": dict(part.definition)}
    digest = hashlib.sha256(json.dumps([one.rule, body], sort_keys=True).encode()).hexdigest()[:16]
    return {
        "id": f"false-alarm-{digest}",
        "label": "honest",
        "kind": one.rule,
        "surface": "answer" if is_answer else "definition",
        "name": part.name,
        **body,
        "finding": f"maitred {__version__}: {one.rule} at {one.where or '/'}: {one.excerpt}",
    }


def summary(servers: Sequence[PublishedServer], verdicts: Sequence[ScanVerdict]) -> str:
    """How much was read, and what came of it, in one line."""
    read = count_of(sum(len(server.parts) for server in servers), "part")
    counting = [one for one in verdicts if one.counts]
    held = {(one.server, str(one.part)) for one in counting}
    allowed = sum(one.allowed for one in verdicts)
    more = f", {count_of(allowed, 'finding')} allowed" if allowed else ""
    found = f"{count_of(len(held), 'part')} of it withheld for {count_of(len(counting), 'finding')}"
    return f"{read} read: {found if held else 'nothing is withheld'}{more}"


def to_sarif(verdicts: Sequence[ScanVerdict]) -> dict[str, Any]:
    """A SARIF log of one run; findings that were allowed are there as suppressed."""
    ids = sorted({one.finding.rule for one in verdicts})
    rules = [
        {
            "id": id_,
            "shortDescription": {"text": KINDS[id_].title},
            "help": {"text": KINDS[id_].fix},
            "properties": {"tags": ["security", "mcp"]},
        }
        for id_ in ids
    ]
    driver = {"name": "maitred", "version": __version__, "rules": rules}
    results = [_result(one, ids.index(one.finding.rule)) for one in verdicts]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _result(verdict: ScanVerdict, rule_index: int) -> dict[str, Any]:
    one, part = verdict.finding, verdict.part
    sentence = f" Sentence: {one.excerpt}" if one.excerpt else ""
    nearest = f" Nearest example: {one.nearest}" if one.nearest else ""
    text = f"{part}: {one.reason}.{sentence}{nearest} To allow it: --allow {verdict.target}"
    name = "/".join(filter(None, (verdict.server, part.kind, part.name)))
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": f"{name}{one.where}", "kind": "member"}]
    }
    if verdict.file:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": verdict.file},
            "region": {"startLine": verdict.line},
        }
    identity = json.dumps([verdict.server, part.kind, part.name, one.rule, one.where])
    return {
        "ruleId": one.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[one.severity],
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"maitred/v1": hashlib.sha256(identity.encode()).hexdigest()},
        **({"suppressions": [{"kind": "external"}]} if verdict.allowed else {}),
    }


def counting(verdicts: Sequence[ScanVerdict]) -> bool:
    """Whether anything is withheld and not allowed."""
    return any(one.counts for one in verdicts)


def to_json(servers: Sequence[PublishedServer], verdicts: Sequence[ScanVerdict]) -> Mapping[str, Any]:
    """All verdicts, and the parts that were read."""
    return {
        "servers": [
            {"name": server.name, "parts": len(server.parts), "unread": list(server.unread)}
            for server in servers
        ],
        "withheld": sum(one.counts for one in verdicts),
        "findings": [one.to_json() for one in verdicts],
    }
