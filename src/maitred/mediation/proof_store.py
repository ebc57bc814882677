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

from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.memo import MemoEntry, MemoStore
from maitred.mediation.proof import LoweredTool, Probe, ProofVerdict, Ranker, prove
from maitred.model.tools import canonical, content_hash

VERSION: Final = 1
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
        self._stood: dict[str, frozenset[str]] = {}

    async def known(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]
    ) -> Verdicts | None:
        """The verdicts about all tools of a source, or `None` if there is no proof of them.

        Raises:
            StoreError: The stored results cannot be read.
        """
        key = await anyio.to_thread.run_sync(_key, source, before, after)
        return await self._recall(key, len(before))

    async def noted(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool], verdicts: Verdicts
    ) -> None:
        """Remember, while the program runs, which changes of a source a proof allows."""
        keys = await anyio.to_thread.run_sync(_pairs, before, after)
        kept = (key for key, verdict in zip(keys, verdicts, strict=True) if verdict and verdict.kept)
        self._stood[source] = frozenset(kept)

    async def stood(
        self, source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]
    ) -> Sequence[bool]:
        """Which changes passed the last proof of a source, though other tools of it have changed since."""
        known = self._stood.get(source)
        if not known:
            return [False] * len(before)
        return [key in known for key in await anyio.to_thread.run_sync(_pairs, before, after)]

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
            if (known := await self._recall(key, len(before))) is not None:
                return known
            near = await anyio.to_thread.run_sync(neighbours)
            if self._ranker is None:
                self._ranker = await anyio.to_thread.run_sync(self._make_ranker)
            verdicts = await prove(before, after, near, self._ranker)
            answer = canonical([asdict(one) if one else None for one in verdicts])
            await self._store.save({key: MemoEntry(answer=answer, at=self._clock())})
            return verdicts

    async def _recall(self, key: str, count: int) -> Verdicts | None:
        found = (await self._store.load([key])).get(key)
        return _read(found, count) if found else None


def _key(source: str, before: Sequence[SourceTool], after: Sequence[EnhancedTool]) -> str:
    said = [[vars(tool) for tool in before], [vars(tool) for tool in after]]
    return content_hash(canonical(["proof", VERSION, source, said]))


def _pairs(before: Sequence[SourceTool], after: Sequence[EnhancedTool]) -> Sequence[str]:
    """A key for each change."""
    pairs = zip(before, after, strict=True)
    return [content_hash(canonical([vars(old), vars(new)])) for old, new in pairs]


def _read(memory: MemoEntry, count: int) -> Verdicts | None:
    """The verdicts in an entry; `None` if it is damaged, or another version wrote it."""
    try:
        rows: Any = json.loads(memory.answer.decode("utf-8", "surrogatepass"))
        return [_verdict(row) if row else None for row in rows] if len(rows) == count else None
    except (ValueError, TypeError, KeyError):
        return None


def _verdict(row: Any) -> ProofVerdict:
    return ProofVerdict(
        kept=bool(row["kept"]),
        probes=tuple(Probe(**probe) for probe in row["probes"]),
        harmed=tuple(LoweredTool(**harm) for harm in row["harmed"]),
    )
