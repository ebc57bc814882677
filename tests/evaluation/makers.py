"""A small labelled set in words of our own, and the files that hold it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from maitred.evaluation.labelled_queries import LabelledQuery, LabelledTool

Json = dict[str, Any]

TOOLS: Sequence[Json] = [
    {
        "id": "mail.send",
        "server": "mail",
        "name": "send_email",
        "description": "Send an electronic letter to one or several recipients.",
        "inputSchema": {"type": "object", "properties": {"recipient": {"type": "string"}}},
    },
    {
        "id": "mail.folders",
        "server": "mail",
        "name": "list_folders",
        "description": "Show the folders of a mailbox with their unread counts.",
        "inputSchema": None,
    },
    {
        "id": "git.history",
        "server": "git",
        "name": "show_history",
        "description": "Show who changed a file of a repository, and when.",
        "inputSchema": None,
    },
    {
        "id": "weather",
        "server": None,
        "name": "forecast",
        "description": "Tell the temperature and the rain of the coming days for a town.",
        "inputSchema": None,
    },
    {
        "id": "translate",
        "server": None,
        "name": "translate",
        "description": "Put a text into another language.",
        "inputSchema": None,
    },
]
QUERIES: Sequence[Json] = [
    {"id": "1", "query": "send an electronic letter", "relevant": ["mail.send"]},
    {"id": "2", "query": "temperature and rain in a town", "relevant": ["weather"]},
    {"id": "3", "query": "who changed this file of the repository", "relevant": ["git.history"]},
    {"id": "4", "query": "qwzx vprk", "relevant": []},
]


def write_lines(path: Path, values: Iterable[Json | str]) -> Path:
    """One value a line; a string as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_set(
    folder: Path, tools: Iterable[Json] = TOOLS, queries: Iterable[Json] = QUERIES
) -> tuple[Path, Path]:
    """The two files of a set; its name is that of the folder."""
    return write_lines(folder / "tools.jsonl", tools), write_lines(folder / "queries.jsonl", queries)


def tool(id_: str, server: str = "", name: str = "", description: str = "") -> LabelledTool:
    return LabelledTool(id=id_, server=server, name=name or id_, description=description)


def query(id_: str, text: str, *relevant: str) -> LabelledQuery:
    return LabelledQuery(id=id_, phrases=(text,), relevant=relevant)
