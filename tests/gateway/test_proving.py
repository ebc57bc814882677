"""Proofs by the project's own search: it ranks as the gateway does, and quickly enough for large servers."""

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.catalog.makers import raw, snapshot_of
from tests.support import corpus

from maitred.mediation import EnhancedTool, RuleTransformer, SourceTool, ToolContext
from maitred.mediation.proof import DEPTH, probes, prove
from maitred.mediation.search_ranker import SearchRanker
from maitred.search.base import ToolDocument, Vectors
from maitred.search.index import HybridIndex
from maitred.search.results import EmbeddedQuery, Filter
from maitred.search.static_embedder import StaticEmbedder

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext(source="shop", source_type="api")
MANY, NEAR = 100, 200
LONG_S = 10.0  # many times what it takes, for a busy machine


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def generated(count: int) -> list[SourceTool]:
    """Tools with the sizes of real ones, their names made unique."""
    found = [
        SourceTool(
            name=f"{tool['name']}_{number}",
            description=tool.get("description") or "",
            input_schema=schema if isinstance(schema := tool.get("inputSchema"), dict) else None,
        )
        for number, tool in enumerate(
            tool for entry in corpus.generate(servers=20, tools=count) for tool in entry["tools"]
        )
    ]
    random.Random(3).shuffle(found)
    return found


async def test_tools_are_ranked_as_a_search_ranks_them(embedder: StaticEmbedder) -> None:
    """The same places, for phrases that name no tool and no server."""
    tools = generated(60)
    queries = [query for tool in tools for query in probes(tool)[:2]]
    snapshot = snapshot_of(
        raw("s", tool.name, description=tool.description, input_schema=tool.input_schema) for tool in tools
    )
    index = HybridIndex()
    index.update(snapshot)
    pending = index.pending()
    index.keep(pending, embedder.documents(list(index.documents(pending).values())))

    found = await SearchRanker(embedder).rankings(tools, tools, queries)

    everything = Filter(visible=frozenset({"s"}))
    for query, ranking in zip(queries, found, strict=True):
        phrase = EmbeddedQuery(phrase=query, text=query, vectors=embedder.queries([query]))
        first = index.search([phrase], everything, 1).hits[0].tool.key.name
        assert first in [tools[at].name for at in ranking[:2]], query
        assert len(ranking) == len(set(ranking)) <= DEPTH


async def test_a_mended_tool_is_found_by_its_own_words_and_by_the_new_ones(embedder: StaticEmbedder) -> None:
    """Its raw name, its new name, both descriptions and its use cases."""
    before = SourceTool(name="gt_usr", description="fetches persons")
    after = EnhancedTool(
        name="get_member", original_name="gt_usr", description="Look up an account.", use_cases=("who is it",)
    )
    others = [SourceTool(name="send_mail", description="Send a letter."), SourceTool(name="list_files")]
    queries = ["gt usr", "get member", "fetches persons", "look up an account", "who is it"]

    found = await SearchRanker(embedder).rankings([*others, after], [*others, before], queries)

    assert [ranking[0] for ranking in found] == [2] * len(queries)


async def test_nothing_is_ranked_where_nothing_is_asked(embedder: StaticEmbedder) -> None:
    ranker = SearchRanker(embedder)

    assert await ranker.rankings([], [], ["a"]) == [[]]
    assert await ranker.rankings([SourceTool(name="a")], [SourceTool(name="a")], []) == []


async def test_a_theft_is_taken_back_and_what_helps_is_kept(embedder: StaticEmbedder) -> None:
    """By the real search: a description that claims what a neighbour does, beside one that is mended well."""
    letter = SourceTool(name="send_letter", description="Send a letter to a customer by mail.")
    before = [SourceTool(name="ping"), SourceTool(name="rst_pwd")]
    text = "Send a letter to a customer by mail. Letter, mail, customer, send_letter."
    after = [
        EnhancedTool(name="send_letter_mail", original_name="ping", title="Send letter", description=text),
        EnhancedTool(name="rst_pwd", title="Reset password", description="Reset a password by email."),
    ]

    thief, helped = await prove(before, after, [letter], SearchRanker(embedder))

    assert thief is not None
    assert helped is not None
    assert (thief.kept, helped.kept) == (False, True)
    assert {harm.tool for harm in thief.harmed} == {"send_letter"}
    assert all(0 < harm.before < harm.after for harm in thief.harmed)


class Counting(StaticEmbedder):
    """Counts what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded = 0

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        self.embedded += len(documents)
        return super().documents(documents)


@pytest.mark.alone
async def test_a_large_server_is_proven_in_a_moment() -> None:
    """100 tools beside 200 neighbours; every text is embedded once, however often it is ranked."""
    tools = generated(MANY + NEAR)
    before, near = tools[:MANY], tools[MANY:]
    short = [SourceTool(name=tool.name, input_schema=tool.input_schema) for tool in before]
    answers = await RuleTransformer().transform(short, CONTEXT)
    assert answers is not None
    after = [answer or _same(tool) for tool, answer in zip(short, answers, strict=True)]
    embedder = Counting()
    ranker = SearchRanker(embedder)
    started = time.process_time()

    verdicts = await prove(short, after, near, ranker)

    assert time.process_time() - started < LONG_S
    assert any(verdict is not None and verdict.kept for verdict in verdicts)
    assert embedder.embedded <= len({*map(_text, short), *map(_text, after), *map(_text, near)})


async def test_an_embedder_that_knows_no_word_leaves_words_alone() -> None:
    class Blank(StaticEmbedder):
        def queries(self, texts: Sequence[str]) -> Any:
            return np.zeros_like(super().queries(texts))

    tools = [SourceTool(name="list_files"), SourceTool(name="send_mail", description="Send a letter.")]

    assert await SearchRanker(Blank()).rankings(tools, tools, ["a letter"]) == [[1]]


def _same(tool: SourceTool) -> EnhancedTool:
    return EnhancedTool(name=tool.name, description=tool.description, input_schema=tool.input_schema)


def _text(tool: SourceTool) -> str:
    return f"{tool.name} {tool.title} {tool.description} {tool.input_schema}"
