"""The headings and tags that every menu begins with, and what an operator's own make of them."""

import re

import pytest

from maitred.config.taxonomy import (
    CATEGORIES,
    FALLBACK,
    TAGS,
    check_categories,
    check_tags,
    merge_categories,
    normalise_tag,
)
from maitred.model.categories import Category
from maitred.search.tokenize import index_terms


def test_the_ten_headings_are_whole_and_in_order() -> None:
    """An agent that browses reads a title and a sentence for each, and nothing is without words."""
    assert [category.name for category in CATEGORIES] == [
        "code_analysis", "files_text", "web_automation", "documents", "data", "infrastructure", "ai",
        "security", "communication", "utilities",
    ]  # fmt: skip
    assert check_categories(CATEGORIES) == []
    for category in CATEGORIES:
        assert category.title
        assert category.description.endswith(".")
        assert len(category.words) >= 50
        assert len(set(category.words)) == len(category.words)
    assert CATEGORIES[-1].name == FALLBACK


def test_no_word_says_nothing() -> None:
    """Verbs that every server uses point nowhere, so they are in no heading."""
    empty = {
        tuple(index_terms(word)) for word in ("get", "list", "create", "update", "delete", "tool", "data")
    }
    for category in CATEGORIES:
        assert not empty & {tuple(index_terms(word)) for word in category.words}, category.name


def test_an_operators_own_category_stands_beside_the_built_in_ones() -> None:
    """Without a title it has its name as one."""
    found = merge_categories({"my_billing": Category(name="my_billing", parent="data", words=("invoice",))})

    assert found[:10] == CATEGORIES
    assert found[10] == Category(name="my_billing", title="My billing", parent="data", words=("invoice",))
    assert check_categories(found) == []


def test_a_change_replaces_what_it_says_and_adds_its_words() -> None:
    """An operator who only adds a word keeps title, description and the words that were there."""
    before = CATEGORIES[6]

    after = merge_categories({"ai": Category(name="ai", title="Models", words=("zebra", "llm"))})[6]

    assert after.title == "Models"
    assert after.description == before.description
    assert after.words == (*before.words, "zebra")


@pytest.mark.parametrize(
    ("categories", "fault"),
    [
        ([Category(name="Bad name")], "'Bad name': a category's name begins with a letter"),
        ([Category(name="x" * 41)], "at most 40"),
        ([Category(name="a", parent="dta"), Category(name="data")], "did you mean 'data'?"),
        ([Category(name="a", parent="a")], "a: is above itself (a > a)"),
        ([Category(name="a", parent="b"), Category(name="b", parent="a")], "a: is above itself (a > b > a)"),
    ],
)
def test_a_wrong_category_is_named_with_what_is_wrong(categories: list[Category], fault: str) -> None:
    """The operator is told before anything is placed."""
    assert any(fault in found for found in check_categories(categories))


def test_a_category_below_a_circle_is_not_blamed_for_it() -> None:
    """Each fault is said where it is, and checking ends."""
    circle = [Category(name="a", parent="b"), Category(name="b", parent="a"), Category(name="c", parent="a")]

    assert [fault.partition(":")[0] for fault in check_categories(circle)] == ["a", "b"]


def test_tags_are_plain_names_with_words_that_give_them_away() -> None:
    """A tag can be typed, and each can be found by rule."""
    assert list(TAGS) == ["function", "language", "framework", "technology"]
    for tags in TAGS.values():
        assert len(tags) >= 30
        for tag, words in tags.items():
            assert re.fullmatch(r"[a-z][a-z0-9_]*", tag)
            assert words
            assert all(index_terms(word) for word in words)


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ("language:python", "language:python"),
        ("python", "language:python"),
        ("Python", "language:python"),
        ("static analysis", "function:static_analysis"),
        ("Technology: REST-API", "technology:rest_api"),
        ("sql", None),
        ("technology:sql", "technology:sql"),
        ("framework:python", None),
        ("", None),
        (":", None),
        ("language:", None),
    ],
)
def test_a_tag_may_be_written_without_its_dimension_where_only_one_has_it(
    written: str, tag: str | None
) -> None:
    """`sql` is a language and a technology, so it has to be said which."""
    assert normalise_tag(written) == tag


def test_a_tag_outside_the_vocabulary_is_told_with_the_nearest() -> None:
    """A slip of the finger is mended from the message alone."""
    [slip, elsewhere, several, strange] = check_tags(["pyhton", "language:docker", "python", "sql", "qqqqq"])

    assert "language:python" in slip
    assert "technology:docker" in elsewhere
    assert "write language:sql or technology:sql" in several
    assert "the dimensions are function, language, framework, technology" in strange


def test_of_very_many_unknown_tags_some_are_told_and_the_others_counted() -> None:
    """To look for near names takes long. Source: maitred."""
    found = check_tags(f"no-such-{number}" for number in range(10_000))

    assert len(found) == 21
    assert found[-1] == "9,980 more tags are unknown"
