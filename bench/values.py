"""What every bench shares as values: how much to measure, how figures are summarised, what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured.

    `links` are the ways to maitred in `calls.py`, `variants` those of `proxies.py`; `peers` says whether
    peers from other registries are measured; `comparisons` are backends of `calls.py`, each with the client
    that calls it; `calls` is how many calls a round has, by how many of them are made at once.
    `known_servers` and `proxied_servers` are how many servers a program starts with. `growth` has pairs of
    tools and servers; of these, the peer is measured up to `growth_peer_tools`. `quality_queries` are asked
    of each labelled set of at most `quality_tools`, all of them if it is 0. `minutes` is how long
    availability and a fleet are measured, and `sessions` how many are open at a fleet.
    """

    quick: bool
    links: tuple[str, ...]
    variants: tuple[str, ...]
    peers: bool
    rounds: int
    warm_up_calls: int
    calls: Mapping[int, int]
    comparisons: tuple[tuple[str, Literal["lean", "sdk"]], ...]
    warm_up_starts: int
    starts: int
    known_servers: tuple[int, ...]
    proxied_servers: tuple[int, ...]
    corpus_servers: int
    corpus_tools: int
    recorded: bool
    queries: int
    find_and_call: int
    growth: tuple[tuple[int, int], ...]
    growth_modes: tuple[str, ...]
    growth_queries: int
    growth_peer_tools: int
    growth_peer_queries: int
    growth_clients: tuple[int, ...]
    quality_tools: int
    quality_queries: int
    minutes: float
    sessions: int


FULL = Size(
    quick=False,
    links=("alone", "shared", "HTTP"),
    variants=("shared", "mount"),
    peers=True,
    rounds=9,
    warm_up_calls=30,
    calls={1: 80, 8: 240, 32: 320, 128: 384},
    comparisons=(("echo", "lean"), ("time", "sdk")),
    warm_up_starts=1,
    starts=7,
    known_servers=(1, 10, 100),
    proxied_servers=(1, 10),
    corpus_servers=191,
    corpus_tools=8_586,
    recorded=True,
    queries=200,
    find_and_call=60,
    growth=((1_000, 25), (10_000, 250), (10_000, 1_000), (100_000, 1_000)),
    growth_modes=("hybrid", "lexical"),
    growth_queries=100,
    growth_peer_tools=10_000,
    growth_peer_queries=20,
    growth_clients=(1, 100, 1_000),
    quality_tools=100_000,
    quality_queries=0,
    minutes=10,
    sessions=10_000,
)
QUICK = Size(
    quick=True,
    links=("alone", "shared", "HTTP"),
    variants=("mount",),
    peers=True,
    rounds=3,
    warm_up_calls=5,
    calls={1: 30, 8: 80, 32: 96, 128: 128},
    comparisons=(("echo", "lean"),),
    warm_up_starts=0,
    starts=1,
    known_servers=(1, 10),
    proxied_servers=(1,),
    corpus_servers=12,
    corpus_tools=540,
    recorded=False,
    queries=60,
    find_and_call=10,
    growth=((500, 10), (1_000, 25)),
    growth_modes=("hybrid",),
    growth_queries=20,
    growth_peer_tools=1_000,
    growth_peer_queries=5,
    growth_clients=(1, 20),
    quality_tools=1_000,
    quality_queries=40,
    minutes=1,
    sessions=100,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that could not be measured: which, and the reason."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What was left out on purpose, and why."""

    what: str
    why: str


class PeerError(Exception):
    """A process under measurement did not do what it was asked; the text says what, with its last words."""


class LostError(PeerError):
    """A request got no answer, since the other end went away or cannot be reached.

    `was_sent` says whether the other end may have got it.
    """

    def __init__(self, why: str, *, was_sent: bool) -> None:
        self.was_sent = was_sent
        super().__init__(why)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median of some rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise one value a round; there must be at least one."""
    return Spread(median=median(values), low=min(values), high=max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Summarise the ratios of two figures that were taken in the same rounds."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def leaf(error: BaseException) -> str:
    """The first single error inside nested groups, as one short line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:300]
