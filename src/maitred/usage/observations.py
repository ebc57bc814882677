"""What calls showed of a tool: the shape of arguments and answers, and a real call if the operator allows it.

A few answers of each tool are looked at, until its definition changes. What they showed is in the database of
the catalog, so that it lasts, and in memory, so that a page of the menu never waits for it.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import anyio
import structlog

from maitred.errors import StoreError
from maitred.model.tools import Tool, ToolKey
from maitred.storage.batch import BatchWriter
from maitred.storage.database import Database, DriverConnection, WriteOptions, placeholders
from maitred.usage.answer_shape import merge_shapes, shape_of, shape_of_answer

log = structlog.get_logger(__name__)

MOST_ANSWERS: Final = 5
"""How many answers of a tool are looked at."""

COLUMNS: Final = (
    "server", "raw_name", "definition", "answers", "answer_schema", "example", "day", "argument_schema",
)  # fmt: skip
_DAY: Final = COLUMNS.index("day")
OBSERVED: Final = f"SELECT {', '.join(f'observations.{name}' for name in COLUMNS)} FROM observations"  # noqa: S608  # our own names
PUT: Final = (
    f"INSERT INTO observations ({', '.join(COLUMNS)}) VALUES ({placeholders(len(COLUMNS))})"  # noqa: S608  # as above
    " ON CONFLICT (server, raw_name) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[2:])
)
DROP: Final = "DELETE FROM observations WHERE observations.day < ?"

_PATIENCE: Final = WriteOptions(wait_s=2.0)
_PAUSE_S: Final = 0.5
_LEAVE_S: Final = 5.0
_KEPT_DAYS: Final = 90
_MAX_EXAMPLE_CHARS: Final = 2_000
_MAX_SHAPE_CHARS: Final = 6_000


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What was seen of a tool while its input schema had the hash `definition`.

    `returns` is a JSON Schema of `answers` answers, and `takes` one of the arguments of those calls.
    `arguments` are those of one call that succeeded, with masked secrets; `None` if no example may be kept.
    """

    definition: str
    answers: int = 0
    returns: Mapping[str, Any] | None = None
    takes: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    day: str = ""


