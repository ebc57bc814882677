"""Findings of the layers of admission, and the decision that follows from them, as values.

They are separate from `maitred.admission.checks.base`, which imports manifests: a gateway starts without
those.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from maitred.model.approvals import Severity

Outcome = Literal["refused", "needs approval", "approved"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding of one layer.

    `refuse`: the server cannot register so; `ask`: a person has to approve it; `warn`: for information. `key`
    is the place in the manifest, such as `env.TOKEN` or `args[2]`; `line` is 0 if unknown. A finding never
    contains the value, which may be a secret. A finding in a text of a server has its `rule`, its `place`
    there as a JSON pointer, and an `excerpt` of the text.
    """

    layer: str
    severity: Severity
    key: str
    reason: str
    fix: str = ""
    line: int = 0
    file: str = ""
    rule: str = ""
    place: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        """One line for a person."""
        where = f"{self.file or 'manifest'}:{self.line}" if self.line else self.file or "manifest"
        text = f"{where}: {self.key}: {self.reason}" if self.key else f"{where}: {self.reason}"
        return f"{text} ({self.fix})" if self.fix else text


def unknown_transport(layer: str, transport: str) -> Finding:
    """The refusal of a transport for which a layer has no rules."""
    reason = f"{transport!r} is no transport that is looked at here"
    return Finding(
        layer=layer, severity="refuse", key="transport", reason=reason, fix="use one of the manual"
    )


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """The findings of one layer; `ran` is false if there was nothing to check."""

    layer: str
    findings: tuple[Finding, ...] = ()
    ran: bool = True


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The findings of every layer about one manifest, in order, and their outcome."""

    server: str
    manifest_hash: str
    layers: tuple[LayerReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the layers."""
        return tuple(finding for layer in self.layers for finding in layer.findings)

    @property
    def outcome(self) -> Outcome:
        """Refused if any finding refuses, else for a person if any asks for one, else approved."""
        severities = {finding.severity for finding in self.findings}
        if "refuse" in severities or not all(layer.ran for layer in self.layers):
            return "refused"
        return "needs approval" if "ask" in severities else "approved"

    def record(self) -> dict[str, Any]:
        """The decision as JSON, for storage and display."""
        return {**asdict(self), "outcome": self.outcome}


@dataclass(frozen=True, kw_only=True)
class ReviewResult:
    """The result of a review: the decision, the normal form as JSON text, and the line of the name.

    `normal` is empty if the manifest cannot be read.
    """

    decision: Decision
    normal: str = ""
    name_line: int = 0
