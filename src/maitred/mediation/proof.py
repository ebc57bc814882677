"""Keep changes of tools only if search finds the tools better by them, and no tool worse.

Each tool is searched for with queries from its own texts, before and after. A change must not lower the tool
itself or any other. The queries come from the old and the new texts; with the new ones alone, every change
would prove itself. A `Ranker` ranks the tools. Whether a text is right is for `misreading` to judge.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from anyio import to_thread

from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.lexicon import EMPTY
from maitred.mediation.sentences import stems
from maitred.mediation.words import is_word, pieces

DEPTH: Final = 20
"""How many places of a ranking are read."""

SHOWN: Final = 5
"""How many places count: those that a search shows. Lower places change with every new tool."""

_USELESS: Final = "its phrases together find the tool worse"
_ROUNDS = 4
_CHANCES = 24
_MOST_WORDS = 16
_LEADING_WORDS = 3
_PARAMETERS = 3
_FEWEST_WORDS = 2
_SENTENCES = 2
_USE_CASES = 5
_CHARACTERS = 1_000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+(?:['-]\w+)*")


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A query about a tool and its places, before and after; 1 is first, 0 is below the first 20."""

    query: str
    before: int
    after: int

    @property
    def is_worse(self) -> bool:
        """Whether a tool among the first five fell to a lower place."""
        return 0 < self.before <= SHOWN and self.before < (self.after or DEPTH + 1)


@dataclass(frozen=True, kw_only=True)
class LoweredTool:
    """A tool that a change lowers: its original name, the query, and both places."""

    tool: str
    query: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class ProofVerdict:
    """Whether a change is kept. `probes` belong to the changed tool itself.

    For a kept change they are final. For a change that was undone they show what it would have done, and
    `harmed` lists the places that it lowered. `unfit` says why a text does not fit its tool, or that its
    probes together find it worse.
    """

    kept: bool
    unfit: str = ""
    probes: Sequence[Probe] = ()
    harmed: Sequence[LoweredTool] = ()


