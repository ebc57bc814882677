"""A case: all that an operator needs for a decision on a server, and what registrations answer, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from maitred.admission.approval import ApprovalState
from maitred.admission.definition import Definition, DefinitionChange, PartKey
from maitred.admission.findings import Decision, Finding
from maitred.admission.gatekeeper import ServerApproval
from maitred.admission.waiting import WaitingOrigin, choose_origin
from maitred.model.approvals import Binding, Event
from maitred.model.tools import canonical, content_hash


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that is known about one server, for a decision on it.

    Attributes:
        server: Its name.
        source: `configuration`, or where its manifest came from.
        state: Its state of approval; `approved` says nothing of single parts.
        awaits: Whether a person has to decide: on the server, or on changes and findings.
        withheld: Why the whole server may not be used; empty if it may.
        parts: The withheld parts of its definition, and why each is.
        changes: The differences between the approved definition and the present one.
        findings: The findings in its texts and names.
        record: The findings of each layer in its manifest; empty for servers of the configuration.
        manifest: The normal form of its manifest; empty for servers of the configuration.
        origins: The withheld tools of web pages, by the origin of these.
        binding: The hashes that a decision is bound to.
        log: All that happened, in order.
        refused: The refusal of a person by which it, or what changed of it, is not in use.
    """

    server: str
    source: str
    state: ApprovalState
    awaits: bool
    withheld: str = ""
    parts: Mapping[PartKey, str] = field(default_factory=dict)
    changes: Sequence[DefinitionChange] = ()
    findings: Sequence[Finding] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    origins: Sequence[WaitingOrigin] = ()
    binding: Binding = field(default_factory=Binding)
    log: Sequence[Event] = ()
    refused: Event | None = None

    @property
    def digest(self) -> str:
        """The digest of what a decision is about, 12 hexadecimal digits. `decide` takes it as `seen`."""
        return digest_of(self.binding)

    @property
    def is_refused(self) -> bool:
        """Whether a person refused what changed of a server that is approved: it stays withheld."""
        return self.state == "approved" and not self.awaits and bool(self.parts or self.changes)

    def waiting_origin(self, origin: str) -> WaitingOrigin:
        """One of `origins` by its name.

        Raises:
            AdmissionError: There is none; the text names those that wait.
        """
        return choose_origin(self.server, self.origins, origin, "")


@dataclass(frozen=True, kw_only=True)
class DefinitionPair:
    """What was approved of a server, and what it publishes now; `None` where there is none."""

    approved: Definition | None = None
    live: Definition | None = None


@dataclass(frozen=True, kw_only=True)
class RegistrationResult:
    """The result of a registration. After a refusal nothing is written, and there is no case."""

    happened: Literal["refused", "registered", "changed", "unchanged"]
    decision: Decision
    case: Case | None = None


def awaits_decision(found: ServerApproval) -> bool:
    """Whether a person has to decide; a suspended or refused server needs no decision."""
    if found.state.state == "pending":
        return True
    undecided = found.state.state == "approved" and found.state.rejected != found.state.seen
    vouched = found.live is not None and found.state.vouched == found.live.digest
    raised = any(finding.severity != "warn" for finding in found.judgement.findings) and not vouched
    return undecided and bool(found.judgement.changes or found.judgement.withheld or raised)


def digest_of(binding: Binding) -> str:
    """The digest of what a decision is about, 12 hexadecimal digits."""
    return content_hash(canonical([binding.manifest, binding.image, binding.definition]))[:12]
