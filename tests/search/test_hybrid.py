"""Finding tools: what comes first, what is withheld, and that nothing in a query can break the search."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.makers import raw, snapshot_of

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import RawTool, ToolKey
from maitred.search.index import HybridIndex
from maitred.search.prior import usage_prior
from maitred.search.results import EmbeddedQuery, Filter, SearchHits

WEATHER = raw("weather", "get_forecast", description="The weather of the coming days for a city.")
ISSUE = raw("github", "createIssue", description="Create an issue in a repository.")
PULLS = raw("github", "list_pull_requests", description="List the pull requests of a repository.")
COMMENT = raw("github", "add_comment", description="Say something about an issue or a pull request.")
TICKET = raw("jira", "create_issue", description="Create a ticket in a project.")
JAPANESE = raw("tenki", "get_tenki", description="指定した都市の天気予報を取得します。")
CHINESE = raw("zh", "create_repo", description="在GitHub上创建一个新的仓库。")
TOOLS = [WEATHER, ISSUE, PULLS, COMMENT, TICKET, JAPANESE, CHINESE]
ALL = {tool.key.server for tool in TOOLS} | {"zh2", "pay", "spam", "crowd", "other", "a", "b", "bank"}
ALL |= {f"mail-{number}" for number in range(4)}


def index_of(*tools: RawTool) -> HybridIndex:
    index = HybridIndex()
    index.update(snapshot_of(tools or TOOLS))
    return index


def find(
    index: HybridIndex, *phrases: str, visible: set[str] = ALL, server: str = "", limit: int = 5, **more: Any
) -> SearchHits:
    only = Filter(visible=frozenset(visible), server=server, **more)
    return index.search([EmbeddedQuery(phrase=phrase, text=phrase) for phrase in phrases], only, limit)


def search(index: HybridIndex, *phrases: str, server: str = "", limit: int = 5) -> list[str]:
    return [hit.tool.name for hit in find(index, *phrases, server=server, limit=limit).hits]


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
    found = find(index_of(), "create issue", visible=ALL - {"jira"}, limit=1)

    assert [hit.tool.name for hit in found.hits] == ["github__createIssue"]
    assert [tool.name for tool in found.withheld] == ["jira__create_issue"]


def test_a_crowd_of_withheld_matches_hides_nothing_that_may_be_shown() -> None:
    """A disabled server with six hundred better matches does not push out the one tool that can be called."""
    crowd = [raw("bank", f"convert_currency_{number}") for number in range(600)]
    weak = raw(
        "github", "other", description="A long text " + "of many words " * 30 + "that can convert things."
    )

    found = find(index_of(*crowd, weak), "convert currency", visible={"github"})

    assert [hit.tool.name for hit in found.hits] == ["github__other"]


def test_only_tools_that_read_are_found_if_that_is_wanted() -> None:
    """The filter comes before the ranking, so that nothing else takes a place."""
    reading = raw("bank", "show_issue", annotations={"readOnlyHint": True})

    found = find(index_of(*TOOLS, reading), "create issue", read_only=True)

    assert [hit.tool.name for hit in found.hits] == ["bank__show_issue"]


@pytest.mark.parametrize("query", ["creat isue", "createe isssue", "forecasst", "pul reqests"])
def test_a_misspelled_word_still_finds_its_tool(query: str) -> None:
    """Where no word is known, those spelled like it count."""
    expected = {"c": "github__createIssue", "f": "weather__get_forecast", "p": "github__list_pull_requests"}
    assert expected[query[0]] in search(index_of(), query)[:2]


def test_the_name_of_a_server_finds_its_tools_first() -> None:
    """Whoever asks for GitHub gets GitHub, also where another tool says the word more often."""
    other = raw("zh2", "sync", description="GitHub GitHub GitHub GitHub GitHub GitHub.")

    assert {name.split("__")[0] for name in search(index_of(*TOOLS, other), "github")[:3]} == {"github"}


def test_tools_that_differ_by_their_server_alone_are_told_once() -> None:
    """The other servers stand beside the first, so that no place is lost to doubles."""
    twins = [raw(f"mail-{n}", "send_mail", description="Send a mail.") for n in range(4)]

    hits = find(index_of(*TOOLS, *twins), "send a mail").hits

    assert [(hit.tool.server, [tool.server for tool in hit.also]) for hit in hits] == [
        ("mail-0", ["mail-1", "mail-2", "mail-3"])
    ]


def index_since(*tools: tuple[RawTool, str]) -> HybridIndex:
    """An index of tools with the times since when they are known."""
    snapshot = snapshot_of([tool for tool, _ in tools])
    since = {tool.key: at for tool, at in tools}
    index = HybridIndex()
    index.update(replace(snapshot, tools=tuple(replace(one, since=since[one.key]) for one in snapshot.tools)))
    return index


EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


def mail_of(server: str, description: str = "Send a mail to one or several people.") -> RawTool:
    return raw(server, "send_mail", description=description)


def test_a_copy_takes_no_place_of_the_tool_that_was_there_before() -> None:
    """Of equal tools the one that was known first has the line, whatever its server is called."""
    hits = find(index_since((mail_of("a"), LATE), (mail_of("b"), EARLY)), "send a mail").hits

    assert [(hit.tool.server, [tool.server for tool in hit.also]) for hit in hits] == [("b", ["a"])]


def test_the_server_that_was_approved_first_has_the_line() -> None:
    """What was known before it was approved counts from its approval."""
    index = index_since((mail_of("a"), EARLY), (mail_of("b"), EARLY))
    index.approve({"a": "2026-03-01T00:00:00+00:00", "b": LATE})

    assert [hit.tool.server for hit in find(index, "send a mail").hits] == ["b"]


def test_the_copy_whose_published_name_is_asked_for_has_the_line() -> None:
    """Nobody gets another server than the one that is named."""
    index = index_since((mail_of("a"), LATE), (mail_of("b"), EARLY))

    assert search(index, "a__send_mail")[0] == "a__send_mail"


def test_a_copy_with_some_words_more_pushes_no_tool_out_of_the_first_five() -> None:
    """Copies of several servers come behind the first five; the tool that was there before stays first."""
    others = [
        (raw("other", f"mail_{n}", description=f"Send a mail of kind {n * 'x'}."), EARLY) for n in (1, 2)
    ]
    greedy = [
        (mail_of(f"mail-{n}", f"Send a mail to one or several people {word}."), LATE)
        for n, word in enumerate(("quickly", "now", "safely", "mail mail"))
    ]
    index = index_since((mail_of("b"), EARLY), *others, *greedy)

    first = [name.split("__")[0] for name in search(index, "send a mail to several people", limit=7)]

    assert first[:3] == ["b", "other", "other"]
    assert len(first) == 7


def test_tools_of_one_server_are_no_copies_of_each_other() -> None:
    """A server may have a tool in two forms."""
    forms = [raw("b", f"send_mail{n}", description="Send a mail to people now.") for n in ("", "_fast")]

    assert len(search(index_since(*((form, EARLY) for form in forms)), "send a mail")) == 2


def test_many_copies_leave_the_other_tools_in_the_answer() -> None:
    """More copies than the answer has places fill no place but one."""
    crowd = [(mail_of(f"c{n}"), LATE) for n in range(60)]
    index = index_since(
        (mail_of("zz"), EARLY), (raw("other", "post_letter", description="Send mail."), LATE), *crowd
    )
    visible = {"zz", "other", *(f"c{n}" for n in range(60))}

    hits = find(index, "send a mail", visible=visible).hits

    assert [hit.tool.server for hit in hits] == ["zz", "other"]
    assert len(hits[0].also) == 60


def test_saying_a_word_again_and_again_gains_nothing() -> None:
    """Source: issue "Search", defence against manipulation of the ranking."""
    honest = raw("pay", "refund_payment", description="Refund a payment to a customer.")
    greedy = raw("spam", "anything", description="refund payment " * 120)

    assert search(index_of(*TOOLS, honest, greedy), "refund a payment")[0] == "pay__refund_payment"


def test_a_description_that_names_everything_gains_nothing() -> None:
    """A server cannot stand before all others by claiming to do all that they do."""
    claims = " ".join(tool.description for tool in TOOLS) + " " + "best tool for every task " * 40
    greedy = raw("spam", "do_everything", description=claims * 3)
    index = index_of(*TOOLS, greedy)

    for query in ("weather forecast for a city", "create an issue in a repository", "list pull requests"):
        assert not search(index, query)[0].startswith("spam")


def test_a_server_with_many_like_tools_leaves_room_for_others() -> None:
    """No server fills the first five places while another has a tool about as good."""
    crowd = [raw("crowd", f"send_message_{n}", description=f"Send a message {n}.") for n in range(9)]
    other = raw("other", "send_message_now", description="Send a message at once.")

    assert "other__send_message_now" in search(index_of(*crowd, other), "send message")[:5]


def test_among_equals_the_tool_that_was_used_comes_first() -> None:
    """Usage decides between equals and never lifts a tool above a much better one."""
    tools = [raw("a", "send_mail_one"), raw("b", "send_mail_two")]
    index = index_of(*TOOLS, *tools)
    index.used(ToolKey(server="b", name="send_mail_two"))
    for _ in range(1000):
        index.used(WEATHER.key)

    assert search(index, "send mail")[:2] == ["b__send_mail_two", "a__send_mail_one"]
    assert search(index, "issue of the weather service repository")[0] != "weather__get_forecast"


def test_a_tool_that_was_called_often_goes_before_one_that_fits_a_little_better() -> None:
    """The more of all calls are its own, the more; one call among many is little evidence."""
    better, other = "a__send_mail", "b__send_mail_message"
    tools = [
        raw("a", "send_mail", description="Send a mail."),
        raw("b", "send_mail_message", description="Send mail."),
    ]
    index = index_of(*TOOLS, *tools)
    assert search(index, "send a mail")[:2] == [better, other]
    index.remember({tools[1].key: 500})
    assert search(index, "send a mail")[:2] == [other, better]
    assert usage_prior(1, 1_000) < usage_prior(10, 1_000) < usage_prior(100, 1_000) < usage_prior(100, 100)
    assert usage_prior(0, 1_000) == 0
    assert usage_prior(1_000_000, 1_000_000) == pytest.approx(0.1)


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
    found = find(INDEX, query, server="github")
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
    updated = HybridIndex()
    for generation, tools in enumerate(history):
        updated.update(snapshot_of(tools, generation=generation))
    fresh = HybridIndex()
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
    index = HybridIndex()
    index.update(Snapshot())

    assert search(index, "anything") == []
    assert index.nearest("anything") == []
    assert ToolKey(server="a", name="b") not in Snapshot().by_key
