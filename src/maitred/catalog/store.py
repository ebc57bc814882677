"""The catalog in a database: read whole, and written in parts.

No read of a single tool comes here: a process loads one `Snapshot` and serves from it. Reading uses constant
statements and no SQLAlchemy, whose import takes longer than reading a large catalog. `store_writes` writes.
JSON columns are read as text. Equal texts share one value, which no code changes.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic_core import from_json

from maitred.backends.listing import extra_fields
from maitred.catalog.snapshot import Change, Snapshot
from maitred.errors import StoreError
from maitred.model.categories import Placement, ToolGroup
from maitred.model.resources import Offer, OfferKey
from maitred.model.servers import ServerFacts, ServerRecord
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.model.usage import ToolStanding, Usage
from maitred.storage.database import Database, DriverConnection
from maitred.storage.leader import Fence

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

T = TypeVar("T")

_UNKNOWN: Final = -1

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
    "subcategory",
    "tool_group",
    "since",
)
OFFER_COLUMNS: Final = ("server", "kind", "key", "name", "definition", "withheld")
STANDING_COLUMNS: Final = ("server", "raw_name", "score", "level", "usage")
STATE_COLUMNS: Final = ("generation", "placed_by", "tiers_at", "mended_by")
SCHEMA_COLUMNS: Final = ("hash", "body")


def _select(table: str, columns: Sequence[str]) -> str:
    return f"SELECT {', '.join(f'{table}.{name}' for name in columns)} FROM {table}"  # noqa: S608  # our own names


GENERATION: Final = _select("state", ("generation",))
STATE: Final = _select("state", STATE_COLUMNS)
SERVERS: Final = _select("servers", SERVER_COLUMNS)
TOOLS: Final = _select("tools", TOOL_COLUMNS)
TOOL_NAMES: Final = _select("tools", ("name",))
SCHEMAS: Final = _select("schemas", SCHEMA_COLUMNS)
OFFERS: Final = _select("offers", OFFER_COLUMNS)
STANDINGS: Final = _select("standings", STANDING_COLUMNS)

_json = lru_cache(maxsize=4_096)(from_json)


class CatalogStore:
    """A catalog in a database.

    Args:
        database: Where; it is opened and closed with the store.
        allows_memory: Whether the catalog may be in memory as long as its file cannot be made.
    """

    def __init__(self, database: Database, *, allows_memory: bool = False) -> None:
        self._database = database
        self._allows_memory = allows_memory

    async def __aenter__(self) -> Self:
        await self._database.open(allows_memory=self._allows_memory)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._database.close()

    @property
    def name(self) -> str:
        """Where the database is, without any password."""
        return self._database.name

    @property
    def faults(self) -> int:
        """How often a write was found to be impossible."""
        return self._database.faults

    async def check(self) -> str:
        """Try to write, and return why that is impossible now; empty if it is possible."""
        return await self._database.check()

    async def load(self) -> Snapshot:
        """Read everything in one transaction."""
        return await self._read(_load)

    async def tool_names(self) -> Sequence[str]:
        """The published names of all tools, sorted, without reading anything else."""
        return sorted(await self._read(_tool_names))

    async def generation(self) -> int:
        """The present generation. If the database was exchanged, a number that never was a generation."""
        if await self._database.is_replaced():
            return _UNKNOWN
        return await self._read(_generation)

    async def write(self, change: Change, *, planned_on: int, fence: Fence | None = None) -> int | None:
        """Apply a change in one transaction; see `maitred.catalog.live.Store`."""

        def write(connection: "Connection") -> int | None:
            from maitred.catalog import store_writes  # noqa: PLC0415  # SQLAlchemy is slow to import

            return store_writes.write(connection, change, planned_on, fence)

        try:
            await self._database.ensure()
            return await self._database.write(write)
        except StoreError as error:
            self._database.note_fault(error)
            raise

    async def _read(self, function: Callable[[DriverConnection], T]) -> T:
        try:
            return await self._database.read_driver(function)
        except StoreError:
            await self._database.ensure()
        return await self._database.read_driver(function)


def _generation(connection: DriverConnection) -> int:
    return int(connection.execute(GENERATION).fetchone()[0])


def _tool_names(connection: DriverConnection) -> list[str]:
    return [str(row[0]) for row in connection.execute(TOOL_NAMES)]


def _load(connection: DriverConnection) -> Snapshot:
    """Read everything; sorted here, since databases sort by the rules of a language."""
    generation, placed_by, tiers_at, mended_by = connection.execute(STATE).fetchone()
    texts: dict[str, str] = {}
    return Snapshot(
        generation=int(generation),
        servers={row[0]: _record(row) for row in connection.execute(SERVERS)},
        tools=tuple(sorted((_tool(row, texts) for row in connection.execute(TOOLS)), key=attrgetter("name"))),
        schemas={
            texts.setdefault(digest, digest): bytes(body) for digest, body in connection.execute(SCHEMAS)
        },
        offers=tuple(sorted(map(_offer, connection.execute(OFFERS)), key=attrgetter("name"))),
        standings=dict(map(_standing, connection.execute(STANDINGS))),
        placed_by=placed_by,
        tiers_at=tiers_at,
        mended_by=mended_by,
    )


def _record(row: Sequence[Any]) -> ServerRecord:
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


def _tool(row: Sequence[Any], texts: dict[str, str]) -> Tool:
    """A tool as it was stored. Equal texts become one object, and `texts` has all of them."""
    server, raw_name, name, title, description, input_hash, output_hash = (
        texts.setdefault(text, text) for text in row[:7]
    )
    annotations, extra, cost = row[7:10]
    return Tool(
        key=ToolKey(server=server, name=raw_name),
        name=name,
        title=title,
        description=description,
        input_hash=input_hash,
        output_hash=output_hash,
        annotations=_json(annotations),
        extra=extra_fields(_json(extra)),  # an older catalog may hold fields that were never judged
        cost_tokens=cost,
        placement=_placement(*row[10:14], row[19], row[20]),
        use_cases=_texts(row[14]),
        use_cases_by=row[15],
        mending=None if row[16] == "{}" else _mending(row[16], row[17]),
        withheld=row[18],
        since=texts.setdefault(row[21], row[21]),
    )


def _mending(stored: str, input_hash: str) -> Mediation:
    values = from_json(stored)
    lists = {name: tuple(values[name]) for name in ("tags", "use_cases", "inferred") if name in values}
    return Mediation(**{**values, **lists}, input_hash=input_hash)


@lru_cache(maxsize=4_096)
def _placement(
    category: str, confidence: float, by: Any, tags: str, subcategory: str, group: str
) -> Placement:
    return Placement(
        category=category,
        confidence=confidence,
        by=by,
        tags=_texts(tags),
        subcategory=subcategory,
        group=None if group == "{}" else ToolGroup(**from_json(group)),
    )


def _texts(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(from_json(stored))


def _offer(row: Sequence[Any]) -> Offer:
    """A resource, template or prompt as it was stored."""
    server, kind, key, name, definition, withheld = row
    made = OfferKey(server=server, kind=kind, key=key)
    return Offer(key=made, name=name, definition=_json(definition), withheld=withheld)


def _standing(row: Sequence[Any]) -> tuple[ToolKey, ToolStanding]:
    """The key of a tool, and its standing."""
    server, raw_name, score, level, usage = row
    return ToolKey(server=server, name=raw_name), ToolStanding(
        score=score, level=level, usage=Usage(**from_json(usage))
    )
