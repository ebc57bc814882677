"""Give every tool a category and tags: by words, by meaning, and by the other tools of its server.

The words of a category count by their place, most in a tool's name. Meaning is how near the tool's vector is
to the vectors of those words. Most servers do one kind of thing, so the other tools and the server's own
texts are the prior. A person's choice goes first, then mediation's. The weights are reasoned, not fitted to
servers. A category that mediation names and the menu does not have becomes the tag `group:<name>`. Search is
not imported here: stemming and vectors come through the constructor.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from maitred.config.subcategories import SUBCATEGORIES, subcategories_of
from maitred.config.taxonomy import FALLBACK, MOST_TAGS, TAGS, check_categories, normalise_tag
from maitred.disclosure.groups import Grouper, ProposeGroups, group_name, no_groups
from maitred.model.categories import ANY_TOOL, Category, GroupPolicy, Placement, ToolChoice
from maitred.model.tools import Tool, ToolKey, canonical, content_hash


def own_tags(tool: Tool, choice: ToolChoice, categories: Container[str]) -> list[str]:
    """Return the tags that a person or mediation gave a tool, a person's first; unknown ones are dropped."""
    mediated = tool.mending
    raw_tags = (*choice.tags, *(mediated.tags if mediated else ()))
    tags = [normal for tag in raw_tags if (normal := normalise_tag(tag))]
    if mediated and mediated.category and mediated.category not in categories:
        group = group_name(mediated.category)
        tags.append(normalise_tag(group) or f"group:{group}")
    return tags


def own_use_cases(tool: Tool, choice: ToolChoice) -> dict[str, Any]:
    """Return the fields of a tool that change by what a person or mediation says of its use."""
    if choice.use_cases:
        return {"use_cases": choice.use_cases, "use_cases_by": "person"}
    if tool.mending and tool.mending.use_cases:
        return {"use_cases": tool.mending.use_cases, "use_cases_by": "mediation"}
    if tool.use_cases_by in ("person", "mediation"):  # they withdrew the use cases
        return {"use_cases": (), "use_cases_by": ""}
    return {}


if TYPE_CHECKING:  # the gateway starts without numpy
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
    Table: TypeAlias = NDArray[np.float64]
else:
    Vectors = Table = Any

log = structlog.get_logger(__name__)

Stems: TypeAlias = Callable[[str], Sequence[str]]
Schema: TypeAlias = Callable[[str], Any]

_VERSION: Final = "5"  # raise it with every change that places tools differently

_NAME, _TITLE, _SENTENCE, _PARAMETER = 3.0, 1.5, 1.0, 0.3  # weight of a word by its place
_PHRASE = 1.5  # weight of two words together against one
_BY_WORDS, _BY_MEANING = 1.5, 0.8  # of log(1 + count), and of standard deviations
_FURTHEST = 3.0  # standard deviations; the score of a vector ends there
_NEAREST = 5  # words of a category that count: a single one may be a coincidence
_ABOUT = 3.0  # number of tools that weigh as much as the server's own words
_DOUBT = 2.0  # tools that agree before a server's majority counts half
_FALLBACK = 0.7  # lead of the fallback category: less than any word in a name or description
_SUREST = 0.99  # only a person's choice is surer
_PART_OF_SERVER, _PART_OF_OTHERS = 0.5, 0.5  # together as much as a word in a sentence
_LEAST_PART = 0.25  # a parameter, or half of the others or of the words of the server: less says nothing

_MAX_SENTENCE = 300
_MAX_ABOUT = 600
_MAX_PARAMETERS = 40
_FIRST_TERMS = 3  # the part of a sentence that has its verb
_MOST_FUNCTIONS = 4
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")  # noqa: RUF001  # as in Chinese and Japanese
_NO_WORD = re.compile(r"[\W_]+")


