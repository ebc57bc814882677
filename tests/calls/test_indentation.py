"""Cut a text by its indentation: within the budget, by structure, with the names of what is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.calls.indentation import Block, cut, fold, to_blocks, with_names
from maitred.disclosure.budget import estimate

WORDS = st.sampled_from(["a", "b:", '"name"', ""])
LINES = st.lists(st.builds(lambda depth, text: " " * depth + text, st.integers(0, 8), WORDS), max_size=60)
PAGE = [
    "- banner:",
    *(f'  - link "Menu {n}"' for n in range(30)),
    "- main:",
    *(line for n in range(40) for line in (f'  - card "Kettle {n}":', f"    - price: {n}")),
    "- footer:",
    '  - link "Terms"',
]


@given(LINES)
def test_blocks_hold_every_line_in_its_order(lines: list[str]) -> None:
    parts = [part for block in to_blocks(lines) for part in block.lines()]

    assert [part.line for part in parts] == lines
    assert [part.place for part in parts] == list(range(len(lines)))
    assert sum(block.count for block in to_blocks(lines)) == len(lines)
    assert sum(block.chars for block in to_blocks(lines)) == sum(len(line) + 1 for line in lines)


@given(LINES, st.integers(20, 200))
def test_a_cut_text_is_within_its_budget(lines: list[str], budget: int) -> None:
    assert estimate(cut(to_blocks(lines), budget, estimate)) <= budget


@pytest.mark.parametrize("budget", [120, 200, 400])
def test_a_cut_shows_the_beginning_of_each_part_and_names_the_rest(budget: int) -> None:
    text = cut(to_blocks(PAGE), budget, estimate)

    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "- banner:",
        "- main:",
        "- footer:",
    ]
    assert '  - card "Kettle 0":' in text
    assert "Kettle 39" not in text
    assert "…+" in text


def test_a_text_within_the_budget_stays_as_it_is() -> None:
    assert cut(to_blocks(PAGE), 10_000, estimate) == "\n".join(PAGE)
    assert cut(to_blocks(PAGE), None, estimate) == "\n".join(PAGE)


def test_a_folded_block_keeps_its_line_and_the_names_below_it() -> None:
    def is_menu(block: Block) -> bool:
        return "banner" in block.line

    text = cut(fold(to_blocks(PAGE), is_menu), None, estimate).splitlines()

    assert text[0] == "- banner:"
    assert text[1].startswith("  …+30 lines: Menu 0, Menu 1, ")
    assert text[2] == "- main:"


def test_lines_that_nest_thousands_deep_are_cut_too() -> None:
    lines = [" " * depth + "x" for depth in range(3_000)]
    assert estimate(cut(fold(to_blocks(lines), lambda _: False), 300, estimate)) <= 300


def test_names_are_given_once_without_addresses_and_as_far_as_they_fit() -> None:
    lines = ['link "Home" "Home"', 'url: "/home" "https://x.example"', 'link "Cart"', 'link "Help"']

    assert with_names("…", lines, 100) == "…: Home, Cart, Help"
    assert with_names("…", lines, 14) == "…: Home, Cart, …"


def test_of_a_line_that_is_too_long_the_beginning_is_shown() -> None:
    text = cut(to_blocks(["word " * 5_000, "next"]), 200, estimate)

    assert text.startswith("word word word")
    assert "characters\n…+1 line" in text
    assert 120 < estimate(text) <= 200
