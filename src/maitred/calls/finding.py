"""Find the parts of a stored result that have some words: each with the lines that belong to it.

A query may have alternatives, as in `Street|City`. For each, lines with the whole phrase count, else lines
with all its words, else small blocks with all its words. JSON in one line is searched as if it were indented.
"""

from collections.abc import Sequence

from maitred.calls.indentation import depth_of
from maitred.calls.json_fields import parse_json
from maitred.calls.outline import compact
from maitred.wording import count_of, quote_input

MOST_BLOCK_LINES = 12
MOST_PARTS = 8
MOST_ALTERNATIVES = 8
MOST_CHARS = 1_000_000
_LINES_BEFORE, _LINES_AFTER = 1, 6
_LINE_CHARS = 400
_GAP = "…"


def find_parts(text: str, query: str) -> str:
    """The parts of a text for a query, in their order; a sentence if there are none."""
    searched = _in_lines(text[:MOST_CHARS])
    lines = searched.splitlines()
    low_text = searched.casefold()
    folded = [line.casefold() for line in lines]
    chosen: list[tuple[int, int]] = []
    missing: list[str] = []
    more = 0
    phrases = list(dict.fromkeys(filter(None, (part.strip() for part in query.split("|")))))
    looked_for = [phrase.casefold() for phrase in phrases[:MOST_ALTERNATIVES]]
    for phrase, low in zip(phrases, looked_for, strict=False):
        spans = _spans(lines, folded, low) if all(word in low_text for word in low.split()) else []
        more += max(len(spans) - MOST_PARTS, 0)
        chosen += spans[:MOST_PARTS]
        missing += [] if spans else [phrase]
    said = [f"Nothing has {quote_input(phrase)}." for phrase in missing]
    said += [f"{count_of(more, 'more part')} match; ask for more words."] if more else []
    if len(phrases) > MOST_ALTERNATIVES:
        said.append(f"Only the first {MOST_ALTERNATIVES} of {len(phrases)} alternatives were searched.")
    if len(text) > MOST_CHARS:
        said.append(f"Only the first {MOST_CHARS:,} of {len(text):,} characters were searched.")
    return "\n".join([*_joined(lines, chosen, looked_for), *said])


def _in_lines(text: str) -> str:
    """The text, indented if it is JSON in one line."""
    if text[:1] not in ("{", "[") or "\n" in text.rstrip():
        return text
    value = parse_json(text)
    return text if value is None else compact(value, indent=2)


def _spans(lines: Sequence[str], folded: Sequence[str], phrase: str) -> list[tuple[int, int]]:
    """The parts for one phrase: places of their first lines, and of the lines after their last."""
    words = phrase.split()
    hits = [place for place, line in enumerate(folded) if phrase in line]
    hits = hits or [place for place, line in enumerate(folded) if all(word in line for word in words)]
    if hits:
        return list(dict.fromkeys(_part_around(lines, place) for place in hits))
    spans = dict.fromkeys(_part_around(lines, place) for place, line in enumerate(folded) if words[0] in line)
    return [
        (first, end) for first, end in spans if all(word in "\n".join(folded[first:end]) for word in words)
    ]


def _part_around(lines: Sequence[str], place: int) -> tuple[int, int]:
    """The largest block around a line that is small enough, else some lines before and after it."""
    found = (max(place - _LINES_BEFORE, 0), min(place + _LINES_AFTER, len(lines)))
    first: int | None = place
    while first is not None and (end := _block_end(lines, first)) - first <= MOST_BLOCK_LINES:
        if end - first > 1:
            found = (first, end)
        first = _line_over(lines, first)
    return found


def _block_end(lines: Sequence[str], first: int) -> int:
    """The place after the block that begins with a line; of a block that is too large, one within it."""
    last = min(first + MOST_BLOCK_LINES + 1, len(lines))
    below = (place for place in range(first + 1, last) if lines[place].strip())
    if not lines[first].strip():
        return first + 1
    return next((place for place in below if depth_of(lines[place]) <= depth_of(lines[first])), last)


def _line_over(lines: Sequence[str], place: int) -> int | None:
    """The nearest line above one that is indented less, if it is near enough to share a small block."""
    depth = depth_of(lines[place]) if lines[place].strip() else len(lines[place]) + 1
    above = range(place - 1, max(place - MOST_BLOCK_LINES, -1), -1)
    return next((at for at in above if lines[at].strip() and depth_of(lines[at]) < depth), None)


def _joined(lines: Sequence[str], spans: Sequence[tuple[int, int]], phrases: Sequence[str]) -> list[str]:
    """The lines of all parts in their order, each line once, with a mark where lines are left out."""
    places = sorted({place for first, end in spans for place in range(first, end)})
    made: list[str] = []
    for number, place in enumerate(places):
        if number and place - places[number - 1] > 1:
            made.append(_GAP)
        made.append(_cut(lines[place], phrases))
    return made


def _cut(line: str, phrases: Sequence[str]) -> str:
    """A line, or so much of a long one as is around the first phrase in it, with marks for the rest."""
    if len(line) <= _LINE_CHARS:
        return line
    low = line.casefold()
    places = [place for phrase in phrases if (place := low.find(phrase)) >= 0]
    begin = max(min(places, default=0) - _LINE_CHARS // 4, 0)
    end = begin + _LINE_CHARS
    return f"{_GAP if begin else ''}{line[begin:end]}{_GAP if end < len(line) else ''}"