class Ranker(Protocol):
    """Ranks tools as search does."""

    async def rankings(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> Sequence[Sequence[int]]:
        """For each query the positions of the best tools, best first, at most `DEPTH`.

        The same question always gets the same answer.

        Args:
            tools: The tools to rank.
            originals: The same tools before their change; an unchanged tool is the same object.
            queries: What to look for.
        """
        ...


def probes(tool: SourceTool) -> Sequence[str]:
    """Queries for a tool from its own texts: name, description, parameters and use cases."""
    name_stems = set(stems(tool.name))
    sentences = [_words(text) for text in _sentences(tool.description or tool.title)[:_SENTENCES]]
    parameters = _parameters(tool.input_schema)
    word_lists = [
        _name_words(tool),
        *sentences[:1],
        *([word for word in words if not name_stems.issuperset(stems(word))] for words in sentences),
        *([*words[:_LEADING_WORDS], *parameters] for words in sentences[:1]),
    ]
    queries = [" ".join(words[:_MOST_WORDS]) for words in word_lists if len(words) >= _FEWEST_WORDS]
    use_cases = tool.use_cases[:_USE_CASES] if isinstance(tool, EnhancedTool) else ()
    return list(dict.fromkeys([*queries, *use_cases]))


def _name_words(tool: SourceTool) -> list[str]:
    return [*pieces(tool.name), *_parameters(tool.input_schema)]


async def prove(
    before: Sequence[SourceTool],
    after: Sequence[EnhancedTool],
    neighbours: Sequence[SourceTool],
    ranker: Ranker,
    *,
    misread: Mapping[int, str] = MappingProxyType({}),
) -> list[ProofVerdict | None]:
    """Find the changes that lower no tool; one verdict a tool, `None` for an unchanged one.

    Changes are judged together, so of two that conflict one stays. Each round ranks all probes, and there are
    few rounds. It runs in worker threads if the ranker does.

    Args:
        before: The tools of a server without the changes.
        after: The same tools with all changes.
        neighbours: Tools of other servers whose places must not get worse.
        ranker: Ranks as search does.
        misread: The positions of changes that are not used in any case, with the reason; see `misreadings`.
    """
    trial = await to_thread.run_sync(_Trial, before, after, neighbours, misread)
    if trial.kept_changes:
        trial.start(await _rank(ranker, trial.originals, trial, trial.queries))
        await _settle(trial, ranker)
        if await _reconsider(trial, ranker):
            await _settle(trial, ranker)
    return trial.verdicts


async def _reconsider(trial: "_Trial", ranker: Ranker) -> bool:
    """Try undone changes again, first all, then halves: another change may have done the harm."""
    groups = [trial.undone_changes]
    again = False
    for _ in range(_CHANCES):
        group = groups.pop(0) if groups else []
        if not group:
            break
        trial.kept_changes.update(group)
        if not trial.is_worse(
            await _rank(ranker, trial.current_tools, trial, trial.revealing_queries(group))
        ):
            again = True
            continue
        trial.kept_changes.difference_update(group)
        half = len(group) // 2
        groups += [group[:half], group[half:]] if half else []
    return again


async def _settle(trial: "_Trial", ranker: Ranker) -> None:
    """Undo changes until no tool is lower; between full rounds only the failed queries are repeated."""
    pending = queries = trial.queries
    rounds = 0
    while pending and trial.kept_changes:
        rankings = await _rank(ranker, trial.current_tools, trial, pending)
        take_back = partial(trial.take_back, rankings, thoroughly=rounds >= _ROUNDS)
        fallen = await to_thread.run_sync(take_back)
        rounds += 1
        pending = fallen or ([] if pending is queries else queries)


async def _rank(
    ranker: Ranker, tools: Sequence[SourceTool], trial: "_Trial", queries: Sequence[str]
) -> "_Rankings":
    rankings = await ranker.rankings(tools, trial.originals, queries)
    return dict(zip(queries, rankings, strict=True))


_Rankings = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class _Fall:
    """A probe whose tool is lower than before, and the changed tools that may be the cause."""

    tool: int
    probe: Probe
    by: Collection[int]


class _Trial:
    """The state of a proof: which changes are kept. Tools are numbered, the neighbours after the server's."""

    def __init__(
        self,
        before: Sequence[SourceTool],
        after: Sequence[EnhancedTool],
        neighbours: Sequence[SourceTool],
        misread: Mapping[int, str],
    ) -> None:
        self.originals: list[SourceTool] = [*before, *neighbours]
        self._after = after
        pairs = enumerate(zip(before, after, strict=True))
        changes = {at for at, (old, new) in pairs if _reads(old) != _reads(new)}
        self.kept_changes = changes - misread.keys()
        self.verdicts: list[ProofVerdict | None] = [
            ProofVerdict(kept=False, unfit=misread[at]) if at in changes & misread.keys() else None
            for at in range(len(before))
        ]
        self._own = [probes(tool) for tool in self.originals]
        self._adds = {at: _word_stems(after[at]) ^ _word_stems(before[at]) for at in self.kept_changes}
        self._new = {
            at: list(dict.fromkeys([*self._own[at], *probes(after[at])])) for at in self.kept_changes
        }
        self._by_name = {
            at: " ".join(_name_words(before[at])[:_MOST_WORDS])
            for at in self.kept_changes
            if not all(map(is_word, pieces(before[at].name)))
        }
        self._before: _Rankings = {}
        self._now: _Rankings = {}
        self._fallen: set[str] = set()

    @property
    def queries(self) -> list[str]:
        """All queries of the proof, each once."""
        return list(dict.fromkeys(query for group in (*self._own, *self._new.values()) for query in group))

    @property
    def current_tools(self) -> list[SourceTool]:
        """The tools with the changes that are kept at present."""
        return [
            self._after[at] if at in self.kept_changes else tool for at, tool in enumerate(self.originals)
        ]

    def start(self, rankings: _Rankings) -> None:
        """Set the rankings without any change."""
        self._before = rankings

    def take_back(self, rankings: _Rankings, *, thoroughly: bool) -> list[str]:
        """Undo changes that lower a tool; returns the queries that revealed it, empty if there are none.

        `rankings` belong to the present changes, at first for all queries. It undoes as few changes as
        possible, or with `thoroughly` all that may be the cause.
        """
        self._now = {**self._now, **rankings}
        results = {at: self._results(at) for at in range(len(self.originals))}
        gains = {at: _gain(self._besides_name(at, results[at])) for at in self.kept_changes}
        falls = [
            _Fall(at, probe, self._suspects(at, probe))
            for at, probes_of_tool in results.items()
            for probe in probes_of_tool
            if probe.is_worse and not (gains.get(at, -1) >= 0 and self._may_fall(at, probe))
        ]
        causes = {at for fall in falls for at in fall.by} if thoroughly else self._find_causes(falls, gains)
        useless = {at for at in self.kept_changes - causes if gains[at] < 0}
        for at in self.kept_changes:
            lowered_tools = [self._harm(fall) for fall in falls if at in causes and at in fall.by]
            self.verdicts[at] = ProofVerdict(
                kept=at not in causes | useless,
                unfit=_USELESS if at in useless else "",
                probes=results[at],
                harmed=lowered_tools,
            )
        self.kept_changes -= causes | useless
        fallen = list(dict.fromkeys(fall.probe.query for fall in falls))
        self._fallen.update(fallen)
        return fallen

    def _may_fall(self, at: int, probe: Probe) -> bool:
        """Whether a changed tool may lose a place by one phrase, if all together find it as well.

        It stays among the first. By the words of a cryptic name it may fall: agents do not look for
        `disch pat`, and who types a name gets the tool by it.
        """
        is_shown = 0 < probe.after <= SHOWN
        return at in self.kept_changes and (is_shown or probe.query == self._by_name.get(at))

    def _besides_name(self, at: int, probes_of_tool: Sequence[Probe]) -> Sequence[Probe]:
        """The probes of a changed tool without the words of its old name."""
        return [probe for probe in probes_of_tool if probe.query != self._by_name.get(at)]

    @property
    def undone_changes(self) -> list[int]:
        """The changes that were undone, the most useful first."""
        gains = {
            at: _gain(verdict.probes)
            for at, verdict in enumerate(self.verdicts)
            if verdict and not verdict.kept and not verdict.unfit
        }
        return sorted(gains, key=lambda at: (-gains[at], at))

    def revealing_queries(self, group: Sequence[int]) -> list[str]:
        """The few queries most likely to show that these changes must stay undone."""
        return list(dict.fromkeys([*(query for at in group for query in self._new[at]), *self._fallen]))

    def is_worse(self, rankings: _Rankings) -> bool:
        """Whether one of these queries finds a tool lower than before."""
        places = (
            (at, Probe(query=query, before=_place(at, self._before[query]), after=_place(at, now)))
            for query, now in rankings.items()
            for at in self._before[query][:SHOWN]
            if query in self._queries_of(at)
        )
        return any(probe.is_worse and not self._may_fall(at, probe) for at, probe in places)

    def _harm(self, fall: _Fall) -> LoweredTool:
        name, probe = self.originals[fall.tool].name, fall.probe
        return LoweredTool(tool=name, query=probe.query, before=probe.before, after=probe.after)

    def _results(self, at: int) -> list[Probe]:
        """The places of a tool by its own queries, including the new ones if its change is kept."""
        return [
            Probe(query=query, before=_place(at, self._before[query]), after=_place(at, self._now[query]))
            for query in self._queries_of(at)
        ]

    def _queries_of(self, at: int) -> Sequence[str]:
        return self._new[at] if at in self.kept_changes else self._own[at]

    def _suspects(self, at: int, probe: Probe) -> Collection[int]:
        """The changed tools that may have lowered a tool: itself, and those that are now above it.

        If there are none, tools with a word of the query changed that word's weight.
        """
        old, new = self._before[probe.query], self._now[probe.query]
        above = set(new[: probe.after - 1] if probe.after else new) - set(old[: probe.before - 1])
        suspects = self.kept_changes & {at, *above}
        words = frozenset(stems(probe.query))
        saying = {at for at in self.kept_changes if not words.isdisjoint(self._adds[at])}
        return suspects or saying or frozenset(self.kept_changes)

    def _find_causes(self, falls: Sequence[_Fall], gains: Mapping[int, float]) -> set[int]:
        """A small set of changes that explains all falls: most falls first; the more useful change stays."""
        open_falls, culprits = list(falls), set[int]()
        while open_falls:
            blame = Counter(at for fall in open_falls for at in fall.by)
            worst = max(blame, key=lambda at: (blame[at], -gains[at], -at))
            culprits.add(worst)
            open_falls = [fall for fall in open_falls if worst not in fall.by]
        return culprits


def _gain(probes: Sequence[Probe]) -> float:
    """How much better a tool's own queries find it: the sum of 1/place after minus 1/place before."""
    return sum(
        (1 / probe.after if probe.after else 0.0) - (1 / probe.before if probe.before else 0.0)
        for probe in probes
    )


def _place(at: int, ranking: Sequence[int]) -> int:
    return ranking.index(at) + 1 if at in ranking else 0


def _reads(tool: SourceTool) -> object:
    """The parts of a tool that search reads."""
    use_cases = tool.use_cases if isinstance(tool, EnhancedTool) else ()
    return tool.name, tool.title, tool.description, tool.input_schema, use_cases


def _word_stems(tool: SourceTool) -> frozenset[str]:
    """The stems of the words of a tool that search weighs."""
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    parameters = properties.items() if isinstance(properties, Mapping) else ()
    about = [
        f"{name} {schema_part.get('description', '')}"
        for name, schema_part in parameters
        if isinstance(schema_part, Mapping)
    ]
    use_cases = tool.use_cases if isinstance(tool, EnhancedTool) else ()
    return frozenset(stems(" ".join([tool.name, tool.title, tool.description, *about, *use_cases])))


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text.strip()[:_CHARACTERS]) if part.strip()]


def _words(text: str) -> list[str]:
    """The words of a text, without empty ones."""
    return [word for word in _WORD.findall(text) if word.lower() not in EMPTY]


def _parameters(schema: Mapping[str, object] | None) -> list[str]:
    properties = schema.get("properties") if schema is not None else None
    return [str(name) for name in list(properties)[:_PARAMETERS]] if isinstance(properties, Mapping) else []
