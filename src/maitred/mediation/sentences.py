"""Sentences about tools: made from the words of their names, or repaired from their authors' text.

It is no grammar of English, only what names of tools need: an article, a plural, a full stop. If a sentence
would need an invention, there is none.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from maitred.mediation.lexicon import ACRONYMS, KNOWN, NO_ARTICLE, NOUNS, VERBS, word_set
from maitred.mediation.words import (
    SpelledName,
    certain_words,
    display_word,
    is_plural,
    is_word,
    pieces,
    singular,
)

_DEFINITE = frozenset({"active", "current", "default", "first", "last", "latest", "next", "previous", "top"})
_PREPOSITIONS = word_set("""
    about after and as at before between by for from in into near of on or per to via with
""")
_SOFT_AN = ("hour", "html", "http", "sms", "sql", "svg", "xml", "mcp", "ftp", "rss", "llm")
_HARD_A = ("uni", "use", "usa", "url", "uri", "uuid", "utc", "one", "euro", "usb", "ui")
_CERTAIN_VERBS = VERBS - NOUNS | {"list"}
_UNKEYED = word_set("""
    add append build check create draw duplicate fill find generate insert make open post search send set
    start upload write
""")  # these verbs take no id
_IDENTIFIES = frozenset({"id", "number", "email", "name", "path", "key", "code", "url", "slug"})
_MAX_TAKEN = 8
_STEM = 3
_PROSE = 3
_EMPTY = word_set("""
    a an and be by can do does for function in is it its of on or some that the this to tool used user's
    with will
""")

_QUOTED = re.compile(r"(`[^`]*`|\"[^\"\n]*\"|'[^'\n]*')")
_CALL = re.compile(r"\b(?:IMPORTANT|ATTENTION|NOTE|PLEASE NOTE|READ THIS)\s*!+:?\s*")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+|$|(?=\n))")
_LETTERS = re.compile(r"[^\W\d_]+")
_SHOUTED = re.compile(r"[A-Z][A-Z' -]*[A-Z]")
_WHAT = r"(?:tool|function|command|endpoint|api|method|operation)"
_LEADING = re.compile(
    rf"(?:(?:this|the)\s+{_WHAT}\s+(?:(?:is|can\s+be)\s+used\s+to|allows?\s+(?:you|users|agents|the\s+user)\s+to"
    rf"|lets\s+you|enables\s+you\s+to|helps\s+you(?:\s+to)?|can|will)"
    rf"|use\s+this\s+{_WHAT}\s+to|(?:an?\s+)?{_WHAT}\s+(?:to|that|which)|this\s+{_WHAT})\s+(?P<verb>[a-z]+)\b",
    re.IGNORECASE,
)
_ENDS_OPEN = re.compile(
    r"(?:^|\s)[^\s/]*[a-zA-Z0-9)\"'`]$"
)  # a full stop after an address would become part of it
_PLAIN_WORD = re.compile(r"[a-z]+(?=[\s,;:.]|$)")


@dataclass(frozen=True, kw_only=True)
class SentenceDraft:
    """One or two sentences; `has_verb` if they say what the tool does, `is_guess` if they contain a guess."""

    text: str
    has_verb: bool
    is_guess: bool = False


def describe(name: SpelledName, parameters: Sequence[SpelledName]) -> SentenceDraft | None:
    """What a tool does, from its name and parameters; `None` if its name is just an unknown word.

    It mentions parameters only if a name was spelled out; the reader sees plain words in the schema.
    """
    words, is_guess = list(name.words), name.is_guess
    if len(words) > 1 and words[0] not in VERBS and not _CERTAIN_VERBS.isdisjoint(words):
        words, is_guess = _verb_first(words), True
    if not words or (len(words) == 1 and words[0] not in VERBS):
        return None
    does = words[0] in _CERTAIN_VERBS or len(words) == 1
    thing = words[1:] if does else words
    key = _key(parameters)
    if does and not thing and len(key) > 1:
        thing, is_guess = list(key[:-1]), True
    parts = [words[0]] if does else []
    parts += [_phrase(thing, with_article=does)] if thing else []
    is_keyed = does and bool(key) and words[0] not in _UNKEYED and "by" not in thing
    if is_keyed:
        of_thing = {singular(word) for word in thing} & set(key[:-1])
        parts += ["by", " ".join(display_word(word) for word in (key[-1:] if of_thing else key))]
    text = sentence_case(" ".join(parts)) + "."
    others = [
        parameter for parameter in parameters if parameter.words and not (is_keyed and parameter.words == key)
    ]
    others = [parameter for parameter in others if not set(parameter.words) <= _PREPOSITIONS]
    if any(parameter.is_spelled_out for parameter in others):
        text += f" Takes {_join([parameter.text for parameter in others])}."
    is_guess = is_guess or any(parameter.is_guess for parameter in parameters)
    return SentenceDraft(text=text, has_verb=does, is_guess=is_guess)


def _verb_first(words: Sequence[str]) -> list[str]:
    """The words, verb first: `shop list orders` begins with a product, `user delete` with an object."""
    if words[0] not in KNOWN and words[1] in _CERTAIN_VERBS:
        return list(words[1:])
    is_pair = len(words) == 2 and words[1] in _CERTAIN_VERBS  # noqa: PLR2004  # an object and its verb
    return [words[1], words[0]] if is_pair else list(words)


def _key(parameters: Sequence[SpelledName]) -> tuple[str, ...]:
    """The words of the parameter that identifies the object: an id if there is one."""
    keys = [
        parameter.words for parameter in parameters if parameter.words and parameter.words[-1] in _IDENTIFIES
    ]
    return next((words for words in keys if words[-1] == "id"), keys[0] if keys else ())


def sentence_case(text: str) -> str:
    """A text with a capital first letter."""
    return text[:1].upper() + text[1:]


def stems(text: str) -> list[str]:
    """The stems of a text's words, in order, with abbreviations as written."""
    return [_stem(piece) for piece in pieces(text)]


