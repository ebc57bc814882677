"""Pictures as SVG, made here: lines, bars, a sparkline, an icicle, and a map of boxes with lines.

Each has a title and a description for who does not see it, and its page shows a table of the same numbers
(`figures` makes the rows). No attribute `style` is written: the policy of the pages forbids it. Colours are
the classes `s0` (pale) to `s4` of the style sheet, and lines differ by their dashes too.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final

from markupsafe import Markup, escape

from maitred.surfaces.web.text import mark_hidden, shorten

_WIDTH: Final = 720
_HEIGHT: Final = 200
_LEFT: Final = 56
_RIGHT: Final = 8
_TOP: Final = 8
_BOTTOM: Final = 24
_MOST_LABELS: Final = 8
_CHARACTER: Final = 6.5
_TALL_ENOUGH: Final = 14
_MAP_WIDTH: Final = 880
_MAP_ROW: Final = 32
_BOX: Final = 24
_SIDES: Final = (230, 300)
"""The widths of the boxes at the left and at the right of a map."""
_MIDDLE: Final = 110
_SIGN: Final = 20
_SIGNS: Final[Mapping[str, str]] = {
    "good": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",  # a disc
    "warn": "M0 -5L5 0L0 5L-5 0Z",  # a diamond
    "bad": "M-4 -4H4V4H-4Z",  # a square
    "quiet": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",  # a ring
}
"""The shape beside each state, so that it needs no colour; the style sheet fills those of good and bad."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A row of numbers with its name; `tone` is 0 (pale) to 4."""

    name: str
    values: Sequence[float]
    tone: int = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A part of an icicle: its weight is that of its parts, if it has some."""

    name: str
    weight: float = 0.0
    tone: int = 0
    parts: Sequence["Cell"] = field(default_factory=tuple)

    @cached_property
    def total(self) -> float:
        """Its weight, or the sum of its parts."""
        return sum(part.total for part in self.parts) if self.parts else max(self.weight, 0.0)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A box of a map, with a note at its end and a sign if it has a tone: good, warn, bad or quiet.

    The more `weight`, the thicker its line; without any the line is dashed. `href` is the page about it.
    """

    name: str
    note: str = ""
    tone: str = ""
    weight: float = 0.0
    href: str = ""


def figures(labels: Sequence[str], series: Sequence[Series]) -> Sequence[tuple[str, Sequence[float]]]:
    """The rows of the table beside a picture: a label with the value of each series."""
    return [(label, [one.values[at] for one in series]) for at, label in enumerate(labels)]


def running_sums(values: Iterable[int]) -> Sequence[int]:
    """The sum of the values up to each of them, for a line that only rises."""
    return list(accumulate(values))


def short_number(value: float) -> str:
    """A number for an axis: `950`, `12k`, `3.4M`."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.1f}".removesuffix(".0") + letter
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def ceiling(value: float) -> float:
    """The least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below a value."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def line(
    labels: Sequence[str], series: Sequence[Series], *, title: str, desc: str, filled: bool = False
) -> Markup:
    """Lines over the same labels; `filled` colours the area below the first one."""
    scale = _Scale(len(labels), max((v for one in series for v in one.values), default=0.0))
    parts = [*scale.axes(labels)]
    for number, one in enumerate(series):
        points = [(scale.x(at), scale.y(value)) for at, value in enumerate(one.values)]
        if filled and number == 0 and points:
            base = f"L{points[-1][0]:.1f} {scale.y(0):.1f}L{points[0][0]:.1f} {scale.y(0):.1f}Z"
            parts.append(_element("path", cls=f"s{one.tone}", d=_path(points) + base, opacity="0.25"))
        parts.append(_element("path", cls=f"line s{one.tone}", d=_path(points)))
    return _picture(_WIDTH, _HEIGHT, parts, title=title, desc=desc)


def bars(
    labels: Sequence[str], series: Sequence[Series], *, title: str, desc: str, stacked: bool = False
) -> Markup:
    """Bars by label: those of one label are beside each other, or `stacked`."""
    sums = [sum(one.values[at] for one in series) for at in range(len(labels))]
    most = max(sums if stacked else (v for one in series for v in one.values), default=0.0)
    scale = _Scale(len(labels), most, centred=True)
    parts = [*scale.axes(labels)]
    room = scale.step * 0.72
    width = room if stacked else room / max(len(series), 1)
    for at, label in enumerate(labels):
        low = 0.0
        for number, one in enumerate(series):
            value = max(one.values[at], 0.0)
            left = scale.x(at) - room / 2 + (0 if stacked else number * width)
            top, bottom = scale.y(low + value), scale.y(low)
            told = _element("title", text=f"{label}: {one.name} {value:,.0f}")
            parts.append(
                _element(
                    "rect", told, cls=f"s{one.tone}", x=f"{left:.1f}", y=f"{top:.1f}",
                    width=f"{max(width - 1, 1):.1f}", height=f"{max(bottom - top, 0):.1f}",
                )
            )  # fmt: skip
            low += value if stacked else 0.0
    return _picture(_WIDTH, _HEIGHT, parts, title=title, desc=desc)


