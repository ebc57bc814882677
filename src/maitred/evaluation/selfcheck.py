"""Look for tools of a catalog that are hard to find or easy to confuse: ask for each in other words.

It searches the gateway as an agent would and starts no server. Phrases come from the tools' own descriptions
(`maitred.evaluation.paraphrase`); a tool that these do not find is hard to find by others. It also advises
how to change a definition, by rules of thumb that `docs/server-authors.md` explains.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from maitred.evaluation.paraphrase import content_terms, paraphrases
from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.model.tools import Tool
from maitred.search.base import ToolDocument, document
from maitred.search.tokenize import STOP_WORDS, words

_FEWEST_TERMS = 4
_MOST_CHARACTERS = 2_000  # of a description; search reads no more
_LONG_SENTENCE_WORDS = 30
_MANY_PARAMETERS = 3

_NOTHING = STOP_WORDS | frozenset(
    """
    action api call command data do exec execute fn func function get go handle handler helper invoke item
    job main manage method misc object op operation perform post process query request run service submit task
    test thing tool use util utility v1 v2
    """.split()  # noqa: SIM905  # a list of one word a line would be a page long
)


def advise(tool: ToolDocument, *, twins: Sequence[str] = (), echoes: Sequence[str] = ()) -> list[str]:
    """Return what to change, most useful first; never empty.

    Args:
        tool: The tool as search reads it.
        twins: Names of tools with the same description.
        echoes: Names of tools whose first sentence is the same, except for their names.
    """
    advice = [*_on_description(tool, twins), *_on_name(tool), *_on_parameters(tool)]
    if echoes and not twins:
        advice.insert(
            0, f"apart from its name its first sentence is that of {_first_of(echoes)}: say more in it"
        )
    return advice or ["say in the first sentence what sets it apart from those that come first instead"]


def _on_description(tool: ToolDocument, twins: Sequence[str]) -> list[str]:
    about = tool.description.strip()
    if not about:
        return ["write a description: one sentence on what it does, to what, and when to choose it"]
    advice = []
    if len(content_terms(about)) < _FEWEST_TERMS:
        advice.append("its description is too short: name what it works on and what it returns")
    if twins:
        advice.append(f"its description is also that of {_first_of(twins)}: say what each is for")
    undescribed = _words_not_described(tool)
    if undescribed:
        words_text = ", ".join(map(repr, undescribed))
        advice.append(f"its description never says {words_text}, which its name does: write it out")
    if len(about) >= _MOST_CHARACTERS:
        advice.append(f"its description is too long: nothing beyond {_MOST_CHARACTERS:,} characters is read")
    elif len(about.split(". ", 1)[0].split()) > _LONG_SENTENCE_WORDS:
        advice.append("its first sentence is too long to be shown whole: say only the main thing in it")
    return advice


def _on_name(tool: ToolDocument) -> list[str]:
    if _content_words_of_name(tool.name):
        return []
    return [f"the name {tool.name!r} says nothing: name it by a verb and what it acts on"]


def _on_parameters(tool: ToolDocument) -> list[str]:
    bare = [name for name, about in tool.parameters if not about.strip()]
    if len(bare) >= _MANY_PARAMETERS and len(bare) == len(tool.parameters):
        return ["none of its parameters is described: their words are searched too"]
    return []


def _words_not_described(tool: ToolDocument) -> Sequence[str]:
    """Return the content words of a name, if its description repeats none of them."""
    name_words = _content_words_of_name(tool.name)
    description_terms = content_terms(tool.description)
    return [] if any(content_terms(word) & description_terms for word in name_words) else name_words


def _content_words_of_name(name: str) -> list[str]:
    """Return the words of a name that say something."""
    pieces = list(words(name))
    if len(set(pieces)) > 1 and pieces[-1] == "".join(pieces[:-1]):  # the joined form of an identifier
        pieces.pop()
    return [word for word in pieces if len(word) > 1 and not word.isdigit() and word not in _NOTHING]


def _first_of(names: Sequence[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


_FIRST = 5
_HIGH = 3
_RESULTS = 10
_NEARLY = 0.8

Step = Callable[[], None]
"""Called after each tool, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class PhraseResult:
    """A phrase, the published names in its results, and the tool's place among them (0: absent)."""

    phrase: str
    found: Sequence[str]
    place: int


@dataclass(frozen=True, kw_only=True)
class HardTool:
    """A tool that most of its phrases do not bring among the first five; `instead` are the first results."""

    name: str
    server: str
    asked: Sequence[PhraseResult]
    instead: Sequence[str]
    advice: Sequence[str]

    @property
    def found(self) -> int:
        """The number of its phrases that bring it among the first five."""
        return sum(0 < one.place <= _FIRST for one in self.asked)


@dataclass(frozen=True, kw_only=True)
class ConfusablePair:
    """Two tools that search confuses, and why."""

    first: str
    second: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """The result. `at_first` and `among_five` are shares of all phrases."""

    tools: int
    phrases: int
    at_first: float
    among_five: float
    hard: Sequence[HardTool]
    confusable: Sequence[ConfusablePair]


