"""Finding tools: what comes first, what is withheld, and that nothing in a query can break the search."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.makers import raw, snapshot_of

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import RawTool, ToolKey
from maitred.search.index import LexicalIndex

WEATHER = raw("weather", "get_forecast", description="The weather of the coming days for a city.")
ISSUE = raw("github", "createIssue", description="Create an issue in a repository.")
PULLS = raw("github", "list_pull_requests", description="List the pull requests of a repository.")
COMMENT = raw("github", "add_comment", description="Say something about an issue or a pull request.")
TICKET = raw("jira", "create_issue", description="Create a ticket in a project.")
JAPANESE = raw("tenki", "get_tenki", description="指定した都市の天気予報を取得します。")
CHINESE = raw("zh", "create_repo", description="在GitHub上创建一个新的仓库。")
TOOLS = [WEATHER, ISSUE, PULLS, COMMENT, TICKET, JAPANESE, CHINESE]
ALL = {tool.key.server for tool in TOOLS}


def index_of(*tools: RawTool) -> LexicalIndex:
    index = LexicalIndex()
    index.update(snapshot_of(tools or TOOLS))
    return index


def search(index: LexicalIndex, *phrases: str, server: str = "", limit: int = 5) -> list[str]:
    hits = index.search(phrases, visible=ALL, server=server, limit=limit).hits
    return [hit.tool.name for hit in hits]


@pytest.mark.parametrize("name", ["github__add_comment", "add_comment", "addComment", "ADD-COMMENT"])
def test_a_name_finds_its_tool_first(name: str) -> None:
    """The published and the raw name both count as exact, in any spelling. Source: DESIGN 5, rule 5."""
    assert search(index_of(), name)[0] == "github__add_comment"


def test_a_raw_name_that_two_servers_have_finds_both_first() -> None:
    """Neither is a better answer; which server is meant, only the agent knows."""
    assert set(search(index_of(), "create_issue")[:2]) == {"github__createIssue", "jira__create_issue"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("create issue repository", "github__createIssue"),
        ("createIssue repository", "github__createIssue"),
        ("listPullRequests", "github__list_pull_requests"),
        ("pull requests list", "github__list_pull_requests"),
        ("forecasts", "weather__get_forecast"),
        ("天気", "tenki__get_tenki"),
        ("创建仓库", "zh__create_repo"),
    ],
)
def test_what_a_tool_does_finds_it(query: str, expected: str) -> None:
    """Identifiers split or joined, endings, and scripts without spaces match on both sides."""
    assert search(index_of(), query)[0] == expected


def test_a_latin_name_amid_chinese_is_found() -> None:
    """`GitHub` is one word in a Chinese sentence as in an English one."""
    assert "zh__create_repo" in search(index_of(CHINESE), "github")


def test_a_parameter_finds_its_tool() -> None:
    """What a tool asks for says what it is about."""
    schema = {"type": "object", "properties": {"iban": {"type": "string", "description": "Account number"}}}

    assert search(index_of(*TOOLS, raw("github", "pay", input_schema=schema)), "iban") == ["github__pay"]


def test_only_tools_of_the_wanted_server_are_found() -> None:
    """The filter holds for exact names too."""
    assert search(index_of(), "create_issue", server="jira") == ["jira__create_issue"]
    assert search(index_of(), "create_issue", server="weather") == []


def test_the_best_of_every_phrase_comes_before_the_second_best_of_any() -> None:
    """One wordy phrase cannot crowd out the others, and no tool is told twice."""
    phrases = ["issue repository pull request", "weather of a city", "issue repository pull request"]

    found = search(index_of(), *phrases, limit=4)

    assert found[1] == "weather__get_forecast"
    assert len(set(found)) == len(found) == 4


def test_a_withheld_match_is_reported_and_takes_no_place() -> None:
    """What exists but may not be shown is never silently missing. Source: DESIGN 5, rule 1."""
    found = index_of().search(["create issue"], visible=ALL - {"jira"}, limit=1)

    assert [hit.tool.name for hit in found.hits] == ["github__createIssue"]
    assert [tool.name for tool in found.withheld] == ["jira__create_issue"]


def test_a_crowd_of_withheld_matches_hides_nothing_that_may_be_shown() -> None:
    """A disabled server with six hundred better matches does not push out the one tool that can be called."""
    crowd = [raw("bank", f"convert_currency_{number}") for number in range(600)]
    weak = raw(
        "github", "other", description="A long text " + "of many words " * 30 + "that can convert things."
    )

    found = index_of(*crowd, weak).search(["convert currency"], visible={"github"}, limit=5)

    assert [hit.tool.name for hit in found.hits] == ["github__other"]


def test_an_empty_phrase_finds_nothing() -> None:
    """No words, no guess."""
    assert search(index_of(), "", " ", "?!") == []
    assert search(index_of()) == []


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            ["NEAR(", ")", '"', "*", "AND", "OR", "NOT", "name:", "-", "^", "{", "}", "+", "issue"]
        ),
        max_size=12,
    ).map(" ".join)
)
def test_no_query_breaks_the_search(query: str) -> None:
    """Quotes, operators of the engine and odd characters are text like any other."""
    found = INDEX.search([query], visible=ALL, server="github")
    assert {hit.tool.server for hit in found.hits} <= {"github"}
    assert len(INDEX.nearest(query)) <= 3


INDEX = index_of()


def _tools(draw_from: list[tuple[str, str, str]]) -> list[RawTool]:
    unique = {(server, name): text for server, name, text in draw_from}
    return [raw(server, name, description=text) for (server, name), text in unique.items()]


generations = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["github", "jira"]),
            st.sampled_from(["create_issue", "closeIssue", "list"]),
            st.sampled_from(["Create an issue.", "Close it.", "The weather of a city."]),
        ),
        max_size=5,
    ).map(_tools),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(generations)
def test_an_index_that_was_updated_finds_what_a_fresh_one_finds(history: list[list[RawTool]]) -> None:
    """Tools come, change and go; nothing of earlier generations stays behind."""
    updated = LexicalIndex()
    for generation, tools in enumerate(history):
        updated.update(snapshot_of(tools, generation=generation))
    fresh = LexicalIndex()
    fresh.update(snapshot_of(history[-1]))

    for query in ("create an issue", "weather", "jira__list"):
        assert set(search(updated, query, limit=20)) == set(search(fresh, query, limit=20))


def test_a_mistaken_name_gives_the_names_that_were_likely_meant() -> None:
    """An unknown name is answered with the nearest. Source: DESIGN 5, rule 2."""
    assert index_of().nearest("github_list_pulls")[0] == "github__list_pull_requests"


def test_a_schema_with_half_a_character_does_not_end_the_search() -> None:
    r"""Patterns such as `[\ud800-\udbff]` come from JavaScript; one of them must not hide all tools."""
    odd = raw(
        "weather",
        "emoji",
        input_schema={"type": "object", "properties": {"a": {"pattern": "[\ud800-\udbff]"}}},
    )

    assert search(index_of(*TOOLS, odd), "forecast") == ["weather__get_forecast"]


def test_an_empty_catalog_is_searched_without_a_fault() -> None:
    """The first search may come before the first server."""
    index = LexicalIndex()
    index.update(Snapshot())

    assert search(index, "anything") == []
    assert index.nearest("anything") == []
    assert ToolKey(server="a", name="b") not in Snapshot().by_key
