"""Inputs and result of a judgement of a server's definition, as values, and the protocol of a judge.

They are separate from `maitred.admission.judge`, whose rules load slowly and are not needed at the start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from maitred.admission.approval import Pinning
from maitred.admission.definition import Definition, DefinitionChange, PartKey
from maitred.admission.findings import Finding
from maitred.model.tools import RawTool, ToolKey
from maitred.poisoning.tool_index import OtherTools

Scan = Literal["off", "warn", "block"]


@dataclass(frozen=True, kw_only=True)
class ApprovalRules:
    """The consequences of a change and of a finding."""

    pinning: Pinning
    scan: Scan


@dataclass(frozen=True, kw_only=True)
class ApprovedState:
    """The decisions about a server: the approved definition, and the one that a person saw and approved.

    `refused` says that a person refused the present definition.
    """

    approved: Definition | None = None
    vouched: Definition | None = None
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The withheld parts with their reasons, and the facts that a person needs to decide."""

    withheld: Mapping[PartKey, str] = field(default_factory=dict)
    changes: Sequence[DefinitionChange] = ()
    findings: Sequence[Finding] = ()


class ServerJudge(Protocol):
    """Judges one server among others."""

    others: OtherTools
    """What it asked about the tools of other servers; a judgement is valid while the answers are."""

    def judge(self, live: Definition, memory: ApprovedState, rules: ApprovalRules) -> Judgement:
        """Judge all that the server publishes."""
        ...

    def judge_result_tools(self, tools: Sequence[RawTool], rules: ApprovalRules) -> Mapping[ToolKey, str]:
        """The withheld tools among those that a result brought, with reasons."""
        ...


class LookalikeFinder(Protocol):
    """Finds names that resemble those of other servers."""

    def of(self, server: str) -> Sequence[Finding]:
        """Findings about the names of a server and its tools."""
        ...
