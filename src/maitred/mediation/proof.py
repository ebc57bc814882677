"""Keep a change of tools only as far as nothing is found worse by it.

Each tool is asked for in words of its own, before and after: a change must not lower the place of the tool
itself, nor of any other. What a change is judged by are texts that were there before it as well as its own
words, or every change would prove itself. How tools are ranked comes in as a `Ranker`.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from anyio import to_thread

from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.lexicon import word_set
from maitred.mediation.sentences import stems
from maitred.mediation.words import pieces

DEPTH: Final = 20
"""How many places of a ranking are looked at."""

SHOWN: Final = 5
"""How many of them count: those that a search shows. Below, places change with every tool that comes."""

_ROUNDS = 4
_CHANCES = 24
_MOST_WORDS = 16
_LEADING_WORDS = 3
_PARAMETERS = 3
_FEWEST_WORDS = 2
_SENTENCES = 2
_USE_CASES = 5
_CHARACTERS = 1_000
_EMPTY = word_set("""
    a about also an and any are as at be been but by can do does each for from has have if in into is it
    its may more must not of on only one or other should so some such than that the their them then there
    these they this to use used uses using was were what when where which will with would you your
""")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+(?:['-]\w+)*")


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A query about a tool and its places, before and after; 1 is first, 0 is not among the first 20."""

    query: str
    before: int
    after: int

    @property
    def is_worse(self) -> bool:
        """Whether a tool that stood among the first five is found further down, or not any more."""
        return 0 < self.before <= SHOWN and self.before < (self.after or DEPTH + 1)


@dataclass(frozen=True, kw_only=True)
class LoweredTool:
    """A tool that a change lowers: its original name, what it was asked for by, and both places."""

    tool: str
    query: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class ProofVerdict:
    """Whether a change is kept. `probes` are those of the changed tool itself.

    Of a change that is kept they are as they are in the end, of one that is taken back as they would have
    been; `harmed` then says which places it was taken back for.
    """

    kept: bool
    probes: Sequence[Probe] = ()
    harmed: Sequence[LoweredTool] = ()


