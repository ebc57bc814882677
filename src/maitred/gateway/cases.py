"""What admission tells of a server to whoever decides on it, as values.

How they are worked out stands in `maitred.gateway.admission`, which is where callers find them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from maitred.admission.approval import ApprovalState
from maitred.admission.definition import DefinitionChange, PartKey
from maitred.admission.findings import Decision, Finding
from maitred.gateway.gatekeeper import Standing
from maitred.model.approvals import Binding, Event
from maitred.model.tools import canonical, content_hash


@dataclass(frozen=True, kw_only=True)
class Case:
    """What there is to know and to decide about one server.

    Attributes:
        server: Its name.
        source: `configuration`, or where its manifest came from.
        state: Where it stands; `approved` says nothing of single parts.
        awaits: Whether a person is to decide: on the server, or on changes and findings.
        withheld: Why the whole server may not be used; empty if it may.
        parts: The withheld parts of its definition, and why each is.
        changes: How what it publishes now differs from what was approved.
        findings: What was found in its texts and names.
        record: What each layer found of its manifest; empty for servers of the configuration.
        manifest: Its normal form; empty for servers of the configuration.
        binding: What a decision is about.
        log: All that happened, in order.
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
    binding: Binding = field(default_factory=Binding)
    log: Sequence[Event] = ()

    @property
    def digest(self) -> str:
        """Names what a decision is about, in 12 hexadecimal digits; to be handed back as `seen`."""
        return digest_of(self.binding)


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What a registration came to; where it was refused, nothing was written and there is no case."""

    happened: Literal["refused", "registered", "changed", "unchanged"]
    decision: Decision
    case: Case | None = None


def awaits_decision(found: Standing) -> bool:
    """Whether a person is to decide; a suspended or refused server waits for nobody."""
    if found.state.state == "pending":
        return True
    undecided = found.state.state == "approved" and found.state.rejected != found.state.seen
    vouched = found.live is not None and found.state.vouched == found.live.digest
    raised = any(finding.severity != "warn" for finding in found.judgement.findings) and not vouched
    return undecided and bool(found.judgement.changes or found.judgement.withheld or raised)


def digest_of(binding: Binding) -> str:
    """Names what a decision is about, in 12 hexadecimal digits."""
    return content_hash(canonical([binding.manifest, binding.image, binding.definition]))[:12]
