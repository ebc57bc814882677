"""Approvals: servers, changed definitions and calls that wait for a person, to read whole and to decide on.

A decision names the digest of what was read. To approve also needs the mark of each changed part, which a
page sends once the part was on screen; without JavaScript a person ticks it. `review` makes the parts;
`held_calls` has the calls.
To add a field to what is compared, name it in `review`.
"""

from collections.abc import Mapping, Sequence
from shlex import quote as shell
from typing import Any, Final

import anyio.to_thread

from maitred.admission.refusal import refusal_text
from maitred.gateway.admission import Verdict
from maitred.gateway.cases import Case
from maitred.model.approvals import Event
from maitred.surfaces.web.approvals.held_calls import decide_call, held_calls_of, view_call
from maitred.surfaces.web.approvals.review import alike, general_findings, manifest_of, parts_of
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of
from maitred.wording import count_of

_EVENTS: Final = {
    "registered": "registered",
    "auto_approved": "approved by policy",
    "part_approved": "approved in part",
    "rejected": "refused",
    "definition_changed": "definition changed",
    "manifest_changed": "manifest changed",
    "image_changed": "image changed",
}
_FIRST_EVENTS: Final = {"definition_changed": "definition first seen", "image_changed": "image first seen"}
"""The same where nothing of the kind was known before."""
_VERDICTS: Final[Mapping[str, tuple[Verdict, str]]] = {
    "approve": ("approve", "approved"),
    "reject": ("reject", "refused"),
    "suspend": ("suspend", "suspended"),
    "resume": ("resume", "resumed"),
}
_MANIFEST: Final = "manifest"
"""The mark of the manifest; its content is in the digest of the case."""


def _needs(case: Case) -> list[str]:
    """What waits of a server, in a few words each, the most serious first."""
    power = {change.part for change in case.changes if change.weight == "power"}
    other = {change.part for change in case.changes} - power
    serious = [one for one in case.findings if one.severity != "warn"]
    return [
        *(["it was never approved"] if case.state == "pending" else []),
        *([f"{len(power):,} changes give it more power"] if len(power) > 1 else []),
        *(["a change gives it more power"] if len(power) == 1 else []),
        *([f"{len(serious)} findings in its texts or names"] if len(serious) > 1 else []),
        *(["a finding in its texts or names"] if len(serious) == 1 else []),
        *([f"{len(other)} parts changed"] if len(other) > 1 else []),
        *(["a part changed"] if len(other) == 1 else []),
    ]


async def cases_of(visit: Visit) -> Sequence[Case]:
    """All servers that the viewer may watch, for a decision; to compare many tools takes a while.

    Raises:
        NotAllowedError: The viewer may watch none.
    """
    grant = visit.viewer.grant
    return await visit.memory.recall(("cases", grant), "approvals", lambda: visit.gateway.cases(visit.viewer))


async def view_inbox(visit: Visit) -> Mapping[str, Any]:
    """All calls and servers that wait for a person, then the other servers with their state of approval."""
    cases = await cases_of(visit)
    return {
        "calls": await held_calls_of(visit),
        "waiting": [(case, _needs(case)) for case in cases if case.awaits],
        "others": [case for case in cases if not case.awaits],
        "may_configure": visit.gateway.is_allowed(visit.viewer, "configure"),
    }


async def view_case(visit: Visit) -> Mapping[str, Any]:
    """One server: all that a decision on it is about."""
    server = visit.path["server"]
    case = await visit.gateway.case(server, viewer=visit.viewer)
    pair = await visit.gateway.definitions(server, visit.viewer)
    parts = await anyio.to_thread.run_sync(parts_of, case, pair)
    manifest = await anyio.to_thread.run_sync(manifest_of, case)
    findings = general_findings(case, parts)
    return {
        "page_title": f"{server} · Approvals",
        "case": case,
        "parts": parts,
        "findings": findings,
        "alike": {
            id(one): alike(_name_of(one.key, server), one.excerpt)
            for one in case.findings
            if one.layer == "names" and one.excerpt
        },
        "manifest": manifest,
        "is_whole": manifest.is_whole and all(part.is_whole for part in parts),
        "events": list(reversed(_events(case.log))),
        "may_decide": visit.gateway.is_allowed(visit.viewer, "approve", server=server),
    }


def _events(log: Sequence[Event]) -> Sequence[tuple[str, Event]]:
    """The decisions and changes of a server in words, the oldest first."""
    known: set[str] = set()
    found = []
    for one in log:
        if one.kind == "registered":
            known.clear()
        words = _EVENTS if one.kind in known else _EVENTS | _FIRST_EVENTS
        found.append((words.get(one.kind, one.kind), one))
        known.add(one.kind)
    return found


def _name_of(key: str, server: str) -> str:
    """The name that a finding about names is about; the key has it in quotes."""
    return key.removeprefix("tool ").strip("'\"") if key.startswith("tool ") else server


async def decide(visit: Visit, form: Form) -> str:
    """Approve or refuse a server with its present definition, or take it out of use and back."""
    server, word = visit.path["server"], visit.path["verdict"]
    verdict = _VERDICTS.get(word)
    if verdict is None:
        why_not = "There is no such decision."
    elif word in ("approve", "reject") and not form.text("digest"):
        why_not = "Nothing was decided: the form does not say what was read. Load the page again."
    else:
        why_not = await _why_unread(visit, form) if word == "approve" else ""
    if verdict is None or why_not:
        visit.notify(why_not, "fault")
        return url_of("approvals", server)
    await visit.gateway.decide(
        server,
        verdict[0],
        viewer=visit.viewer,
        why=form.text("why")[:500],
        seen=form.text("digest"),
        again=bool(form.text("again")),
    )
    visit.notify(f"{server} is {verdict[1]}.")
    return url_of("approvals") if word in ("approve", "reject") else url_of("approvals", server)


async def _why_unread(visit: Visit, form: Form) -> str:
    """Why a person cannot have read all that an approval is about; empty if the form has all its marks."""
    server = visit.path["server"]
    case = await visit.gateway.case(server, viewer=visit.viewer, to_decide=True)
    pair = await visit.gateway.definitions(server, visit.viewer)
    parts = await anyio.to_thread.run_sync(parts_of, case, pair)
    wanted = {part.mark for part in parts}
    manifest = manifest_of(case)
    wanted |= {_MANIFEST} if manifest.fields else set()
    if case.refused and not form.text("again"):
        return f"Nothing was approved: {refusal_text(case.refused)}. Read it again, and approve it then."
    if unread := wanted - set(form.every("read")):
        of_all = f"{len(unread)} of {count_of(len(wanted), 'part')}"
        return f"Nothing was approved: {of_all} {'was' if len(unread) == 1 else 'were'} not on screen yet."
    if not (manifest.is_whole and all(part.is_whole for part in parts)):
        return f"Some of it is too large for a page. Use `maitred approve {shell(server)}`."
    return ""


SCREEN: Final = WebScreen(
    title="Approvals",
    role="operator",
    summary="what waits for your decision",
    pages=[
        ScreenPage(path="approvals", template="approvals/inbox.html", view=view_inbox),
        ScreenPage(path="approvals/{server}", template="approvals/case.html", view=view_case),
        ScreenPage(path="held/{id}", template="approvals/call.html", view=view_call),
    ],
    actions=[
        Action(path="approvals/{server}/{verdict}", act=decide),
        Action(path="held/{id}", act=decide_call),
    ],
    modules=["review.js"],
)
