"""The question to the person at a client about a held call, and what the answer means."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.held_calls.binding import exact_text
from maitred.model.held_calls import CallDecision, HeldCall

MOST_CHARACTERS: Final = 8_000
"""Longer arguments are for the inbox: no client can be expected to show them whole."""
_ALLOW: Final = "allow"
_MEANS: Final[Mapping[CallDecision, str]] = {
    "once": "only this call, one time",
    "session": "this same call again in this session, with exactly these arguments",
    "any": "every call of this tool in this session, with ANY arguments",
}


def question_of(held: HeldCall) -> dict[str, Any] | None:
    """The parameters of `elicitation/create`; `None` if the arguments are too long to be shown whole."""
    shown = exact_text(held.arguments)
    if len(shown) > MOST_CHARACTERS:
        return None
    allowing = [one for one in held.choices if one != "refuse"]
    lines = [
        f"May this call be made? {exact_name(held.name)} of the server {exact_name(held.binding.server)}",
        f"Arguments: {shown}",
        f"It waits because of the rule {held.why}",
        f"Without an answer it is refused at {clock_text(held.expires_at)}.",
    ]
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    if len(allowing) > 1:
        schema["properties"][_ALLOW] = {
            "type": "string",
            "title": "What you allow",
            "description": "To refuse the call, decline.",
            "enum": allowing,
            "enumNames": [_MEANS[one] for one in allowing],
            "default": "once",
        }
        lines += [f"- {one}: {_MEANS[one]}" for one in allowing]
    return {"message": "\n".join(lines), "requestedSchema": schema}


def decision_of(answer: Mapping[str, Any], held: HeldCall) -> CallDecision:
    """What the answer of a client decides; all but an acceptance of what was offered refuses the call."""
    if answer.get("action") != "accept":
        return "refuse"
    content = answer.get("content")
    wanted = content.get(_ALLOW, "once") if isinstance(content, Mapping) else "once"
    return next((one for one in held.choices if one == wanted), "refuse")


def clock_text(at: str) -> str:
    """A time of a held call for a person."""
    return f"{at[:19].replace('T', ' ')} UTC"


def exact_name(name: str) -> str:
    """A name from a server on one line, in which every character shows."""
    return name if name.isascii() and name.isprintable() else ascii(name)
