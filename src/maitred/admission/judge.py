"""Judge what a server publishes against what was approved: which parts are withheld, and why.

A part is withheld if it differs from the approved one, or if its text looks like instructions to the model. A
change with such a text is always withheld whole, even where other changes pass. The reasons are for agents
and contain no word of the server. The details for a person are in the changes and findings, with names that
resemble another server's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from maitred.admission.approval import assess
from maitred.admission.definition import Definition, PartKey, define, shadowed_by_name
from maitred.admission.findings import Finding
from maitred.admission.judgement import ApprovalRules, ApprovedState, Judgement, Scan
from maitred.admission.lookalike import KnownTools, compare_servers
from maitred.errors import AdmissionError
from maitred.model.approvals import Severity
from maitred.model.tools import RawTool, ToolKey
from maitred.poisoning.scan import PoisonFinding, PoisonScan

_ASK: Final = "and waits for a person, who sees it with `maitred approvals`"
_NEW: Final = "is new since its server was approved"
_CHANGED: Final = "has changed since it was approved"
_UNSEEN: Final = "was never approved"
_POISONED: Final = "has text that looks like orders to a model"
_REFUSED: Final = "was refused by a person; `maitred approvals --all` says by whom"
_WITHHELD: Final[Mapping[Scan, frozenset[Severity]]] = {
    "off": frozenset(),
    "warn": frozenset({"refuse"}),
    "block": frozenset({"refuse", "ask"}),
}
"""Severities for which a part is withheld, whatever its origin; no honest text is of `refuse`."""
_READ: Final = {
    "input": "input schema is",
    "output": "output schema is",
    "annotations": "annotations are",
    "_meta": "`_meta` is",
}
"""Parts of a content that the scan reads, with their names in reasons; the others have no text for a reader.
"""
_FIELDS: Final = {"input": "inputSchema", "output": "outputSchema"}


class Judge:
    """Judges a server among others, whose names of tools it knows."""

    def __init__(self, names: Mapping[str, Collection[str]], *, scan: PoisonScan | None = None) -> None:
        """`names` are the raw names of the tools of each server; `scan` replaces the default one."""
        self._names = names
        self._scan = scan or PoisonScan(names)

    def judge(self, server: str, live: Definition, memory: ApprovedState, rules: ApprovalRules) -> Judgement:
        """Judge all that a server publishes.

        Raises:
            AdmissionError: The scan cannot run, since the installation is damaged.
        """
        tools = (ToolKey(server=other, name=name) for other in self._names for name in self._names[other])
        shadowed = shadowed_by_name(tools, but=server)
        parts = live.parts if rules.scan != "off" else ()
        scanned = {part: list(self._scanned(server, part, live)) for part in parts}
        doubted = {part for part in scanned if _grades(scanned[part]) & _WITHHELD["block"]}
        worse = {part for part in doubted if self._is_worse(server, part, live, memory.approved)}
        held = {part for part in scanned if _grades(scanned[part]) & _WITHHELD[rules.scan]} | worse
        poisoned = {part for part in held if not _is_vouched(memory.vouched, live, part)}
        pinning = "quarantine" if memory.refused or worse & poisoned else rules.pinning
        found = assess(memory.approved, live, pinning=pinning, shadowed=shadowed)
        withheld = found.withheld | poisoned
        why = {p: _why(p, memory, changed=p in found.withheld, poisoned=p in poisoned) for p in withheld}
        findings = [finding for those in scanned.values() for finding in those]
        return Judgement(withheld=why, changes=found.changes, findings=findings)

    def brought(self, server: str, tools: Sequence[RawTool], rules: ApprovalRules) -> Mapping[ToolKey, str]:
        """The withheld tools of a result, with reasons; no person approves these, so the scan decides."""
        if rules.scan == "off":
            return {}
        live = define(tools)
        return {
            ToolKey(server=server, name=part.name): _POISONED
            for part in live.parts
            if _grades(self._scanned(server, part, live)) & _WITHHELD[rules.scan]
        }

    def _is_worse(self, server: str, part: PartKey, live: Definition, approved: Definition | None) -> bool:
        """Whether a part changed, and breaks a rule that it did not break when it was approved."""
        if approved is None or approved.digest_of(part) == live.digest_of(part):
            return False
        return not self._broken(server, part, live) <= self._broken(server, part, approved)

    def _broken(self, server: str, part: PartKey, definition: Definition) -> frozenset[str]:
        """The broken rules that a person should look at; empty if the part does not exist."""
        if part not in definition.parts:
            return frozenset()
        content = definition.parts[part].content
        found = self._found(server, _as_sent(part, content))
        unread = {key for key in _READ if f"{key}_hash" in content}
        return frozenset({one.rule for one in found if one.severity in _WITHHELD["block"]} | unread)

    def _scanned(self, server: str, part: PartKey, live: Definition) -> Iterator[Finding]:
        content = live.parts[part].content
        for found in self._found(server, _as_sent(part, content)):
            yield Finding(
                layer="poisoning",
                severity=found.severity,
                key=f"{part}{f' {found.where}' if found.where else ''}",
                reason=f"{found.reason}: {found.excerpt!a}" if found.excerpt else found.reason,
                fix=found.fix,
            )
        for key, what in _READ.items():
            if f"{key}_hash" in content:
                reason = f"its {what} too large or too deep to be looked through"
                yield Finding(layer="poisoning", severity="ask", key=str(part), reason=reason)

    def _found(self, server: str, definition: Mapping[str, Any]) -> Sequence[PoisonFinding]:
        """The findings of the scan; raises if it cannot run, so that nothing passes unchecked."""
        try:
            return self._scan.scan(server, definition)
        except (OSError, ValueError) as error:
            raise AdmissionError(server, f"its texts cannot be looked through: {error}") from error


class Namesakes:
    """Finds names that resemble those of other servers; slower to make than a judgement."""

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        """`names` are the raw names of the tools of each server."""
        self._names = names
        self._known = KnownTools(names)

    def of(self, server: str) -> Sequence[Finding]:
        """Findings about the names of a server and its tools."""
        others = [other for other in self._names if other != server]
        found = (*compare_servers(server, others), *self._known.compare(server, self._names.get(server, ())))
        return [
            Finding(
                layer="names",
                severity=one.severity,
                key=f"tool {one.tool!a}" if one.tool else "name",
                reason=one.reason,
                fix=one.fix,
            )
            for one in found
        ]


def _grades(findings: Iterable[Finding]) -> frozenset[Severity]:
    return frozenset(finding.severity for finding in findings)


def _why(part: PartKey, memory: ApprovedState, *, changed: bool, poisoned: bool) -> str:
    if memory.refused:
        return _REFUSED
    known = _CHANGED if memory.approved and part in memory.approved.parts else _NEW
    reasons = [(_UNSEEN if memory.approved is None else known)] if changed else []
    return ", ".join([*reasons, *([_POISONED] if poisoned else []), _ASK])


def _is_vouched(vouched: Definition | None, live: Definition, part: PartKey) -> bool:
    return vouched is not None and vouched.digest_of(part) == live.digest_of(part)


def _as_sent(part: PartKey, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part in the form that the server sent, so that a finding's places have the names its author knows."""
    if part.kind == "instructions":
        return {"title": content.get("title", ""), "instructions": content.get("description", "")}
    return {"name": part.name, **{_FIELDS.get(key, key): value for key, value in content.items()}}
