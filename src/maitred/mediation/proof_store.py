"""Prove the proposals for a server once, and store the result by their content.

A proof takes a second or two, so it runs in the background and nothing waits for it. An unproven proposal is
not used. A proof holds for its texts, whatever other servers come and go. If one tool of a server changes,
the others keep their result until the next proof of all.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import anyio
import structlog

from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.memo import MemoEntry, MemoStore
from maitred.mediation.misreading import misreadings
from maitred.mediation.proof import LoweredTool, Probe, ProofVerdict, Ranker, prove
from maitred.model.tools import canonical, content_hash

log = structlog.get_logger(__name__)

VERSION: Final = 2
"""Raise it when the same proposal might be judged differently."""

Verdicts = Sequence[ProofVerdict | None]
"""One a tool; `None` for a tool without a proposal."""


class Proofs:
    """Makes proofs, one at a time. The first one makes the ranker."""

    def __init__(
        self,
        make_ranker: Callable[[], Ranker],
        store: MemoStore,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._make_ranker = make_ranker
        self._ranker: Ranker | None = None
        self._store = store
        self._clock = clock
        self._proving = anyio.Lock()
        self._last_proven: dict[str, frozenset[str]] = {}

    async def verdicts_of(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]
    ) -> Verdicts | None:
        """The verdicts about all tools of a source, or `None` if there is no proof of them.

        Raises:
            StoreError: The stored results cannot be read.
        """
        key = await anyio.to_thread.run_sync(_key, source, before, after)
        return await self._recall(key, len(before))

    async def remember(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool], verdicts: Verdicts
    ) -> None:
        """Remember, while the program runs, which changes of a source a proof allows."""
        keys = await anyio.to_thread.run_sync(_pairs, before, after)
        proven = (key for key, verdict in zip(keys, verdicts, strict=True) if verdict and verdict.kept)
        self._last_proven[source] = frozenset(proven)

    async def passed_last_proof(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]
    ) -> Sequence[bool]:
        """Which changes passed the last proof of a source, though other tools of it have changed since."""
        proven = self._last_proven.get(source)
        if not proven:
            return [False] * len(before)
        return [key in proven for key in await anyio.to_thread.run_sync(_pairs, before, after)]

    async def prove(
        self,
        source: str,
        before: Sequence[SourceTool],
        after: Sequence[EnhancedTool],
        neighbours: Callable[[], Sequence[SourceTool]],
    ) -> Verdicts:
        """Prove the proposals, unless that was done before, and store the result.

        Args:
            source: The source of the tools.
            before: All its tools without the proposals.
            after: The same tools with the proposals.
            neighbours: Makes the tools of other servers whose places must not get worse; runs in a thread.

        Raises:
            StoreError: The result cannot be stored.
        """
        async with self._proving:
            key = await anyio.to_thread.run_sync(_key, source, before, after)
            if (stored_verdicts := await self._recall(key, len(before))) is not None:
                return stored_verdicts
            near = await anyio.to_thread.run_sync(neighbours)
            if self._ranker is None:
                self._ranker = await anyio.to_thread.run_sync(self._make_ranker)
            misread = await anyio.to_thread.run_sync(misreadings, before, after)
            for at, why in misread.items():
                log.info(
                    "a text does not fit its tool and is not used",
                    source=source,
                    tool=before[at].name,
                    why=why,
                )
            verdicts = await prove(before, after, near, self._ranker, misread=misread)
            answer = canonical([asdict(verdict) if verdict else None for verdict in verdicts])
            await self._store.save({key: MemoEntry(answer=answer, at=self._clock())})
            return verdicts

    async def _recall(self, key: str, count: int) -> Verdicts | None:
        entry = (await self._store.load([key])).get(key)
        return _decode(entry, count) if entry else None


def _key(source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]) -> str:
    values = [[vars(tool) for tool in before], [vars(tool) for tool in after]]
    return content_hash(canonical(["proof", VERSION, source, values]))


def _pairs(before: Sequence[SourceTool], after: Sequence[EnhancedTool]) -> Sequence[str]:
    """A key for each change."""
    pairs = zip(before, after, strict=True)
    return [content_hash(canonical([vars(old), vars(new)])) for old, new in pairs]


def _decode(memory: MemoEntry, count: int) -> Verdicts | None:
    """The verdicts in an entry; `None` if it is damaged, or another version wrote it."""
    try:
        rows: Any = json.loads(memory.answer.decode("utf-8", "surrogatepass"))
        return [_verdict(row) if row else None for row in rows] if len(rows) == count else None
    except (ValueError, TypeError, KeyError):
        return None


def _verdict(row: Any) -> ProofVerdict:
    return ProofVerdict(
        kept=bool(row["kept"]),
        unfit=str(row["unfit"]),
        probes=tuple(Probe(**probe) for probe in row["probes"]),
        harmed=tuple(LoweredTool(**harm) for harm in row["harmed"]),
    )
