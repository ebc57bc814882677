"""What lists and answers of ordinary servers put into an agent's context: the design's table of tokens.

Tools of the document's size, and recorded servers below the break-even, as clients of both eras list and open
them through a gateway. Its table is in `docs/menu.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from tests.support import corpus, token_table

from bench.stage import Stage
from bench.values import Size, Skipped


@dataclass(frozen=True, kw_only=True)
class TokenTable:
    """All rows; real servers are skipped where their definitions are not at hand."""

    rows: Sequence[token_table.TokenRow]
    skipped: Sequence[Skipped]


def measure(stage: Stage, size: Size) -> TokenTable:
    """Count; neither `stage` nor `size` changes anything, since tokens do not vary."""
    path = corpus.recorded()
    every = {str(one["server"]): one["tools"] for one in corpus.read(path)} if path else {}
    recorded: dict[str, Any] = {name: every[name] for name in token_table.SMALL if name in every}
    missing = [] if recorded else [Skipped(what="real servers", why="their definitions are not here")]
    return TokenTable(rows=anyio.run(token_table.measure, recorded), skipped=missing)
