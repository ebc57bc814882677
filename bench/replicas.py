"""Many tools out of the definitions at hand: as they are first, then copies under other names.

A copy's server and tool each end in a word that no other copy has, so that names differ, the vocabulary grows
as it does in real catalogs, and nothing is answered from a cache. Descriptions and schemas stay as they are.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice, pairwise

from tests.support.corpus import Record

from maitred.backends.listing import read_tools
from maitred.model.tools import RawTool, ToolKey

_SEED = 23
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u")
_SYLLABLES = 3


def tools_of(records: Sequence[Record]) -> list[RawTool]:
    """All tools of a corpus, read as a discovery reads them."""
    return [tool for record in records for tool in read_tools(record["server"], record["tools"])[0]]


def replicate(tools: Sequence[RawTool], wanted: int) -> list[RawTool]:
    """So many tools, the same ones each time: a sample where there are more, copies where there are fewer."""
    if wanted <= len(tools):
        return random.Random(_SEED).sample(tools, wanted)
    copies = (copy for number in count(1) for copy in _copies(tools, number))
    return [*tools, *islice(copies, wanted - len(tools))]


def replicate_servers(records: Sequence[Record], tools: int, servers: int) -> list[Record]:
    """So many servers with so many tools in all, made as `replicate` does; neighbours stay together."""
    named = [(str(one["server"]), tool) for one in records for tool in one["tools"] if _has_name(tool)]
    if tools <= len(named):
        chosen = random.Random(_SEED).sample(named, tools)
    else:
        copies = (
            (f"{server}-{word}", {**tool, "name": f"{tool['name']}_{word}"})
            for word in map(_word, count(1))
            for server, tool in named
        )
        chosen = [*named, *islice(copies, tools - len(named))]
    chosen.sort(key=lambda one: (one[0], one[1]["name"]))
    ends = [len(chosen) * number // servers for number in range(servers + 1)]
    return [
        _server(f"{chosen[start][0]}-{number}", [tool for _, tool in chosen[start:end]])
        for number, (start, end) in enumerate(pairwise(ends))
    ]


def _has_name(tool: object) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _server(name: str, tools: Sequence[Record]) -> Record:
    """A record of a server, whose tools get numbers where their names are the same."""
    used: Counter[str] = Counter(tool["name"] for tool in tools)
    numbered = [
        {**tool, "name": f"{tool['name']}_{place}"} if used[tool["name"]] > 1 else tool
        for place, tool in enumerate(tools)
    ]
    info = {"name": name, "version": "1"}
    facts = {"protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": {"tools": {}}}
    return {"server": name, **facts, "tools": numbered}


def _copies(tools: Sequence[RawTool], number: int) -> Iterator[RawTool]:
    word = _word(number)
    for tool in tools:
        yield replace(tool, key=ToolKey(server=f"{tool.key.server}-{word}", name=f"{tool.key.name}_{word}"))


def _word(number: int) -> str:
    """A word that can be spoken, another for each number."""
    rng = random.Random(number)
    made = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(_SYLLABLES))
    return f"{made}{number}"
