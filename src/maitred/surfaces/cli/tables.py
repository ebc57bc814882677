"""Tables that hold at the width of the terminal, without cutting a name.

What does not fit beside the other columns wraps between words. Where even that does not fit, empty columns
are left out, and the widest go below their row, as `heading: value`. A word longer than a line is broken.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP: Final = 2
_INDENT: Final = 4
_NARROWEST: Final = 20
"""The least width of a column of prose that is beside others; a narrower one goes below its row."""


@dataclass(frozen=True, kw_only=True)
class PlainTable:
    """A table of texts, laid out when it is printed.

    Args:
        title: A line above it, or nothing.
        headings: One for each column.
        rows: Each with one text for each column.
        numbers: The headings of the columns that are aligned right.
        below: The headings of the columns that are below their row at any width, without a heading.
        whole: Those of the columns below that no line break is put into, as they may be copied.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()
    below: Collection[str] = ()
    whole: Collection[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, none wider than the console."""
        width = max(options.max_width, _NARROWEST)
        if self.title:
            yield Text(self.title, style="italic")
        yield from _Layout(self, width).lines()


class _Layout:
    """The columns beside each other with their widths, and those below."""

    def __init__(self, table: PlainTable, width: int) -> None:
        self._table = table
        self._width = width
        self._columns = [
            [heading, *(row[at] for row in table.rows)] for at, heading in enumerate(table.headings)
        ]
        self._beside = [at for at, heading in enumerate(table.headings) if heading not in table.below]
        self._widths = self._fitted()

    def lines(self) -> Iterator[Text]:
        yield from self._line([*self._table.headings], style="bold")
        for row in self._table.rows:
            yield from self._line(row)
            yield from self._below(row)

    def _below(self, row: Sequence[str]) -> Iterator[Text]:
        """The lines below a row: cells that had no room in one paragraph, the others in one each."""
        moved, others = [], []
        for at, heading in enumerate(self._table.headings):
            if at in self._beside or not row[at]:
                continue
            if heading in self._table.whole:
                yield Text(" " * _INDENT + row[at])
            elif heading in self._table.below:
                others.append(row[at])
            else:
                moved.append(f"{heading}: {row[at]}")
        for paragraph in (*(["; ".join(moved)] if moved else ()), *others):
            for line in wrap(paragraph, self._width - _INDENT, hang=2):
                yield Text(" " * _INDENT + line)

    def _fitted(self) -> dict[int, int]:
        """The width of each column beside others; it moves columns below until the rest fits."""
        while True:
            natural = {at: max(map(_natural, self._columns[at])) for at in self._beside}
            least = {at: min(natural[at], max(_NARROWEST, self._longest(at))) for at in self._beside}
            for at in self._beside:
                if self._table.headings[at] in self._table.numbers:
                    least[at] = natural[at]
            room = self._width - _GAP * (len(self._beside) - 1)
            if sum(least.values()) <= room:
                return _shared(natural, least, room)
            if len(self._beside) == 1:
                return dict.fromkeys(self._beside, self._width)
            movable = self._beside[1:]
            empty = [at for at in movable if not any(self._columns[at][1:])]
            self._beside.remove(max(empty or movable, key=lambda at: (least[at], at)))

    def _longest(self, at: int) -> int:
        return max((cell_len(word) for cell in self._columns[at] for word in cell.split()), default=0)

    def _line(self, row: Sequence[str], *, style: str = "") -> Iterator[Text]:
        cells = {at: wrap(row[at], self._widths[at]) for at in self._beside}
        for number in range(max(map(len, cells.values()))):
            parts = []
            for at in self._beside:
                part = cells[at][number] if number < len(cells[at]) else ""
                gap = " " * (self._widths[at] - cell_len(part))
                right = self._table.headings[at] in self._table.numbers
                parts.append(gap + part if right else part + gap)
            yield Text((" " * _GAP).join(parts).rstrip(), style=style)


def wrap(text: str, width: int, *, hang: int = 0) -> list[str]:
    """A text in lines of at most `width`, broken between words; the lines after the first are indented."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line, indent = "", ""
        for word in paragraph.split(" "):
            if line.strip() and cell_len(line) + 1 + cell_len(word) > width:
                lines.append(line)
                line, indent = "", " " * hang
            begun = f"{line} {word}" if line else indent + word
            while cell_len(begun) > width:
                head, *_ = chop_cells(begun, width)
                lines.append(head)
                begun = " " * hang + begun[len(head) :]
                indent = " " * hang
            line = begun
        lines.append(line)
    return lines


def _natural(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))


def _shared(natural: dict[int, int], least: dict[int, int], room: int) -> dict[int, int]:
    """Widths that fit: what is left goes to the columns that need it, in equal steps."""
    widths = dict(least)
    left = room - sum(widths.values())
    while left > 0:
        short = [at for at in widths if widths[at] < natural[at]]
        if not short:
            break
        step = max(1, left // len(short))
        for at in short:
            more = min(step, natural[at] - widths[at], left)
            widths[at] += more
            left -= more
    return widths
