"""What of the tools of web pages waits for a person, by the origin of their pages, and its approval.

An approval of one origin pins each of its tools as it is now. All else of the server stays as it was: what
was approved stays that, and what waits goes on waiting, so a changed or new tool of the origin waits again.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.admission.definition import Definition, PartKey
from maitred.errors import AdmissionError
from maitred.model.approvals import Binding
from maitred.model.pages import split_name
from maitred.model.tools import canonical, content_hash

STALE: Final = "it has changed since it was looked at; look at it again"
_MOST_ORIGIN: Final = 100


@dataclass(frozen=True, kw_only=True)
class WaitingTool:
    """A withheld tool of a page. `name` is its name there, `schema` that of its parameters, as sent."""

    part: PartKey
    name: str
    description: str
    schema: Mapping[str, Any]
    why: str


@dataclass(frozen=True, kw_only=True)
class WaitingOrigin:
    """The withheld tools of the pages of one origin.

    `digest`, 12 hexadecimal digits, is of what an approval of this origin is about: it does not change with
    the tools of other origins.
    """

    origin: str
    digest: str
    tools: Sequence[WaitingTool]


def waiting_origins(
    live: Definition, withheld: Mapping[PartKey, str], binding: Binding
) -> Sequence[WaitingOrigin]:
    """The origins of withheld tools, in alphabetical order; none for a server without page tools."""
    groups: dict[str, list[WaitingTool]] = defaultdict(list)
    for part in sorted(withheld):
        origin, name = split_name(part.name) if part.kind == "tool" else ("", "")
        if origin and part in live.parts:
            groups[origin].append(_waiting_tool(part, name, live.parts[part].content, withheld[part]))
    return [
        WaitingOrigin(
            origin=origin, digest=_digest(origin, groups[origin], live, binding), tools=groups[origin]
        )
        for origin in sorted(groups)
    ]


def choose_origin(server: str, waiting: Sequence[WaitingOrigin], origin: str, seen: str) -> WaitingOrigin:
    """The origin of this name among those that wait, if its tools are still those of the digest `seen`.

    Raises:
        AdmissionError: None of its tools waits, or they are others now.
    """
    known = {one.origin: one for one in waiting}
    chosen = known.get(origin.strip().rstrip("/").lower())
    if chosen is None:
        there = f"tools wait of {', '.join(known)}" if known else "no page has tools that wait"
        raise AdmissionError(server, f"no tool waits of the origin {origin[:_MOST_ORIGIN]!a}; {there}")
    if seen and seen != chosen.digest:
        raise AdmissionError(server, STALE)
    return chosen


def _waiting_tool(part: PartKey, name: str, content: Mapping[str, Any], why: str) -> WaitingTool:
    schema = content.get("input")
    return WaitingTool(
        part=part,
        name=name,
        description=str(content.get("description", "")),
        schema=schema if isinstance(schema, Mapping) else {},
        why=why,
    )


def _digest(origin: str, tools: Sequence[WaitingTool], live: Definition, binding: Binding) -> str:
    parts = [[tool.part.name, live.digest_of(tool.part)] for tool in tools]
    return content_hash(canonical([binding.manifest, binding.image, origin, parts]))[:12]


def with_approved_parts(
    approved: Definition | None, live: Definition, parts: Sequence[PartKey], withheld: Mapping[PartKey, str]
) -> Definition:
    """The definition that is approved once some parts of a live one are, beside those approved before.

    A part that is withheld although it did not change, since its text looks like orders, is not among
    these: a person has to look at it first.
    """
    before = dict(_in_use(approved or Definition(), live, withheld))
    return Definition(parts={**before, **{part: live.parts[part] for part in parts}})


def _in_use(
    approved: Definition, live: Definition, withheld: Mapping[PartKey, str]
) -> Iterator[tuple[PartKey, Any]]:
    for part, content in approved.parts.items():
        if part not in withheld or live.digest_of(part) != content.digest:
            yield part, content
