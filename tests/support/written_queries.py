"""The written queries with the recorded tools that they are for; see `data/search/written/README.md`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from tests.support import corpus

from maitred.evaluation.labelled_queries import LabelledQuery, LabelledTool

QUERIES: Final = Path(__file__).parents[1] / "data" / "search" / "written" / "queries.jsonl"
KINDS: Final = ("plain", "vague", "foreign", "task", "none")

Split = Literal["train", "held"]


def read_lines() -> list[dict[str, Any]]:
    """All lines of the set."""
    return [json.loads(line) for line in QUERIES.read_text(encoding="utf-8").splitlines()]


def written(kind: str, split: Split, *, language: str = "") -> list[LabelledQuery]:
    """The queries of a kind, of one part; of one language, if any is given."""
    return [
        LabelledQuery(id=line["id"], phrases=(line["query"],), relevant=tuple(line["relevant"]))
        for line in read_lines()
        if line["kind"] == kind and line["split"] == split and language in ("", line["language"])
    ]


def wanted_tools() -> Sequence[LabelledTool] | None:
    """The 1,500 tools that the queries are for; `None` where the recorded servers are not at hand."""
    path = corpus.recorded()
    if path is None:
        return None
    wanted = {one for line in read_lines() for one in line["relevant"]}
    tools: dict[str, LabelledTool] = {}
    for record in corpus.read(path):
        for tool in record["tools"]:
            name = f"{record['server']}/{tool['name']}"
            if name in wanted:
                tools[name] = LabelledTool(
                    id=name,
                    server=record["server"],
                    name=tool["name"],
                    description=tool.get("description") or "",
                    input_schema=tool.get("inputSchema"),
                )
    return list(tools.values())
