"""Cross-check the new text of a tool with the tool itself: name, parameters, annotations, neighbours.

A language model may misread a name: `upl_fl` as "update profile". Search cannot tell, since the wrong words
find the tool well. So the text must read each piece of the name in a meaning that the lexicon allows, and
must not add, deny or widen what nothing of the tool says. Doubt goes against the text: the tool keeps what it
had. Words of the lexicon decide, and no phrases.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import dropwhile, pairwise, takewhile
from typing import Final

from maitred.mediation.base import SourceTool
from maitred.mediation.lexicon import ACRONYMS, EMPTY, FILLERS, KNOWN, NOUNS, VERBS, word_set
from maitred.mediation.sentences import stems
from maitred.mediation.synonyms import alike, root
from maitred.mediation.words import certain_words, is_short_for, is_word, pieces, possible_meanings, skeleton

_NEGATIONS: Final = word_set("no not never nothing none cannot without neither nor")
_CONDITIONS: Final = word_set("if when unless should")
_QUANTIFIERS: Final = word_set("all every each any whole entire everything")
_GIVEN: Final = word_set("given specified")
_JOINTS: Final = EMPTY | {"then", "before", "after"}
_PARTICLES: Final = word_set("in out on off up down")
_SOURCES, _TARGETS = word_set("from source src frm"), word_set("to destination dst dest target")
_BETWEEN: Final = word_set("to 2")
_IDLE: Final = EMPTY | FILLERS | _QUANTIFIERS | _PARTICLES
_FURTHER_VERB: Final = re.compile(
    r"(?:,\s*(?:and|or|then)?|\b(?:and|or|then|also)|;(?:\s*it)?)\s+([a-z]+)(\s+(?:an?|the|its?|their|what|to)\b)?"
)
_BY: Final = re.compile(r"\b(?:by|using)\s+((?:[a-z]+\s*){1,4})")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_POOR: Final = 8
_PLAIN: Final = 6
_LONGEST: Final = 400
_MANY: Final = 4
_NEAREST: Final = 20


def misreadings(before: Sequence[SourceTool], after: Sequence[SourceTool]) -> Mapping[int, str]:
    """The positions of the tools of a server that new texts misread, each with the reason.

    Args:
        before: All tools of the server, as the server has them.
        after: The same tools with the new texts.
    """
    cross_check = CrossCheck(before)
    reasons = ((at, cross_check.why_misread(at, tool)) for at, tool in enumerate(after))
    return {at: why for at, why in reasons if why}


class CrossCheck:
    """The tools of one server, by which new texts for them are checked."""

    def __init__(self, tools: Sequence[SourceTool]) -> None:
        self._tools = tools
        self._words = certain_words(
            text for tool in tools for text in (tool.name, tool.description[:_LONGEST])
        )
        in_names = Counter(word for tool in tools for word in set(map(root, pieces(tool.name))))
        self._topics = frozenset(word for word, count in in_names.items() if count >= _MANY)
        self._names = [_pieces_of(tool.name, certain_words([tool.name])) for tool in tools]
        self._named: defaultdict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(self._names):
            for word in {root(word) for piece in name for meaning in piece.meanings for word in meaning}:
                self._named[word].append(at)

    def why_misread(self, at: int, after: SourceTool) -> str:
        """Why the tool at a position may not have the texts of a proposal; empty if it may."""
        before = self._tools[at]
        text = _Text.of(before, after)
        if not text.words:
            return ""
        own = _OwnWords(before, self._words, self._topics)
        return next(filter(None, (check(own, text) for check in _CHECKS)), "") or self._nearer(at, own, text)

    def _nearer(self, at: int, own: "_OwnWords", text: "_Text") -> str:
        """A neighbour whose name fits the text better than the tool's own."""
        fit = _fit(own.name, text)
        near = Counter(other for word in text.roots for other in self._named.get(word, ()) if other != at)
        for other, _ in near.most_common(_NEAREST) if fit else ():
            if _fit(self._names[other], text) > fit:
                return f"it fits {self._tools[other].name!r} better"
        return ""


