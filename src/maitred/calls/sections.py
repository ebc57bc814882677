"""The sections of a text in Markdown, by its headings. A line with `#` within a code fence is no heading."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_HEADING = re.compile(r"#{1,6} +\S")
_FENCE = re.compile(r"(```+|~~~+)")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with the lines below it, up to the next. What is before all headings has an empty one."""

    heading: str
    lines: Sequence[str]


def to_sections(text: str) -> list[Section]:
    """The sections of a text; one without a heading if it has no headings."""
    made: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.startswith(fence) and not line[len(fence) :].strip():
            fence = ""
        if not fence and not mark and _HEADING.match(line):
            made.append((line, []))
        else:
            made[-1][1].append(line)
    return [Section(heading=heading, lines=lines) for heading, lines in made if heading or lines]


def matches_heading(heading: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches a heading; its level and case do not count."""
    name = _bare(heading)
    return bool(name) and any(fnmatchcase(name, _bare(pattern)) for pattern in patterns)


def _bare(heading: str) -> str:
    return heading.strip().lstrip("#").strip().casefold()
