"""What layers of admission find, and the record of what all of them found, as values.

They stand apart from `maitred.admission.checks.base`, which knows manifests: a gateway starts without those.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from maitred.model.approvals import Severity

Outcome = Literal["refused", "needs approval", "approved"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a layer found.

    `refuse`: it cannot register so; `ask`: a person has to approve it; `warn`: it is only told. `key` leads
    to the place in the manifest, as `env.TOKEN` or `args[2]`; `line` is 0 where there is none. The value that
    was found is never repeated, since it may be a secret.
    """

    layer: str
    severity: Severity
    key: str
    reason: str
    fix: str = ""
    line: int = 0
    file: str = ""

    def __str__(self) -> str:
        """One line for a person."""
        where = f"{self.file or 'manifest'}:{self.line}" if self.line else self.file or "manifest"
        told = f"{where}: {self.key}: {self.reason}" if self.key else f"{where}: {self.reason}"
        return f"{told} ({self.fix})" if self.fix else told


def unknown_transport(layer: str, transport: str) -> Finding:
    """What a layer says of a transport that it has no rules for: nothing gets in that was not looked at."""
    reason = f"{transport!r} is no transport that is looked at here"
    return Finding(
        layer=layer, severity="refuse", key="transport", reason=reason, fix="use one of the manual"
    )


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """What one layer found; `ran` is false where there was nothing to look at."""

    layer: str
    findings: tuple[Finding, ...] = ()
    ran: bool = True


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What every layer found of one manifest, in order, and what follows from it."""

    server: str
    manifest_hash: str
    layers: tuple[LayerReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the layers."""
        return tuple(finding for layer in self.layers for finding in layer.findings)

    @property
    def outcome(self) -> Outcome:
        """Refused if anything is, else up to a person if anything asks for one, else approved."""
        severities = {finding.severity for finding in self.findings}
        if "refuse" in severities or not all(layer.ran for layer in self.layers):
            return "refused"
        return "needs approval" if "ask" in severities else "approved"

    def record(self) -> dict[str, Any]:
        """The decision as JSON, to be kept and shown."""
        return {**asdict(self), "outcome": self.outcome}


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """A manifest as it was looked at: the decision, its normal form as JSON text, and where its name stands.

    `normal` is empty where it could not be read.
    """

    decision: Decision
    normal: str = ""
    name_line: int = 0