class _Matcher:
    """Finds words and phrases, by stem; a phrase goes before the words within it."""

    def __init__(self, words: Sequence[tuple[str, int]], stems: Stems) -> None:
        """Prepare the matcher; `words` are pairs of a word or phrase and the number of its target."""
        self._numbers: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._longest: dict[str, int] = {}
        for word, number in words:
            key = tuple(stems(_NO_WORD.sub(" ", word.lower())))
            if key and number not in (known := self._numbers.get(key, ())):
                self._numbers[key] = (*known, number)
                self._longest[key[0]] = max(self._longest.get(key[0], 0), len(key))

    def find(self, terms: Sequence[str]) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        """Yield the matches in a text, from the left, with the numbers of their targets."""
        end = 0
        for at, term in enumerate(terms):
            if at < end or term not in self._longest:
                continue
            for length in range(self._longest[term], 0, -1):
                key = tuple(terms[at : at + length])
                if key in self._numbers:
                    yield key, self._numbers[key]
                    end = at + length
                    break


@lru_cache(maxsize=40)
def _matcher(words: tuple[tuple[str, int], ...], stems: Stems) -> _Matcher:
    """Return the matcher of some words, which nothing changes; their stems are computed once in a process."""
    return _Matcher(words, stems)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Terms:
    """The stemmed words of a tool, by their place."""

    name: Sequence[str]
    title: Sequence[str]
    sentence: Sequence[str]
    parameters: Sequence[str]

    def weighted(self) -> Iterator[tuple[Sequence[str], float]]:
        yield self.name, _NAME
        yield self.title, _TITLE
        yield self.sentence, _SENTENCE
        yield self.parameters, _PARAMETER


def _counts(matcher: _Matcher, terms: _Terms, size: int) -> list[float]:
    """Score the words for each of so many targets; a word counts once, at its most important place."""
    best: dict[tuple[str, ...], tuple[float, tuple[int, ...]]] = {}
    for words, weight in terms.weighted():
        for key, numbers in matcher.find(words):
            if key not in best or best[key][0] < weight:
                best[key] = weight, numbers
    counts = [0.0] * size
    for key, (weight, numbers) in best.items():
        share = weight * (_PHRASE if len(key) > 1 else 1.0) / len(numbers)
        for number in numbers:
            counts[number] += share
    return counts