def sparkline(values: Sequence[float], *, title: str) -> Markup:
    """A line as large as a word."""
    most, width, height = max(values, default=0.0) or 1.0, 100.0, 20.0
    step = width / max(len(values) - 1, 1)
    points = [(at * step, height - 1 - value / most * (height - 2)) for at, value in enumerate(values)]
    drawn = _element("path", cls="line", d=_path(points), **{"vector-effect": "non-scaling-stroke"})
    return _svg(width, height, [drawn], title=title, desc="", cls="spark", preserveAspectRatio="none")


def icicle(root: Cell, *, title: str, desc: str, depth: int = 3, row: int = 34) -> Markup:
    """The parts of a whole from top to bottom, each as wide as its weight."""
    parts = list(_cells(root, 0.0, float(_WIDTH), 0, depth, row))
    return _picture(_WIDTH, (depth + 1) * row, parts, title=title, desc=desc)


def node_map(
    left: Sequence[Node], middle: str, right: Sequence[Node], *, rest: tuple[str, str], title: str, desc: str
) -> Markup:
    """Boxes at both sides of one in the middle, each with a line to it; `rest` is a text below each side.

    Its links are for a pointer: the page has the same ones in a table, so the keyboard skips these.
    """
    rows = max(len(left) + bool(rest[0]), len(right) + bool(rest[1]), 2)
    height = rows * _MAP_ROW
    begins, ends = (_MAP_WIDTH - _MIDDLE) / 2, (_MAP_WIDTH + _MIDDLE) / 2
    lines, boxes = list[Markup](), list[Markup]()
    for at, nodes in enumerate((left, right)):
        most = max((one.weight for one in nodes), default=0.0) or 1.0
        x = 0.0 if at == 0 else float(_MAP_WIDTH - _SIDES[1])
        end, start = (float(_SIDES[0]), begins) if at == 0 else (x, ends)
        top = (height - (len(nodes) + bool(rest[at])) * _MAP_ROW) / 2
        for one in nodes:
            middle_y = top + _MAP_ROW / 2
            lines.append(_link(start, height / 2, end, middle_y, one, most))
            boxes.append(_box(one, x, middle_y, _SIDES[at]))
            top += _MAP_ROW
        if rest[at]:
            boxes.append(_element("text", cls="rest", x=x + 8, y=top + _MAP_ROW / 2 + 4, text=rest[at]))
    y = f"{height / 2 - _MAP_ROW / 2:g}"
    boxes.append(_element("rect", cls="box main", x=f"{begins:g}", y=y, width=_MIDDLE, height=_MAP_ROW, rx=6))
    centre = {"x": f"{_MAP_WIDTH / 2:g}", "y": f"{height / 2 + 4:g}", "text-anchor": "middle"}
    boxes.append(_element("text", cls="main", text=middle, **centre))
    return _svg(_MAP_WIDTH, height, [*lines, *boxes], title=title, desc=desc, role="group")


def _link(x: float, y: float, end_x: float, end_y: float, node: Node, most: float) -> Markup:
    bend = (x + end_x) / 2
    kind = "link" if node.weight else "link idle"
    path = f"M{x:.1f} {y:.1f}C{bend:.1f} {y:.1f} {bend:.1f} {end_y:.1f} {end_x:.1f} {end_y:.1f}"
    width = {"stroke-width": f"{1 + 4 * math.sqrt(max(node.weight, 0.0) / most):.1f}"}
    return _element("path", cls=f"{kind} {node.tone}".strip(), d=path, **width)


def _box(node: Node, x: float, y: float, width: float) -> Markup:
    name, note = mark_hidden(shorten(node.name, 200)), mark_hidden(shorten(node.note, 200))
    indent = _SIGN if node.tone else 8
    label, remark = _fitting(name, note, int((width - indent - 20) / _CHARACTER))
    inside = [
        _element("title", text=f"{name}: {note}" if note else name),
        _element("rect", cls="box", x=f"{x:g}", y=f"{y - _BOX / 2:g}", width=f"{width:g}", height=_BOX, rx=4),
        _element("text", x=f"{x + indent:g}", y=f"{y + 4:g}", text=label),
    ]
    if node.tone:
        moved = f"translate({x + 10:g} {y:g})"
        inside.append(_element("path", cls=f"sign {node.tone}", d=_SIGNS[node.tone], transform=moved))
    if remark:
        place = {"x": f"{x + width - 8:g}", "y": f"{y + 4:g}", "text-anchor": "end"}
        inside.append(_element("text", cls="note", text=remark, **place))
    if node.href:
        return _element("a", *inside, href=node.href, tabindex=-1)
    return _element("g", *inside)


