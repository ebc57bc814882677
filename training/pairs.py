"""What is learned from: labelled pairs with hard negatives, and pairs that tools make by themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import Tokeniser, query_pieces
from training.bm25 import Bm25
from training.cut import Pieces, QueryPieces, ToolPieces, cut_query, cut_tool, without
from training.labelled import LabelledSet
from training.sources import Source

NAME, FIRST, REST, PARAMETERS, SERVER = range(5)
_HARD = 20
_MIN_SERVER = 8


@dataclass(frozen=True, kw_only=True)
class LabelledPool:
    """The training part of one set, cut.

    Attributes:
        name: Of the set.
        tools: All its tools.
        queries: The training queries.
        gold: For each query the positions of its tools.
        hard: For each query tools that look right and are not.
    """

    name: str
    tools: Sequence[ToolPieces]
    queries: Sequence[QueryPieces]
    gold: Sequence[Sequence[int]]
    hard: Sequence[Sequence[int]]


def labelled_pool(tokeniser: Tokeniser, one: LabelledSet) -> LabelledPool:
    """Cut a set and find its hard negatives by words."""
    lexical = Bm25(one.tools)
    hard = []
    for query in one.train:
        order = np.argsort(-lexical.scores(query.text), kind="stable")
        hard.append([int(row) for row in order[: _HARD + len(query.gold)] if row not in query.gold][:_HARD])
    return LabelledPool(
        name=one.name,
        tools=[cut_tool(tokeniser, tool) for tool in one.tools],
        queries=[cut_query(tokeniser, query.text) for query in one.train],
        gold=[query.gold for query in one.train],
        hard=hard,
    )


@dataclass(frozen=True, kw_only=True)
class SelfPool:
    """Tools of one origin, cut.

    Attributes:
        tools: With their five segments.
        about: The pieces of each tool's parameter descriptions.
        servers: What the tool's server says of itself.
        groups: Positions of the tools of each server that has several.
    """

    tools: Sequence[ToolPieces]
    about: Sequence[Pieces]
    servers: Sequence[Pieces]
    groups: Sequence[Sequence[int]]


def self_pool(tokeniser: Tokeniser, tools: Sequence[ToolDocument], servers: Mapping[str, str]) -> SelfPool:
    """Cut the tools of an origin; those without a description teach nothing."""
    tools = [tool for tool in tools if tool.description]
    said = {server: query_pieces(tokeniser, text[:600]) for server, text in servers.items()}
    groups: dict[str, list[int]] = {}
    for number, tool in enumerate(tools):
        groups.setdefault(tool.server, []).append(number)
    return SelfPool(
        tools=[cut_tool(tokeniser, tool) for tool in tools],
        about=[
            query_pieces(tokeniser, " ".join(text for _, text in tool.parameters)[:600]) for tool in tools
        ],
        servers=[said.get(tool.server, []) for tool in tools],
        groups=[group for group in groups.values() if len(group) >= _MIN_SERVER],
    )


def self_pools(
    tokeniser: Tokeniser, sources: Sequence[Source], sets: Sequence[LabelledSet]
) -> dict[str, SelfPool]:
    """Pools by name: each origin, and the tools of the labelled sets together."""
    found = {source.name: self_pool(tokeniser, source.tools, source.servers) for source in sources}
    found["sets"] = self_pool(tokeniser, [tool for one in sets for tool in one.tools], {})
    return found


def self_pair(pool: SelfPool, number: int, random: np.random.Generator) -> tuple[Pieces, ToolPieces]:
    """Two views of one tool: one as a query, the other as a tool that lacks what the query says."""
    tool = pool.tools[number]
    views: list[tuple[Pieces, ToolPieces]] = [
        (tool[NAME], without(tool, NAME)),
        (tool[FIRST], without(tool, FIRST)),
        (tool[FIRST], without(tool, FIRST, REST, SERVER)),
        (tool[REST], without(tool, REST)),
        (pool.about[number], without(tool, PARAMETERS)),
        (pool.servers[number], without(tool, SERVER)),
    ]
    usable = [view for view in views if view[0] and any(view[1])]
    return usable[int(random.integers(len(usable)))] if usable else (tool[FIRST], tool)


def self_batch(
    pools: Mapping[str, SelfPool], shares: Mapping[str, float], size: int, random: np.random.Generator
) -> list[tuple[Pieces, ToolPieces]]:
    """Pairs for one step: half of them from anywhere, half from a few servers, whose tools are much alike."""
    names = list(shares)
    probabilities = np.array([shares[name] for name in names])
    chosen: list[tuple[SelfPool, int]] = []
    while len(chosen) < size:
        pool = pools[names[int(random.choice(len(names), p=probabilities))]]
        if len(chosen) < size // 2 or not pool.groups:
            chosen.append((pool, int(random.integers(len(pool.tools)))))
            continue
        group = pool.groups[int(random.integers(len(pool.groups)))]
        count = min(len(group), 64, size - len(chosen))
        chosen += [(pool, int(number)) for number in random.choice(group, count, replace=False)]
    return [self_pair(pool, number, random) for pool, number in chosen]