class Classifier:
    """Places the tools of one server at a time; the order of the tools does not matter."""

    def __init__(
        self,
        categories: Sequence[Category],
        *,
        stems: Stems,
        choices: Mapping[ToolKey, ToolChoice] | None = None,
        embed_tools: Callable[[Sequence[Tool], Schema], Vectors] | None = None,
        embed_texts: Callable[[Sequence[str]], Vectors] | None = None,
        groups: GroupPolicy = "off",
        propose_groups: ProposeGroups = no_groups,
    ) -> None:
        """Prepare the words; the vectors of the categories are computed with the first tools.

        Both are computed once in a process for the same categories and functions.

        Args:
            categories: The headings, as `taxonomy.merge_categories` gives them.
            stems: The stemmed words of a text, in order; identifiers split.
            choices: Decisions of persons, `*` for all others of a server; an unknown category does not count.
            embed_tools: Vectors of tools, one row each, of length 1 or 0. Called for every server, so it
                should be quick. If it raises, tools are placed without meaning and the next ones try again.
            embed_texts: Vectors of texts in the same space; otherwise like `embed_tools`.
            groups: Which tools get into groups.
            propose_groups: The groups of rules, beside those that mediation proposes.

        Raises:
            ValueError: There is no category, or `check_categories` finds faults.
        """
        faults = check_categories(categories) or ([] if categories else ["there is no category"])
        if faults:
            raise ValueError("; ".join(faults))
        self._stems = stems
        self._choices = dict(choices or {})
        self._embed_tools, self._embed_texts = embed_tools, embed_texts
        self._tree = _Tree(categories)
        self._words = _matcher(_with_numbers((c.title, *c.words) for c in categories), stems)
        self._tags = _Tagger(stems)
        self._parts = _Parts(categories, stems)
        self._meaning: _Meaning | None = None
        taken = frozenset(self._tree.number)
        self._grouper = Grouper(policy=groups, taken=taken, propose=propose_groups)
        self.fingerprint = self._hash(categories)

    def _hash(self, categories: Sequence[Category]) -> str:
        """Hash everything that placements depend on except the tools; 32 hex digits."""
        named = {key: [getattr(choice, name) for name in _PLACES] for key, choice in self._choices.items()}
        choices = [[key.server, key.name, *named[key]] for key in sorted(named) if any(named[key])]
        has_meaning = self._embed_tools is not None and self._embed_texts is not None
        words = [_tag_words(), {name: dict(parts) for name, parts in SUBCATEGORIES.items()}]
        headings = [[_fields(c) for c in categories], self._grouper.policy]
        inputs = [_VERSION, *headings, choices, has_meaning, *words]
        return content_hash(canonical(inputs))

    def place(self, tools: Sequence[Tool], schema: Schema, about: str = "") -> list[Tool]:
        """Return the tools with `placement` and `use_cases` set, in the order given.

        Args:
            tools: All tools of one server.
            schema: Returns the parsed schema of a hash, or `None`.
            about: What the server says about itself: its title and instructions.
        """
        if not tools:
            return []
        ordered = sorted(tools, key=lambda tool: tool.key)
        terms = [self._terms(tool, schema) for tool in ordered]
        counts = [self._count(one) for one in terms]
        sureness = self._sureness(ordered, schema, counts, about)
        server = self._stems(ordered[0].server.lower())
        placed = [
            self._with_placement(tool, self._tags.tags(one, server), count, sure)
            for tool, one, count, sure in zip(ordered, terms, counts, sureness, strict=True)
        ]
        own_words = self._server_terms(ordered[0].server, about)
        parts = self._parts.of([tool.placement.category for tool in placed], terms, own_words)
        by_key = {tool.key: _with_part(tool, part) for tool, part in zip(placed, parts, strict=True)}
        decided = {tool.key for tool in tools if self._category_by_person(tool) in self._tree.number}
        return self._grouper.place([by_key[tool.key] for tool in tools], decided)

    def _server_terms(self, server: str, about: str) -> _Terms:
        sentence = self._stems(about[:_MAX_ABOUT].lower())
        return _Terms(name=self._stems(server.lower()), title=(), sentence=sentence, parameters=())

    def _terms(self, tool: Tool, schema: Schema) -> _Terms:
        return _Terms(
            name=self._stems(tool.key.name),
            title=self._stems(tool.title[:_MAX_SENTENCE].lower()),  # not split: names such as "JavaScript"
            sentence=self._stems(_first_sentence(tool.description).lower()),
            parameters=[
                stem for name in _parameter_names(schema(tool.input_hash)) for stem in self._stems(name)
            ],
        )

    def _count(self, terms: _Terms) -> list[float]:
        """Score the words for each category."""
        return _counts(self._words, terms, self._tree.size)

    def _sureness(
        self, tools: Sequence[Tool], schema: Schema, counts: Sequence[Sequence[float]], about: str
    ) -> Sequence[Sequence[float]]:
        """Return for each tool the probability of each top category."""
        import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

        server = tools[0].server
        server_terms = self._server_terms(server, about)
        rows = [self._tree.by_root(count) for count in [*counts, self._count(server_terms)]]
        evidence = _BY_WORDS * np.log1p(np.array(rows, np.float64))
        nearness = self._nearness(tools, schema, f"{server}: {about[:_MAX_ABOUT]}")
        if nearness is not None:
            evidence += _BY_MEANING * nearness
        votes = _shares(evidence) ** 2  # squared, so that a doubtful tool has a smaller vote
        for at, tool in enumerate(tools):
            category = self._category_by_person(tool)
            if category in self._tree.number:
                votes[at] = 0.0
                votes[at, self._tree.root[self._tree.number[category]]] = 1.0
        votes[-1] *= _ABOUT
        prior = votes.sum(axis=0) - votes[:-1] + _DOUBT / votes.shape[1]
        lead = _FALLBACK * np.array([name == self._tree.fallback for name in self._tree.root_names])
        probabilities: Sequence[Sequence[float]] = _shares(evidence[:-1] + np.log(prior) + lead).tolist()
        return probabilities

    def _nearness(self, tools: Sequence[Tool], schema: Schema, about: str) -> Table | None:
        """Return how near tools and server are to each top category, in standard deviations."""
        if self._embed_tools is None or self._embed_texts is None:
            return None
        try:
            if self._meaning is None:
                self._meaning = _meaning(tuple(map(tuple, self._tree.texts)), self._embed_texts)
            near = self._meaning.near([self._embed_tools(tools, schema), self._embed_texts([about])])
        except Exception as error:  # noqa: BLE001  # a plug-in may raise anything; words and majority are left
            log.warning("tools are placed without meaning", server=tools[0].server, reason=repr(error)[:200])
            return None
        return near if near.shape[0] == len(tools) + 1 else None

    def _choice(self, tool: Tool) -> ToolChoice:
        """Return a person's choice for a tool; what it leaves open is that for all tools of the server."""
        whole = self._choices.get(ToolKey(server=tool.server, name=ANY_TOOL), _NOTHING_CHOSEN)
        own = self._choices.get(tool.key)
        if own is None or whole is _NOTHING_CHOSEN:
            return own or whole
        texts = {name: getattr(own, name) or getattr(whole, name) for name in _PLACES}
        return replace(own, **texts)

    def _category_by_person(self, tool: Tool) -> str:
        """Return the category that a person gave a tool, in any file."""
        wrote = tool.mending.category if tool.mending and tool.mending.by == "overrides" else ""
        return self._choice(tool).category or wrote

    def _with_placement(
        self, tool: Tool, tags: Sequence[str], counts: Sequence[float], sureness: Sequence[float]
    ) -> Tool:
        choice, mediated = self._choice(tool), tool.mending
        all_tags = tuple(dict.fromkeys([*own_tags(tool, choice, self._tree.number), *tags]))[:MOST_TAGS]
        if choice.category in self._tree.number:
            place = Placement(category=choice.category, confidence=1.0, by="person", tags=all_tags)
        elif mediated and mediated.category in self._tree.number:
            place = Placement(
                category=mediated.category, confidence=mediated.confidence, by="mediation", tags=all_tags
            )
        else:
            rounded = [round(share, 3) for share in sureness]  # so that the last bit decides nothing
            sure = max(rounded)
            name = self._tree.deepest(rounded.index(sure), counts)
            place = Placement(category=name, confidence=min(sure, _SUREST), by="rules", tags=all_tags)
        return replace(tool, placement=place, **own_use_cases(tool, choice))


