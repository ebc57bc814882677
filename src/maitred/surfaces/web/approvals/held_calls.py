"""Single calls that wait for a person: in the inbox beside servers, and each on a page of its own.

A page shows the exact arguments whole, and an approval needs the mark that they were on screen, as for a
server. Who may decide, and what may be decided, is up to the gateway.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from maitred.gateway import exact_text
from maitred.model.held_calls import CallDecision, HeldCall, HeldState
from maitred.surfaces.web.screen import Form, Visit, url_of
from maitred.surfaces.web.text import as_markup

CHOICES: Final[Mapping[CallDecision, str]] = {
    "once": "Approve",
    "session": "Approve for its session",
    "any": "Approve the tool",
    "refuse": "Refuse",
}
"""What a person may say, in the words of the buttons."""
_MOST_SHOWN: Final = 200_000
"""The most characters of arguments that a page shows; a longer call is decided by the command."""
_WORDS: Final[Mapping[CallDecision, str]] = {
    "once": "approved once",
    "session": "approved for its session",
    "any": "approved, as is every call of its tool in its session",
    "refuse": "refused",
}


_STATES: Final[Mapping[HeldState, str]] = {
    "waiting": "waits for a person",
    "approved": "approved",
    "used": "approved, and made",
    "refused": "refused",
    "expired": "no person decided in time",
}


def _state(held: HeldCall) -> str:
    """The state of a call in words; an approval for a session does not tell which of its calls were made."""
    return (
        "approved, and not made yet"
        if (held.state, held.decision) == ("approved", "once")
        else _STATES[held.state]
    )


async def held_calls_of(visit: Visit) -> Sequence[HeldCall]:
    """The calls that wait and that the viewer may decide on."""
    gateway, viewer = visit.gateway, visit.viewer
    return await gateway.held_calls(viewer) if gateway.decides_calls(viewer) else ()


async def view_call(visit: Visit) -> Mapping[str, Any]:
    """One call: its exact arguments, why it waits, and what may be decided."""
    held = await visit.gateway.held_call(visit.path["id"], visit.viewer)
    arguments = _arguments(held)
    return {
        "page_title": f"{held.name} · Approvals",
        "held": held,
        "state_text": _state(held),
        "decision_text": _WORDS[held.decision] if held.decision else "",
        "may_audit": visit.gateway.is_allowed(visit.viewer, "audit"),
        "arguments": as_markup(arguments, _MOST_SHOWN) if arguments else "",
        "is_whole": len(arguments) <= _MOST_SHOWN,
        "choices": [(one, CHOICES[one]) for one in held.choices],
        "may_decide": visit.gateway.is_allowed(visit.viewer, "approve", server=held.binding.server),
    }


async def decide_call(visit: Visit, form: Form) -> str:
    """Approve or refuse a call, as the button says."""
    held_id, said = visit.path["id"], form.text("decision")
    decision = next((one for one in get_args(CallDecision) if one == said), None)
    if decision is None:
        visit.notify("There is no such decision.", "fault")
        return url_of("held", held_id)
    if decision != "refuse" and (why_not := await _why_unread(visit, form)):
        visit.notify(why_not, "fault")
        return url_of("held", held_id)
    held = await visit.gateway.decide_call(held_id, decision, visit.viewer)
    visit.notify(f"The call of {held.name} is {_WORDS[decision]}.")
    return url_of("approvals")


async def _why_unread(visit: Visit, form: Form) -> str:
    """Why a person cannot have read the arguments; empty if the form says that they were on screen."""
    held = await visit.gateway.held_call(visit.path["id"], visit.viewer)
    if len(_arguments(held)) > _MOST_SHOWN:
        return f"Its arguments are too large for a page. Use `maitred calls approve {held.id}`."
    if form.text("read") != held.id:
        return "Nothing was approved: its arguments were not on screen yet."
    return ""


def _arguments(held: HeldCall) -> str:
    return exact_text(held.arguments) if held.arguments else ""
