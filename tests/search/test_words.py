"""How text is cut into the words that search matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.search.tokenize import normalise_name, query_words, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list_pull_requests", {"list", "pull", "requests", "listpullrequests"}),
        ("listPullRequests", {"list", "pull", "requests", "listpullrequests"}),
        ("list-pull-requests", {"list", "pull", "requests", "listpullrequests"}),
        ("HTTPServer", {"http", "server", "httpserver"}),
        ("mp3ToWav", {"mp", "3", "to", "wav", "mp3towav"}),
        ("listURLs", {"list", "urls", "listurls"}),
        ("listPRsOfUser", {"list", "prs", "of", "user", "listprsofuser"}),
        ("Café", {"café"}),
        ("GitHub", {"git", "hub", "github"}),
        ("", set()),
        ("?!*", set()),
    ],
)
def test_an_identifier_gives_its_pieces_and_its_whole(text: str, expected: set[str]) -> None:
    """`pull requests` and `listPullRequests` find the same tool. Source: DESIGN 4, one search engine."""
    assert expected <= set(words(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("天気予報", {"天", "気", "予", "報"}),
        ("在GitHub上创建", {"在", "github", "上", "创", "建"}),
        ("Slackにメッセージを送る", {"slack", "メ", "送"}),
    ],
)
def test_scripts_without_spaces_give_a_word_for_every_character(text: str, expected: set[str]) -> None:
    """There is no other boundary to match at; a Latin name amid them stays the name that it is."""
    assert expected <= set(words(text))


def test_stop_words_are_dropped_unless_the_query_has_no_others() -> None:
    """`get the weather for a city` is about weather and city; `do it` must still ask for something."""
    assert query_words("get the weather for a city") == ["weather", "city"]
    assert query_words("do it") == ["do", "it"]


@given(st.text())
def test_any_text_gives_words_that_are_lower_case_and_not_empty(text: str) -> None:
    """Words go into a query language: nothing but letters and digits may be in them."""
    for word in query_words(text):
        assert word.isalnum()
        assert word == word.lower()


@pytest.mark.parametrize("name", ["listPRs", "list_prs", "list-prs", "LIST PRS"])
def test_spellings_of_one_name_are_the_same_when_normalised(name: str) -> None:
    """An agent that remembers a name only roughly still hits it exactly."""
    assert normalise_name(name) == "listprs"