@dataclass(frozen=True, kw_only=True)
class _Text:
    """The new texts of a proposal."""

    name: Sequence[str]
    title: Sequence[str]
    description: str
    words: Sequence[str]

    @classmethod
    def of(cls, before: SourceTool, after: SourceTool) -> "_Text":
        """The texts of a proposal that differ from the tool's own."""
        name, title, description = (
            new if new != old else ""
            for new, old in (
                (after.name, before.name),
                (after.title, before.title),
                (after.description, before.description),
            )
        )
        words = [word for text in (name, title, description) for word in pieces(text)]
        return cls(name=pieces(name), title=pieces(title), description=description.strip(), words=words)

    @cached_property
    def roots(self) -> AbstractSet[str]:
        """The roots of its words, and of two that stand together: "back up" is a backup."""
        pairs = (f"{first}{second}" for first, second in zip(self.words, self.words[1:], strict=False))
        return frozenset(map(root, (*self.words, *pairs)))

    @cached_property
    def forms(self) -> AbstractSet[str]:
        """Its words as written and in their base form."""
        return frozenset((*self.words, *stems(" ".join(self.words))))

    @cached_property
    def sentences(self) -> Sequence[str]:
        """The sentences of its description in lower case; one that is empty if there is none."""
        return _SENTENCE_END.split(self.description.lower())

    @cached_property
    def action(self) -> str:
        """The verb with which its description begins, or its name; as written, empty if there is none."""
        first = next((word for word in pieces(self.description) if not word.endswith("ly")), "")
        if first and first not in EMPTY | FILLERS and (_is_verb(first) or first not in NOUNS):
            return first
        return next((word for word in self.name[:1] if word in VERBS), "")

    @cached_property
    def content(self) -> Sequence[str]:
        """The words of name, title and first sentence that say something, besides the verb; each once."""
        said = (*self.name, *self.title, *pieces(self.sentences[0]))
        words = (word for word in said if word != self.action)
        return list(dict.fromkeys(word for word in words if not _is_idle(word)))


@dataclass(frozen=True, kw_only=True)
class _NamePiece:
    """A piece of a name or text, and what it may mean, each meaning as words; none if it is unknown."""

    text: str
    meanings: Sequence[Sequence[str]]

    @property
    def may_be_verb(self) -> bool:
        """Whether it means what tools do."""
        return any(words[0] in VERBS for words in self.meanings)

    def is_read_by(self, roots: AbstractSet[str]) -> bool:
        """Whether one of its meanings is among these roots, in the same words or in ones alike."""
        return any(all(not roots.isdisjoint(alike(word)) for word in words) for words in self.meanings)

    def may_be(self, word: str) -> bool:
        """Whether it means a word, or is unknown and may be short for it."""
        return self.is_read_by({root(word)}) or (not self.meanings and is_short_for(self.text, word))

    def does(self, verb: str) -> bool:
        """Whether it may stand for a verb; a word such as `term` may be short for "terminate"."""
        if any(root(words[0]) in alike(verb) for words in self.meanings):
            return True
        is_short = any(
            root(self.text) == word or is_short_for(self.text, word) for word in (verb, *alike(verb))
        )
        return is_short and not self.may_be_verb


class _OwnWords:
    """What a tool says of itself."""

    def __init__(self, tool: SourceTool, server_words: AbstractSet[str], topics: AbstractSet[str]) -> None:
        properties = (tool.input_schema or {}).get("properties")
        parameters = properties if isinstance(properties, Mapping) else {}
        about = [part.get("description", "") for part in parameters.values() if isinstance(part, Mapping)]
        near = certain_words([tool.name, *map(str, parameters), tool.description])
        self._topics = topics
        self.annotations = tool.annotations
        self.text = [
            word for text in (tool.title, tool.description, *map(str, about)) for word in pieces(text)
        ]
        self.name = [self._by_text(piece) for piece in _pieces_of(tool.name, near, server_words)]
        short = self.text if len(self.text) <= _POOR else []
        self._others = [
            piece
            for text in (*map(str, parameters), *short)
            for piece in _pieces_of(text, near, server_words, is_tool=False)
        ]
        self.evidence = frozenset((*server_words, *near, *self.text))

    def _by_text(self, piece: _NamePiece) -> _NamePiece:
        """A piece of the name as the tool's own texts say it in full, if they do."""
        said = [(word,) for word in self.text if is_short_for(piece.text, word) and is_word(word)]
        return _NamePiece(text=piece.text, meanings=said) if said and piece.text not in KNOWN else piece

    @cached_property
    def actions(self) -> Sequence[_NamePiece]:
        """The pieces of its name that may be its verb: the first one, and verbs; `csv_to_json` converts."""
        verbs = [piece for piece in self.name if piece.may_be_verb]
        if not verbs and any(piece.text in _BETWEEN for piece in self.name[1:-1]):
            return [_NamePiece(text="to", meanings=[("convert",)])]
        return [*(piece for piece in self.name[:1] if len(piece.text) > 1), *verbs]

    @cached_property
    def _roots(self) -> AbstractSet[str]:
        words = {*self.text, *self._topics}
        for piece in (*self.name, *self._others):
            words.update((piece.text,), *piece.meanings)
        return frozenset(word for one in words for word in alike(one))

    def supports(self, word: str) -> bool:
        """Whether something of the tool says a word, in full or short."""
        return root(word) in self._roots or any(
            not piece.meanings and is_short_for(piece.text, word) for piece in (*self.name, *self._others)
        )

    def added(self, text: _Text) -> Sequence[str]:
        """The words of a text for which there is no reason in the tool."""
        return [word for word in text.content if not self.supports(word)]


