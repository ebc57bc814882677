"""Admission's view of a server as JSON, the same for the command line and for HTTP.

Texts of servers are not escaped here. The surface that prints them escapes terminal control characters.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from maitred.admission.findings import Finding

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.admission.waiting import WaitingOrigin
    from maitred.gateway.cases import Case, RegistrationResult
    from maitred.model.approvals import Event


def case_json(case: "Case", *, whole: bool = True) -> dict[str, Any]:
    """A case as JSON; without `whole` as a list shows it: no manifest, no record, no log."""
    found = {
        "server": case.server,
        "source": case.source,
        "state": case.state,
        "awaits": case.awaits,
        "withheld": case.withheld,
        "digest": case.digest,
        "parts": [{"kind": key.kind, "name": key.name, "why": why} for key, why in case.parts.items()],
        "changes": [
            {
                "kind": change.part.kind,
                "name": change.part.name,
                "change": change.kind,
                "weight": change.weight,
                "text": change.text,
            }
            for change in case.changes
        ],
        "findings": findings_json(case.findings),
        "origins": [_origin_json(one) for one in case.origins],
        "refused": _refusal_json(case.refused),
    }
    if not whole:
        return found
    return found | {
        "manifest": dict(case.manifest),
        "record": dict(case.record),
        "log": [
            {"kind": event.kind, "who": event.who, "why": event.why, "at": event.at} for event in case.log
        ],
    }


def _refusal_json(refused: "Event | None") -> dict[str, str] | None:
    return {"who": refused.who, "why": refused.why, "at": refused.at} if refused else None


def _origin_json(origin: "WaitingOrigin") -> dict[str, Any]:
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.schema,
            "why": tool.why,
        }
        for tool in origin.tools
    ]
    return {"origin": origin.origin, "digest": origin.digest, "tools": tools}


def registered_json(registered: "RegistrationResult") -> dict[str, Any]:
    """The result of a registration as JSON; `case` is null where the gateway refused it."""
    return {
        "happened": registered.happened,
        "decision": registered.decision.record(),
        "case": case_json(registered.case) if registered.case else None,
    }


def findings_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings, each with its severity, place, reason and fix."""
    return [asdict(finding) for finding in findings]
