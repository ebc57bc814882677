"""Which tools have earned a place on the first screen, by how they are used; and what stands there before.

Pure: usage comes in as values, and nothing here remembers. The same tools and the same usage give the same
list, in whatever order they come.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nsmallest

from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import Level, ToolStanding, Usage

HOT = 0.80
WARM = 0.60
STANDARD = 0.30
_MANY_CALLS = 10_000
_SLOW_MS = 1_000.0
_DOUBT = 2
_WEIGHED = 20


def tier_score(usage: Usage) -> float:
    """How much a tool deserves a place on the first screen, from 0 to 1; a tool never called scores 0.

    With calls `n`, successes `s`, and calls of the last 7 and 30 days `w` and `m`:

        0.4 * min(1, log(1 + n) / log(1 + 10,000)) + 0.3 * s / (n + 2)
        + 0.2 * max(0, 1 - mean_ms / 1,000) + 0.1 * w / (m + 2)

    The 2 are calls imagined to have failed, or to be old, so that one lucky call is a third of certainty and
    ten are five sixths. A success more, of the same latency, never lowers the score.
    """
    if usage.calls <= 0:
        return 0.0
    popularity = min(1.0, math.log1p(usage.calls) / math.log1p(_MANY_CALLS))
    reliability = max(0, usage.calls - usage.errors) / (usage.calls + _DOUBT)
    speed = min(1.0, max(0.0, 1.0 - usage.mean_ms / _SLOW_MS))
    recency = min(usage.calls_7d, usage.calls_30d) / (usage.calls_30d + _DOUBT)
    return 0.4 * popularity + 0.3 * reliability + 0.2 * speed + 0.1 * recency


def level(score: float) -> Level:
    """The tier of a score."""
    if score >= HOT:
        return "hot"
    if score >= WARM:
        return "warm"
    return "standard" if score >= STANDARD else "cold"


def standings(usage: Mapping[ToolKey, Usage]) -> Mapping[ToolKey, ToolStanding]:
    """The standing of every tool that was called."""
    scores = {key: (tier_score(used), used) for key, used in usage.items() if used.calls > 0}
    return {
        key: ToolStanding(score=score, level=level(score), usage=used)
        for key, (score, used) in scores.items()
    }


def _none_known(_: Tool) -> int:
    return 0


def hot_list(
    tools: Sequence[Tool],
    standings: Mapping[ToolKey, ToolStanding],
    pinned: Collection[ToolKey],
    *,
    at_most: int = 15,
    at_least: int = 10,
    required: Callable[[Tool], int] = _none_known,
) -> list[Tool]:
    """The tools of the first screen: pinned ones by name, then those used best, then a spread over the rest.

    The spread fills up to `at_least` while there is little history. `required` gives the number of required
    parameters of a tool; it is asked only for tools that the spread weighs against each other. Without it,
    the tool with the smaller definition goes first.
    """
    of_name = sorted({tool.key: tool for tool in tools}.values(), key=lambda tool: (tool.name, tool.key))
    first = [tool for tool in of_name if tool.key in pinned]
    used = [
        tool
        for tool in of_name
        if (standing := standings.get(tool.key)) and standing.usage.calls > 0 and tool.key not in pinned
    ]
    used.sort(key=lambda tool: -standings[tool.key].score)
    listed = (first + used)[:at_most]
    missing = min(at_least, at_most) - len(listed)
    return listed + _spread(of_name, listed, missing, required) if missing > 0 else listed


def _spread(
    tools: Iterable[Tool], listed: Sequence[Tool], count: int, required: Callable[[Tool], int]
) -> list[Tool]:
    """So many more tools: each from the category, and there from the server, with the fewest places so far.

    Of categories with as few, the larger goes first, and what is in no category last.
    """
    taken = {tool.key for tool in listed}
    pairs: dict[tuple[str, str], list[Tool]] = defaultdict(list)
    for tool in tools:
        if tool.key not in taken:
            pairs[tool.placement.category, tool.server].append(tool)
    sizes: Counter[str] = Counter()
    for (category, _), members in pairs.items():
        sizes[category] += len(members)
    counts = {pair: len(members) for pair, members in pairs.items()}
    places = Counter(tool.placement.category for tool in listed)
    seats = Counter(tool.server for tool in listed)

    def turn(pair: tuple[str, str]) -> tuple[int, bool, int, str, int, int, str]:
        category, server = pair
        of_category = places[category], not category, -sizes[category], category
        return *of_category, seats[server], -counts[pair], server

    def at_first(tool: Tool) -> tuple[bool, bool, float, int, str]:
        typical = -round(tool.placement.confidence, 1)
        return not tool.read_only, not tool.description, typical, tool.cost_tokens, tool.name

    def rank(tool: Tool) -> tuple[bool, bool, float, int, int, str]:
        *fit, cost, name = at_first(tool)
        return *fit, required(tool), cost, name  # type: ignore[return-value]

    ranked: dict[tuple[str, str], list[Tool]] = {}
    chosen: list[Tool] = []
    while pairs and len(chosen) < count:
        pair = min(pairs, key=turn)
        if pair not in ranked:  # parameters are counted for a few only: that means to read their schemas
            ranked[pair] = sorted(nsmallest(_WEIGHED, pairs[pair], key=at_first), key=rank, reverse=True)
        chosen.append(ranked[pair].pop())
        places[pair[0]] += 1
        seats[pair[1]] += 1
        if not ranked[pair]:
            del pairs[pair]
    return chosen


def popular(tools: Sequence[Tool], standings: Mapping[ToolKey, ToolStanding], count: int) -> list[Tool]:
    """The tools that stand for a category: the most used; else the most typical of its largest servers."""
    used = [tool for tool in tools if tool.key in standings]
    used.sort(key=lambda tool: (-standings[tool.key].score, tool.name))
    found = used[:count]
    by_server: dict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        if tool.key not in standings:
            by_server[tool.server].append(tool)
    largest = sorted(by_server, key=lambda name: (-len(by_server[name]), name))
    for server in largest[: max(count - len(found), 0)]:
        found.append(min(by_server[server], key=lambda tool: (-tool.placement.confidence, tool.name)))
    return found
