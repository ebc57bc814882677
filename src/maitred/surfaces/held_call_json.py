"""A held call as JSON, the same for the command line and for HTTP."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from maitred.gateway import exact_text

if TYPE_CHECKING:
    from maitred.model.held_calls import HeldCall

_SAME = (
    "client", "surface", "chain", "request_id", "why", "by", "choices", "held_at", "expires_at", "state",
    "decision", "decided_by", "decided_at",
)  # fmt: skip


def held_call_json(held: "HeldCall") -> dict[str, Any]:
    """All of a held call but its session; the arguments are null when they are not kept any more."""
    bound, fields = held.binding, asdict(held)
    return {
        "id": held.id,
        "tool": held.name,
        "server": bound.server,
        "raw_name": bound.tool,
        "principal": bound.principal,
        "arguments": json.loads(held.arguments) if held.arguments else None,
        "arguments_text": exact_text(held.arguments) if held.arguments else "",
        "arguments_hash": bound.arguments,
        **{name: fields[name] for name in _SAME},
    }
