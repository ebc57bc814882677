"""Queries as an agent might put them, made from the names and descriptions of tools that exist.

They load a search as real queries would; they say nothing about its quality, since their words are the
documents' own.
"""

import random
import re
from collections.abc import Sequence

from tests.support.corpus import Record

_SEED = 11
_MOST_WORDS = 12
_BREAK = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


def make_queries(records: Sequence[Record], count: int) -> list[str]:
    """Alternately a tool's name in words and the beginning of a description; the same ones each time."""
    tools = [tool for record in records for tool in record["tools"]]
    rng = random.Random(_SEED)
    found: list[str] = []
    while len(found) < count:
        tool = rng.choice(tools)
        text = _from_name(tool) if len(found) % 2 else _from_description(tool)
        found.append(text or _from_name(tool) or "list everything")
    return found


def _from_name(tool: Record) -> str:
    return " ".join(part.lower() for part in _BREAK.split(str(tool["name"])) if part)


def _from_description(tool: Record) -> str:
    sentence = _SENTENCE_END.split(str(tool.get("description") or "").strip(), maxsplit=1)[0]
    return " ".join(sentence.split()[:_MOST_WORDS])
