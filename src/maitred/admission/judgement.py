"""What a judgement of a server's definition goes by and comes to, as values, and who can make one.

They stand apart from `maitred.admission.judge`, whose rules take a while to load and are not needed to
start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from maitred.admission.approval import Pinning
from maitred.admission.definition import Definition, DefinitionChange, PartKey
from maitred.admission.findings import Finding
from maitred.model.tools import RawTool, ToolKey

Scan = Literal["off", "warn", "block"]


@dataclass(frozen=True, kw_only=True)
class ApprovalRules:
    """What a change, and a finding, lead to."""

    pinning: Pinning
    scan: Scan


@dataclass(frozen=True, kw_only=True)
class ApprovedState:
    """What was decided about a server: the approved definition, and the one that a person saw and approved.

    `refused` says that a person refused what there is now.
    """

    approved: Definition | None = None
    vouched: Definition | None = None
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The withheld parts with their reasons, and what a person has to know to decide."""

    withheld: Mapping[PartKey, str] = field(default_factory=dict)
    changes: Sequence[DefinitionChange] = ()
    findings: Sequence[Finding] = ()


class ServerJudge(Protocol):
    """Judges servers that stand beside others, whose names of tools it knows."""

    def judge(self, server: str, live: Definition, memory: ApprovedState, rules: ApprovalRules) -> Judgement:
        """Judge all that a server publishes."""
        ...

    def brought(self, server: str, tools: Sequence[RawTool], rules: ApprovalRules) -> Mapping[ToolKey, str]:
        """Which of the tools that a result brought are withheld, and why."""
        ...


class LookalikeFinder(Protocol):
    """Finds names that could be taken for those of other servers."""

    def of(self, server: str) -> Sequence[Finding]:
        """What is to be said of the names of a server and its tools."""
        ...
