"""What each part of search brings: the labelled sets with one part changed at a time.

A part is changed by setting a constant of the module that it belongs to; nothing else differs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from bench.quality import Found, LabelledSet, labelled_sets, ours
from bench.stage import Stage
from bench.values import Size, Skipped
from maitred.config.settings import Search
from maitred.search import background_vectors, fusion, lexical, tokenize

_FIXED = (0.5, 0.0)
_REPEATS_COUNT = 1_000


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A name, and the constants that are set: (module, name of the constant, value)."""

    name: str
    changed: Sequence[tuple[Any, str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """For each variant what it finds, set by set in the order of `sets`."""

    sets: Sequence[str]
    variants: Sequence[tuple[str, Sequence[Found]]]
    skipped: Sequence[Skipped]


def _without(index: int) -> tuple[float, ...]:
    return tuple(0.0 if at == index else weight for at, weight in enumerate(lexical._WEIGHTS))  # noqa: SLF001  # as the module says


def _joined(token: str) -> tuple[str, ...]:
    return (token.lower(),)


def _unstemmed(word: str) -> str:
    return word


VARIANTS: Sequence[Variant] = (
    Variant(name="as shipped"),
    Variant(name="fixed share of 0.5", changed=[(fusion, "_SHARE", _FIXED)]),
    Variant(name="whole phrase, no clauses", changed=[(background_vectors, "_MAX_CLAUSES", 0)]),
    Variant(name="no identifier splitting", changed=[(tokenize, "_pieces", _joined)]),
    Variant(name="no stemming", changed=[(tokenize, "_term", _unstemmed)]),
    Variant(name="no parameters", changed=[(lexical, "_WEIGHTS", _without(3))]),
    Variant(name="no server name", changed=[(lexical, "_WEIGHTS", _without(4))]),
    Variant(name="repeated words count", changed=[(lexical, "_MOST_REPEATED", _REPEATS_COUNT)]),
)


def measure(stage: Stage, size: Size) -> Ablation:
    """Ask the queries of every set once for each variant."""
    sets = labelled_sets()
    if not sets or size.quick:
        why = "a quick run leaves it out" if size.quick else "there is no data/search in the folder `shared`"
        return Ablation(sets=[], variants=[], skipped=[Skipped(what="ablation", why=why)])
    return Ablation(
        sets=[one.name for one in sets],
        variants=[(variant.name, anyio.run(_measure, variant, sets)) for variant in VARIANTS],
        skipped=[],
    )


async def _measure(variant: Variant, sets: Sequence[LabelledSet]) -> Sequence[Found]:
    with _changed(variant.changed):
        return [await ours(one, variant.name, Search()) for one in sets]


@contextmanager
def _changed(constants: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    forget: Callable[[], None] = tokenize._terms.cache_clear  # noqa: SLF001  # what it knows was cut the other way
    before = [(module, name, getattr(module, name)) for module, name, _ in constants]
    try:
        for module, name, value in constants:
            setattr(module, name, value)
        forget()
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        forget()
