"""Spell out abbreviations in names: `gt_usr`, `updPrf` and `delmsg` become words.

It uses a table and no dictionary, and guesses only words without vowels (`rmndr`) with a single solution. A
word stays as it is. An ambiguous abbreviation is spelled out only if the words around it decide. An unknown
piece stays as it is.
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from maitred.mediation.lexicon import ABBREVIATIONS, ACRONYMS, BY_CONTEXT, FIRST, KNOWN, LAST, NOUNS, VERBS

_PIECE = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_MIN_JOINED = 5
_MAX_JOINED = 40
_MIN_SKELETON = 4
_LATER_PIECE = 3
_STEM = 3
_SEPARATORS = re.compile(r"[\W_]+")
_DOUBLED = re.compile(r"(.)\1+")
_VOWELS = "aeiou"


_SUFFIXES: Mapping[str, str] = {"id": "id", "ids": "ids", "no": "number", "nm": "name", "dt": "date"}


@dataclass(frozen=True, kw_only=True)
class SpelledName:
    """A name as lower-case words; whether one was spelled out, and whether that was a guess."""

    words: tuple[str, ...]
    is_spelled_out: bool = False
    is_guess: bool = False

    @property
    def text(self) -> str:
        """The words in the form for the middle of a sentence."""
        return " ".join(display_word(word) for word in self.words)


def pieces(name: str) -> list[str]:
    """The parts of an identifier in lower case: snake, camel, kebab and dotted, digits apart."""
    return [piece.lower() for piece in _PIECE.findall(name)]


def certain_words(texts: Iterable[str]) -> frozenset[str]:
    """The certain words of names or texts; they decide what ambiguous abbreviations among them mean."""
    result: set[str] = set()
    for piece in (piece for text in texts for piece in pieces(text)):
        words = _certain(piece, joined_verbs=False)[0]
        result.update(words, (singular(word) for word in words))
    return frozenset(result)


def spell(name: str, context: AbstractSet[str] = frozenset(), *, is_tool: bool = False) -> SpelledName:
    """Spell a name out.

    Args:
        name: An identifier in any style.
        context: Words around it, see `certain_words`.
        is_tool: It names a tool, so its first word may be the verb.
    """
    words: list[str] = []
    certain = True
    own = pieces(name)
    proper = _proper(name)
    for at, piece in enumerate(own):
        place = FIRST if is_tool and at == 0 else LAST if 0 < at == len(own) - 1 else ""
        if piece in proper:
            words.append(piece)
        elif reading := _by_place(piece, place):
            words.append(reading)
        elif reading := _by_context(piece, context):
            words += reading.split()
            certain = False
        else:
            certain_part, is_certain = _certain(piece, joined_verbs=is_tool and at == 0)
            words += certain_part
            certain = certain and is_certain
    return SpelledName(words=tuple(words), is_spelled_out=words != own, is_guess=not certain)


def expand_abbreviations(name: str) -> str:
    """A tool's name with its abbreviations spelled out, `gt_usr` as `get_user`; others stay as they are.

    The words are joined by underscores. What has several meanings is spelled out only if the rest of the name
    decides.
    """
    spelled = spell(name, certain_words([name]), is_tool=True)
    return "_".join("_".join(spelled.words).split()) if spelled.is_spelled_out else name


def possible_meanings(
    piece: str, near: AbstractSet[str], far: AbstractSet[str] = frozenset(), *, is_first: bool = False
) -> list[tuple[str, ...]]:
    """What a piece of a name may mean, each as words; empty if it is unknown.

    Args:
        piece: The piece, in lower case.
        near: The words of the tool around it, see `certain_words`.
        far: The words of the other tools of the server, which decide only if those of the tool do not.
        is_first: It is the first piece of a tool's name.
    """
    if is_first and (reading := _by_place(piece, FIRST)):
        return [tuple(reading.split())]
    if reading := _by_context(piece, near) or _by_context(piece, far):
        return [tuple(reading.split())]
    if piece in BY_CONTEXT:
        return [tuple(meaning.split()) for meaning, needs in BY_CONTEXT[piece] if needs != FIRST]
    words, _ = _certain(piece, joined_verbs=is_first)
    is_known = words != (piece,) or piece in ACRONYMS or is_word(piece)
    return [words] if is_known else []


def is_short_for(piece: str, word: str) -> bool:
    """Whether a piece may be an abbreviation of a word: its letters in order, from the first one."""
    if len(piece) >= len(word) or piece[:1] != word[:1]:
        return False
    letters = iter(word)
    return all(letter in letters for letter in piece)


def display_word(word: str) -> str:
    """A word in the form for the middle of a sentence: acronyms in capitals."""
    stem = word[:-1] if word[-1:] == "s" and word not in ACRONYMS else word
    return stem.upper() + word[len(stem) :] if stem in ACRONYMS else word


def singular(word: str) -> str:
    """A noun in the singular, if it is a regular plural."""
    if word.endswith("ies") and len(word) > len("ties"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if is_plural(word) else word


def is_plural(word: str) -> bool:
    """Whether a noun looks like a plural."""
    return word.endswith("s") and not word.endswith(("ss", "us", "is", "news")) and len(word) > len("gas")


def plural(words: str) -> str:
    """A noun, or several words that end with one, in the plural."""
    if words.endswith("y") and words[-2:-1] not in _VOWELS:
        return words[:-1] + "ies"
    return words + ("es" if words.endswith(("s", "x", "ch", "sh")) else "s")


def is_word(piece: str) -> bool:
    """Whether a piece is an English word that tools use, in any regular form."""
    stems = [piece, singular(piece)]
    for ending in ("ed", "ing", "er", "d", "es"):
        stem = piece.removesuffix(ending)
        if stem != piece and len(stem) >= _STEM:
            stems += [stem, f"{stem}e", stem[:-1]]
    return any(stem in KNOWN for stem in stems)


def _proper(name: str) -> AbstractSet[str]:
    """The pieces of proper names: of `GTEx` in `GTEx_find_tissue`, and of `MSig` in `findMSigSets`."""
    parts = [part for part in _SEPARATORS.split(name) if part]
    plain = [part for part in parts if part.islower()]
    found = {piece for part in parts if plain and not part.islower() for piece in pieces(part)}
    if not name.isupper():
        found |= {piece.lower() for piece in _PIECE.findall(name) if piece.isupper() and len(piece) > 1}
    return found


def _by_place(piece: str, place: str) -> str:
    """The reading of an ambiguous abbreviation by its place in the name."""
    return next((word for word, needs in BY_CONTEXT.get(piece, ()) if place and needs == place), "")


def _by_context(piece: str, context: AbstractSet[str]) -> str:
    """The reading of an ambiguous abbreviation by the words around it; empty if they do not decide."""
    stem = piece if piece in BY_CONTEXT else piece.removesuffix("s")
    readings = () if piece in ABBREVIATIONS else BY_CONTEXT.get(stem, ())
    meaning = next((meaning for meaning, needs in readings if not context.isdisjoint(needs.split())), "")
    return meaning if stem == piece or not meaning else plural(meaning)


@lru_cache(maxsize=10_000)
def _certain(piece: str, *, joined_verbs: bool) -> tuple[tuple[str, ...], bool]:
    """The words of a single piece, and whether they are certain; the piece itself if it is unknown."""
    if meaning := _meaning(piece):
        return tuple(meaning.split()), True
    if piece in BY_CONTEXT or piece in ACRONYMS or is_word(piece) or not piece.isascii():
        return (piece,), True
    if _MIN_JOINED <= len(piece) <= _MAX_JOINED and (parts := _parts(piece, joined_verbs=joined_verbs)):
        return parts, False
    if meaning := _add_vowels(piece):
        return (meaning,), False
    return (piece,), True


def _meaning(piece: str) -> str:
    if found := ABBREVIATIONS.get(piece):
        return found
    found = ABBREVIATIONS.get(piece[:-1]) if piece.endswith("s") else None
    return plural(found) if found else ""


def _parts(piece: str, *, joined_verbs: bool) -> tuple[str, ...]:
    """The words of a joined name: verb and object (`delmsg`), or owner and property (`usrid`)."""
    for cut in range(len(piece) - 2, 1, -1):
        head, tail = piece[:cut], piece[cut:]
        verb = head if head in VERBS else ABBREVIATIONS.get(head, "")
        if joined_verbs and verb in VERBS and (rest := _nouns(tail)):
            return (verb, *rest)
        if tail in _SUFFIXES and (rest := _nouns(head)):
            return (*rest, _SUFFIXES[tail])
    return ()


def _nouns(text: str) -> tuple[str, ...]:
    """A text as nouns and abbreviations of nouns, the longest first; empty if it is anything else."""
    for cut in range(len(text), _LATER_PIECE - 1, -1):
        head, tail = text[:cut], text[cut:]
        word = head if head in NOUNS or singular(head) in NOUNS else _meaning(head)
        if word and not tail:
            return tuple(word.split())
        if word and (rest := ("id",) if tail == "id" else _nouns(tail)):
            return (*word.split(), *rest)
    return ()


def skeleton(word: str) -> str:
    """A word without vowels, except the first letter, and without doubled letters."""
    return _DOUBLED.sub(r"\1", word[:1] + "".join(letter for letter in word[1:] if letter not in _VOWELS))


def _skeletons(words: AbstractSet[str]) -> Mapping[str, str]:
    found: dict[str, list[str]] = {}
    for word in words:
        found.setdefault(skeleton(word), []).append(word)
    return {bones: of[0] for bones, of in found.items() if len(of) == 1 and len(bones) >= _MIN_SKELETON}


_BY_SKELETON = _skeletons(VERBS | NOUNS)


def _add_vowels(piece: str) -> str:
    """The one word that matches a piece without vowels, or an empty text."""
    if any(letter in _VOWELS for letter in piece[1:]):
        return ""
    found = _BY_SKELETON.get(_DOUBLED.sub(r"\1", piece))
    stem = _BY_SKELETON.get(_DOUBLED.sub(r"\1", piece[:-1])) if piece.endswith("s") else None
    return found or (plural(stem) if stem else "")
