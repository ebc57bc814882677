"""The past of a gateway: work sessions in its audit trail, with the use of tools and tokens that they made.

All of it is made from a seed and written by the code of the product. Sessions are spread over two months, two
or so at a time. A principal comes back with the same client only after days, so no two sessions are one.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from maitred.audit import hash_chain
from maitred.audit.line_index import NOTHING_FOUND
from maitred.audit.log import AuditLog
from maitred.model.tools import Tool
from maitred.storage.database import Database, DriverConnection
from maitred.usage.recorder import UsageRecorder

_SEED: Final = 41
_DAYS: Final = 59
_SECONDS: Final = 100
"""From one line of a session to the next: there is no pause of half an hour."""
_PRINCIPALS: Final = 25
_CLIENTS: Final = ("claude-code", "cursor", "vscode", "own-agent")
_OF_SESSION: Final = 12
"""How many tools a session uses."""
_SURFACES: Final = ("mcp", "mcp", "mcp", "http")
_BATCH: Final = 1_000
_LIST_TOKENS: Final = 570
_RESULT_TOKENS: Final = 250
_PROJECTS: Final = ("shop", "website", "ledger", "tools", "notes")
_SHOWN: Final = 5
_FOUND: Final = 0.9
"""The share of searches that find something."""


@dataclass(kw_only=True)
class _Line:
    """A line that is planned; `begins` is the line that recorded the beginning of the same act."""

    at: datetime
    tool: Tool
    line: dict[str, Any]
    begins: "_Line | None" = None
    seq: int = 0


async def write_past(database: Database, tools: Sequence[Tool], *, sessions: int, lines: int) -> None:
    """Write so many work sessions with so many lines together, `lines` being a multiple of `sessions`."""
    now = datetime.now(UTC)
    planned = [
        line
        for number in range(sessions)
        for line in _session(number, now, tools, sessions, lines // sessions)
    ]
    planned.sort(key=lambda one: one.at)
    rest = iter(planned)
    while batch := list(islice(rest, _BATCH)):

        def append(connection: DriverConnection, batch: Sequence[_Line] = batch) -> None:
            first = hash_chain.mark(connection, "head").seq + 1
            hash_chain.append(connection, list(_numbered(batch, first)), b"")

        await database.write_driver(append)
    await _index(AuditLog(database))
    await _use(database, planned, tools)


async def _index(trail: AuditLog) -> None:
    """Fill the index of the trail, as the gateways did that wrote these lines."""
    is_more = True
    while is_more:
        is_more = await trail.index()


def _numbered(batch: Sequence[_Line], first: int) -> Iterator[Mapping[str, Any]]:
    for seq, one in enumerate(batch, first):
        one.seq = seq
        begun = {"begun": one.begins.seq} if one.begins else {}
        yield {"at": one.at.isoformat(timespec="milliseconds"), **one.line, **begun}


def _session(number: int, now: datetime, tools: Sequence[Tool], of: int, length: int) -> list[_Line]:
    rng = random.Random(_SEED + number)
    start = now - timedelta(days=_DAYS) * (of - number) / of - timedelta(seconds=_SECONDS * length)
    about = {
        "who": f"person-{number % _PRINCIPALS}",
        "token": f"t{number % _PRINCIPALS}",
        "client": _CLIENTS[number // _PRINCIPALS % len(_CLIENTS)],
        "version": f"1.{number % 7}.0",
        "surface": _SURFACES[number // _PRINCIPALS % len(_SURFACES)],
    }
    if about["surface"] == "mcp":
        about["project"] = f"/home/person-{number % _PRINCIPALS}/{_PROJECTS[number % len(_PROJECTS)]}"
    chosen = rng.sample(tools, min(_OF_SESSION, len(tools)))
    made: list[_Line] = []
    while len(made) < length:
        made += _act(rng, about, chosen, place=len(made))
    for place, one in enumerate(made[:length]):
        one.at = start + timedelta(seconds=_SECONDS * place)
    return made[:length]


def _act(rng: random.Random, about: Mapping[str, str], tools: Sequence[Tool], place: int) -> list[_Line]:
    """A call that reads, one that changes something (two lines), or a chain of three calls."""
    request = {"request_id": f"{rng.getrandbits(64):016x}"}
    if place % 23 == 22:  # noqa: PLR2004  # now and then
        chain = {"chain_id": f"{rng.getrandbits(64):016x}"}
        inner = [_call(rng, about, rng.choice(tools), request | chain) for _ in range(3)]
        body = {"action": "chain", **_hashed(rng), "outcome": "ok", "detail": "3 calls", "ms": 41.5}
        return [*inner, _line(inner[0].tool, {**about, **body, **request, **chain})]
    call = _call(rng, about, rng.choice(tools), request)
    if place % 7 == 3:  # noqa: PLR2004  # what an agent asks before it calls
        return [_search(rng, about, tools)]
    if place % 9 == 8:  # noqa: PLR2004  # some
        begun = {name: value for name, value in call.line.items() if name != "ms"} | {"outcome": "begun"}
        call.begins = _line(call.tool, begun)
        return [call.begins, call]
    return [call]


def _call(rng: random.Random, about: Mapping[str, str], tool: Tool, more: Mapping[str, str]) -> _Line:
    names = {"server": tool.server, "tool": tool.key.name, "published": tool.name}
    outcome = rng.choices(("ok", "tool_error", "timeout"), (94, 4, 2))[0]
    took = {"ms": round(rng.expovariate(1 / 80), 1), "tokens": rng.randrange(20, 900)}
    names |= {"via": "call_tool"}
    return _line(
        tool, {**about, "action": "call", **names, **_hashed(rng), "outcome": outcome, **took, **more}
    )


def _search(rng: random.Random, about: Mapping[str, str], tools: Sequence[Tool]) -> _Line:
    """A search that showed some tools, or found none."""
    found = rng.random() < _FOUND
    shown = {"shown": [tool.name for tool in rng.sample(tools, min(_SHOWN, len(tools)))]} if found else {}
    outcome = "ok" if found else NOTHING_FOUND
    body = {"action": "search", "published": "search_tools", **_hashed(rng), "outcome": outcome, "ms": 6.5}
    return _line(tools[0], {**about, **body, "tokens": rng.randrange(100, 700), **shown})


def _line(tool: Tool, line: dict[str, Any]) -> _Line:
    return _Line(at=datetime.min.replace(tzinfo=UTC), tool=tool, line=line)


def _hashed(rng: random.Random) -> Mapping[str, Any]:
    return {"arguments_hash": f"{rng.getrandbits(256):064x}", "arguments_bytes": rng.randrange(20, 400)}


async def _use(database: Database, planned: Sequence[_Line], tools: Sequence[Tool]) -> None:
    """Count the same calls, and the tokens of as many lists as there were calls of other tools before."""
    at = datetime.now(UTC)
    raw = sum(tool.cost_tokens for tool in tools)
    async with UsageRecorder(database, clock=lambda: at) as usage:
        for one in planned:
            if one.line["action"] != "call" or one.line["outcome"] == "begun":
                continue
            at = one.at
            usage.called(one.tool.key, ok=one.line["outcome"] == "ok", elapsed_ms=one.line["ms"])
            usage.spent(
                one.line["who"], lists=1, list_tokens=_LIST_TOKENS, results=1, result_tokens=_RESULT_TOKENS,
                raw_tokens=raw,
            )  # fmt: skip
        await usage.flush()
