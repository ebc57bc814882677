"""Why search ranks tools as it does: values, light to import.

`maitred.search.explain` makes them from the same scores by which a search ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from maitred.model.tools import Band, Tool

Cause = Literal["rank", "name", "server"]
"""`rank`: words and meaning. `name`: the phrase is the tool's name. `server`: it is its server's name."""
Fate = Literal["shown", "below", "folded", "withheld", "filtered", "unranked", "unknown"]
"""What became of the tool that a caller expected.

`below`: it ranks behind the results. `folded`: an equal tool of another server shows it. `filtered`: the
search asked for something else. `unranked`: neither words nor meaning make it a candidate. `unknown`: the
index does not have it.
"""


@dataclass(frozen=True, kw_only=True)
class WordReason:
    """A word of the phrase that a tool has: `read_as` is another spelling, `share` that of its word score."""

    word: str
    read_as: str
    fields: Sequence[str]
    share: float


@dataclass(frozen=True, kw_only=True)
class HitReasons:
    """Why a tool has its place.

    `words` and `meaning` are its scores within this ranking, 0 to 1, or `None` if they do not count. `likely`
    (0 to 1) is how likely it serves the phrase. `used` is what earlier calls add to its score.
    """

    tool: Tool
    place: int
    band: Band
    likely: float
    score: float
    words: float | None
    meaning: float | None
    used: float = 0.0
    matches: Sequence[WordReason] = ()
    also: Sequence[Tool] = ()
    cause: Cause = "rank"


@dataclass(frozen=True, kw_only=True)
class ExpectedTool:
    """What became of a tool that a caller expected; `instead` is the tool that shows it, if it is folded."""

    fate: Fate
    reasons: HitReasons | None = None
    instead: Tool | None = None


@dataclass(frozen=True, kw_only=True)
class PhraseReasons:
    """The ranking of one phrase.

    `share` is the weight of words for this phrase, the rest is that of meaning. `ignored` words are too
    frequent to count, `unknown` ones are in no tool that the caller may see. `withheld` are tools that would
    be among the hits, but the caller must not see those. `candidates` is the number of tools that were
    compared in the end. `corrections` are the words that were searched for instead of mistyped ones, by
    those.
    """

    phrase: str
    band: Band
    share: float
    by_meaning: bool
    hits: Sequence[HitReasons]
    ignored: Sequence[str] = ()
    unknown: Sequence[str] = ()
    withheld: Sequence[Tool] = ()
    candidates: int = 0
    corrections: Mapping[str, str] = field(default_factory=dict)
    expected: ExpectedTool | None = None
