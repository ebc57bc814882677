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
"""One row for each text, of length 1, or 0 if the embedder knows nothing of the text."""

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
        """The tool as one text, for embedders that read only one."""
        about = " ".join(part for part in (self.title, self.description) if part)
        return f"{self.name}: {about}" if about else self.name

    @cached_property
    def digest(self) -> str:
        """The content hash under which its vector is stored."""
        parts = [self.name, self.server, self.title, self.description, *map(list, self.parameters)]
        return content_hash(json.dumps(parts).encode())


def document(snapshot: Snapshot, tool: Tool) -> ToolDocument:
    """Return what search reads of a tool; it drops the end of long texts, so that length is no advantage."""
    return _document(tool, snapshot.schema)


def documents(tools: Sequence[Tool], schema: Callable[[str], Any]) -> list[ToolDocument]:
    """Return the documents of several tools; `schema` returns a parsed schema by its hash."""
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
    """Make the document of a tool with its raw name.

    A mediated tool has its server's words beside the new ones, so that a search for either finds it. The
    first text of `titles` and `descriptions` is the one that agents see. Others count only if they add a
    word.
    """
    about = _texts_with_new_words(descriptions)
    return ToolDocument(
        name=name,
        server=server,
        title=" ".join(filter(None, _texts_with_new_words(titles))),
        description="\n".join([*about[:1], *use_cases, *about[1:]]).strip("\n"),
        parameters=tuple(_parameters(schema)),
    )


def _texts_with_new_words(texts: Sequence[str]) -> list[str]:
    """Return the first text, and each other one that has a word which those before it lack."""
    texts_cut = [text[:_MAX_DESCRIPTION] for text in texts]
    if len(texts_cut) == 1:
        return texts_cut
    known_terms: set[str] = set()
    selection: list[str] = []
    for text in texts_cut:
        terms = set(index_terms(text))
        if not selection or not terms <= known_terms:
            selection.append(text)
        known_terms |= terms
    return selection


def _parameters(schema: Any) -> Sequence[tuple[str, str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    pairs = []
    for name, value in list(properties.items())[:_MAX_PARAMETERS]:
        about = value.get("description") if isinstance(value, Mapping) else None
        pairs.append((str(name), about[:_MAX_PARAMETER_TEXT] if isinstance(about, str) else ""))
    return pairs


class Embedder(Protocol):
    """Turns texts into vectors, such that a query is near the tools that serve it.

    It may be slow: search calls it in worker threads, and documents come in batches. It may raise anything;
    search then goes on without it and says so.
    """

    @property
    def model(self) -> str:
        """The name of the weights. Vectors are stored under it, so other weights need another name."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether thousands of documents take a second, and a query needs no thread."""
        ...

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return vectors of tools, one row each."""
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of queries, or of parts of queries, one row each."""
        ...


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A tool as a reranker sees it: its published name and what it does in one line."""

    name: str
    line: str


class Reranker(Protocol):
    """Changes the order of the best hits of a search, for instance by a language model."""

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Sequence[int]:
        """Return the positions of the candidates, best first; the others keep their order behind these.

        Raises:
            Exception: The reranker failed; the search then keeps its own order.
        """
        ...
