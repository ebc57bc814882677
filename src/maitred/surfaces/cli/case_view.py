"""Admission's view of a server, as lines for an operator who decides on it.

Pure functions from values to lines. Invisible characters in texts of a server or a manifest are shown as
escapes: they are a reason not to approve it, and they must not control a terminal.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from maitred.model.approvals import name_and_identity
from maitred.surfaces.cli.console import visible
from maitred.surfaces.cli.origin_view import origin_lines, origin_steps

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.admission.definition import PartKey
    from maitred.admission.findings import Finding
    from maitred.admission.waiting import WaitingOrigin
    from maitred.gateway.cases import Case
    from maitred.model.approvals import Event

_FIRST: Final = ("transport", "command", "image", "url", "args", "cwd", "env", "headers", "network")
_SEVERITIES: Final = {"refuse": ("refused", "red"), "ask": ("to decide", "yellow"), "warn": ("note", "")}
_SUSPICIONS: Final = {"refuse": ("attack", "red"), "ask": ("suspicious", "yellow"), "warn": ("note", "")}
_WEIGHTS: Final = {
    "power": ("more power", "red"),
    "wording": ("changed", "yellow"),
    "less": ("less power", ""),
}
_EVENTS: Final = {
    "auto_approved": "approved by policy",
    "part_approved": "approved in part",
    "definition_changed": "definition changed",
    "manifest_changed": "manifest changed",
    "image_changed": "image changed",
}
_FIRST_SEEN: Final = {"definition_changed": "definition first seen", "image_changed": "image first seen"}


def headline(case: "Case") -> Text:
    """The server, its state, and the digest of the case to decide on."""
    return Text.assemble(
        (visible(case.server), "bold"), f"  {standing(case)}", (f"  digest {case.digest}", "dim")
    )


def standing(case: "Case") -> str:
    """The state of a server in words."""
    if case.state == "approved" and case.awaits:
        return "approved, but something of it waits for your decision"
    if case.state == "approved" and case.refused:
        return "approved, but what changed of it was refused"
    if case.state == "pending":
        return "waits for your approval"
    return f"{case.state}; it {visible(case.withheld)}" if case.withheld else case.state


def summary(case: "Case") -> Iterator[Text]:
    """All that an operator needs for a decision: the server, why it needs one, and its changes."""
    yield headline(case)
    yield Text(f"  from {visible(case.source)}")
    yield from refusal_lines(case)
    yield from _manifest(case.manifest)
    if changed := _other_image(case):
        yield Text.assemble("  image: ", ("changed", "yellow"), f": {visible(changed)}")
    for layer in case.record.get("layers", ()):
        for finding in layer["findings"]:
            yield _finding(_SEVERITIES[finding["severity"]], finding["layer"], _told(finding))
    yield from definition(case)


def refusal_lines(case: "Case") -> Iterator[Text]:
    """Who refused it, or what changed of it, and when."""
    if case.refused is not None:
        from maitred.admission.refusal import refusal_text  # noqa: PLC0415  # only needed here

        yield Text.assemble("  ", ("refused", "red"), f": {visible(refusal_text(case.refused))}")


def refused_summary(case: "Case") -> Iterator[Text]:
    """A server that needs no decision: its state, and what a person refused of it."""
    yield headline(case)
    if case.refused is not None:
        yield from refusal_lines(case)
        yield from definition(case)


def definition(case: "Case") -> Iterator[Text]:
    """The lines about the server's definition: withheld parts, changes, findings."""
    parts = dict.fromkeys([*(change.part for change in case.changes), *case.parts])
    grouped = {tool.part for origin in case.origins for tool in origin.tools}
    for part in [one for one in parts if one not in grouped]:
        name, changes = visible(str(part)), list(_changes(case, part))
        why = case.parts.get(part, "")
        yield Text(
            f"  {name} {'is withheld' if why else 'is in use'}" + ("" if changes else f": it {visible(why)}")
        )
        yield from changes
    yield from origin_lines(case.origins, partial(_changes, case))
    for finding in case.findings:
        yield _finding(_SUSPICIONS[finding.severity], finding.layer, told_of(finding))


def origin_summary(case: "Case", origin: "WaitingOrigin") -> Iterator[Text]:
    """All that an operator needs for a decision on the tools of one origin."""
    yield from origin_lines([origin], partial(_changes, case))
    parts = tuple(str(tool.part) for tool in origin.tools)
    for finding in case.findings:
        if finding.key.startswith(parts):
            yield _finding(_SUSPICIONS[finding.severity], finding.layer, told_of(finding))