_NOTHING_CHOSEN: Final = ToolChoice()
_PLACES: Final = ("category", "tags", "use_cases")
"""The fields of a choice that matter here; the others place no tool differently."""


class _Tree:
    """The categories by number, each with the top category above it."""

    def __init__(self, categories: Sequence[Category]) -> None:
        self._names = [category.name for category in categories]
        self.size = len(categories)
        self.number = {name: at for at, name in enumerate(self._names)}
        self._parent = [self.number.get(category.parent, -1) for category in categories]
        self._tops = [at for at, parent in enumerate(self._parent) if parent < 0]
        self.root_names = [self._names[top] for top in self._tops]
        self.fallback = FALLBACK if FALLBACK in self.root_names else self.root_names[-1]
        self.root = [self._tops.index(self._line(at)[-1]) for at in range(self.size)]
        self.texts: list[list[str]] = [[] for _ in self._tops]
        for at, category in enumerate(categories):
            said = (category.title, category.description, *category.words)
            self.texts[self.root[at]] += [text for text in said if text.strip()]

    def _line(self, at: int) -> list[int]:
        """Return a category and those above it."""
        line = [at]
        while (at := self._parent[at]) >= 0:
            line.append(at)
        return line

    def by_root(self, counts: Sequence[float]) -> list[float]:
        """Sum the counts of each top category and all categories below it."""
        sums = [0.0] * len(self._tops)
        for root, count in zip(self.root, counts, strict=True):
            sums[root] += count
        return sums

    def deepest(self, root: int, counts: Sequence[float]) -> str:
        """Return the category below a top one with the most words; the top one if there are none."""
        below = list(counts)
        for at, count in enumerate(counts):
            for above in self._line(at)[1:]:
                below[above] += count
        at = self._tops[root]
        while True:
            children = [c for c, parent in enumerate(self._parent) if parent == at and below[c] > 0]
            if not children:
                return self._names[at]
            at = max(children, key=lambda child: below[child])


