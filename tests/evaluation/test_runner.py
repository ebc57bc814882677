"""A labelled set measured through a gateway: the figures, the cost, and when search says nothing."""

import anyio
import pytest
from tests.evaluation.makers import QUERIES, TOOLS, query, tool

from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import NO_SERVER, gateway_with_tools, keys, raw_tools
from maitred.evaluation.labelled_queries import LabelledQuery, LabelledTool
from maitred.evaluation.runner import QueryResult, ask, evaluate, orphans, quality, silence
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolKey

pytestmark = pytest.mark.anyio

SOON_S = 120.0
WORDS = Search(mode="lexical")
SMALL = [
    LabelledTool(
        id=one["id"],
        server=one["server"] or "",
        name=one["name"],
        description=one["description"],
        input_schema=one["inputSchema"],
    )
    for one in TOOLS
]
ASKED = [
    LabelledQuery(id=one["id"], phrases=(one["query"],), relevant=tuple(one["relevant"])) for one in QUERIES
]


def asked(one: LabelledQuery, *ranking: str, silent: bool = False) -> QueryResult:
    return QueryResult(query=one, ranking=ranking, ms=1.0, text="", is_silent=silent)


async def test_a_small_set_is_found_as_its_words_say() -> None:
    """Queries in the words of a description bring its tool first; the one that nothing serves is apart."""
    steps: list[None] = []
    with anyio.fail_after(SOON_S):
        found = await evaluate(SMALL, ASKED, ks=[1, 5], search=WORDS, step=lambda: steps.append(None))

    assert (found.mode, found.tools, len(steps)) == ("lexical", len(SMALL), len(ASKED))
    assert found.quality is not None
    assert (found.quality.queries, found.quality.recall) == (3, {1: 1.0, 5: 1.0})
    assert (found.quality.ndcg_at_10, found.quality.mrr) == (1.0, 1.0)
    assert (found.silence.nothing_relevant, found.silence.false_answers) == (1, 0.0)
    assert found.silence.something_relevant == 3
    assert found.removal is None
    assert 0 < found.cost.p50_ms <= found.cost.p95_ms
    assert 0 < found.cost.p50_tokens <= found.cost.p95_tokens
    assert found.cost.counted == "o200k"


async def test_the_tools_of_some_queries_can_be_taken_out() -> None:
    """At most a fifth of the tools goes, and only queries that nothing serves any more are asked."""
    with anyio.fail_after(SOON_S):
        found = await evaluate(SMALL, ASKED, search=WORDS, removed=10)

    assert found.removal is not None
    assert found.removal.tools_removed == 1
    assert found.removal.silence.nothing_relevant == 1
    assert found.removal.silence.something_relevant == 0


async def test_tools_with_one_name_are_told_apart() -> None:
    """Several ids may share server and name: each result is still counted for the right one."""
    twins = [
        tool("a", name="convert", description="Change money of one country into that of another."),
        tool("b", name="convert", description="Change a length in feet into metres."),
    ]

    with anyio.fail_after(SOON_S):
        async with gateway_with_tools(raw_tools(twins), WORDS) as gateway:
            found = await ask(
                gateway, keys(twins), [query("1", "length in feet", "b"), query("2", "money", "a")], limit=1
            )

    assert [one.ranking for one in found] == [["b"], ["a"]]


async def test_no_server_is_started_for_a_stocked_catalog() -> None:
    """All its servers are known and visible, though there is nothing behind them."""
    with anyio.fail_after(SOON_S):
        async with gateway_with_tools(raw_tools(SMALL), WORDS) as gateway:
            status = gateway.servers(LOCAL_USER)
            visible = gateway.visible_tools(LOCAL_USER)

    assert {one.name: one.tools for one in status} == {"mail": 2, "git": 1, NO_SERVER: 2}
    assert all(one.health.pid is None and not one.withheld for one in status)
    assert not any(one.health.fault for one in status)
    assert len(visible) == len(SMALL)


def test_tools_without_a_server_get_one() -> None:
    """A name that is taken gets a number, in the order of the file."""
    found = keys([tool("a", name="x"), tool("b", name="x"), tool("c", "tools", "x"), tool("d", "s", "x")])

    assert found == {
        ToolKey(server="tools", name="x"): "a",
        ToolKey(server="tools", name="x_2"): "b",
        ToolKey(server="tools", name="x_3"): "c",
        ToolKey(server="s", name="x"): "d",
    }


def test_quality_is_the_mean_over_queries_that_have_an_answer() -> None:
    """Each query weighs the same, however many tools serve it."""
    found = quality(
        [
            asked(query("1", "q", "a"), "a", "b"),
            asked(query("2", "q", "c", "d"), "x", "c"),
            asked(query("3", "q")),
        ],
        [1, 2],
    )

    assert found is not None
    assert found.queries == 2
    assert found.recall == {1: 0.5, 2: 0.75}
    assert found.mrr == pytest.approx(0.75)
    assert quality([asked(query("3", "q"))], [1]) is None


def test_answers_and_silence_at_the_wrong_time_are_counted_apart() -> None:
    """Speaking where nothing serves a query is one mistake, silence where something does the other."""
    found = silence(
        [
            asked(query("1", "q", "a"), "a"),
            asked(query("2", "q", "a"), silent=True),
            asked(query("3", "q"), "a"),
            asked(query("4", "q"), silent=True),
            asked(query("5", "q"), silent=True),
        ]
    )

    assert (found.nothing_relevant, found.something_relevant) == (3, 2)
    assert found.false_answers == pytest.approx(1 / 3)
    assert found.false_silence == pytest.approx(1 / 2)
    assert silence([]).false_answers is None


def test_the_tools_taken_out_are_drawn_the_same_each_time() -> None:
    """A query that another tool still serves is not among those that should find nothing."""
    tools = [tool(str(number)) for number in range(20)]
    queries = [query(str(n), "q", str(n)) for n in range(20)] + [query("many", "q", *map(str, range(20)))]

    left, gone = orphans(tools, queries, 3)

    assert orphans(tools, queries, 3) == (left, gone)
    assert (len(left), len(gone)) == (3, 4)
    assert all(not one.relevant and one.id in gone for one in left)