class ToolObservations(anyio.AsyncContextManagerMixin):
    """The observations of all tools; enter it to read the stored ones. For one event loop.

    `mask` replaces the secrets in arguments. Nothing here raises: without its database, it only forgets.
    """

    def __init__(
        self, database: Database, mask: Callable[[Any], Any], *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._database = database
        self._mask = mask
        self._clock = clock
        self._known: dict[ToolKey, Observation] = {}
        self._pending: dict[ToolKey, Observation] = {}
        self._allows_examples = False
        self._batches = BatchWriter(
            self._write_pending,
            pause_s=_PAUSE_S,
            leave_s=_LEAVE_S,
            warning="what answers looked like cannot be written; it is kept in memory",
        )
        self.version = 0
        """Rises whenever `of` may return something else."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        await self._load()
        async with self._batches:
            yield self

    async def _load(self) -> None:
        first = (self._clock().date() - timedelta(days=_KEPT_DAYS)).isoformat()
        try:
            rows = await self._database.read_driver(
                lambda connection: connection.execute(OBSERVED).fetchall()
            )
            if min((row[_DAY] for row in rows), default=first) < first:
                await self._database.write_driver(
                    lambda connection: connection.execute(DROP, (first,)), _PATIENCE
                )
        except StoreError as error:
            log.warning("what answers looked like cannot be read", reason=error.reason)
            return
        recent = [row for row in rows if row[_DAY] >= first]
        for server, name, definition, answers, shape, example, day, taken in recent:
            self._known[ToolKey(server=server, name=name)] = Observation(
                definition=definition,
                answers=answers,
                returns=_read(shape),
                takes=_read(taken),
                arguments=_read(example),
                day=day,
            )

    def of(self, tool: Tool) -> Observation | None:
        """What was seen of a tool as it is defined now."""
        seen = self._known.get(tool.key)
        if seen is None or seen.definition != _definition(tool) or tool.withheld:
            return None
        return seen if self._allows_examples else replace(seen, arguments=None)

    def arguments_of(self, key: ToolKey) -> Mapping[str, str]:
        """The names of arguments in calls that succeeded, each with its JSON type or nothing."""
        seen = self._known.get(key)
        properties = (seen.takes or {}).get("properties", {}) if seen else {}
        return {name: _type_of(part) for name, part in properties.items()}

    def allow_examples(self, *, allowed: bool) -> None:
        """Keep an example of each tool from now on, or keep none and drop those there are."""
        self._allows_examples = allowed
        if not allowed:
            for key, seen in self._known.items():
                if seen.arguments is not None:
                    self._put(key, replace(seen, arguments=None))

    def note(self, tool: Tool, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Look at a call that succeeded, unless enough is known of the tool."""
        definition = _definition(tool)
        seen = self._known.get(tool.key)
        if seen is None or seen.definition != definition:
            seen = Observation(definition=definition)
        wants_example = self._allows_examples and seen.arguments is None
        if seen.answers >= MOST_ANSWERS and not wants_example:
            return
        more = replace(seen, day=self._clock().date().isoformat())
        if seen.answers < MOST_ANSWERS:
            more = replace(
                more,
                answers=seen.answers + 1,
                returns=_with_answer(seen.returns, result),
                takes=_with_arguments(seen.takes, arguments),
            )
        if wants_example:
            more = replace(more, arguments=self._example(arguments))
        self._put(tool.key, more)

    def _example(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            if len(json.dumps(arguments)) > _MAX_EXAMPLE_CHARS:  # to look for secrets in it takes long
                return None
            masked: Mapping[str, Any] = self._mask(arguments)
        except (ValueError, TypeError, RecursionError):  # no JSON, or nested too deep
            return None
        return masked

    def _put(self, key: ToolKey, seen: Observation) -> None:
        before = self._known.get(key)
        self._known[key] = self._pending[key] = seen
        if before is None or (before.returns, before.arguments) != (seen.returns, seen.arguments):
            self.version += 1
        self._batches.wake()

    async def flush(self) -> bool:
        """Write what is new; false if that failed, and it waits for the next attempt."""
        return await self._batches.flush()

    async def _write_pending(self) -> None:
        pending, self._pending = self._pending, {}
        if not pending:
            return
        rows = [
            (
                *(_text(key.server), _text(key.name), seen.definition, seen.answers),
                *(_written(seen.returns), _written(seen.arguments), seen.day, _written(seen.takes)),
            )
            for key, seen in pending.items()
        ]

        def write(connection: DriverConnection) -> None:
            connection.executemany(PUT, rows)

        written = False
        try:
            await self._database.write_driver(write, _PATIENCE)
            written = True
        finally:
            if not written:
                self._pending = pending | self._pending


def _definition(tool: Tool) -> str:
    """The hash of the input schema of its server: mediation changes texts, not answers."""
    return tool.mending.input_hash if tool.mending else tool.input_hash


def _with_answer(known: Mapping[str, Any] | None, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    shape = shape_of_answer(result)
    if shape is None:
        return known
    merged = shape if known is None else merge_shapes(known, shape)
    return merged if len(json.dumps(merged)) <= _MAX_SHAPE_CHARS else {"type": merged["type"]}


def _with_arguments(
    known: Mapping[str, Any] | None, arguments: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    shape = (
        shape_of({name: value for name, value in arguments.items() if value is not None}) if arguments else {}
    )
    if "properties" not in shape:
        return known
    merged = shape if known is None else merge_shapes(known, shape)
    return merged if "properties" in merged and len(json.dumps(merged)) <= _MAX_SHAPE_CHARS else known


def _type_of(part: Any) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _written(value: Mapping[str, Any] | None) -> str:
    return "" if value is None else json.dumps(value)


def _read(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text(name: str) -> str:
    """Make a name that a database can store."""
    return name.encode("utf-8", "replace").decode()
