"""Propose groups of tools by rules: tools of one server that act on the same thing, by their names.

`create_tenant`, `list_tenants` and `suspend_tenant` are one group, `tenants`. The name and the description of
a group consist of single words of the tools' names, so a server cannot write a sentence into them. The same
names give the same groups, in any order.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from maitred.mediation.lexicon import NO_ARTICLE, NOUNS, VERBS
from maitred.mediation.words import certain_words, display_word, is_word, pieces, plural, singular, spell
from maitred.model.categories import FEWEST_IN_GROUP, ToolGroup
from maitred.model.pages import name_in_page

_MAX_NAME: Final = 40
_MAX_WORD: Final = 20
_MIN_WORD: Final = 3
_MAX_PHRASE: Final = 3
_MOST_VERBS: Final = 4
_MOST_WORDS: Final = 12
"""Words of a name that are looked at."""
_ONLY_VERBS: Final = VERBS - NOUNS
_QUALIFIERS: Final = frozenset({
    "about", "after", "as", "at", "before", "between", "by", "for", "from", "in", "into", "of", "on", "over",
    "per", "to", "under", "using", "via", "with", "within", "without",
})  # fmt: skip
"""Words after which a name says how or where, and not on what the tool acts."""
_GENERIC: Final = frozenset({
    "all", "and", "any", "api", "batch", "bulk", "count", "data", "detail", "field", "info", "information",
    "item", "latest", "list", "many", "metadata", "name", "new", "number", "object", "option", "property",
    "recent", "result", "single", "state", "stats", "status", "summary", "the", "tool", "type",
    "value", "version",
})  # fmt: skip
"""Words that tools about different things share."""


@dataclass(frozen=True, kw_only=True)
class _NameParts:
    """What a name says: the verb, if it is a known one, and the words for the thing, in the singular.

    `plurals` are those of the words that the name has in the plural.
    """

    verb: str
    words: tuple[str, ...]
    plurals: frozenset[str]

    def phrases(self) -> Iterator[tuple[str, ...]]:
        """All runs of words that may name a group."""
        for start in range(len(self.words)):
            for end in range(start + 1, min(start + _MAX_PHRASE, len(self.words)) + 1):
                phrase = self.words[start:end]
                if _may_name(phrase):
                    yield phrase


def propose_groups(names: Collection[str], source: str = "") -> Mapping[str, ToolGroup]:
    """The group of each tool that rules put in one, by the tool's name.

    The thing that most tools share makes the first group, and the tools left make the next ones. Of equal
    ones, the longer phrase goes first, then the one that is first in the alphabet. An unknown word with which
    all names begin, such as a vendor's, makes a group only if there is no other.

    Args:
        names: The names of tools of one server.
        source: The server's name; its words name no group.
    """
    words = _spelled_names(sorted(names))
    of_source = frozenset(map(singular, pieces(source)))
    first_words = {parts[0] for parts in words.values() if parts}
    if len(first_words) == 1 and len(words) > 1 and not is_word(next(iter(first_words))):
        shorter = {name: parts[1:] for name, parts in words.items()}
        if groups := _groups({name: _read_name(parts, of_source) for name, parts in shorter.items()}):
            return groups
    return _groups({name: _read_name(parts, of_source) for name, parts in words.items()})


def _groups(tools: Mapping[str, _NameParts]) -> Mapping[str, ToolGroup]:
    """The groups of tools.

    A count of tools only falls, so an entry of the heap with an old count comes too early and is put back.
    """
    phrases = {name: tuple(dict.fromkeys(parts.phrases())) for name, parts in tools.items()}
    left: dict[tuple[str, ...], dict[str, _NameParts]] = {}
    for name, parts in tools.items():
        for phrase in phrases[name]:
            left.setdefault(phrase, {})[name] = parts
    heap = [(-len(named), -len(phrase), phrase) for phrase, named in left.items()]
    heapify(heap)
    groups: dict[str, ToolGroup] = {}
    while heap:
        count, length, phrase = heappop(heap)
        named = left[phrase]
        if len(named) < FEWEST_IN_GROUP:
            continue
        if len(named) != -count:
            heappush(heap, (-len(named), length, phrase))
            continue
        groups |= dict.fromkeys(named, _group(phrase, list(named.values())))
        for name in list(named):
            for other in phrases[name]:
                del left[other][name]
    return groups


def _spelled_names(names: Sequence[str]) -> dict[str, Sequence[str]]:
    own_names = {name: name_in_page(name) for name in names}
    context = certain_words(own_names.values())
    spelled = {name: spell(own, context, is_tool=True) for name, own in own_names.items()}
    return {name: " ".join(parts.words).split()[:_MOST_WORDS] for name, parts in spelled.items()}


def _read_name(words: Sequence[str], of_source: frozenset[str]) -> _NameParts:
    verb = _verb(words)
    things: list[str] = []
    for at, word in enumerate(words):
        if at and word in _QUALIFIERS:
            break
        if at != verb:
            things.append(word)
    kept = [word for word in things if singular(word) not in of_source]
    return _NameParts(
        verb=words[verb] if verb >= 0 else "",
        words=tuple(singular(word) for word in kept),
        plurals=frozenset(singular(word) for word in kept if singular(word) != word),
    )


def _verb(words: Sequence[str]) -> int:
    """The place of the verb: of a word that is nothing else, or else of a first or last word; or -1."""
    places = [at for at, word in enumerate(words) if word in VERBS and word not in NOUNS]
    if places:
        return places[0]
    return next((at for at in (0, len(words) - 1) if words and words[at] in VERBS), -1)


def _may_name(phrase: Sequence[str]) -> bool:
    if (
        phrase[-1] in _ONLY_VERBS
        or phrase[-1] in _GENERIC
        or phrase[0] in _GENERIC
        or len("_".join(phrase)) > _MAX_NAME - 2
    ):
        return False
    return all(
        word.isascii() and word.isalpha() and _MIN_WORD <= len(word) <= _MAX_WORD and word not in _QUALIFIERS
        for word in phrase
    )


def _group(phrase: Sequence[str], tools: Sequence[_NameParts]) -> ToolGroup:
    *first, last = phrase
    is_plural = any(last in parts.plurals for parts in tools) or (last in NOUNS and last not in NO_ARTICLE)
    words = [*first, plural(last) if is_plural else last]
    thing = " ".join(map(display_word, words))
    verbs = sorted({parts.verb for parts in tools if parts.verb})
    more = ["and more"] if len(verbs) > _MOST_VERBS else []
    does = f": {', '.join([*verbs[:_MOST_VERBS], *more])}" if verbs else ""
    return ToolGroup(name="_".join(words), description=f"Tools for {thing}{does}.", by="rules")