@dataclass(frozen=True, kw_only=True)
class _ToolExamination:
    tool: Tool
    document: ToolDocument
    asked: Sequence[PhraseResult] = field(default_factory=list)

    @property
    def is_hard(self) -> bool:
        return not self.asked or 2 * sum(0 < one.place <= _FIRST for one in self.asked) < len(self.asked)


async def check(gateway: Gateway, viewer: Viewer, server: str = "", step: Step = lambda: None) -> SelfCheck:
    """Search for each visible tool, or for those of one server, among all.

    The work is two or three searches a tool.
    """
    await gateway.warm(wholly=True)
    snapshot = gateway.whole_catalog(viewer)
    tools = [tool for tool in gateway.visible_tools(viewer) if not server or tool.server == server]
    examinations = {}
    for tool in tools:
        about = document(snapshot, tool)
        results = [await _ask(gateway, viewer, tool, phrase) for phrase in paraphrases(about)]
        examinations[tool.name] = _ToolExamination(tool=tool, document=about, asked=results)
        step()
    twins = _groups({name: entry.document.description for name, entry in examinations.items()})
    echoes = _groups({name: entry.asked[0].phrase for name, entry in examinations.items() if entry.asked})
    places = [one.place for entry in examinations.values() for one in entry.asked]
    return SelfCheck(
        tools=len(tools),
        phrases=len(places),
        at_first=_share([place == 1 for place in places]),
        among_five=_share([0 < place <= _FIRST for place in places]),
        hard=[
            _hard(entry, twins.get(name, ()), echoes.get(name, ()))
            for name, entry in examinations.items()
            if entry.is_hard
        ],
        confusable=_confusable(examinations, twins),
    )


async def _ask(gateway: Gateway, viewer: Viewer, tool: Tool, phrase: str) -> PhraseResult:
    results = (await gateway.search([phrase], limit=_RESULTS, viewer=viewer)).results
    places = (place for place, one in enumerate(results, 1) if tool.name in (one.tool.name, *one.also))
    return PhraseResult(phrase=phrase, found=[one.tool.name for one in results], place=next(places, 0))


def _hard(entry: _ToolExamination, twins: Sequence[str], echoes: Sequence[str]) -> HardTool:
    first_names = [one.found[0] for one in entry.asked if one.found and not 0 < one.place <= _FIRST]
    rivals = list(dict.fromkeys(first_names))
    return HardTool(
        name=entry.tool.name,
        server=entry.tool.server,
        asked=entry.asked,
        instead=rivals,
        advice=advise(entry.document, twins=twins, echoes=echoes),
    )


def _groups(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each tool the others with the same text, if any; case and spacing do not count."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        if plain := " ".join(text.lower().split()):
            groups[plain].append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    return {name: [other for other in names if other != name] for names in alike for name in names}


def _confusable(
    examinations: Mapping[str, _ToolExamination], twins: Mapping[str, Sequence[str]]
) -> list[ConfusablePair]:
    """Return each pair once, with its strongest reason; of many twins, pair the first with each other one."""
    pairs: dict[frozenset[str], ConfusablePair] = {}
    for reasons in (_same(twins), _nearly_same(examinations), _mutual_results(examinations)):
        for first, second, why in reasons:
            pairs.setdefault(frozenset((first, second)), ConfusablePair(first=first, second=second, why=why))
    return list(pairs.values())


Pairs = Iterator[tuple[str, str, str]]


def _same(twins: Mapping[str, Sequence[str]]) -> Pairs:
    for name, same_tools in twins.items():
        if name < min(same_tools):
            yield from ((name, other, "the same description") for other in same_tools)


def _nearly_same(examinations: Mapping[str, _ToolExamination]) -> Pairs:
    """Yield pairs that occur in the same results and whose descriptions share most words."""
    terms = {name: content_terms(entry.document.description) for name, entry in examinations.items()}
    for name, entry in examinations.items():
        near = {other for one in entry.asked for other in one.found[:_FIRST]} - {name}
        for other in sorted(near & examinations.keys()):
            both, either = terms[name] & terms[other], terms[name] | terms[other]
            if len(both) >= _FEWEST_TERMS and len(both) >= _NEARLY * len(either):
                yield name, other, f"descriptions that share {len(both)} of {len(either)} words"


def _mutual_results(examinations: Mapping[str, _ToolExamination]) -> Pairs:
    """Yield pairs where the main phrase of one brings the other first, and nearly so in reverse."""
    for name, entry in examinations.items():
        main = next(iter(entry.asked), None)
        other = main.found[0] if main and main.found and main.place != 1 else name
        back = examinations[other].asked if other in examinations and other != name else ()
        if any(name in one.found[:_HIGH] for one in back):
            yield name, other, "what one does brings the other first"


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
