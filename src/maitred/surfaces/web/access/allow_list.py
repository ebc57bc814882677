"""The allow list of registration: the patterns that count, a form for another one, and the history."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.errors import AllowPatternError
from maitred.gateway import ALLOW_KINDS
from maitred.surfaces.web.screen import Form, Visit, url_of

_MOST_CHANGES: Final = 200
_MOST_TYPED: Final = 500
_MEANINGS: Final[Mapping[str, str]] = {
    "images": "images that are approved by themselves with their digest",
    "trusted_images": "images that are approved by themselves by tag, too",
    "trusted_digests": "digests that are approved wherever the image comes from",
    "trusted_commands": "command lines",
    "trusted_hosts": "hosts of servers over HTTP",
}
"""What a pattern of each kind lets in."""


async def view_allow_list(visit: Visit) -> Mapping[str, Any]:
    """All patterns that count, the kinds of them, and the last changes, the newest first."""
    changes = await visit.gateway.allow_history(visit.viewer)
    return {
        "page_title": "The allow list · Access",
        "patterns": await visit.gateway.allow_patterns(visit.viewer),
        "kinds": [(kind, f"{kind}: {_MEANINGS[kind]}") for kind in ALLOW_KINDS],
        "changes": list(reversed(changes))[:_MOST_CHANGES],
        "total": len(changes),
        "typed": {name: visit.query.text(name)[:_MOST_TYPED] for name in ("kind", "pattern", "why")},
    }


async def add_pattern(visit: Visit, form: Form) -> str:
    """Add a pattern; the next registration is judged by it. What is refused stays in the form."""
    typed = {name: form.text(name) for name in ("kind", "pattern", "why")}
    try:
        made = await visit.gateway.add_allow_pattern(**typed, viewer=visit.viewer)
    except AllowPatternError as error:
        visit.notify(str(error), "fault")
        kept = {name: text[:_MOST_TYPED] for name, text in typed.items()}
        return url_of("access", "allow", **kept) + "#add-title"
    visit.notify(f"{made.pattern} is in {made.kind} now. It counts for registrations from now on.")
    return url_of("access", "allow")


async def remove_pattern(visit: Visit, form: Form) -> str:
    """Remove a pattern of the list; what was approved by it stays approved."""
    gone = await visit.gateway.remove_allow_pattern(
        form.text("kind"), form.text("pattern"), why=form.text("why"), viewer=visit.viewer
    )
    visit.notify(f"{gone.pattern} is no longer in {gone.kind}. What was approved by it stays approved.")
    return url_of("access", "allow")
