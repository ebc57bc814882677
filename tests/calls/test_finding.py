"""Find the parts of a stored answer: small blocks around the lines that have the words."""

import json

import pytest

from maitred.calls.finding import MOST_ALTERNATIVES, MOST_CHARS, MOST_PARTS, find_parts

CARDS = "\n".join(
    ["- list:"]
    + [
        line
        for n in range(30)
        for line in (f'  - card "Kettle {n}":', f"    - price: {n}", f'    - button "Buy {n}"')
    ]
)


def test_a_part_is_the_block_around_a_line() -> None:
    expected = '  - card "Kettle 7":\n    - price: 7\n    - button "Buy 7"'
    assert find_parts(CARDS, 'kettle 7"') == expected
    assert find_parts(CARDS, "buy 7") == expected


def test_words_may_be_in_several_lines_of_a_block() -> None:
    assert find_parts(CARDS, '7": buy 7"').startswith('  - card "Kettle 7":')


def test_alternatives_are_searched_each_and_what_is_missing_is_said() -> None:
    found = find_parts(CARDS, 'kettle 7"|kettle 9"|teapot').splitlines()

    assert found[0] == '  - card "Kettle 7":'
    assert found[3:5] == ["…", '  - card "Kettle 9":']
    assert found[-1] == "Nothing has 'teapot'."


def test_too_many_parts_are_counted() -> None:
    found = find_parts(CARDS, "kettle")

    assert found.count("card") == MOST_PARTS
    assert found.endswith(f"{30 - MOST_PARTS} more parts match; ask for more words.")


@pytest.mark.parametrize("text", ["", "one line", "\n".join(f"line {n}" for n in range(50))])
def test_a_text_without_blocks_gives_some_lines_around_a_line(text: str) -> None:
    found = find_parts(text, "line 40")
    assert found == (
        "\n".join(f"line {n}" for n in range(39, 46)) if "40" in text else "Nothing has 'line 40'."
    )


def test_a_long_line_is_shown_around_the_words() -> None:
    found = find_parts("x" * 5_000 + " needle in hay " + "y" * 5_000, "needle")

    assert "needle in hay" in found
    assert len(found) < 500
    assert found[0] == found[-1] == "…"


def test_json_in_one_line_is_searched_as_if_it_were_indented() -> None:
    found = find_parts(
        json.dumps({"list": [{"name": f"Kettle {n}", "price": n} for n in range(40)]}), "kettle 33"
    )

    assert '"price": 33' in found
    assert "Kettle 1" not in found


def test_what_was_not_searched_is_said() -> None:
    query = "|".join(f"word {n}" for n in range(MOST_ALTERNATIVES + 2))
    said = find_parts("a\n" * MOST_CHARS, query).splitlines()

    assert (
        said[-2]
        == f"Only the first {MOST_ALTERNATIVES} of {MOST_ALTERNATIVES + 2} alternatives were searched."
    )
    assert said[-1].startswith(
        f"Only the first {MOST_CHARS:,} of {2 * MOST_CHARS:,} characters were searched"
    )
