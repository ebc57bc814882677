"""Look for tools of a catalog that are hard to find or easily confused, by asking for each in other words.

It searches the gateway as an agent would and starts no server. Phrases come from the tools' own descriptions
(`maitred.evaluation.paraphrase`), so a tool that is not found by them will hardly be found by others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from maitred.evaluation.advice import advise
from maitred.evaluation.paraphrase import content_terms, paraphrases
from maitred.gateway import Gateway
from maitred.model.tools import Tool
from maitred.search.base import Document, document

_FIRST = 5
_HIGH = 3
_RESULTS = 10
_NEARLY = 0.8
_FEWEST_TERMS = 4

Step = Callable[[], None]
"""Called after each tool, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A phrase, the published names found for it, and the tool's place among them (0: not there)."""

    phrase: str
    found: Sequence[str]
    place: int


@dataclass(frozen=True, kw_only=True)
class HardTool:
    """A tool that too few of its phrases bring among the first five; `instead` are those that come first."""

    name: str
    server: str
    asked: Sequence[Asked]
    instead: Sequence[str]
    advice: Sequence[str]

    @property
    def found(self) -> int:
        """How many of its phrases bring it among the first five."""
        return sum(0 < one.place <= _FIRST for one in self.asked)


@dataclass(frozen=True, kw_only=True)
class Confusable:
    """Two tools that are taken for each other, and why."""

    first: str
    second: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """What was found. `at_first` and `among_five` are shares of all phrases."""

    tools: int
    phrases: int
    at_first: float
    among_five: float
    hard: Sequence[HardTool]
    confusable: Sequence[Confusable]


@dataclass(frozen=True, kw_only=True)
class _Examined:
    tool: Tool
    document: Document
    asked: Sequence[Asked] = field(default_factory=list)

    @property
    def is_hard(self) -> bool:
        return not self.asked or 2 * sum(0 < one.place <= _FIRST for one in self.asked) < len(self.asked)


async def check(gateway: Gateway, server: str = "", step: Step = lambda: None) -> SelfCheck:
    """Ask for each tool that may be shown, or for those of one server, among all.

    The work is two or three searches a tool.
    """
    await gateway.warm(wholly=True)
    snapshot = gateway.snapshot
    tools = [tool for tool in gateway.visible_tools() if not server or tool.server == server]
    examined = {}
    for tool in tools:
        about = document(snapshot, tool)
        asked = [await _ask(gateway, tool, phrase) for phrase in paraphrases(about)]
        examined[tool.name] = _Examined(tool=tool, document=about, asked=asked)
        step()
    twins = _groups({name: entry.document.description for name, entry in examined.items()})
    echoes = _groups({name: entry.asked[0].phrase for name, entry in examined.items() if entry.asked})
    places = [one.place for entry in examined.values() for one in entry.asked]
    return SelfCheck(
        tools=len(tools),
        phrases=len(places),
        at_first=_share([place == 1 for place in places]),
        among_five=_share([0 < place <= _FIRST for place in places]),
        hard=[
            _hard(entry, twins.get(name, ()), echoes.get(name, ()))
            for name, entry in examined.items()
            if entry.is_hard
        ],
        confusable=_confusable(examined, twins),
    )


async def _ask(gateway: Gateway, tool: Tool, phrase: str) -> Asked:
    results = (await gateway.search([phrase], limit=_RESULTS)).results
    places = (place for place, one in enumerate(results, 1) if tool.name in (one.tool.name, *one.also))
    return Asked(phrase=phrase, found=[one.tool.name for one in results], place=next(places, 0))


def _hard(entry: _Examined, twins: Sequence[str], echoes: Sequence[str]) -> HardTool:
    missed = [one.found[0] for one in entry.asked if one.found and not 0 < one.place <= _FIRST]
    rivals = list(dict.fromkeys(missed))
    return HardTool(
        name=entry.tool.name,
        server=entry.tool.server,
        asked=entry.asked,
        instead=rivals,
        advice=advise(entry.document, twins=twins, echoes=echoes),
    )


def _groups(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """For each tool the others with the same text, if there are any; case and spacing do not count."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        if plain := " ".join(text.lower().split()):
            groups[plain].append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    return {name: [other for other in names if other != name] for names in alike for name in names}


def _confusable(examined: Mapping[str, _Examined], twins: Mapping[str, Sequence[str]]) -> list[Confusable]:
    """Each pair once, for its strongest reason; of many twins the first with each other."""
    pairs: dict[frozenset[str], Confusable] = {}
    for reasons in (_same(twins), _nearly_same(examined), _mistaken(examined)):
        for first, second, why in reasons:
            pairs.setdefault(frozenset((first, second)), Confusable(first=first, second=second, why=why))
    return list(pairs.values())


Pairs = Iterator[tuple[str, str, str]]


def _same(twins: Mapping[str, Sequence[str]]) -> Pairs:
    for name, others in twins.items():
        if name < min(others):
            yield from ((name, other, "the same description") for other in others)


def _nearly_same(examined: Mapping[str, _Examined]) -> Pairs:
    """Pairs that come up together and whose descriptions share most words."""
    terms = {name: content_terms(entry.document.description) for name, entry in examined.items()}
    for name, entry in examined.items():
        near = {other for one in entry.asked for other in one.found[:_FIRST]} - {name}
        for other in sorted(near & examined.keys()):
            both, either = terms[name] & terms[other], terms[name] | terms[other]
            if len(both) >= _FEWEST_TERMS and len(both) >= _NEARLY * len(either):
                yield name, other, f"descriptions that share {len(both)} of {len(either)} words"


def _mistaken(examined: Mapping[str, _Examined]) -> Pairs:
    """Pairs where the main phrase of the one brings the other first, and the other way round nearly so."""
    for name, entry in examined.items():
        main = next(iter(entry.asked), None)
        other = main.found[0] if main and main.found and main.place != 1 else name
        back = examined[other].asked if other in examined and other != name else ()
        if any(name in one.found[:_HIGH] for one in back):
            yield name, other, "what one does brings the other first"


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
