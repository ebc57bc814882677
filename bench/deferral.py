"""Whether a client that defers tools reaches the right tool: by `alwaysLoad`, by instructions, by neither.

A scripted client (`tests/support/deferring_client.py`) with six tasks, over the recorded definitions of real
servers behind the menu.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from tests.support import corpus, deferring_client
from tests.support.sdk_clients import Era

from bench.stage import Stage
from bench.values import Size, Skipped
from maitred.backends.listing import read_tools
from maitred.model.tools import RawTool


@dataclass(frozen=True, kw_only=True)
class DeferralRow:
    """For how many tasks the client reached a right tool in its first turn, in its second, and at all."""

    loads: bool
    instructs: bool
    era: Era
    tasks: int
    first: int
    second: int
    ever: int


@dataclass(frozen=True, kw_only=True)
class DeferralTable:
    """All rows; none where the recorded definitions are not at hand."""

    servers: int
    tools: int
    rows: Sequence[DeferralRow]
    skipped: Sequence[Skipped]


def measure(stage: Stage, size: Size) -> DeferralTable:
    """Count turns; neither `stage` nor `size` changes anything, since the script decides by words."""
    path = corpus.recorded()
    if path is None:
        missing = Skipped(what="real servers", why="their definitions are not here")
        return DeferralTable(servers=0, tools=0, rows=[], skipped=[missing])
    records = corpus.read(path)
    tools = [tool for one in records for tool in read_tools(str(one["server"]), one["tools"])[0]]
    eras: tuple[Era, ...] = ("handshake", "stateless")
    rows = [row for era in eras for row in anyio.run(_rows, tools, era)]
    return DeferralTable(servers=len(records), tools=len(tools), rows=rows, skipped=[])


async def _rows(tools: Sequence[RawTool], era: Era) -> Sequence[DeferralRow]:
    found = await deferring_client.measure(tools, era)
    return [
        DeferralRow(
            loads=ways.loads,
            instructs=ways.instructs,
            era=era,
            tasks=len(turns),
            first=turns.count(1),
            second=turns.count(2),
            ever=sum(turn > 0 for turn in turns),
        )
        for ways, turns in found.items()
    ]
