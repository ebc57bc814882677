"""What a row of the catalog means, however it was read: the columns in their order, and values made of them.

JSON columns arrive as the text that is stored; equal texts share one value, which nobody changes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json

from maitred.backends.listing import extra_fields
from maitred.model.categories import Placement
from maitred.model.resources import Offer, OfferKey
from maitred.model.servers import ServerFacts, ServerRecord
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.model.usage import ToolStanding, Usage

HEAD: Final = "0005"
"""The newest migration. A store that has it is opened without loading Alembic, which is slow to import."""

SERVER_COLUMNS: Final = ("name", "fingerprint", "facts", "synced_at", "error", "notes", "judged_by")
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
    "category",
    "confidence",
    "placed_by",
    "tags",
    "use_cases",
    "use_cases_by",
    "mending",
    "raw_input_hash",
    "withheld",
)
OFFER_COLUMNS: Final = ("server", "kind", "key", "name", "definition", "withheld")
STANDING_COLUMNS: Final = ("server", "raw_name", "score", "level", "usage")
STATE_COLUMNS: Final = ("placed_by", "tiers_at", "mended_by")
SCHEMA_COLUMNS: Final = ("hash", "body")

_json = lru_cache(maxsize=4_096)(from_json)


def record(row: Sequence[Any]) -> ServerRecord:
    """A server as it was stored."""
    name, fingerprint, facts, synced_at, error, notes, judged_by = row
    return ServerRecord(
        name=name,
        fingerprint=fingerprint,
        facts=ServerFacts(**_json(facts)),
        synced_at=synced_at,
        error=error,
        notes=tuple(_json(notes)),
        judged_by=judged_by,
    )


def tool(row: Sequence[Any]) -> Tool:
    """A tool as it was stored."""
    server, raw_name, name, title, description, input_hash, output_hash, annotations, extra, cost = row[:10]
    return Tool(
        key=ToolKey(server=server, name=raw_name),
        name=name,
        title=title,
        description=description,
        input_hash=input_hash,
        output_hash=output_hash,
        annotations=_json(annotations),
        extra=extra_fields(_json(extra)),  # an older catalog may hold fields that nobody judged
        cost_tokens=cost,
        placement=_placement(*row[10:14]),
        use_cases=_texts(row[14]),
        use_cases_by=row[15],
        mending=None if row[16] == "{}" else _mending(row[16], row[17]),
        withheld=row[18],
    )


def _mending(stored: str, input_hash: str) -> Mediation:
    values = from_json(stored)
    tags, use_cases = values.pop("tags", ()), values.pop("use_cases", ())
    return Mediation(**values, tags=tuple(tags), use_cases=tuple(use_cases), input_hash=input_hash)


@lru_cache(maxsize=4_096)
def _placement(category: str, confidence: float, by: Any, tags: str) -> Placement:
    return Placement(category=category, confidence=confidence, by=by, tags=_texts(tags))


def _texts(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(from_json(stored))


def offer(row: Sequence[Any]) -> Offer:
    """A resource, template or prompt as it was stored."""
    server, kind, key, name, definition, withheld = row
    made = OfferKey(server=server, kind=kind, key=key)
    return Offer(key=made, name=name, definition=_json(definition), withheld=withheld)


def standing(row: Sequence[Any]) -> tuple[ToolKey, ToolStanding]:
    """Whose standing it is, and the standing."""
    server, raw_name, score, level, usage = row
    return ToolKey(server=server, name=raw_name), ToolStanding(
        score=score, level=level, usage=Usage(**from_json(usage))
    )
