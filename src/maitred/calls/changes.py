"""What changed between two texts, line by line, as a view of the newer text.

The view has the changed lines, with the lines that they belong to by indentation, so everything in it is true
of the newer text. Lines that only got other ids (a browser server numbers the elements of a page again) count
as changed, unless many follow one another. The work grows like the number of lines times its logarithm.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from maitred.calls.indentation import depth_of, with_names
from maitred.wording import count_of

LEAST_LIKE_RUN = 16
"""So many lines in a row that differ in their ids alone are left out."""
AS_BEFORE = "as before, with new ids"
_GONE_CHARS = 80
_MARK_CHARS = 160


@dataclass(frozen=True, kw_only=True)
class Changes:
    """`lines` are the view, empty if nothing changed; `new` has the places in it of lines that are new."""

    lines: Sequence[str]
    new: frozenset[int]


def align(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """For each line of `new`, the place of the same line in `old`, or -1; the places found only increase.

    A patience diff in one pass: lines that occur once in each text are matched first, in the longest order
    that both share; then their equal neighbours.
    """
    in_old, in_new = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(old) if in_old[line] == 1}
    pairs = [(place, places[line]) for place, line in enumerate(new) if in_new[line] == 1 and line in places]
    found = [-1] * len(new)
    edges = [(-1, -1), *_increasing(pairs), (len(new), len(old))]
    for (new_from, old_from), (new_to, old_to) in pairwise(edges):
        if new_from >= 0:
            found[new_from] = old_from
        one, other = new_from + 1, old_from + 1
        while one < new_to and other < old_to and new[one] == old[other]:
            found[one] = other
            one, other = one + 1, other + 1
        last, last_other = new_to - 1, old_to - 1
        while last >= one and last_other >= other and new[last] == old[last_other]:
            found[last] = last_other
            last, last_other = last - 1, last_other - 1
    return found


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of the pairs, in their order, whose second numbers increase."""
    tails: list[int] = []
    ends: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, value) in enumerate(pairs):
        at = bisect_left(tails, value)
        before[number] = ends[at - 1] if at else -1
        tails[at : at + 1] = [value]
        ends[at : at + 1] = [number]
    made: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        made.append(pairs[number])
        number = before[number]
    return made[::-1]


def changes(old: Sequence[str], new: Sequence[str], ids: re.Pattern[str] | None = None) -> Changes:
    """The view of `new` for a reader who knows `old`; `ids` matches what is numbered again."""
    same = align(old, new)
    like = _like(old, new, same, ids) if ids else [-1] * len(new)
    used, present = {*same, *like}, set(new)
    is_replaced = _replaced(new, same, like, ids)
    is_same_text = ids is None or any(
        known >= 0 and ids.search(line) for known, line in zip(same, new, strict=True)
    )
    view, fresh = _View(new), set[int]()
    before, between = -1, False
    for place in range(len(new) + 1):
        known = max(same[place], like[place]) if place < len(new) else len(old)
        if known < 0:
            fresh.add(view.add(place))
            between = True
            continue
        gone = [old[one] for one in range(before + 1, known) if one not in used and old[one] not in present]
        if is_same_text:  # else all ids are others: it is another page, and all that was there is gone
            view.add_gone([line for line in gone if not is_replaced(line)] if between else gone, place)
        if place < len(new) and same[place] < 0:
            view.count_like(place)
        before, between = known, False
    return Changes(lines=view.to_lines(), new=frozenset(fresh))


def _replaced(
    new: Sequence[str], same: Sequence[int], like: Sequence[int], ids: re.Pattern[str] | None
) -> Callable[[str], bool]:
    """Whether a line that is gone has another in its place: one of the same id or text, or perhaps any.

    Without ids that cannot be known, and where most of a text is new it is of no use to know.
    """
    fresh = [line for line, one, other in zip(new, same, like, strict=True) if one < 0 and other < 0]
    if ids is None or 2 * len(fresh) > len(new):
        return lambda _: True
    known = {found[0] for line in new if (found := ids.search(line))}
    texts = {ids.sub("", line) for line in fresh}

    def is_replaced(line: str) -> bool:
        found = ids.search(line)
        return found is None or found[0] in known or ids.sub("", line) in texts

    return is_replaced


def _like(old: Sequence[str], new: Sequence[str], same: Sequence[int], ids: re.Pattern[str]) -> list[int]:
    """The places in `old` of lines that differ in their ids alone, where many of them follow one another."""
    found = align([ids.sub("", line) for line in old], [ids.sub("", line) for line in new])
    made = [-1] * len(new)
    start = 0
    for place in range(len(new) + 1):
        if place < len(new) and (found[place] >= 0 or same[place] >= 0):
            continue
        if sum(same[one] < 0 for one in range(start, place)) >= LEAST_LIKE_RUN:
            made[start:place] = found[start:place]
        start = place + 1
    return made


class _View:
    """Collects lines of a text in their order, each after the lines that it belongs to."""

    def __init__(self, text: Sequence[str]) -> None:
        self._text = text
        self._above = _places_above(text)
        self._shown: set[int] = set()
        self._lines: list[str] = []
        self._like_from, self._like_to, self._like_count = -1, -1, 0

    def add(self, place: int) -> int:
        """Add a line, and return where it is in the view."""
        self._close_like()
        self._add_above(self._above[place])
        self._shown.add(place)
        self._lines.append(self._text[place])
        return len(self._lines) - 1

    def count_like(self, place: int) -> None:
        """Count a line that only got another id; the view has one remark for all that follow one another."""
        self._like_from = place if not self._like_count else self._like_from
        self._like_count += 1
        self._like_to = place

    def add_gone(self, gone: Sequence[str], place: int) -> None:
        """Say that lines are gone that were before a place."""
        first = next((line for line in gone if line.strip()), "")
        if not first:
            return
        self._close_like()
        depth, around = depth_of(first), place - 1
        while around >= 0 and depth_of(self._text[around]) >= depth:
            around = self._above[around]
        self._add_above(around)
        more = f" (and {count_of(len(gone) - 1, 'line')} more)" if len(gone) > 1 else ""
        self._lines.append(f"{' ' * depth}gone: {first.strip().removesuffix(':')[:_GONE_CHARS]}{more}")

    def to_lines(self) -> Sequence[str]:
        """The view."""
        self._close_like()
        return self._lines

    def _close_like(self) -> None:
        if self._like_count:
            lines = self._text[self._like_from : self._like_to + 1]
            mark = f"{' ' * depth_of(lines[0])}…{count_of(self._like_count, 'line')} {AS_BEFORE}"
            self._lines.append(with_names(mark, lines, _MARK_CHARS))
            self._like_count = 0

    def _add_above(self, place: int) -> None:
        """Add a line and those around it, as far as they are not there yet."""
        missing: list[int] = []
        while place >= 0 and place not in self._shown:
            missing.append(place)
            place = self._above[place]
        for one in reversed(missing):
            self._shown.add(one)
            self._lines.append(self._text[one])


def _places_above(text: Sequence[str]) -> list[int]:
    """For each line the place of the line that it belongs to, or -1."""
    made: list[int] = []
    path: list[int] = []
    for place, line in enumerate(text):
        while path and depth_of(text[path[-1]]) >= depth_of(line):
            path.pop()
        made.append(path[-1] if path else -1)
        path.append(place)
    return made
