r"""How commands print: what a server wrote reaches a terminal as text, and never as an order to it.

Whatever goes through `Screen` shows the characters that a terminal obeys, or that nobody sees, as escapes
such as `\x1b`; brackets are no markup. `print_answer` is for what a tool answered: a file or a pipe
gets it as it came. JSON for programs has such characters as JSON escapes, and so the same value.
"""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, Final

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from maitred.backends.definitions import deceives

_PLAIN: Final = re.compile(r"[\x20-\x7e\n\t]*")
_BYTES: Final = bytes(range(0x80, 0x100)).decode("ascii", "surrogateescape")
"""How Python names the bytes of a file's name that are no text."""


class Screen(Console):
    """A console on which nothing that is printed is taken for markup, or obeyed."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = True, width: int | None = None) -> None:
        super().__init__(
            stderr=stderr, soft_wrap=soft_wrap, width=width, highlight=False, markup=False, emoji=False
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print; those that are no text are of this console itself."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text, terminal=self.is_terminal), style)


def printable(text: str, *, terminal: bool = True) -> str:
    r"""A text in which what deceives a reader, or orders a terminal about, stands as escapes: `\x1b`.

    Who reads from a pipe gets the bytes of a file's name that are no text as they are.
    """
    if _PLAIN.fullmatch(text):
        return text
    kept = "" if terminal else _BYTES
    shown = {ord(c): escaped(c) for c in set(text) if c not in kept and deceives(c)}
    return text.replace("\r\n", "\n").translate(shown)


def visible(text: str) -> str:
    r"""A text on one line in which every character shows; those that do not are escapes such as `\u202e`."""
    return text.translate({ord(c): escaped(c) for c in set(text) if not c.isprintable()})


def escaped(character: str) -> str:
    """A character as an escape of Python."""
    return character.encode("unicode_escape").decode("ascii")


def print_answer(text: str) -> None:
    """Print what a tool answered: to a terminal as text, to a file or a pipe as it came."""
    shown = printable(text) if sys.stdout.isatty() else text
    typer.echo(shown, color=True)  # else it would take colors out of what a file gets


def in_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON, in which no character deceives."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if _PLAIN.fullmatch(text):
        return text
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in set(text) if deceives(c)})
