"""Phrases for a tool in its own words without its names, and the advice on its definition."""

import pytest

from maitred.evaluation.paraphrase import paraphrases
from maitred.evaluation.selfcheck import advise
from maitred.search.base import ToolDocument

DESCRIBED = "Creates an issue in a tracker. Labels and assignees can be set at once."


def document(name: str, description: str = "", server: str = "s", **parameters: str) -> ToolDocument:
    return ToolDocument(
        name=name, server=server, description=description, parameters=tuple(parameters.items())
    )


def test_a_phrase_has_neither_the_name_nor_the_server_nor_stop_words() -> None:
    """An agent knows neither; inflected forms count as the same word."""
    told = paraphrases(document("create_issue", DESCRIBED, server="tracker", body="the text"))

    assert told == ["Creates issue tracker", "Labels assignees set once", "Creates issue tracker body"]


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        ("x", "", []),
        ("x", "Is it?", []),
        ("list_files", "List files.", ["List files"]),
        ("x", "Counts pages of a book.", ["Counts pages book"]),
        ("x", "把文本翻译成另一种语言。", ["把文本翻译成另一种语言"]),
    ],
)
def test_what_only_repeats_the_name_is_asked_for_by_it(
    name: str, description: str, expected: list[str]
) -> None:
    """Nothing is made up: no words, no phrase."""
    assert paraphrases(document(name, description)) == expected


def test_a_long_sentence_is_cut() -> None:
    """A phrase stays one that somebody might type."""
    told = paraphrases(document("x", " ".join(f"word{number}" for number in range(50))))

    assert [len(phrase.split()) for phrase in told] == [12]


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (document("create_issue"), "write a description"),
        (document("create_issue", "Creates it."), "too short"),
        (document("run", "Start the nightly report of all open orders."), "'run' says nothing"),
        (
            document("invoice_pdf", "Makes a nice printable file for customers."),
            "never says 'invoice', 'pdf'",
        ),
        (document("sum_numbers", "Adds numbers up. " * 200), "too long"),
        (document("sum_numbers", "Adds numbers " + "and more " * 20), "first sentence is too long"),
        (
            document("sum_numbers", "Adds two numbers or many of them.", a="", b="", c=""),
            "none of its parameters",
        ),
        (document("sum_numbers", "Adds two numbers or many of them."), "sets it apart"),
    ],
)
def test_advice_names_what_is_wrong(tool: ToolDocument, says: str) -> None:
    """Each rule has its own sentence, and there is always one."""
    assert any(says in advice for advice in advise(tool)), advise(tool)


def test_advice_names_tools_that_say_the_same() -> None:
    """The first of them, and how many more."""
    tool = document("sum_numbers", "Adds two numbers or many of them.")

    assert any("also that of 'add' and 1 more" in one for one in advise(tool, twins=["add", "plus"]))
    assert any("first sentence is that of 'add'" in one for one in advise(tool, echoes=["add"]))


def test_a_good_definition_gets_no_advice_on_its_words() -> None:
    """Only the general advice is left, which says to look at what comes first instead."""
    [advice] = advise(document("create_issue", DESCRIBED, title="what it is called"))
    assert "come first instead" in advice
