"""A mended tool is found by what its server says of it and by what it is called and said to do now."""

from dataclasses import replace

import pytest
from tests.catalog.makers import one, raw, snapshot_of

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Mediation, Tool
from maitred.search.base import document, make_document
from maitred.search.index import HybridIndex
from maitred.search.results import EmbeddedQuery, Filter

OWN = Mediation(
    by="overrides",
    confidence=1.0,
    title="Usr",
    description="Fetches persons.",
    rename="get_member",
    use_cases=("who is it",),
)


def mended(tool: Tool, **fields: object) -> Tool:
    return replace(tool, title="Account", description="Look up one account.", mending=replace(OWN, **fields))  # type: ignore[arg-type]


def searched(phrase: str) -> list[str]:
    """The raw names that words find, in a catalog with one mended tool."""
    plain = snapshot_of([raw("s", "gt_usr"), raw("s", "send_mail", description="Send a letter.")])
    tools = tuple(mended(tool) if tool.key.name == "gt_usr" else tool for tool in plain.tools)
    index = HybridIndex(mode="lexical")
    index.update(replace(plain, tools=tools, generation=7))
    found = index.search([EmbeddedQuery(phrase=phrase, text=phrase)], Filter(visible=frozenset({"s"})))
    return [hit.tool.key.name for hit in found.hits]


@pytest.mark.parametrize(
    "phrase", ["gt_usr", "usr", "persons", "get member", "account", "look up", "who is it"]
)
def test_both_are_findable(phrase: str) -> None:
    """The raw name, the new one, both titles and descriptions, and the use cases."""
    assert searched(phrase)[0] == "gt_usr"


def test_what_says_no_new_word_is_not_said_twice() -> None:
    """A repaired sentence counts once, so that being mended is no merit."""
    snapshot, tool = one(name="t")
    about = document(snapshot, mended(tool, description="LOOK UP ACCOUNT one!", title="account", rename=""))

    assert (about.title, about.description) == ("Account", "Look up one account.\nwho is it")


def test_what_a_person_or_a_model_chose_comes_before_use_cases_of_a_mending() -> None:
    snapshot, tool = one(name="t")
    about = document(snapshot, replace(mended(tool), use_cases=("find him",)))

    assert about.description == "Look up one account.\nfind him\nFetches persons."


def test_a_tool_that_is_not_mended_is_read_as_ever() -> None:
    """Its digest stays, under which vectors were kept by earlier versions."""
    snapshot, tool = one(
        name="t",
        title="A title",
        description="Does it.",
        input_schema={"type": "object", "properties": {"a": {"description": "The a."}}},
    )
    about = document(snapshot, replace(tool, use_cases=("do it",)))

    assert about.digest == "6bc9190919e2eb7d4a5371225363d6cf"
    assert (about.title, about.description) == ("A title", "Does it.\ndo it")
    assert document(Snapshot(), replace(tool, description="", input_hash="")).description == ""


def test_long_texts_count_no_more_beyond_a_length() -> None:
    """Those of the server neither."""
    about = make_document(name="t", titles=["a" * 3_000], descriptions=["b" * 3_000, "c" * 3_000])

    assert (len(about.title), about.description) == (2_000, f"{'b' * 2_000}\n{'c' * 2_000}")
