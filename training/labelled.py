"""Reads the labelled sets: tools, queries and which tools are right for a query."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maitred.search.base import ToolDocument
from training.split import is_held_back

TRAINING_SETS = ("metatool", "bfcl", "sealtools", "apibench")
UNSEEN_SETS = ("toolalpaca", "restbench")


@dataclass(frozen=True, kw_only=True)
class Query:
    """A task and the positions of the tools that are right for it."""

    id: str
    text: str
    gold: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """The tools of a set with its queries, parted into those to learn from and those held back."""

    name: str
    tools: Sequence[ToolDocument]
    train: Sequence[Query]
    held_back: Sequence[Query]


def read_training_set(folder: Path) -> LabelledSet:
    """A set to learn from; a text that is also held back is not learned."""
    name, tools, queries = _read(folder)
    held_back = [query for query in queries if is_held_back(name, query.id)]
    texts = {_key(query.text) for query in held_back}
    train = [q for q in queries if not is_held_back(name, q.id) and _key(q.text) not in texts]
    return LabelledSet(name=name, tools=tools, train=train, held_back=held_back)


def read_unseen_set(folder: Path) -> LabelledSet:
    """A set of which nothing is learned, not even its tools."""
    name, tools, queries = _read(folder)
    return LabelledSet(name=name, tools=tools, train=(), held_back=queries)


def parameters(schema: Any) -> tuple[tuple[str, str], ...]:
    """The names and descriptions of the parameters of a JSON schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ()
    found = []
    for name, value in list(properties.items())[:40]:
        about = value.get("description") if isinstance(value, Mapping) else None
        found.append((str(name), about[:200] if isinstance(about, str) else ""))
    return tuple(found)


def _read(folder: Path) -> tuple[str, list[ToolDocument], list[Query]]:
    tools = _lines(folder / "tools.jsonl")
    position = {tool["id"]: number for number, tool in enumerate(tools)}
    queries = []
    for line in _lines(folder / "queries.jsonl"):
        gold = tuple(position[one] for one in dict.fromkeys(line["relevant"]) if one in position)
        if gold:
            queries.append(Query(id=str(line["id"]), text=line["query"], gold=gold))
    return folder.name, [_document(tool) for tool in tools], queries


def _document(tool: Mapping[str, Any]) -> ToolDocument:
    return ToolDocument(
        name=tool["name"],
        server=tool.get("server") or "",
        description=(tool.get("description") or "")[:2_000],
        parameters=parameters(tool.get("inputSchema")),
    )


def _lines(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _key(text: str) -> str:
    return " ".join(text.lower().split())
