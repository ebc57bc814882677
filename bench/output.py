"""Where tables go: a terminal, or Markdown as `docs/benchmarks.md` has it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table

_LEFT = ("answer to a caller meanwhile", "categories", "protocol")
"""Heads of columns of text, besides the first."""


class Output(Protocol):
    """Takes tables and lines."""

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
        """Print a table; a row that is shorter than the others ends with a remark."""
        ...

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line."""
        ...


class Terminal:
    """Tables as a person sees them in a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
        """Print a table."""
        table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
        for place, head in enumerate(heads):
            table.add_column(head, justify="right" if _is_number(place, head) else "left")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def line(self, text: str, *, style: str = "") -> None:
        """Print a line."""
        self._console.print(text, style=style or None, markup=False)


def _is_number(place: int, head: str) -> bool:
    """Whether a column has numbers."""
    return place > 0 and head not in _LEFT


class Markdown:
    """Tables as the documentation has them. `lines` is what was printed since it was last cleared."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def table(self, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
        """Print a table with its title before it and its caption after it."""
        self._print("", f"**{title}**", "")
        for row in (
            heads,
            ["---:" if _is_number(place, head) else "---" for place, head in enumerate(heads)],
            *rows,
        ):
            cells = [*row, *([""] * (len(heads) - len(row)))]
            self._print(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        self._print("", caption)

    def line(self, text: str, *, style: str = "") -> None:
        """Print a paragraph."""
        self._print("", text)

    def _print(self, *lines: str) -> None:
        self.lines += lines
        print("\n".join(lines), flush=True)


class Page:
    """A page with a part for each bench, between `<!-- bench NAME -->` and `<!-- end -->`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def without(self, names: Sequence[str]) -> list[str]:
        """The benches for which the page has no part."""
        text = self._path.read_text(encoding="utf-8")
        return [name for name in names if not _part(name).search(text)]

    def replace(self, name: str, lines: Sequence[str]) -> None:
        """Put what a bench printed in the place of its part."""
        text = self._path.read_text(encoding="utf-8")
        body = "\n".join(lines).strip()
        made = _part(name).sub(lambda found: f"{found[1]}{body}\n{found[2]}", text)
        self._path.write_text(made, encoding="utf-8")


def _part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- bench {name} -->\n).*?(<!-- end -->)", re.DOTALL)
