"""Many tools out of the definitions at hand: as they are first, then copies under other names.

A copy's server and tool each end in a word that no other copy has, so that names differ, the vocabulary grows
as it does in real catalogs, and nothing is answered from a cache. Descriptions and schemas stay as they are.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice

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


def _copies(tools: Sequence[RawTool], number: int) -> Iterator[RawTool]:
    word = _word(number)
    for tool in tools:
        yield replace(tool, key=ToolKey(server=f"{tool.key.server}-{word}", name=f"{tool.key.name}_{word}"))


def _word(number: int) -> str:
    """A word that can be spoken, another for each number."""
    rng = random.Random(number)
    made = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(_SYLLABLES))
    return f"{made}{number}"
