"""Which tools deserve a place on the first screen by their usage, and which examples fill it at first.

Pure: usage comes in as values, and nothing here keeps state. The same tools and the same usage give the same
list, in any order.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import Level, Score, ToolStanding, Usage

HOT = 0.80
WARM = 0.60
STANDARD = 0.30
_MANY_CALLS = 10_000
_SLOW_MS = 1_000.0
_DOUBT = 2
_WEIGHED = 20


def tier_score(usage: Usage) -> float:
    """Score how much a tool deserves a place on the first screen, from 0 to 1; a tool never called gets 0.

    With calls `n`, successes `s`, and calls of the last 7 and 30 days `w` and `m`:

        0.4 * min(1, log(1 + n) / log(1 + 10,000)) + 0.3 * s / (n + 2)
        + 0.2 * max(0, 1 - mean_ms / 1,000) + 0.1 * w / (m + 2)

    The 2 are imaginary calls that failed, or are old. With them one lucky call is a third of certainty, and
    ten are five sixths. One more success, of the same latency, never lowers the score.
    """
    if usage.calls <= 0:
        return 0.0
    popularity = min(1.0, math.log1p(usage.calls) / math.log1p(_MANY_CALLS))
    reliability = max(0, usage.calls - usage.errors) / (usage.calls + _DOUBT)
    speed = min(1.0, max(0.0, 1.0 - usage.mean_ms / _SLOW_MS))
    recency = min(usage.calls_7d, usage.calls_30d) / (usage.calls_30d + _DOUBT)
    return 0.4 * popularity + 0.3 * reliability + 0.2 * speed + 0.1 * recency


def plain_score(usage: Usage) -> float:
    """Score a tool by the plain shares; for an operator who chose `disclosure.score: plain`.

        0.4 * min(1, n / 10,000) + 0.3 * s / n + 0.2 * max(0, 1 - mean_ms / 1,000) + 0.1 * w / m

    A tool that was called once, with success, quickly and now, has almost 0.60 here. One that is called a
    hundred times a day has 0.12 for its popularity. Source: document 003, `tier_score`.
    """
    if usage.calls <= 0:
        return 0.0
    popularity = min(1.0, usage.calls / _MANY_CALLS)
    speed = min(1.0, max(0.0, 1.0 - usage.mean_ms / _SLOW_MS))
    recency = min(usage.calls_7d, usage.calls_30d) / max(1, usage.calls_30d)
    reliability = max(0.0, usage.success_rate)
    return round(0.4 * popularity + 0.3 * reliability + 0.2 * speed + 0.1 * recency, 2)


SCORES: Final[Mapping[Score, Callable[[Usage], float]]] = {"smoothed": tier_score, "plain": plain_score}


def level(score: float) -> Level:
    """Return the tier of a score."""
    if score >= HOT:
        return "hot"
    if score >= WARM:
        return "warm"
    return "standard" if score >= STANDARD else "cold"


def standings(usage: Mapping[ToolKey, Usage], score: Score = "smoothed") -> Mapping[ToolKey, ToolStanding]:
    """Return the standing of every tool that was called, by the formula that the operator chose."""
    score_of = SCORES[score]
    scores = {key: (score_of(value), value) for key, value in usage.items() if value.calls > 0}
    return {
        key: ToolStanding(score=score, level=level(score), usage=value)
        for key, (score, value) in scores.items()
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
    """Choose the tools of the first screen: pinned ones by name, then the best used, then a spread of others.

    The spread fills up to `at_least` while there is little history. `required` returns the number of required
    parameters of a tool, and is called only for candidates of the spread. Without it, the tool with the
    smaller definition goes first.
    """
    of_name = sorted({tool.key: tool for tool in tools}.values(), key=lambda tool: (tool.name, tool.key))
    first = [tool for tool in of_name if tool.key in pinned]
    used_tools = [
        tool
        for tool in of_name
        if (standing := standings.get(tool.key)) and standing.usage.calls > 0 and tool.key not in pinned
    ]
    used_tools.sort(key=lambda tool: -standings[tool.key].score)
    listed = (first + used_tools)[:at_most]
    missing = min(at_least, at_most) - len(listed)
    return listed + _spread(of_name, listed, missing, required) if missing > 0 else listed


def _spread(
    tools: Iterable[Tool], listed: Sequence[Tool], count: int, required: Callable[[Tool], int]
) -> list[Tool]:
    """Choose so many more tools, from the category, and there from the server, with the fewest places so far.

    Of equal categories the larger goes first; tools without a category go last.
    """
    listed_keys = {tool.key for tool in listed}
    pairs: dict[tuple[str, str], list[Tool]] = defaultdict(list)
    for tool in tools:
        if tool.key not in listed_keys:
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
    choice: list[Tool] = []
    while pairs and len(choice) < count:
        pair = min(pairs, key=turn)
        if pair not in ranked:  # parameters are counted for only a few: the count has to read their schemas
            ranked[pair] = sorted(nsmallest(_WEIGHED, pairs[pair], key=at_first), key=rank, reverse=True)
        choice.append(ranked[pair].pop())
        places[pair[0]] += 1
        seats[pair[1]] += 1
        if not ranked[pair]:
            del pairs[pair]
    return choice


def popular(tools: Sequence[Tool], standings: Mapping[ToolKey, ToolStanding], count: int) -> list[Tool]:
    """Choose examples for a category: the most used tools, then the most typical of its largest servers."""
    used_tools = [tool for tool in tools if tool.key in standings]
    used_tools.sort(key=lambda tool: (-standings[tool.key].score, tool.name))
    examples = used_tools[:count]
    by_server: dict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        if tool.key not in standings:
            by_server[tool.server].append(tool)
    largest = sorted(by_server, key=lambda name: (-len(by_server[name]), name))
    for server in largest[: max(count - len(examples), 0)]:
        examples.append(min(by_server[server], key=lambda tool: (-tool.placement.confidence, tool.name)))
    return examples
