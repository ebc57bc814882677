"""Judge what a server publishes against what was approved: which parts are withheld, and why.

A part is withheld if it differs from the approved one, or if its text looks like instructions to the model. A
change with such a text is always withheld whole, even where other changes pass. The reasons are for agents
and contain no word of the server. The details for a person are in the changes and findings, with names that
resemble another server's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from maitred.admission.approval import assess
from maitred.admission.definition import Definition, PartKey, define
from maitred.admission.findings import Finding
from maitred.admission.judgement import ApprovalRules, ApprovedState, Judgement, Scan
from maitred.admission.lookalike import KnownTools, compare_servers
from maitred.errors import AdmissionError
from maitred.model.approvals import Severity
from maitred.model.tools import RawTool, ToolKey
from maitred.poisoning.scan import PoisonFinding, PoisonScan
from maitred.poisoning.scorer import Scorer, bundled_scorer
from maitred.poisoning.tool_index import OtherTools, ToolNameIndex

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
    """Judges one server among others. `others` keeps what it asked about their tools."""

    def __init__(
        self, server: str, index: ToolNameIndex, *, scorer: Callable[[], Scorer] = bundled_scorer
    ) -> None:
        """`index` has the tools of all servers, also of this one; `scorer` replaces the default one."""
        self.others = OtherTools(index, server)
        self._server = server
        self._scan = PoisonScan({server: index.names.get(server, ())}, scorer=scorer, others=self.others)

    def judge(self, live: Definition, memory: ApprovedState, rules: ApprovalRules) -> Judgement:
        """Judge all that the server publishes.

        Raises:
            AdmissionError: The scan cannot run, since the installation is damaged.
        """
        parts = live.parts if rules.scan != "off" else ()
        findings_by_part = {part: list(self._findings_of(part, live)) for part in parts}
        doubtful = {part for part in findings_by_part if _grades(findings_by_part[part]) & _WITHHELD["block"]}
        worse = {part for part in doubtful if self._is_worse(part, live, memory.approved)}
        suspicious = {
            part for part in findings_by_part if _grades(findings_by_part[part]) & _WITHHELD[rules.scan]
        } | worse
        poisoned = {part for part in suspicious if not _is_vouched(memory.vouched, live, part)}
        pinning = "quarantine" if memory.refused or worse & poisoned else rules.pinning
        assessment = assess(memory.approved, live, pinning=pinning, shadowed=self.others.lookalike)
        withheld = assessment.withheld | poisoned
        why = {p: _why(p, memory, changed=p in assessment.withheld, poisoned=p in poisoned) for p in withheld}
        findings = [finding for group in findings_by_part.values() for finding in group]
        return Judgement(withheld=why, changes=assessment.changes, findings=findings)

    def judge_result_tools(self, tools: Sequence[RawTool], rules: ApprovalRules) -> Mapping[ToolKey, str]:
        """The withheld tools of a result, with reasons; no person approves these, so the scan decides."""
        if rules.scan == "off":
            return {}
        live = define(tools)
        return {
            ToolKey(server=self._server, name=part.name): _POISONED
            for part in live.parts
            if _grades(self._findings_of(part, live)) & _WITHHELD[rules.scan]
        }

    def _is_worse(self, part: PartKey, live: Definition, approved: Definition | None) -> bool:
        """Whether a part changed, and breaks a rule that it did not break when it was approved."""
        if approved is None or approved.digest_of(part) == live.digest_of(part):
            return False
        return not self._broken_rules(part, live) <= self._broken_rules(part, approved)

    def _broken_rules(self, part: PartKey, definition: Definition) -> frozenset[str]:
        """The broken rules that a person should look at; empty if the part does not exist."""
        if part not in definition.parts:
            return frozenset()
        content = definition.parts[part].content
        findings = self._scan_part(as_sent(part, content))
        unread = {key for key in _READ if f"{key}_hash" in content}
        return frozenset(
            {finding.rule for finding in findings if finding.severity in _WITHHELD["block"]} | unread
        )

    def _findings_of(self, part: PartKey, live: Definition) -> Iterator[Finding]:
        content = live.parts[part].content
        for finding in self._scan_part(as_sent(part, content)):
            yield Finding(
                layer="poisoning",
                severity=finding.severity,
                key=f"{part}{f' {finding.where}' if finding.where else ''}",
                reason=f"{finding.reason}: {finding.excerpt!a}" if finding.excerpt else finding.reason,
                fix=finding.fix,
                rule=finding.rule,
                place=finding.where,
                excerpt=finding.excerpt,
            )
        for key, label in _READ.items():
            if f"{key}_hash" in content:
                reason = f"its {label} too large or too deep to be looked through"
                yield Finding(layer="poisoning", severity="ask", key=str(part), reason=reason)

    def _scan_part(self, definition: Mapping[str, Any]) -> Sequence[PoisonFinding]:
        """The findings of the scan; raises if it cannot run, so that nothing passes unchecked."""
        try:
            return self._scan.scan(self._server, definition)
        except (OSError, ValueError) as error:
            raise AdmissionError(self._server, f"its texts cannot be looked through: {error}") from error


class Namesakes:
    """Finds names that resemble those of other servers; slower to make than a judgement."""

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        """`names` are the raw names of the tools of each server."""
        self._names = names
        self._known_tools = KnownTools(names)
        self._findings: dict[str, Sequence[Finding]] = {}

    def of(self, server: str) -> Sequence[Finding]:
        """Findings about the names of a server and its tools; the names stay, and so does the answer."""
        if server not in self._findings:
            self._findings[server] = self._compare(server)
        return self._findings[server]

    def _compare(self, server: str) -> Sequence[Finding]:
        other_servers = [name for name in self._names if name != server]
        findings = (
            *compare_servers(server, other_servers),
            *self._known_tools.compare(server, self._names.get(server, ())),
        )
        return [
            Finding(
                layer="names",
                severity=finding.severity,
                key=f"tool {finding.tool!a}" if finding.tool else "name",
                reason=finding.reason,
                fix=finding.fix,
                rule=finding.rule,
                excerpt=finding.other_tool or ("" if finding.tool else finding.other_server),
            )
            for finding in findings
        ]


def _grades(findings: Iterable[Finding]) -> frozenset[Severity]:
    return frozenset(finding.severity for finding in findings)


def _why(part: PartKey, memory: ApprovedState, *, changed: bool, poisoned: bool) -> str:
    if memory.refused:
        return _REFUSED
    reason = _CHANGED if memory.approved and part in memory.approved.parts else _NEW
    reasons = [(_UNSEEN if memory.approved is None else reason)] if changed else []
    return ", ".join([*reasons, *([_POISONED] if poisoned else []), _ASK])


def _is_vouched(vouched: Definition | None, live: Definition, part: PartKey) -> bool:
    return vouched is not None and vouched.digest_of(part) == live.digest_of(part)


def as_sent(part: PartKey, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part as the server sent it, so that a finding's places have the names its author knows."""
    if part.kind == "instructions":
        return {"title": content.get("title", ""), "instructions": content.get("description", "")}
    return {"name": part.name, **{_FIELDS.get(key, key): value for key, value in content.items()}}