def _changes(case: "Case", part: "PartKey") -> Iterator[Text]:
    """The changes of one part since it was approved."""
    for change in case.changes:
        if change.part == part:
            label, style = _WEIGHTS[change.weight]
            text = change.text.removeprefix(f"{part}: ").replace(f"{part} ", "it ", 1)
            yield Text.assemble("    ", (label, style), f": {visible(text)}")


def explanation(case: "Case") -> Iterator[Text]:
    """The whole record: the findings of each layer, who decided, the definition and the log."""
    yield headline(case)
    yield Text(f"  from {visible(case.source)}")
    yield from _manifest(case.manifest)
    if case.record:
        yield Text("layers", style="bold")
        for number, layer in enumerate(case.record["layers"], start=1):
            yield from _layer(number, layer)
        yield Text(f"  {len(case.record['layers']) + 1} approval: {_decider(case)}")
    said = list(definition(case))
    yield Text("definition", style="bold")
    yield from said or [Text("  nothing of it is withheld, changed or suspicious")]
    yield Text("log", style="bold")
    known: set[str] = set()
    for event in case.log:
        told = _told_by(event)
        first = event.kind in told - known and event.kind in _FIRST_SEEN
        kind = _FIRST_SEEN[event.kind] if first else _EVENTS.get(event.kind, event.kind)
        by = f" by {visible(event.who)}" if event.who and not first else ""
        why = f": {visible(event.why)}" if event.why else ""
        yield Text(f"  {visible(event.at)}  {kind}{by}{why}")
        known = told if event.kind == "registered" else known | told
    if not case.log:
        yield Text("  nothing was ever decided about it")


def _told_by(event: "Event") -> set[str]:
    """The facts known about a server as of an event, by the kind of event that first reports them."""
    if event.kind == "registered":
        return set()
    _, image = name_and_identity(event.binding.image)
    parts = {"definition_changed": event.binding.definition, "image_changed": image}
    return {kind for kind, known in parts.items() if known}


def _other_image(case: "Case") -> str:
    """A remark about an image that differs from the approved one."""
    last = next((one for one in reversed(case.log) if one.kind in ("image_changed", "approved")), None)
    return last.why if last and last.kind == "image_changed" and case.state == "pending" else ""


def next_steps(case: "Case") -> Iterator[Text]:
    """The commands that decide on a waiting case."""
    if case.awaits:
        for verdict in ("approve", "reject"):
            yield Text(f"  maitred {verdict} {case.server} --seen {case.digest}")
        yield from origin_steps(case.server, case.origins)


def told_of(finding: "Finding") -> str:
    """A finding without its file and line, for views where these are not useful."""
    reason = f"{finding.key}: {finding.reason}" if finding.key else finding.reason
    return f"{reason} ({finding.fix})" if finding.fix else reason


def _manifest(manifest: Mapping[str, Any]) -> Iterator[Text]:
    """The keys of a manifest; those that name the program and its reach come first."""
    for key in dict.fromkeys([*_FIRST, *manifest]):
        if key in manifest and key != "name":
            value = manifest[key]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield Text(f"  {key}: {visible(text)}")


def _layer(number: int, layer: Mapping[str, Any]) -> Iterator[Text]:
    name = f"  {number} {layer['layer']}: "
    if not layer["ran"]:
        yield Text(f"{name}had nothing to look at")
    elif not layer["findings"]:
        yield Text(f"{name}nothing to say")
    for finding in layer["findings"]:
        label, style = _SEVERITIES[finding["severity"]]
        yield Text.assemble(name, (label, style), f": {visible(_told(finding))}")


def _decider(case: "Case") -> str:
    """The person or policy that decided, which is the last layer."""
    if case.state == "pending":
        return "waits for a person, who has not decided yet"
    kinds = {
        "approved": ("approved", "part_approved", "auto_approved"),
        "rejected": ("rejected",),
        "suspended": ("suspended",),
        "withdrawn": ("withdrawn",),
    }[case.state]
    last = next((event for event in reversed(case.log) if event.kind in kinds), None)
    if last is None:
        return case.state
    if last.kind == "auto_approved":
        return "the policy approved it, without asking a person"
    return f"{_EVENTS.get(last.kind, last.kind)} by {visible(last.who)}" + (
        f": {visible(last.why)}" if last.why else ""
    )


def _told(finding: Mapping[str, Any]) -> str:
    reason = f"{finding['key']}: {finding['reason']}" if finding["key"] else finding["reason"]
    return f"{reason} ({finding['fix']})" if finding["fix"] else reason


def _finding(label: tuple[str, str], layer: str, told: str) -> Text:
    return Text.assemble("  ", label, f" ({layer}): {visible(told)}")
