"""What search reads of a tool, and the protocols of the two exchangeable parts: embedder and reranker."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, content_hash
from maitred.search.tokenize import index_terms

if TYPE_CHECKING:  # the gateway starts without numpy
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
else:
    Vectors = Any
"""One row a text, each of length 1 (or 0 where nothing of the text is known)."""

_MAX_DESCRIPTION = 2_000
_MAX_PARAMETERS = 40
_MAX_PARAMETER_TEXT = 200


@dataclass(frozen=True, kw_only=True)
class ToolDocument:
    """The words of a tool. `name` is the raw one; `parameters` are pairs of name and description."""

    name: str
    server: str = ""
    title: str = ""
    description: str = ""
    parameters: Sequence[tuple[str, str]] = ()

    @property
    def text(self) -> str:
        """The tool as one text, for embedders that take nothing else."""
        about = " ".join(part for part in (self.title, self.description) if part)
        return f"{self.name}: {about}" if about else self.name

    @cached_property
    def digest(self) -> str:
        """The content hash under which its vector is kept."""
        parts = [self.name, self.server, self.title, self.description, *map(list, self.parameters)]
        return content_hash(json.dumps(parts).encode())


def document(snapshot: Snapshot, tool: Tool) -> ToolDocument:
    """What search reads of a tool; texts beyond a length count no more, so that long ones gain nothing."""
    return _document(tool, snapshot.schema)


def documents(tools: Sequence[Tool], schema: Callable[[str], Any]) -> list[ToolDocument]:
    """The same for several tools; `schema` gives a parsed schema by its hash."""
    return [_document(tool, schema) for tool in tools]


def _document(tool: Tool, schema: Callable[[str], Any]) -> ToolDocument:
    own = tool.mending
    return make_document(
        name=tool.key.name,
        server=tool.server,
        titles=[tool.title, own.rename, own.title] if own else [tool.title],
        descriptions=[tool.description, own.description] if own else [tool.description],
        use_cases=tool.use_cases or (own.use_cases if own else ()),
        schema=schema(tool.input_hash),
    )


def make_document(
    *,
    name: str,
    titles: Sequence[str],
    descriptions: Sequence[str],
    server: str = "",
    use_cases: Sequence[str] = (),
    schema: Any = None,
) -> ToolDocument:
    """The document of a tool with its raw name.

    Of a mended tool it has the words of its server beside the new ones, so that whoever knows it by either
    finds it: `titles` and `descriptions` have the one that is shown first; others count where they say more.
    """
    about = _telling(descriptions)
    return ToolDocument(
        name=name,
        server=server,
        title=" ".join(filter(None, _telling(titles))),
        description="\n".join([*about[:1], *use_cases, *about[1:]]).strip("\n"),
        parameters=tuple(_parameters(schema)),
    )


def _telling(texts: Sequence[str]) -> list[str]:
    """The first text, and each that has a word which those before it have not."""
    cut = [text[:_MAX_DESCRIPTION] for text in texts]
    if len(cut) == 1:
        return cut
    said: set[str] = set()
    found: list[str] = []
    for text in cut:
        terms = set(index_terms(text))
        if not found or not terms <= said:
            found.append(text)
        said |= terms
    return found


def _parameters(schema: Any) -> Sequence[tuple[str, str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    found = []
    for name, value in list(properties.items())[:_MAX_PARAMETERS]:
        about = value.get("description") if isinstance(value, Mapping) else None
        found.append((str(name), about[:_MAX_PARAMETER_TEXT] if isinstance(about, str) else ""))
    return found


class Embedder(Protocol):
    """Turns texts into vectors, such that a query lies near the tools that serve it.

    It may be slow: it is called in worker threads, and documents come in batches. It may raise anything;
    search then goes on without it and says so.
    """

    @property
    def model(self) -> str:
        """Names the weights; vectors are kept under this name, so other weights need another."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether thousands of documents take a second, and a query so little that no thread is needed."""
        ...

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Vectors of tools, one row each."""
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, or of parts of queries, one row each."""
        ...


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A tool as a reranker sees it: its published name and what it does in one line."""

    name: str
    line: str


class Reranker(Protocol):
    """Orders the best hits of a search anew, for instance by asking a language model."""

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Sequence[int]:
        """The positions of the candidates, best first; those left out keep their order behind these.

        Raises:
            Exception: It could not; the search answers in the order it had.
        """
        ...
