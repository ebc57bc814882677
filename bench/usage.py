"""What the use of tools brings to search: labelled sets, before and after calls of some of their tools.

The calls of a set are drawn so that the n-th tool of a random order is called 1/n as often as the first. All
queries are asked without any use, and after it: those of tools that were called, each counted as often as its
tool is likely to be called, and those of tools that were never called.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from bench.quality import LabelledSet, labelled_sets
from bench.stage import Stage
from bench.values import Size, Skipped
from maitred.catalog.snapshot import Change, Snapshot
from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools, keys, raw_tools
from maitred.evaluation.metrics import recall
from maitred.evaluation.runner import QueryResult, ask
from maitred.gateway import Gateway
from maitred.model.tools import ToolKey
from maitred.model.usage import ToolStanding, Usage

CALLS: Final = (10, 100, 1_000)
_QUICK_CALLS: Final = (100,)
_AT: Final = 5
_RESULTS: Final = 10
_SEED: Final = 7


@dataclass(frozen=True, kw_only=True)
class Lift:
    """R@5 (0 to 1) of a kind of queries, without use and with it."""

    queries: int
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class SetLift:
    """One set after so many calls: queries of called tools, and of the others."""

    name: str
    calls: int
    called: Lift
    others: Lift


@dataclass(frozen=True, kw_only=True)
class UsageLift:
    """All sets, each after a few calls and after many."""

    sets: Sequence[SetLift]
    skipped: Sequence[Skipped]


def measure(stage: Stage, size: Size) -> UsageLift:
    """Ask all sets; `stage` is not needed."""
    del stage
    known = labelled_sets()
    if not known:
        why = "there is no data/search in the folder `shared` beside the checkout, nor in MAITRED_SHARED"
        return UsageLift(sets=[], skipped=[Skipped(what="labelled sets", why=why)])
    some = [one for one in known if len(one.tools) <= size.quality_tools]
    found = [anyio.run(_measure, one, _QUICK_CALLS if size.quick else CALLS) for one in some]
    return UsageLift(sets=[lift for lifts in found for lift in lifts], skipped=[])


async def _measure(labelled: LabelledSet, numbers: Sequence[int]) -> list[SetLift]:
    queries = [query for query in labelled.queries if query.relevant]
    wanted = sorted({tool for query in queries for tool in query.relevant})
    random.Random(_SEED).shuffle(wanted)
    chances = {tool: 1 / place for place, tool in enumerate(wanted, 1)}
    ids = keys(labelled.tools)
    lifts = []
    async with gateway_with_tools(raw_tools(labelled.tools), Search()) as gateway:
        before = await ask(gateway, ids, queries, limit=_RESULTS)
        for number in numbers:
            drawn = random.Random(_SEED).choices(wanted, list(chances.values()), k=number)
            calls = Counter(drawn)
            await _use(gateway, {key: calls[tool] for key, tool in ids.items() if calls[tool]})
            after = await ask(gateway, ids, queries, limit=_RESULTS)
            lifts.append(_lift(labelled.name, number, chances, calls, before, after))
    return lifts


async def _use(gateway: Gateway, calls: Mapping[ToolKey, int]) -> None:
    """Have the catalog know these calls, as the tiers would."""
    standings = {key: ToolStanding(usage=Usage(calls=count)) for key, count in calls.items()}

    async def planned(_: Snapshot) -> Change:
        return Change(standings=standings, visible=True)

    await gateway._context.catalog.change(planned)  # noqa: SLF001  # nothing else sets the use of a catalog at once


def _lift(
    name: str,
    number: int,
    chances: Mapping[str, float],
    calls: Mapping[str, int],
    before: Sequence[QueryResult],
    after: Sequence[QueryResult],
) -> SetLift:
    called: list[tuple[float, float, float]] = []
    others: list[tuple[float, float, float]] = []
    for old, new in zip(before, after, strict=True):
        relevant = old.query.relevant
        is_called = any(calls.get(tool) for tool in relevant)
        weight = sum(chances[tool] for tool in relevant) / len(relevant) if is_called else 1.0
        figures = recall(old.ranking, relevant, _AT), recall(new.ranking, relevant, _AT)
        (called if is_called else others).append((weight, *figures))
    return SetLift(name=name, calls=number, called=_mean(called), others=_mean(others))


def _mean(found: Sequence[tuple[float, float, float]]) -> Lift:
    total = sum(weight for weight, _, _ in found) or 1.0
    before, after = (sum(one[0] * one[at] for one in found) / total for at in (1, 2))
    return Lift(queries=len(found), before=before, after=after)
