"""What an agent pays: tokens of the menu against all definitions, of an answer to a search, of find and call.

Counted in o200k over the compact JSON of a result as the client receives it. A tool's own definition is
counted as its server lists it, without the envelope around the list.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from tests.support.replay_server import sample

from bench.counting import tokens
from bench.queries import make_queries
from bench.stage import CURRENT, Corpus, Stage
from bench.values import PeerError, Size
from bench.wire import Era, Json, Wire, connect
from maitred.evaluation.metrics import percentile

_SIGNATURE = re.compile(r"^~?([A-Za-z0-9_-]{1,64})\(", re.MULTILINE)
_ERAS: tuple[Era, ...] = ("handshake", "stateless")


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Of several counts."""

    samples: int
    p50: float
    p95: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One corpus. `raw_tokens` are whole definitions, `given_tokens` what clients give a model of them.

    `find_and_call` is all traffic of a search and a call; `call_alone` the call made directly.

    `refused` calls, whose arguments (made from the schema) were not taken, count too.
    """

    corpus: str
    servers: int
    tools: int
    raw_tokens: int
    given_tokens: int
    menu_tokens: dict[str, int]
    menu_share: float
    definition: Quantiles
    search_answer: Quantiles
    find_and_call: Quantiles
    call_alone: Quantiles
    refused: int


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """One entry a corpus."""

    costs: Sequence[Cost]


@dataclass(frozen=True, kw_only=True)
class _Errand:
    """A search and a call of its first result."""

    total: int
    alone: int
    refused: bool


def measure(stage: Stage, size: Size) -> Tokens:
    """Count over each corpus."""
    return Tokens(costs=[anyio.run(_count, corpus, size) for corpus in stage.corpora()])


async def _count(corpus: Corpus, size: Size) -> Cost:
    each = [tokens(tool) for record in corpus.records for tool in record["tools"]]
    given = sum(tokens(_given(tool)) for record in corpus.records for tool in record["tools"])
    command = CURRENT.serve(corpus.known.config)
    menus: dict[str, int] = {}
    for era in _ERAS:
        async with connect(command, era) as wire:
            menus[era] = tokens(await wire.request("tools/list"))
    queries = make_queries(corpus.records, size.queries)
    async with connect(command) as wire:
        answers = [tokens(await wire.call("search_tools", {"phrases": [query]})) for query in queries]
        errands = [await _errand(wire, query) for query in queries[: size.find_and_call]]
    done = [errand for errand in errands if errand]
    return Cost(
        corpus=corpus.name,
        servers=len(corpus.records),
        tools=len(each),
        raw_tokens=sum(each),
        given_tokens=given,
        menu_tokens=menus,
        menu_share=max(menus.values()) / sum(each),
        definition=_quantiles(each),
        search_answer=_quantiles(answers),
        find_and_call=_quantiles([errand.total for errand in done]),
        call_alone=_quantiles([errand.alone for errand in done]),
        refused=sum(errand.refused for errand in done),
    )


def _given(tool: Json) -> Json:
    return {key: tool[key] for key in ("name", "description", "inputSchema") if key in tool}


async def _errand(wire: Wire, query: str) -> _Errand | None:
    """Search, and call what was found first with arguments that fit; None when nothing was found."""
    wanted = {"phrases": [query]}
    found = await wire.call("search_tools", wanted)
    match = _SIGNATURE.search(_text(found))
    if match is None:
        return None
    name = match.group(1)
    arguments = await _arguments(wire, name)
    request = {"name": name, "arguments": arguments}
    answer = await wire.call("call_tool", request)
    alone = tokens(request) + tokens(answer)
    asked = tokens({"name": "search_tools", "arguments": wanted})
    total = asked + tokens(found) + tokens({"name": "call_tool", "arguments": request}) + tokens(answer)
    return _Errand(total=total, alone=alone, refused=bool(answer.get("isError")))


async def _arguments(wire: Wire, name: str) -> Any:
    """Arguments that fit the tool's schema; asking for the schema is not part of the errand."""
    text = _text(await wire.call("tool_info", {"names": [name], "detail": "full"}))
    try:
        schema = json.JSONDecoder().raw_decode(text)[0]["inputSchema"]
    except ValueError:  # a definition too large to be shown whole
        return {}
    return sample(schema, schema) or {}


def _text(result: Json) -> str:
    content = result.get("content")
    if not content or result.get("isError"):
        raise PeerError(f"a meta-tool answered {json.dumps(result)[:300]}")
    return str(content[0].get("text", ""))


def _quantiles(counts: Sequence[int]) -> Quantiles:
    if not counts:
        raise PeerError("there is nothing to summarise: no search found anything")
    return Quantiles(
        samples=len(counts), p50=percentile(counts, 0.5), p95=percentile(counts, 0.95), largest=max(counts)
    )