class _Parts:
    """The sub-categories of each category, by their words."""

    def __init__(self, categories: Sequence[Category], stems: Stems) -> None:
        parts: dict[str, list[Category]] = {}
        for part in subcategories_of(categories):
            parts.setdefault(part.parent, []).append(part)
        self._names = {name: [part.name for part in group] for name, group in parts.items()}
        self._matchers = {
            name: _matcher(_with_numbers((part.title, *part.words) for part in group), stems)
            for name, group in parts.items()
        }

    def of(self, categories: Sequence[str], terms: Sequence[_Terms], server: _Terms) -> list[str]:
        """Return the sub-category of each tool of a server; empty if nothing speaks for one.

        The words of the tool count most. The other tools of its category and the words of the server itself
        decide where it has none, or where they are equal.

        Args:
            categories: The category of each tool.
            terms: Its words.
            server: The words of the server.
        """
        counts = [self._count(name, one) for name, one in zip(categories, terms, strict=True)]
        found = [""] * len(categories)
        for name in set(categories) & self._matchers.keys():
            members = [at for at, category in enumerate(categories) if category == name]
            own = self._count(name, server)
            prior = [_PART_OF_SERVER * one / (sum(own) or 1.0) for one in own]
            votes = [_best(counts[at]) for at in members]
            tally = Counter(votes)
            del tally[None]
            for at, vote in zip(members, votes, strict=True):
                others = (tally.total() - (vote is not None)) or 1
                agree = [(tally[part] - (part == vote)) / others for part in range(len(prior))]
                scores = [
                    own_count + of_server + _PART_OF_OTHERS * share
                    for own_count, of_server, share in zip(counts[at], prior, agree, strict=True)
                ]
                best = _best(scores, _LEAST_PART)
                found[at] = "" if best is None else self._names[name][best]
        return found

    def _count(self, category: str, terms: _Terms) -> list[float]:
        if category not in self._matchers:
            return []
        return _counts(self._matchers[category], terms, len(self._names[category]))


def _best(counts: Sequence[float], least: float = 0.0) -> int | None:
    """Return the place of the highest count, the first of equals; `None` if it is not over `least`."""
    most = max(counts)
    return counts.index(most) if most > least else None


def _with_part(tool: Tool, part: str) -> Tool:
    return replace(tool, placement=replace(tool.placement, subcategory=part)) if part else tool