def meaning(text: str) -> AbstractSet[str]:
    """The stems of a text's words, with abbreviations spelled out and empty words left out."""
    return {_stem(word) for word in certain_words([text])} - _EMPTY


def repair_description(text: str) -> str:
    """A description with its first sentence repaired: no shouting, no "This tool", a capital, a full stop."""
    calm = _calm(text.strip())
    rest = calm
    if (lead := _LEADING.match(calm)) and not VERBS.isdisjoint(_bases(lead["verb"].lower())):
        rest = calm[lead.start("verb") :]
    if _PLAIN_WORD.match(rest):
        rest = sentence_case(rest)
    if "\n" not in rest and _ENDS_OPEN.search(rest):
        rest += "."
    return rest


def _bases(verb: str) -> Sequence[str]:
    """Possible base forms of a verb in the third person."""
    return verb, verb.removesuffix("s"), verb.removesuffix("es"), singular(verb)


def _calm(text: str) -> str:
    """A text without calls for attention and without sentences in capitals; quoted text stays as it is."""
    whole = _is_shouted(text, marked=True)
    parts = _QUOTED.split(text)
    for at in range(0, len(parts), 2):
        loud = _CALL.sub("", parts[at])
        parts[at] = _SENTENCE.sub(lambda match: _lower_shouting(match[0], whole=whole), loud)
    return "".join(parts).strip() or text


def _lower_shouting(sentence: str, *, whole: bool) -> str:
    marked = sentence.endswith("!")
    body = sentence.rstrip("!")
    several = sentence.endswith("!!")
    if not _is_shouted(body, marked=whole or marked):
        return f"{body}." if several else sentence
    words = _LETTERS.sub(lambda word: word[0] if word[0].lower() in ACRONYMS else word[0].lower(), body)
    start = len(words) - len(words.lstrip())
    return words[:start] + sentence_case(words[start:]) + ("." if marked else "")


def _is_shouted(sentence: str, *, marked: bool) -> bool:
    """Whether a sentence is in capitals: several words of prose, or one word if it is `marked` as loud."""
    if not _SHOUTED.fullmatch(sentence.strip(" .!?")):
        return False
    words = [word for word in _LETTERS.findall(sentence.lower()) if word not in ACRONYMS]
    return bool(words) and (marked or (len(words) >= _PROSE and sum(map(is_word, words)) * 2 >= len(words)))


def _phrase(words: Sequence[str], *, with_article: bool) -> str:
    """Words of a name as a noun phrase, with its article."""
    end = next((at for at, word in enumerate(words) if word in _PREPOSITIONS), len(words))
    text = " ".join(display_word(word) for word in words)
    if not with_article or not end:
        return text
    first, last = words[0], words[end - 1]
    if _DEFINITE.intersection(words[:1]):
        return f"the {text}"
    if is_plural(last) or {first, last} & NO_ARTICLE or first.isdigit():
        return text
    return f"{_article(first)} {text}"


def _article(word: str) -> str:
    soft = word.startswith(_SOFT_AN) or (word[:1] in "aeiou" and not word.startswith(_HARD_A))
    return "an" if soft else "a"


def _join(names: Sequence[str]) -> str:
    if len(names) > _MAX_TAKEN:
        names = [*names[:_MAX_TAKEN], "others"]
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _stem(word: str) -> str:
    word = singular(word)
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            stem = word.removesuffix(ending)
            return next((candidate for candidate in (stem, f"{stem}e") if candidate in KNOWN), stem)
    return word
