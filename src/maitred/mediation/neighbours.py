"""Find the tools of other servers that a proof must check: those with the same words.

Only similar tools can be ranked behind another by mistake. Words are compared in their written form, and rare
ones count most; a cheap approximation is enough.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from maitred.catalog.snapshot import Snapshot
from maitred.mediation.base import SourceTool
from maitred.mediation.words import pieces, singular
from maitred.model.tools import Tool

MOST: Final = 200
"""Greatest number of neighbours of a server."""

_LONGEST: Final = 400
_COMMON: Final = 0.2
_FEWEST: Final = 5


class Neighbourhood:
    """The words of all published tools of a snapshot, and the tools that have them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._saying: defaultdict[str, list[int]] = defaultdict(list)
        for at, tool in enumerate(snapshot.tools):
            for word in () if tool.withheld else _words(tool.key.name, tool.title, tool.description):
                self._saying[word].append(at)

    def near(self, server: str, tools: Iterable[SourceTool], most: int = MOST) -> list[SourceTool]:
        """The tools of other servers that resemble these most, in published form, at most `most`."""
        texts = list(tools)
        per_tool = max(_FEWEST, 2 * most // max(len(texts), 1))
        rankings = [self._nearest(server, tool, per_tool) for tool in texts]
        places = dict.fromkeys(row[at] for at in range(per_tool) for row in rankings if at < len(row))
        return [published_form(self.snapshot, self.snapshot.tools[at]) for at in list(places)[:most]]

    def _nearest(self, server: str, tool: SourceTool, most: int) -> Sequence[int]:
        total = len(self.snapshot.tools)
        scores: defaultdict[int, float] = defaultdict(float)
        for word in _words(tool.name, tool.title, tool.description):
            saying = self._saying.get(word, ())
            if len(saying) <= max(total * _COMMON, _FEWEST):
                weight = math.log(1 + total / max(len(saying), 1))
                for at in saying:
                    scores[at] += weight
        others = [at for at in scores if self.snapshot.tools[at].server != server]
        return heapq.nsmallest(most, others, key=lambda at: (-scores[at], at))


def published_form(snapshot: Snapshot, tool: Tool) -> SourceTool:
    """A tool in its published form, but under the name that its server knows."""
    schema = snapshot.schema(tool.input_hash)
    return SourceTool(
        name=tool.key.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema if isinstance(schema, dict) else None,
        annotations=tool.annotations,
    )


@lru_cache(maxsize=20_000)
def _words(*texts: str) -> frozenset[str]:
    return frozenset(singular(word) for text in texts for word in pieces(text[:_LONGEST]))