class Ranker(Protocol):
    """Ranks tools as search would."""

    async def rankings(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> Sequence[Sequence[int]]:
        """For each query the positions of the best tools, best first, at most `DEPTH`.

        The same question always gets the same answer.

        Args:
            tools: As they are shown.
            originals: The same as they were before they were changed; an unchanged one is the same object.
            queries: What to look for.
        """
        ...


def probes(tool: SourceTool) -> Sequence[str]:
    """Queries for a tool made of what it says: its name, description, parameters and use cases."""
    named = set(stems(tool.name))
    sentences = [_words(text) for text in _sentences(tool.description or tool.title)[:_SENTENCES]]
    parameters = _parameters(tool.input_schema)
    found = [
        [*pieces(tool.name), *parameters],
        *sentences[:1],
        *([word for word in words if not named.issuperset(stems(word))] for words in sentences),
        *([*words[:_LEADING_WORDS], *parameters] for words in sentences[:1]),
    ]
    told = [" ".join(words[:_MOST_WORDS]) for words in found if len(words) >= _FEWEST_WORDS]
    use_cases = tool.use_cases[:_USE_CASES] if isinstance(tool, EnhancedTool) else ()
    return list(dict.fromkeys([*told, *use_cases]))


async def prove(
    before: Sequence[SourceTool],
    after: Sequence[EnhancedTool],
    neighbours: Sequence[SourceTool],
    ranker: Ranker,
) -> list[ProofVerdict | None]:
    """Find the changes by which nothing is found worse; one verdict a tool, `None` for an unchanged one.

    Of all tools together, so that what only one of two changes can have, one gets. The work is a ranking of
    all probes for each round, of which there are few. It is done in worker threads if the ranker does so.

    Args:
        before: The tools of a server without the changes.
        after: The same with all of them.
        neighbours: Tools of others that must be found as well as before.
        ranker: Ranks as search does.
    """
    trial = await to_thread.run_sync(_Trial, before, after, neighbours)
    if trial.kept:
        trial.start(await _ranked(ranker, trial.originals, trial, trial.queries))
        await _settle(trial, ranker)
        if await _reconsider(trial, ranker):
            await _settle(trial, ranker)
    return trial.verdicts


async def _reconsider(trial: "_Trial", ranker: Ranker) -> bool:
    """Give changes a second chance, first all, then halves: perhaps others alone did the harm."""
    groups = [trial.taken_back]
    again = False
    for _ in range(_CHANCES):
        group = groups.pop(0) if groups else []
        if not group:
            break
        trial.kept.update(group)
        if not trial.is_worse(await _ranked(ranker, trial.shown, trial, trial.telling(group))):
            again = True
            continue
        trial.kept.difference_update(group)
        half = len(group) // 2
        groups += [group[:half], group[half:]] if half else []
    return again


async def _settle(trial: "_Trial", ranker: Ranker) -> None:
    """Take back changes until nothing is worse; the few queries that fell are asked alone in between."""
    asked = queries = trial.queries
    rounds = 0
    while asked and trial.kept:
        ranked = await _ranked(ranker, trial.shown, trial, asked)
        take_back = partial(trial.take_back, ranked, thoroughly=rounds >= _ROUNDS)
        fallen = await to_thread.run_sync(take_back)
        rounds += 1
        asked = fallen or ([] if asked is queries else queries)


async def _ranked(
    ranker: Ranker, shown: Sequence[SourceTool], trial: "_Trial", queries: Sequence[str]
) -> "_Rankings":
    ranked = await ranker.rankings(shown, trial.originals, queries)
    return dict(zip(queries, ranked, strict=True))


_Rankings = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class _Fall:
    """A probe that finds its tool lower than before, and the changed tools that may have done it."""

    tool: int
    probe: Probe
    by: Collection[int]


class _Trial:
    """Which changes are kept by now. Tools are numbered: those of the server first, then the neighbours."""

    def __init__(
        self, before: Sequence[SourceTool], after: Sequence[EnhancedTool], neighbours: Sequence[SourceTool]
    ) -> None:
        self.originals: list[SourceTool] = [*before, *neighbours]
        self._after = after
        pairs = enumerate(zip(before, after, strict=True))
        self.kept = {at for at, (old, new) in pairs if _reads(old) != _reads(new)}
        self.verdicts: list[ProofVerdict | None] = [None] * len(before)
        self._own = [probes(tool) for tool in self.originals]
        self._adds = {at: _said(after[at]) ^ _said(before[at]) for at in self.kept}
        self._new = {at: list(dict.fromkeys([*self._own[at], *probes(after[at])])) for at in self.kept}
        self._before: _Rankings = {}
        self._now: _Rankings = {}
        self._fallen: set[str] = set()

    @property
    def queries(self) -> list[str]:
        """All that is ever asked, each once."""
        return list(dict.fromkeys(query for group in (*self._own, *self._new.values()) for query in group))

    @property
    def shown(self) -> list[SourceTool]:
        """The tools with the changes that are kept by now."""
        return [self._after[at] if at in self.kept else tool for at, tool in enumerate(self.originals)]

    def start(self, rankings: _Rankings) -> None:
        """Take the rankings without any change."""
        self._before = rankings

    def take_back(self, rankings: _Rankings, *, thoroughly: bool) -> list[str]:
        """Take back changes by which something is worse; the queries that showed it, none if there are none.

        `rankings` are with the changes that are kept by now, at first for all queries. As few changes as may
        do are taken back, or `thoroughly` all that may have done it.
        """
        self._now = {**self._now, **rankings}
        results = {at: self._results(at) for at in range(len(self.originals))}
        falls = [
            _Fall(at, probe, self._suspects(at, probe))
            for at, found in results.items()
            for probe in found
            if probe.is_worse
        ]
        guilty = {at for fall in falls for at in fall.by} if thoroughly else self._guilty(falls, results)
        for at in self.kept:
            harmed = [self._harm(fall) for fall in falls if at in guilty and at in fall.by]
            self.verdicts[at] = ProofVerdict(kept=at not in guilty, probes=results[at], harmed=harmed)
        self.kept -= guilty
        fallen = list(dict.fromkeys(fall.probe.query for fall in falls))
        self._fallen.update(fallen)
        return fallen

    @property
    def taken_back(self) -> list[int]:
        """The changes that were taken back, the most useful first."""
        gains = {
            at: _gain(verdict.probes)
            for at, verdict in enumerate(self.verdicts)
            if verdict and not verdict.kept
        }
        return sorted(gains, key=lambda at: (-gains[at], at))

    def telling(self, group: Sequence[int]) -> list[str]:
        """The queries that tell whether changes can be kept after all, as far as few can."""
        return list(dict.fromkeys([*(query for at in group for query in self._new[at]), *self._fallen]))

    def is_worse(self, rankings: _Rankings) -> bool:
        """Whether one of these queries finds a tool lower than before."""
        return any(
            Probe(query=query, before=_place(at, self._before[query]), after=_place(at, now)).is_worse
            for query, now in rankings.items()
            for at in self._before[query][:SHOWN]
            if query in self._asked(at)
        )

    def _harm(self, fall: _Fall) -> LoweredTool:
        name, probe = self.originals[fall.tool].name, fall.probe
        return LoweredTool(tool=name, query=probe.query, before=probe.before, after=probe.after)

    def _results(self, at: int) -> list[Probe]:
        """How a tool is found now by its own words, the new ones too if its change is kept."""
        return [
            Probe(query=query, before=_place(at, self._before[query]), after=_place(at, self._now[query]))
            for query in self._asked(at)
        ]

    def _asked(self, at: int) -> Sequence[str]:
        return self._new[at] if at in self.kept else self._own[at]

    def _suspects(self, at: int, probe: Probe) -> Collection[int]:
        """The changed tools that may have lowered a tool: itself, and those that came before it.

        Where it is none of these, a word weighs otherwise because others say it too, or do not any more.
        """
        old, new = self._before[probe.query], self._now[probe.query]
        above = set(new[: probe.after - 1] if probe.after else new) - set(old[: probe.before - 1])
        suspects = self.kept & {at, *above}
        words = frozenset(stems(probe.query))
        saying = {at for at in self.kept if not words.isdisjoint(self._adds[at])}
        return suspects or saying or frozenset(self.kept)

    def _guilty(self, falls: Sequence[_Fall], results: Mapping[int, Sequence[Probe]]) -> set[int]:
        """Few changes that account for all falls: those that account for most first; the more useful stay."""
        gains = {at: _gain(results[at]) for at in self.kept}
        left, found = list(falls), set[int]()
        while left:
            blame = Counter(at for fall in left for at in fall.by)
            worst = max(blame, key=lambda at: (blame[at], -gains[at], -at))
            found.add(worst)
            left = [fall for fall in left if worst not in fall.by]
        return found


def _gain(probes: Sequence[Probe]) -> float:
    """How much better a tool is found by its own words: the sum of what 1 divided by its place gains."""
    return sum(
        (1 / one.after if one.after else 0.0) - (1 / one.before if one.before else 0.0) for one in probes
    )


def _place(at: int, ranking: Sequence[int]) -> int:
    return ranking.index(at) + 1 if at in ranking else 0


def _reads(tool: SourceTool) -> object:
    """What search reads of a tool."""
    use_cases = tool.use_cases if isinstance(tool, EnhancedTool) else ()
    return tool.name, tool.title, tool.description, tool.input_schema, use_cases


def _said(tool: SourceTool) -> frozenset[str]:
    """The words of a tool that search weighs, by their stems."""
    schema = tool.input_schema or {}
    found = schema.get("properties")
    parameters = found.items() if isinstance(found, Mapping) else ()
    about = [f"{name} {one.get('description', '')}" for name, one in parameters if isinstance(one, Mapping)]
    use_cases = tool.use_cases if isinstance(tool, EnhancedTool) else ()
    return frozenset(stems(" ".join([tool.name, tool.title, tool.description, *about, *use_cases])))


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text.strip()[:_CHARACTERS]) if part.strip()]


def _words(text: str) -> list[str]:
    """The words of a text that say something."""
    return [word for word in _WORD.findall(text) if word.lower() not in _EMPTY]


def _parameters(schema: Mapping[str, object] | None) -> list[str]:
    found = schema.get("properties") if schema is not None else None
    return [str(name) for name in list(found)[:_PARAMETERS]] if isinstance(found, Mapping) else []
