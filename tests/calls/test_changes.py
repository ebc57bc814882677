"""What changed between two texts: every line of the view is true of the newer text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from maitred.calls.changes import AS_BEFORE, LEAST_LIKE_RUN, align, changes

IDS = re.compile(r"\[ref=\w+\]")
TEXTS = st.lists(st.sampled_from(["a", "b", "  c", "  d", "    e", "f", ""]), max_size=30)


def page(*names: str, load: int = 0) -> list[str]:
    """A list of named links, each with an id."""
    return ["- list [ref=x]:", *(f'  - link "{name}" [ref=f{load}e{n}]' for n, name in enumerate(names))]


@given(TEXTS, TEXTS)
def test_lines_that_are_matched_are_equal_and_in_order(old: list[str], new: list[str]) -> None:
    places = align(old, new)
    matched = [place for place in places if place >= 0]

    assert matched == sorted(set(matched))
    assert all(old[place] == line for line, place in zip(new, places, strict=True) if place >= 0)


@given(TEXTS)
def test_a_text_has_no_changes_to_itself(text: list[str]) -> None:
    assert not changes(text, text).lines or align(text, text) != list(range(len(text)))
    assert align(text, text) == list(range(len(text)))


@given(TEXTS, TEXTS)
def test_the_view_has_every_line_that_is_new_and_no_line_that_is_not_there(
    old: list[str], new: list[str]
) -> None:
    view = changes(old, new)
    shown = [line for line in view.lines if "gone: " not in line]

    assert all(line in new for line in shown)
    assert {line for line in new if line not in old} <= set(shown)
    assert all(view.lines[place] in new for place in view.new)


def test_a_changed_line_comes_with_the_lines_that_it_is_in() -> None:
    old = ["- main:", "  - form:", "    - box: 1", "  - list:", "    - item: a"]
    new = ["- main:", "  - form:", "    - box: 2", "  - list:", "    - item: a"]

    assert changes(old, new).lines == ["- main:", "  - form:", "    - box: 2"]


def test_lines_in_another_order_count_as_changed() -> None:
    """A list that was sorted differs, though all its lines were there before."""
    view = changes(page("a", "b", "c"), [page("a", "b", "c")[n] for n in (0, 3, 1, 2)])

    assert view.lines == ["- list [ref=x]:", '  - link "c" [ref=f0e2]']


def test_many_lines_with_other_ids_are_counted_and_few_are_shown() -> None:
    names = [f"n{number}" for number in range(LEAST_LIKE_RUN)]
    many = changes(page(*names), page(*names, load=1), IDS).lines
    few = changes(page("a", "b"), page("a", "b", load=1), IDS).lines

    assert many == [f"  …{LEAST_LIKE_RUN} lines {AS_BEFORE}: {', '.join(names)}"]
    assert few == page("a", "b", load=1)


def test_what_is_gone_is_named_unless_another_line_took_its_place() -> None:
    old = page("a", "b", "c")
    replaced = [*old[:2], '  - link "B" [ref=f0e1]', old[3]]

    assert changes(old, [*old[:2], old[3]]).lines == ["- list [ref=x]:", '  gone: - link "b" [ref=f0e1]']
    assert changes(old, replaced, IDS).lines == ["- list [ref=x]:", '  - link "B" [ref=f0e1]']
