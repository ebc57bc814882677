"""Tables hold at any width: no line is wider, no name is cut, and nothing is lost."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from maitred.surfaces.cli.tables import PlainTable, wrap

NAME = "playwright-with-a-long-name__browser_take_screenshot_of_page_12"
CELLS = st.text(alphabet="ab-_é界 ", max_size=90)


def printed(table: PlainTable, width: int) -> list[str]:
    console = Console(width=width, color_system=None, soft_wrap=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def of(rows: Sequence[Sequence[str]]) -> PlainTable:
    return PlainTable(title="", headings=("tool", "calls", "about"), rows=rows, numbers=("calls",))


@given(st.lists(st.tuples(CELLS, st.integers().map(str), CELLS), max_size=4), st.integers(30, 120))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    """Whatever the texts are, wide characters too."""
    lines = printed(of(rows), width)

    assert max(map(cell_len, lines)) <= width
    shown = re.sub(r"\s+", "", "".join(lines))
    for row in rows:
        for word in " ".join(row).split():
            assert cell_len(word) > 8 or word in shown


@pytest.mark.parametrize("width", [64, 80, 100])
def test_a_long_name_is_whole_on_one_line(width: int) -> None:
    """A user copies it, so what is beside it goes below."""
    lines = printed(
        of([(NAME, "1,234", "Takes a picture of the page as it is now, or of an element")]), width
    )

    assert sum(NAME in line for line in lines) == 1
    assert "1,234" in "\n".join(lines)


def test_prose_beside_names_wraps_between_words() -> None:
    """In its own column, as long as that has room."""
    lines = printed(of([("echo", "3", "one two three four five six seven")]), 40)

    assert lines == [
        "tool  calls  about",
        "echo      3  one two three four five six",
        "             seven",
    ]


def test_what_has_no_room_goes_below_its_row_with_its_heading() -> None:
    """Its lines are indented, so that rows can be told apart."""
    rows = [(NAME[:30], "3", "a-word-that-is-long another"), ("x", "1", "")]
    lines = printed(of(rows), 44)

    assert lines == [
        "tool                            calls",
        f"{NAME[:30]}      3",
        "    about: a-word-that-is-long another",
        "x                                   1",
    ]


def test_a_word_longer_than_a_line_is_broken_and_only_that() -> None:
    """There is no other way."""
    assert wrap("ab " + "c" * 25 + " de", 10) == ["ab", "c" * 10, "c" * 10, "c" * 5 + " de"]
