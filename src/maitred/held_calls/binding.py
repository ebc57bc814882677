"""What a decision about a call is bound to, and how a person reads the arguments."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from maitred.model.held_calls import CallBinding
from maitred.model.hidden_text import pieces
from maitred.model.tools import Tool, ToolCall, canonical

_SHORT: Final = 100


def subject_of(call: ToolCall, *, alone: bool = False) -> Any:
    """What a person decides about: the arguments, with the answers to the server that a client sends along.

    `alone` leaves those answers out.
    """
    if alone or (call.input_responses is None and call.request_state is None):
        return dict(call.arguments)
    also = {"inputResponses": call.input_responses, "requestState": call.request_state}
    return {"arguments": dict(call.arguments), **also}


def definition_hash(tool: Tool, fingerprint: str) -> str:
    """A hash of a tool as its server defines it; `fingerprint` says how the server is reached."""
    raw = tool.raw
    hints, more = dict(raw.annotations), dict(raw.extra)
    parts = [
        raw.server,
        raw.key.name,
        raw.title,
        raw.description,
        raw.input_hash,
        raw.output_hash,
        hints,
        more,
    ]
    return _sha256([fingerprint, *parts])


def binding_of(principal: str, tool: Tool, subject: Any, *, fingerprint: str, policy: str) -> CallBinding:
    """What a decision about a call is bound to."""
    return CallBinding(
        principal=principal,
        server=tool.server,
        tool=tool.key.name,
        definition=definition_hash(tool, fingerprint),
        arguments=_sha256(subject),
        policy=policy,
    )


def exact_text(canonical_text: str) -> str:
    r"""JSON for a person: the same value, with JSON escapes such as `\u202e` for characters that do not show.

    So are combining marks above the third. A short value is in one line, a longer one in several; a text in
    it never breaks a line.
    """
    value = json.loads(canonical_text)
    short = json.dumps(value, ensure_ascii=False)
    text = short if len(short) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)
    if text.isascii():  # JSON escapes what does not show of that
        return text.replace("\x7f", "\\u007f")
    found = pieces(text, keep_emoji=False)
    return "".join(json.dumps(piece)[1:-1] if hidden else piece for piece, hidden in found)


def _sha256(value: Mapping[str, Any] | list[Any]) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