class _Meaning:
    """The words of each category as vectors, and how near an average vector is to them."""

    def __init__(self, texts: Sequence[Sequence[str]], embed: Callable[[Sequence[str]], Vectors]) -> None:
        import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

        self._vectors = embed([text for group in texts for text in group])
        ends = np.cumsum([len(group) for group in texts])
        self._slices = [slice(end - len(group), end) for end, group in zip(ends, texts, strict=True)]
        raw = self._raw(self._vectors)
        self._usual, self._spread = np.zeros(len(texts)), np.ones(len(texts))
        for at, own in enumerate(self._slices):
            foreign = np.delete(raw[:, at], own)  # the words of the other categories, as the baseline
            if foreign.size and foreign.std() > 0:
                self._usual[at], self._spread[at] = foreign.mean(), foreign.std()

    def near(self, parts: Sequence[Vectors]) -> Table:
        """Return for each row of the parts how much nearer each category is than the average of them."""
        import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

        raw = self._raw(np.concatenate(parts))
        if not np.isfinite(raw).all():
            raise ValueError("the vectors contain values that are not numbers")
        apart = (raw - self._usual) / self._spread
        near: Table = np.clip(apart - apart.mean(axis=1, keepdims=True), -_FURTHEST, _FURTHEST)
        return near

    def _raw(self, vectors: Vectors) -> Table:
        """Return the mean cosine to the nearest words of each category."""
        import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

        # Not `@`: for so little work, the threads of a linear algebra library wait longer than they compute.
        cosines = np.einsum("nd,cd->nc", vectors, self._vectors)
        columns = []
        for own in self._slices:
            part = cosines[:, own]
            most = min(_NEAREST, part.shape[1])
            best = np.sort(part, axis=1)[:, part.shape[1] - most :]
            columns.append(best.mean(axis=1) if most else np.zeros(len(part)))
        raw: Table = np.stack(columns, axis=1).astype(np.float64)
        return raw


@lru_cache(maxsize=2)
def _meaning(texts: tuple[tuple[str, ...], ...], embed: Callable[[Sequence[str]], Vectors]) -> _Meaning:
    """Return the vectors of some categories, which nothing changes; they are computed once in a process."""
    return _Meaning(texts, embed)


class _Tagger:
    """Gives tags by words: the function of a tool by its name and verb, its subject by all its texts."""

    def __init__(self, stems: Stems) -> None:
        functions = TAGS["function"]
        others = {
            f"{d}:{tag}": words for d, tags in TAGS.items() if d != "function" for tag, words in tags.items()
        }
        self._functions = [f"function:{tag}" for tag in functions]
        self._others = list(others)
        self._function = _matcher(_with_numbers(functions.values()), stems)
        self._other = _matcher(_with_numbers(others.values()), stems)

    def tags(self, terms: _Terms, server: Sequence[str]) -> list[str]:
        """Return the tags of a tool, those of its name first; at most eight."""
        does = self._matches(self._function, [terms.name, terms.sentence[:_FIRST_TERMS]])
        works_with = self._matches(self._other, [terms.name, terms.title, server, terms.sentence])
        first = [self._functions[number] for number in islice(does, _MOST_FUNCTIONS)]
        return [*first, *(self._others[number] for number in works_with)][:MOST_TAGS]

    def _matches(self, matcher: _Matcher, texts: Sequence[Sequence[str]]) -> dict[int, None]:
        return dict.fromkeys(n for text in texts for _, numbers in matcher.find(text) for n in numbers)


def _with_numbers(words: Iterable[Sequence[str]]) -> tuple[tuple[str, int], ...]:
    return tuple((word, at) for at, group in enumerate(words) for word in group)


def _fields(value: Category) -> dict[str, Any]:
    """Return the fields of a flat value; `dataclasses.asdict` copies every word."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _tag_words() -> dict[str, dict[str, Sequence[str]]]:
    return {dimension: dict(tags) for dimension, tags in TAGS.items()}


def _shares(evidence: Table) -> Table:
    """Turn each row into probabilities."""
    import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

    exponentials = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    shares: Table = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text[:_MAX_SENTENCE].strip(), maxsplit=1)[0]


def _parameter_names(schema: Any) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return (
        [str(name) for name in islice(properties, _MAX_PARAMETERS)] if isinstance(properties, Mapping) else []
    )