def _fitting(name: str, note: str, room: int) -> tuple[str, str]:
    """A name and a note that have so many characters together; the name keeps a half, if it needs that."""
    note_room = max(room // 2, room - len(name))
    short_note = note if len(note) <= note_room else f"{note[: note_room - 1]}…"
    name_room = room - len(short_note)
    return (name if len(name) <= name_room else f"{name[: name_room - 1]}…"), short_note


def _cells(cell: Cell, left: float, width: float, level: int, depth: int, row: int) -> Iterator[Markup]:
    if width < 0.5:  # narrower than a line  # noqa: PLR2004
        return
    name = mark_hidden(shorten(cell.name, 200))
    told = _element("title", text=f"{name}: {cell.total:,.0f}")
    y, height = level * row, row - 1
    inside = [
        _element(
            "rect", told, cls=f"cell s{cell.tone}", x=f"{left:.1f}", y=y, width=f"{width:.1f}", height=height
        )
    ]
    room = int((width - 8) / _CHARACTER)
    if room >= 3 and row >= _TALL_ENOUGH:  # noqa: PLR2004  # two letters and dots
        label = name if len(name) <= room else f"{name[: room - 1]}…"
        kind = "cell-text" if cell.tone == 0 else "cell-text on"
        inside.append(_element("text", cls=kind, x=f"{left + 4:.1f}", y=y + row / 2 + 4, text=label))
    yield Markup("").join(inside)
    if level < depth and cell.total:
        for part in sorted(cell.parts, key=lambda one: -one.total):
            share = width * part.total / cell.total
            yield from _cells(part, left, share, level + 1, depth, row)
            left += share


class _Scale:
    """Where values are in a picture; `centred` puts each label in the middle of its room."""

    def __init__(self, count: int, most: float, *, centred: bool = False) -> None:
        self._most = ceiling(most)
        self._centred = centred
        room = _WIDTH - _LEFT - _RIGHT
        self.step = room / max(count, 1) if centred else room / max(count - 1, 1)

    def x(self, at: int) -> float:
        return _LEFT + self.step * (at + 0.5 if self._centred else at)

    def y(self, value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / self._most)

    def axes(self, labels: Sequence[str]) -> Iterator[Markup]:
        for share in (0.0, 0.5, 1.0):
            y = self.y(self._most * share)
            yield _element("path", cls="axis", d=f"M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}")
            label = short_number(self._most * share)
            yield _element("text", x=_LEFT - 6, y=f"{y + 4:.1f}", text=label, **{"text-anchor": "end"})
        every = max(1, math.ceil(len(labels) / _MOST_LABELS))
        for at in range(0, len(labels), every):
            label = mark_hidden(shorten(labels[at], 20))
            last = not self._centred and at == len(labels) - 1
            anchor = "end" if last else "middle" if at or self._centred else "start"
            yield _element(
                "text", x=f"{self.x(at):.1f}", y=_HEIGHT - 6, text=label, **{"text-anchor": anchor}
            )


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(points))


def _picture(width: float, height: float, parts: Sequence[Markup], *, title: str, desc: str) -> Markup:
    return _svg(width, height, parts, title=title, desc=desc)


def _svg(
    width: float,
    height: float,
    parts: Sequence[Markup],
    *,
    title: str,
    desc: str,
    cls: str = "",
    role: str = "img",
    **more: str,
) -> Markup:
    head = [_element("title", text=title), *([_element("desc", text=desc)] if desc else [])]
    box = f"0 0 {width:g} {height:g}"
    return _element("svg", *head, *parts, viewBox=box, role=role, cls=cls, **{"aria-label": title}, **more)


def _element(kind: str, *inside: Markup, cls: str = "", text: str = "", **attributes: object) -> Markup:
    """An element of SVG; every value is marked and escaped."""
    every: Mapping[str, object] = {"class": cls, **attributes} if cls else attributes
    written = "".join([f' {name}="{_attribute(value)}"' for name, value in every.items()])
    body = "".join(map(escape, inside))
    content = f"{body}{escape(mark_hidden(text))}" if text else body
    return Markup(f"<{kind}{written}>{content}</{kind}>")  # noqa: S704  # kinds are ours, the rest is escaped


def _attribute(value: object) -> object:
    return value if isinstance(value, int | float) else escape(mark_hidden(str(value)))
