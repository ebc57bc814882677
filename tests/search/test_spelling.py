"""Mistyped words are read as words of the catalog, and the answer says so."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.makers import raw, snapshot_of

from maitred.search.engine import SearchEngine
from maitred.search.index import HybridIndex
from maitred.search.results import Filter
from maitred.search.spelling import Respelling, edit_distance

pytestmark = pytest.mark.anyio

ISSUE = raw("GitHub", "createIssue", description="Create an issue in a repository of GitHub.")
MAIL = raw("mail", "send_letter", description="Deliver a letter with attachments.")
SECRET = raw("vault", "rotate_zorblax", description="Rotate the zorblax.")
TOOLS = snapshot_of([ISSUE, MAIL, SECRET])
OPEN = Filter(visible=frozenset({"GitHub", "mail"}))


def read(text: str, wanted: Filter = OPEN) -> Respelling:
    index = HybridIndex(mode="lexical")
    index.update(TOOLS)
    return index.respell([text], wanted)[0]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("open a gihtub repository", "open a github repository"),  # swapped
        ("a repositry with issues", "a repository with issues"),  # left out
        ("a repossitory with issues", "a repository with issues"),  # doubled
        ("mail with atachmentts", "mail with attachments"),  # two edits of a long word
        ("Gihtub", "github"),
        ("delievr_letter", "deliver_letter"),
    ],
)
def test_a_mistyped_word_is_read_as_one_of_the_catalog(typed: str, expected: str) -> None:
    """One edit, or two of a word with six letters or more."""
    assert read(typed).text == expected


@pytest.mark.parametrize(
    "phrase",
    [
        "create an issue in a repository",
        "the weather in lisbon tomorrow",  # no tool has these words, but they are words
        "id ab12cd of an issue",
        "wxz an issue",  # too short to be sure
        "wifi for a repository",  # near a usual word that no tool has: it would only mislead
        "",
    ],
)
def test_what_is_no_mistake_stays(phrase: str) -> None:
    """Words of the catalog, English words, names with digits, and short words."""
    assert read(phrase) == Respelling(text=phrase)


@pytest.mark.parametrize(
    "phrase",
    [
        "erstelle einen neuen Vorgang im Repositorium",
        "créer un dépôt",
        "abrir incidencia del repositorio nuevo",
    ],
)
def test_a_phrase_in_another_language_stays(phrase: str) -> None:
    """Where most words are unknown, none is a typing error."""
    assert read(phrase) == Respelling(text=phrase)


def test_words_of_tools_that_a_caller_may_not_see_correct_nothing() -> None:
    """A correction would disclose them."""
    assert read("rotate the zorblx").corrections == {}
    assert read("rotate the zorblx", Filter(visible=frozenset({"vault"}))).corrections == {
        "zorblx": "zorblax"
    }


async def test_both_the_ranking_and_the_answer_have_the_correction() -> None:
    """The engine searches for the corrected words and returns what they replace."""
    async with SearchEngine(mode="lexical") as search:
        await search.update(TOOLS)
        hits, _ = await search.search(["make an isuse with gihtub"], OPEN, 5)

    assert hits.hits[0].tool.key == ISSUE.key
    assert hits.corrections == {"isuse": "issue", "gihtub": "github"}


def test_a_tool_that_left_takes_its_words_along() -> None:
    """What no tool has any more is nothing to correct to."""
    everything = Filter(visible=frozenset({"mail", "vault"}))
    index = HybridIndex(mode="lexical")
    index.update(TOOLS)
    assert index.respell(["rotate the zorblx"], everything)[0].corrections
    index.update(snapshot_of([MAIL], generation=TOOLS.generation + 1))

    assert not index.respell(["rotate the zorblx"], everything)[0].corrections


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_the_distance_is_the_least_number_of_edits(word: str, other: str) -> None:
    """It is symmetric, zero for equal words, and at most the longer length."""
    distance = edit_distance(word, other, 9)

    assert distance == edit_distance(other, word, 9)
    assert (distance == 0) == (word == other)
    assert abs(len(word) - len(other)) <= distance <= max(len(word), len(other))


def test_a_server_with_many_words_alike_takes_no_time_of_others() -> None:
    """Words of the same letters in another order; one phrase took a minute before there was a bound."""
    letters, order = "qxjkvwbyfgqxjkvwbyfgqxj", random.Random(1)
    words = {"z" + "".join(order.sample(letters, len(letters))) for _ in range(10_000)}
    index = HybridIndex(mode="lexical")
    index.update(snapshot_of([raw("mail", "send", description=" ".join(sorted(words)))]))
    phrase = " ".join("z" + "".join(order.sample(letters, len(letters))) for _ in range(12))
    start = time.process_time()
    index.respell([f"{phrase} list pull requests issue create read file write send mail open"], OPEN)
    assert time.process_time() - start < 3
