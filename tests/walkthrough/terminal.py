"""A terminal of a few rules: what is left on its lines when a program has written to it.

It knows what the command line of maitred writes: text, colours, new lines, and a line that is written again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

WIDTH: Final = 100
_PARTS: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|(\r\n|\n|\r)|([^\x1b\r\n]+)")
_BRIGHT: Final = 90
_COLOURS: Final = 8


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a character looks; `colour` is 0 to 7, or -1 for that of the terminal."""

    colour: int = -1
    bold: bool = False
    dim: bool = False

    def after(self, codes: str) -> "Style":
        """The style after codes of SGR."""
        style = self
        for code in [int(part or 0) for part in codes.split(";")]:
            if code == 0:
                style = Style()
            elif code in (1, 2, 22):
                style = replace(style, bold=code == 1, dim=code == 2)
            elif code == 39:
                style = replace(style, colour=-1)
            elif 0 <= code % 10 < _COLOURS and code // 10 * 10 in (30, _BRIGHT):
                style = replace(style, colour=code % 10)
        return style

    def codes(self) -> str:
        """The codes that lead to it."""
        codes = ["0", "1" * self.bold, "2" * self.dim, str(30 + self.colour) if self.colour >= 0 else ""]
        return f"\x1b[{';'.join(filter(None, codes))}m"


PLAIN: Final = Style()
Run = tuple[str, Style]
Line = Sequence[Run]


@dataclass(kw_only=True)
class Terminal:
    """Lines of characters, each with its style, and a cursor."""

    rows: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: Style = PLAIN

    def write(self, text: str) -> None:
        """Take what a program writes."""
        for found in _PARTS.finditer(text):
            codes, letter, line_end, plain = found.groups()
            if plain:
                self._put(plain)
            elif line_end:
                self.column = 0
                self.row += "\n" in line_end
            elif letter == "m":
                self.style = self.style.after(codes)
            elif letter == "A":
                self.row = max(0, self.row - int(codes or 1))
            elif letter == "K":
                self._here()[self.column if codes in ("", "0") else 0 :] = []
        self._here()

    def lines(self) -> Sequence[Line]:
        """The lines as runs of one style, without empty ones at both ends."""
        lines = [_runs(row) for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        return lines

    def _here(self) -> list[tuple[str, Style]]:
        while len(self.rows) <= self.row:
            self.rows.append([])
        return self.rows[self.row]

    def _put(self, text: str) -> None:
        for character in text:
            if self.column == WIDTH:
                self.row, self.column = self.row + 1, 0
            row = self._here()
            row += [(" ", PLAIN)] * (self.column + 1 - len(row))
            row[self.column] = (character, self.style)
            self.column += 1


def _runs(row: Sequence[tuple[str, Style]]) -> Line:
    runs: list[Run] = []
    for character, style in row:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + character, style)
        else:
            runs.append((character, style))
    while runs and not runs[-1][0].strip():
        runs.pop()
    if runs:
        runs[-1] = (runs[-1][0].rstrip(), runs[-1][1])
    return runs


def text_of(line: Line) -> str:
    """A line without its styles."""
    return "".join(text for text, _ in line)
