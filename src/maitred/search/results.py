"""The question and the result of a search: values, light to import."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Band, Tool, ToolKey
from maitred.search.base import Vectors

Mode = Literal["hybrid", "lexical", "dense"]

_PATH = re.compile(r"(?:[A-Za-z]:)?[\\/][^\s:;,'\")]+")

STRONG: Final = 0.5
FAIR: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The limits of a search. `visible` are the servers whose tools the caller may see.

    A tool fits if it is in one of the `categories`, if any are given, in the `subcategory` and the `group`,
    if they are given, has all of the `tags`, and is one of `only`, unless that is `None`. The caller may not
    see tools in `outside` either.
    """

    visible: frozenset[str]
    server: str = ""
    read_only: bool = False
    categories: frozenset[str] = frozenset()
    subcategory: str = ""
    group: str = ""
    tags: frozenset[str] = frozenset()
    outside: frozenset[ToolKey] = frozenset()
    only: frozenset[ToolKey] | None = None

    @property
    def asks_each(self) -> bool:
        """Whether each tool has to be looked at: its category, its tags, or itself."""
        return bool(self.categories or self.subcategory or self.group or self.tags) or self.only is not None


@dataclass(frozen=True, kw_only=True)
class EmbeddedQuery:
    """A phrase with its vectors: the whole first, then its parts; `None` without an embedder.

    `text` is the phrase as it is searched for, with words in place of values; names are looked up by the
    phrase itself. `corrections` are the words of `text` that stand for mistyped ones, by those.
    """

    phrase: str
    text: str
    vectors: "Vectors | None" = None
    corrections: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A tool that matches. `score` orders the hits of a phrase, `confidence` (0 to 1) says how well it fits.

    `also` are the same tools of other servers.
    """

    tool: Tool
    score: float
    confidence: float = 1.0
    also: Sequence[Tool] = ()

    @property
    def band(self) -> Band:
        """The confidence in words."""
        return "strong" if self.confidence >= STRONG else "fair" if self.confidence >= FAIR else "weak"


@dataclass(frozen=True, kw_only=True)
class SearchHits:
    """The best hits of all phrases, best first, with their snapshot.

    `withheld` would be among them, but the caller must not see those. `bands` says for each phrase how well
    its best hit fits. `corrections` are the words that were searched for instead of mistyped ones, by those.
    """

    snapshot: Snapshot
    hits: Sequence[Hit]
    withheld: Sequence[Tool] = ()
    bands: Mapping[str, Band] = field(default_factory=dict)
    corrections: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Semantics:
    """How far search goes by meaning: if by words alone, `model` is empty and `why` has the reason.

    `done` of `total` tools have a vector; `not_kept` says why vectors could not be stored for the next start.
    """

    model: str = ""
    done: int = 0
    total: int = 0
    why: str = ""
    not_kept: str = ""

    @property
    def note(self) -> str:
        """A note for the reader of an answer; empty when all is well."""
        if self.why:
            return f"semantic search is off: {_PATH.sub('…', self.why)}"
        if self.model and self.done < self.total:
            return f"semantic: warming {100 * self.done // self.total} %"
        return ""