def _pieces_of(
    name: str, near: AbstractSet[str], far: AbstractSet[str] = frozenset(), *, is_tool: bool = True
) -> list[_NamePiece]:
    return [
        _NamePiece(text=piece, meanings=possible_meanings(piece, near, far, is_first=is_tool and at == 0))
        for at, piece in enumerate(pieces(name))
    ]


# Checks: each says why a text does not fit, or nothing.


def _unread_piece(own: _OwnWords, text: _Text) -> str:
    """A piece of the name that the text reads as something else, or not at all."""
    for at, piece in enumerate(own.name):
        is_silent = len(piece.text) == 1 or (piece.text in EMPTY and piece.text not in _PARTICLES)
        is_silent = is_silent or (not piece.meanings and _is_plain(piece.text))
        if is_silent or piece.text in ACRONYMS or piece.is_read_by(text.roots):
            continue
        if (
            at == 0
            and piece.meanings
            and not piece.may_be_verb
            and any(map(piece.does, filter(None, (text.action, *text.name[:1]))))
        ):
            continue
        why = (
            _unsaid_meaning(piece) if piece.meanings else _unproven_reading(own, piece, text, is_verb=at == 0)
        )
        is_open = len(piece.meanings) != 1 and own.text and not own.added(text)
        if why and not is_open:
            return why
    return ""


def _unsaid_meaning(piece: _NamePiece) -> str:
    meanings = " or ".join(" ".join(words) for words in piece.meanings)
    return f"it does not say {meanings!r}, which {piece.text!r} in the name means"


def _unproven_reading(own: _OwnWords, piece: _NamePiece, text: _Text, *, is_verb: bool) -> str:
    """Why nothing proves that an unknown piece means what the text says."""
    candidates = {word for word in text.forms if is_short_for(piece.text, word)}
    known = _likely_words(piece.text, is_verb=is_verb)
    if candidates & own.evidence or root(piece.text) in text.roots:
        return ""
    if len(known) == 1 and known[0] not in candidates and text.roots.isdisjoint(alike(known[0])):
        return f"it does not say {known[0]!r}, which {piece.text!r} in the name probably means"
    if len(known) > 1 and not any(skeleton(word) == piece.text for word in candidates.intersection(known)):
        return f"{piece.text!r} in the name may mean {known[0]!r} or {known[1]!r}, and nothing decides"
    if not (known or candidates):
        return f"no word of it can be what {piece.text!r} in the name means"
    return ""


@lru_cache(maxsize=10_000)
def _likely_words(piece: str, *, is_verb: bool) -> Sequence[str]:
    """The words of the lexicon that a piece is most likely short for: without vowels, cut off, or both."""
    fits: Sequence[Callable[[str], bool]] = (
        lambda word: skeleton(word) == piece,
        lambda word: word.startswith(piece),
        lambda word: skeleton(word).startswith(piece),
    )
    kinds = (VERBS, NOUNS) if is_verb else (NOUNS, VERBS)
    found = ([word for word in sorted(words - {piece}) if fit(word)] for fit in fits for words in kinds)
    return next(filter(None, found), [])


def _wrong_action(own: _OwnWords, text: _Text) -> str:
    """A verb at the beginning that is neither that of the name nor one of the tool's own texts."""
    if not (verb := text.action) or root(verb) in map(root, own.text):
        return ""
    by_name = own.actions if any(_names_action(piece, text) for piece in own.actions) else ()
    by_text = [word for word in own.text if _is_verb(word)]
    if by_name and not any(piece.does(verb) for piece in by_name):
        meanings = (" ".join(words) for piece in by_name for words in piece.meanings or [(piece.text,)])
        return f"it says {verb!r}, but the name says {' or '.join(dict.fromkeys(meanings))!r}"
    if not by_name and by_text and not any(root(verb) in alike(word) for word in by_text):
        return f"it says {verb!r}, but the server says {by_text[0]!r}"
    if not (by_name or by_text or _is_reading(verb)):
        return f"it says {verb!r}, which nothing of the tool says"
    return ""


def _is_reading(verb: str) -> bool:
    return root(verb) in alike("get")


def _contradicted(own: _OwnWords, text: _Text) -> str:
    """A verb at the beginning that contradicts the annotations of the server."""
    if not (verb := text.action):
        return ""
    reads, destroys = (own.annotations.get(key) is True for key in ("readOnlyHint", "destructiveHint"))
    if reads and not _is_reading(verb) and not own.supports(verb):
        return f"it says {verb!r}, but the server says that the tool only reads"
    if destroys and not reads and _is_reading(verb):
        return f"it says {verb!r}, but the server says that the tool destroys something"
    return ""


