"""The second stage of search: if the order is in doubt, a reranker may change the order of the best hits.

The stage decides whether to ask. It waits no longer than its time limit, and keeps the order when the
reranker fails. It neither finds nor shows tools: positions go in and out.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Final

import anyio

from maitred.errors import MaitredError
from maitred.search.base import Candidate, Reranker
from maitred.search.tokenize import STOP_WORDS

CERTAIN: Final = 0.90
CLOSE: Final = 0.10
_LONG = 12
LOAD_S: Final = 5.0
"""Seconds that a search waits for the reranker's packages, besides its time limit."""

_ROUNDING = 1e-6  # scores are float32: 0.9 and 0.8 differ by a little more than 0.1

_SPLIT = re.compile(
    r"[.,;:!?](?=\s|$)|[。，、；：！？\n]"  # noqa: RUF001  # the marks of scripts without spaces
    r"|\b(?:and|or|but|then|after|before|while|when|if|unless|because|so)\b",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]{1,2}"  # without spaces, two characters count as a word
    r"|[^\W\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]+(?:[-'’./:]\w+)*"  # noqa: RUF001  # an apostrophe
)

_BEST = re.compile(
    r"\b(?:the|your|my)\s+(?:single\s+|very\s+)?best\b"
    r"|\bbest[\s-]+(?:match|matching|fit|fitting|suited|tool|one|choice|candidate|answer)\b"
    r"|\b(?:match|fit|work)s?\s+best\b",
    re.IGNORECASE,
)


class RerankError(MaitredError):
    """A reranker could not answer. Its text is one short line without keys or texts of servers."""

    code: ClassVar[str] = "rerank_failed"


@dataclass(frozen=True, kw_only=True)
class RerankResult:
    """Every position once, best first. `note` says why the reranker failed; it is empty otherwise."""

    order: Sequence[int]
    note: str = ""


class RerankStage:
    """Asks a reranker where that may help, and never makes a search slower than its time limit.

    `load` imports what the reranker needs. `run` calls it in the background once `prepare` was called; a
    search that comes before waits for it for at most `LOAD_S`, which its time limit does not count.
    """

    def __init__(
        self,
        reranker: Reranker,
        *,
        timeout_s: float,
        load: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._reranker = reranker
        self._timeout_s = timeout_s
        self._load = load
        self._wanted = anyio.Event()
        self._loaded = anyio.Event()

    def prepare(self) -> None:
        """Have `run` load what the reranker needs: a search may come soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Load what the reranker needs when it is wanted; the first question reports what fails."""
        if self._load is None:
            return
        await self._wanted.wait()
        try:
            await self._load()
        except Exception:  # noqa: BLE001  # a plug-in; the question fails again, and says so
            return
        finally:
            self._loaded.set()

    async def order(
        self, query: str, candidates: Sequence[Candidate], scores: Sequence[float]
    ) -> RerankResult:
        """Order the hits of a search.

        Args:
            query: The text of the search.
            candidates: The best hits, best first.
            scores: The score of each, from 0 to 1.

        Returns:
            The positions of all candidates. If the reranker fails, nothing is raised and the order does not
                change.
        """
        unchanged = range(len(candidates))
        if not is_in_doubt(query, scores):
            return RerankResult(order=unchanged)
        answer: Sequence[Any] | None = None
        if self._load is not None:
            self.prepare()
            with anyio.move_on_after(LOAD_S):
                await self._loaded.wait()
        try:
            with anyio.move_on_after(self._timeout_s):
                answer = list(await self._reranker.rerank(query, candidates))
        except RerankError as error:
            return RerankResult(order=unchanged, note=f"reranker: {error}")
        except Exception as error:  # noqa: BLE001  # a plug-in; its text is not shown, since it may quote a key
            return RerankResult(order=unchanged, note=f"reranker: failed ({type(error).__name__})")
        if answer is None:
            limit_ms = round(self._timeout_s * 1000)
            return RerankResult(order=unchanged, note=f"reranker: no answer within {limit_ms} ms")
        best = valid_positions(answer, len(candidates))
        if not best:
            return RerankResult(order=unchanged, note="reranker: its answer named none of the tools")
        named_positions = set(best)
        return RerankResult(
            order=[*best, *(position for position in unchanged if position not in named_positions)]
        )


def is_in_doubt(query: str, scores: Sequence[float]) -> bool:
    """Return whether a second opinion is worth its wait: always if the query asks for the best match.

    Otherwise never if the first score is above 0.90. Else it is if the query is complex, or if the first
    three scores are within 0.10 of each other.
    """
    if len(scores) < 2:  # noqa: PLR2004  # one hit has no order
        return False
    if asks_for_best(query):
        return True
    if scores[0] > CERTAIN:
        return False
    first = scores[:3]
    return max(first) - min(first) <= CLOSE + _ROUNDING or is_complex(query)


def asks_for_best(query: str) -> bool:
    """Return whether a query says in English that it wants the best match, and not just some."""
    return _BEST.search(query) is not None


def is_complex(query: str) -> bool:
    """Return whether a query asks for more than a phrase: several clauses or over 12 content words.

    A clause is the text between punctuation marks and English conjunctions, if it has two content words or
    three words at all. "search files and folders" is one, "list the issues and close old ones" are two.
    Content words are all words but stop words.
    """
    parts = [_WORD.findall(part.casefold()) for part in _SPLIT.split(query)]
    contents = [[word for word in part if word not in STOP_WORDS] for part in parts]
    clauses = sum(
        len(content) >= 2 or (len(part) >= 3 and bool(content))  # noqa: PLR2004  # as the docstring says
        for part, content in zip(parts, contents, strict=True)
    )
    return clauses > 1 or sum(map(len, contents)) > _LONG


def valid_positions(answer: Iterable[Any], count: int) -> list[int]:
    """Return the whole numbers from 0 to `count` - 1 in a reranker's answer, each once, in its order."""
    numbers = (int(n) for n in answer if isinstance(n, Integral) and not isinstance(n, bool))
    return [n for n in dict.fromkeys(numbers) if 0 <= n < count]
