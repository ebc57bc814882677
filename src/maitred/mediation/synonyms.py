"""Words that mean nearly the same: forms of one word, by a common root, and groups of the lexicon."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from maitred.mediation.lexicon import ALIKE
from maitred.mediation.sentences import stems

_ENDINGS: Final = ("ation", "ition", "ment", "ance", "ence", "ing", "ion", "ate", "al", "e", "y", "i")
_SHORTEST: Final = 4


@lru_cache(maxsize=10_000)
def root(word: str) -> str:
    """What the forms of a word have in common: `invit` for "invite" and "invitation"."""
    stem = next(iter(stems(word)), word)
    fitting = (
        ending for ending in _ENDINGS if stem.endswith(ending) and len(stem) - len(ending) >= _SHORTEST
    )
    return stem.removesuffix(next(fitting, ""))


@lru_cache(maxsize=10_000)
def alike(word: str) -> AbstractSet[str]:
    """The roots of a word and of those that may stand for it in a description."""
    return frozenset({root(word)}).union(*_GROUPS.get(root(word), ()))


def _groups() -> Mapping[str, list[AbstractSet[str]]]:
    groups: dict[str, list[AbstractSet[str]]] = {}
    for words in ALIKE:
        group = frozenset(map(root, words))
        for word in group:
            groups.setdefault(word, []).append(group)
    return groups


_GROUPS: Final = _groups()