def _names_action(piece: _NamePiece, text: _Text) -> bool:
    """Whether a piece is a verb, short for a word of the text, or an unknown word that the text says."""
    is_short = any(is_short_for(piece.text, word) for word in text.forms)
    return piece.may_be_verb or is_short or (not piece.meanings and root(piece.text) in text.roots)


def _denied(own: _OwnWords, text: _Text) -> str:
    """A negation that nothing of the tool says; one in a sentence with a condition is about a case."""
    for sentence in map(pieces, text.sentences):
        if _CONDITIONS.isdisjoint(sentence) and (denied := _NEGATIONS & (set(sentence) - set(own.text))):
            return f"it says {min(denied)!r}, which nothing of the tool says"
    return ""


def _widened(own: _OwnWords, text: _Text) -> str:
    """A text about all of something, for a tool that is about one; a list may be of all."""
    lists = any(root(words[0]) in ("list", "search") for piece in own.actions for words in piece.meanings)
    for at, word in enumerate(text.words):
        if word in _QUANTIFIERS and word not in own.text:
            following = frozenset(map(root, text.words[at + 1 : at + 4]))
            if not (lists and any(piece.is_read_by(following) for piece in own.name[1:])):
                return f"it says {word!r}, but nothing of the tool says that it is about more than one"
    return ""


def _turned_round(own: _OwnWords, text: _Text) -> str:
    """A source that becomes the target, or the other way round."""
    words = [word for word in text.words if word not in ("a", "an", "the")]
    for word, following in pairwise(words):
        if (word == "from" and following in _TARGETS) or (word in ("to", "into") and following in _SOURCES):
            return f"it says {f'{word} {following}'!r}, which turns the direction round"
    for first, middle, last in zip(own.name, own.name[1:], own.name[2:], strict=False):
        if middle.text in _BETWEEN:
            places = [
                [at for at, word in enumerate(text.content) if piece.may_be(word)] for piece in (first, last)
            ]
            if all(places) and places[0][0] > places[1][0]:
                return f"it turns {first.text!r} and {last.text!r} round"
    return ""


def _added_action(own: _OwnWords, text: _Text) -> str:
    """A further verb, in the form of the first one, that nothing of the tool says."""
    is_third_person = text.action.endswith("s")
    first, *further = text.sentences
    for sentence in (first, *(f", {sentence}" for sentence in further)):
        for word, is_followed in _FURTHER_VERB.findall(sentence):
            is_form = word.endswith("s") and not word.endswith("ss") if is_third_person else word in VERBS
            is_verb = not VERBS.isdisjoint(stems(word)) or is_followed
            if is_form and is_verb and word not in FILLERS and not own.supports(word):
                return f"it says {word!r}, which nothing of the tool says"
    return ""


def _added_words(own: _OwnWords, text: _Text) -> str:
    """Words for which there is no reason in the tool: in the name, as a parameter, or most of them."""
    for word in text.name:
        if not _is_idle(word) and not own.supports(word) and root(word) not in alike(text.action):
            return f"its name says {word!r}, which nothing of the tool says"
    for said in _BY.findall(text.description.lower()):
        words = list(
            takewhile(
                lambda word: word not in _JOINTS, dropwhile(lambda word: word in EMPTY | _GIVEN, said.split())
            )
        )
        if words and not any(own.supports(word) for word in words):
            return f"it says {f'by {words[0]}'!r}, which no parameter says"
    added = own.added(text)
    if len(added) > 1 and len(added) * 2 >= len(text.content):
        return f"it says {' and '.join(map(repr, added[:3]))}, which nothing of the tool says"
    return ""


_CHECKS: Final[Sequence[Callable[[_OwnWords, _Text], str]]] = (
    _unread_piece, _wrong_action, _contradicted, _denied, _widened, _turned_round, _added_action,
    _added_words,
)  # fmt: skip


def _fit(name: Sequence[_NamePiece], text: _Text) -> float:
    """The share of the pieces of a name that a text reads."""
    words = (text.action, *text.content)
    legible = [piece for piece in name if len(piece.text) > 1]
    read = [
        piece.is_read_by(text.roots) or any(is_short_for(piece.text, word) for word in words)
        for piece in legible
    ]
    return sum(read) / len(read) if read else 0.0


def _is_plain(piece: str) -> bool:
    """Whether an unknown piece is a long word and no abbreviation, such as `geocode`."""
    return len(piece) >= _PLAIN and len(skeleton(piece)) <= len(piece) - 2


def _is_idle(word: str) -> bool:
    """Whether a word says nothing of its own."""
    return len(word) == 1 or not word.isalpha() or word.endswith("ly") or word in _IDLE


def _is_verb(word: str) -> bool:
    """Whether a word is a known verb, or an unknown word in the third person."""
    forms = frozenset((word, *stems(word)))
    return not VERBS.isdisjoint(forms) or (word.endswith("s") and KNOWN.isdisjoint(forms))
