"""What a row of the catalog means, however it was read: the columns in their order, and values made of them.

JSON columns arrive as the text that is stored; equal texts share one value, which nobody changes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json

from maitred.model.servers import ServerFacts, ServerRecord
from maitred.model.tools import Tool, ToolKey

HEAD: Final = "0002"
"""The newest migration. A store that has it is opened without loading Alembic, which is slow to import."""

SERVER_COLUMNS: Final = ("name", "fingerprint", "facts", "synced_at", "error", "notes")
TOOL_COLUMNS: Final = (
    "server",
    "raw_name",
    "name",
    "title",
    "description",
    "input_hash",
    "output_hash",
    "annotations",
    "extra",
    "cost_tokens",
)
SCHEMA_COLUMNS: Final = ("hash", "body")

_json = lru_cache(maxsize=4_096)(from_json)


def record(row: Sequence[Any]) -> ServerRecord:
    """A server as it was stored."""
    name, fingerprint, facts, synced_at, error, notes = row
    return ServerRecord(
        name=name,
        fingerprint=fingerprint,
        facts=ServerFacts(**_json(facts)),
        synced_at=synced_at,
        error=error,
        notes=tuple(_json(notes)),
    )


def tool(row: Sequence[Any]) -> Tool:
    """A tool as it was stored."""
    server, raw_name, name, title, description, input_hash, output_hash, annotations, extra, cost = row
    return Tool(
        key=ToolKey(server=server, name=raw_name),
        name=name,
        title=title,
        description=description,
        input_hash=input_hash,
        output_hash=output_hash,
        annotations=_json(annotations),
        extra=_json(extra),
        cost_tokens=cost,
    )
