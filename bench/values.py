"""What every bench shares as values: how much to measure, how figures are summarised, what failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured.

    `variants` are those of `proxies.py`, `client_modes` of `mcp.Client`, `backends` of `calls.py`;
    `known_servers` and `proxied_servers` are how many servers a program starts with. Of `scale_tools`, the
    peer is measured up to `scale_peer_tools`, with `scale_peer_queries`; `quality_queries` are asked of each
    labelled set of at most `quality_tools`, all of them if it is 0.
    """

    quick: bool
    variants: tuple[str, ...]
    client_modes: tuple[str, ...]
    rounds: int
    warm_up_calls: int
    sequential_calls: int
    concurrent_calls: int
    backends: tuple[str, ...]
    warm_up_starts: int
    starts: int
    known_servers: tuple[int, ...]
    proxied_servers: tuple[int, ...]
    memory_samples: int
    corpus_servers: int
    corpus_tools: int
    recorded: bool
    queries: int
    find_and_call: int
    scale_tools: tuple[int, ...]
    scale_modes: tuple[str, ...]
    scale_queries: int
    scale_peer_tools: int
    scale_peer_queries: int
    quality_tools: int
    quality_queries: int


FULL = Size(
    quick=False,
    variants=("shared", "mount"),
    client_modes=("legacy", "auto"),
    rounds=15,
    warm_up_calls=50,
    sequential_calls=120,
    concurrent_calls=224,
    backends=("echo", "time"),
    warm_up_starts=1,
    starts=7,
    known_servers=(1, 10, 100),
    proxied_servers=(1, 10),
    memory_samples=3,
    corpus_servers=191,
    corpus_tools=8_586,
    recorded=True,
    queries=200,
    find_and_call=60,
    scale_tools=(1_000, 10_000, 100_000),
    scale_modes=("hybrid", "lexical"),
    scale_queries=200,
    scale_peer_tools=10_000,
    scale_peer_queries=20,
    quality_tools=100_000,
    quality_queries=0,
)
QUICK = Size(
    quick=True,
    variants=("mount",),
    client_modes=("legacy",),
    rounds=3,
    warm_up_calls=10,
    sequential_calls=50,
    concurrent_calls=96,
    backends=("echo",),
    warm_up_starts=0,
    starts=1,
    known_servers=(1, 10),
    proxied_servers=(1,),
    memory_samples=1,
    corpus_servers=12,
    corpus_tools=540,
    recorded=False,
    queries=60,
    find_and_call=10,
    scale_tools=(500, 1_000),
    scale_modes=("hybrid",),
    scale_queries=40,
    scale_peer_tools=1_000,
    scale_peer_queries=10,
    quality_tools=1_000,
    quality_queries=40,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that could not be measured: which, and the reason."""

    what: str
    why: str


class PeerError(Exception):
    """A process under measurement did not do what it was asked; the text says what, with its last words."""


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
