"""Words that many messages share: a number with its noun, and suggestions for a mistyped name."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

_LIKENESS: Final = 0.6
"""Least similarity of a suggested name, from 0 to 1, as `difflib.SequenceMatcher.ratio` measures it."""

_MOST_INPUT: Final = 120
"""Most characters of a caller's text that a message repeats."""

_MOST_COMPARED: Final = 400
"""Most characters of a mistyped name that are compared with those that there are."""

_LEAST_PART = 4
"""Least length in characters of a name that is suggested because it is part of the other."""

_IN_IES = re.compile(r"[^aeiou]y$")
_IN_ES = re.compile(r"(?:s|x|z|ch|sh)$")


def count_of(number: int, noun: str) -> str:
    """A number with what it counts, such as `1 tool`, `1,200 tools` or `2 categories`."""
    return f"{number:,} {noun_of(number, noun)}"


def noun_of(number: int, noun: str) -> str:
    """What a number counts, without the number: `tool` or `tools`."""
    return noun if number == 1 else _plural(noun)


def _plural(noun: str) -> str:
    if _IN_IES.search(noun):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if _IN_ES.search(noun) else 's'}"


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Known names that resemble a mistyped one, the nearest first; empty if none is near.

    Case is ignored, and one name may be part of the other.
    """
    folded = name[:_MOST_COMPARED].casefold()
    by_folded = {one.casefold(): one for one in known}
    near = get_close_matches(folded, by_folded, n=most, cutoff=_LIKENESS)
    near += [one for one in by_folded if one not in near and _is_part(folded, one)]
    return [by_folded[one] for one in near[:most]]


def did_you_mean(
    name: str,
    known: Iterable[str],
    *,
    quoted: Callable[[str], str] = repr,
    most: int = 1,
    lead: str = "",
    otherwise: str = "",
) -> str:
    """A hint such as "did you mean 'tools'?", after `lead`; `otherwise` alone if no name is near."""
    near = near_names(name, known, most=most)
    return f"{lead}did you mean {join_with_or(near, quoted)}?" if near else otherwise


def suggest_names(near: Sequence[str], quoted: Callable[[str], str] = str, *, lead: str = " ") -> str:
    """A sentence such as "Did you mean a or b?" after `lead`; empty if no name is near."""
    return f"{lead}Did you mean {join_with_or(near, quoted)}?" if near else ""


def join_with_or(names: Sequence[str], quoted: Callable[[str], str] = str) -> str:
    """Names joined by "or"."""
    return " or ".join(map(quoted, names))


def one_of(names: Sequence[str], quoted: Callable[[str], str] = str) -> str:
    """Names to choose from, as a list in words: `a, b or c`."""
    *head, last = map(quoted, names)
    return f"{', '.join(head)} or {last}" if head else last


def as_code(name: str) -> str:
    """A name in the form that messages use for keys and commands; a long one as `quote_input` has it."""
    return f"`{shorten_middle(name, _MOST_INPUT)}`"


def quote_input(text: object) -> str:
    """A caller's text in quotation marks, for a message; of a long one the beginning and the end.

    Every message that repeats what a caller sent has it like this, so that no caller can make one long.
    """
    return repr(shorten_middle(str(text), _MOST_INPUT))


def shorten_middle(text: str, most: int) -> str:
    """A text of at most `most` characters, 40 or more: what is left out is its middle, with a count of it.

    It is for messages that repeat a value: what is wrong with the value comes after it.
    """
    if len(text) <= most:
        return text
    room = most - len(f" …({len(text):,} characters left out)… ")
    head, tail = text[: room // 3], text[len(text) - (room - room // 3) :]
    return f"{head} …({len(text) - room:,} characters left out)… {tail}"


def _is_part(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= _LEAST_PART and short in long
