"""Counts calls and tokens as they happen and stores them in the database of a catalog.

Recording only adds up in memory. A background task writes the sums in one transaction and adds them to the
stored ones, so several gateways can share a database. If a write fails, the sums stay in memory for the next
attempt. They are by day and tool, so memory does not grow with the calls.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from operator import add
from typing import Any, Final, Generic, Self, TypeVar

import anyio
import structlog
from cachetools import LRUCache

from maitred.errors import StoreError
from maitred.model.tools import ToolKey
from maitred.model.usage import Spending, Usage
from maitred.storage.batch import BatchWriter
from maitred.storage.database import Database, DriverConnection, WriteOptions, placeholders
from maitred.storage.leader import Fence
from maitred.usage import histogram as figures
from maitred.usage.histogram import Tally, first_day, usage_of

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ServerTallies = Mapping[str, Sequence[tuple[str, Tally]]]
_CallCounts = Mapping[ToolKey, int]
_MOST_WINDOWS: Final = 4
"""For how many windows the sums of past days are kept: these days hardly change."""
_PATIENCE: Final = WriteOptions(wait_s=2.0)
_LEAVE_S: Final = 5.0
"""A write that has begun ends by `_PATIENCE`."""

_TOKENS: Final = (
    "lists", "list_tokens", "answers", "answer_tokens", "results", "result_tokens", "raw_tokens", "calls",
    "argument_tokens", "cost_micros",
)  # fmt: skip
_NOTHING: Final = (0,) * len(_TOKENS)

_ADD_CALLS: Final = (
    "INSERT INTO usage (day, server, raw_name, calls, errors, total_ms, histogram, last_used)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, server, raw_name) DO UPDATE SET"
    " calls = (usage.calls + excluded.calls), errors = (usage.errors + excluded.errors),"
    " total_ms = (usage.total_ms + excluded.total_ms), histogram = excluded.histogram,"
    " last_used = CASE WHEN (usage.last_used > excluded.last_used) THEN usage.last_used"
    " ELSE excluded.last_used END"
)
_ADD_TOKENS: Final = (
    f"INSERT INTO spending (day, principal, {', '.join(_TOKENS)}) VALUES ({placeholders(len(_TOKENS) + 2)})"  # noqa: S608  # our own names
    " ON CONFLICT (day, principal) DO UPDATE SET "
    + ", ".join(f"{name} = (spending.{name} + excluded.{name})" for name in _TOKENS)
)
_HISTOGRAM: Final = (
    "SELECT usage.histogram FROM usage WHERE usage.day = ? AND usage.server = ? AND usage.raw_name = ?"
)
_CALLS_ON: Final = (
    "SELECT usage.day, usage.server, usage.raw_name, usage.calls, usage.errors, usage.total_ms,"
    " usage.histogram, usage.last_used FROM usage WHERE usage.day IN"
)
_CALLS: Final = _CALLS_ON.replace(" IN", " >= ?")
_CALLS_BETWEEN: Final = f"{_CALLS} AND usage.day < ?"
_CALLS_OF_SERVER: Final = f"{_CALLS} AND usage.server = ?"
_MOST_DAYS: Final = 400
"""Of so many days at most the calls of a server are read day by day."""

_NO_END: Final = "~"
"""After every day."""
_STAMP: Final = (
    "SELECT count(*) AS count_1, sum(usage.calls) AS sum_1 FROM usage WHERE usage.day >= ? AND usage.day < ?"
)
_CALL_COUNTS: Final = (
    "SELECT usage.server, usage.raw_name, sum(usage.calls) AS sum_1 FROM usage"
    " WHERE usage.day >= ? AND usage.day < ? GROUP BY usage.server, usage.raw_name"
)
_TOTALS: Final = (
    "SELECT usage.server, usage.raw_name, sum(usage.calls) AS sum_1, sum(usage.errors) AS sum_2,"
    " sum(usage.total_ms) AS sum_3, max(usage.last_used) AS max_1 FROM usage WHERE usage.day >= ?"
    " GROUP BY usage.server, usage.raw_name"
)
_SPENT: Final = (
    f"SELECT spending.day, spending.principal, {', '.join(f'spending.{name}' for name in _TOKENS)}"  # noqa: S608  # as above
    " FROM spending WHERE spending.day >= ?"
)
_DROPS: Final = ("DELETE FROM usage WHERE usage.day < ?", "DELETE FROM spending WHERE spending.day < ?")


def calls_of_server(days: int) -> str:
    """The statement for the calls of a server on so many days.

    They are named one by one, so that the primary key (day, server, tool) finds the server on each of them.
    A range of days would read all servers.
    """
    return f"{_CALLS_ON} ({placeholders(days)}) AND usage.server = ?"


def calls_of_tool(days: int) -> str:
    """The statement for the calls of one tool on so many days, by the primary key."""
    return f"{calls_of_server(days)} AND usage.raw_name = ?"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(kw_only=True, slots=True)
class _Counts:
    """The counts since the last flush: calls by day and tool, tokens by day and principal."""

    calls: dict[tuple[str, ToolKey], Tally] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    def add(self, other: "_Counts") -> None:
        for slot, tally in other.calls.items():
            self.calls.setdefault(slot, Tally()).merge(tally)
        for key, tokens in other.tokens.items():
            self.spend(key, tokens)

    def spend(self, key: tuple[str, str], tokens: tuple[int, ...]) -> None:
        self.tokens[key] = _sum(self.tokens.get(key, _NOTHING), tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class _PastDays(Generic[V]):
    """What was worked out of the days in `window`, without the last one, while their rows have this stamp."""

    window: tuple[str, str]
    stamp: tuple[Any, ...]
    value: V


class UsageRecorder(anyio.AsyncContextManagerMixin):
    """Usage and spending in a database, whose tables exist already.

    Counts reach the database within `flush_every_s` while it is writable: half of that is the pause, the
    other half is for the write. `clock` returns the time in UTC. For one event loop. Methods that read raise
    `StoreError` if the database cannot be read; methods that record never raise.
    """

    def __init__(
        self, database: Database, *, clock: Callable[[], datetime] = _now, flush_every_s: float = 1.0
    ) -> None:
        self._database = database
        self._clock = clock
        self._pending = _Counts()
        self._today: tuple[str, dict[str, tuple[int, ...]]] = ("", {})
        self._past_of_servers: LRUCache[int, _PastDays[_ServerTallies]] = LRUCache(_MOST_WINDOWS)
        self._past_calls: LRUCache[int, _PastDays[_CallCounts]] = LRUCache(_MOST_WINDOWS)
        self._lock = anyio.Lock()
        self._batches = BatchWriter(
            self._write_pending,
            pause_s=flush_every_s / 2,
            leave_s=_LEAVE_S,
            warning="usage cannot be written; it is kept in memory",
        )
        self.active_at = time.monotonic()
        """The time of the last record, by the clock of `time.monotonic`."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        today = self._day().isoformat()
        try:
            for row in await self.spending(1):
                if row.day == today:
                    self._spend_today(today, row.principal, tuple(getattr(row, name) for name in _TOKENS))
        except StoreError as error:
            log.warning("what was spent today cannot be read", reason=error.reason)
        async with self._batches:
            yield self

    # Recording.

    def called(self, key: ToolKey, *, ok: bool, elapsed_ms: float) -> None:
        """Count a call of a tool that has just ended."""
        at = self._clock().isoformat(timespec="seconds")
        slot = (at[:10], key)
        tally = self._pending.calls.get(slot)
        if tally is None:
            tally = self._pending.calls[slot] = Tally()
        tally.add(ok=ok, elapsed_ms=elapsed_ms, at=at)
        self.active_at = time.monotonic()
        self._batches.wake()

    def spent(
        self,
        principal: str,
        *,
        lists: int = 0,
        list_tokens: int = 0,
        answers: int = 0,
        answer_tokens: int = 0,
        results: int = 0,
        result_tokens: int = 0,
        raw_tokens: int = 0,
        calls: int = 0,
        argument_tokens: int = 0,
        cost_micros: int = 0,
    ) -> None:
        """Count tokens that the gateway sent to a principal; see `Spending`."""
        tokens = (
            lists, list_tokens, answers, answer_tokens, results, result_tokens, raw_tokens, calls,
            argument_tokens, cost_micros,
        )  # fmt: skip
        day = self._today_iso()
        self._pending.spend((day, principal), tokens)
        self._spend_today(day, principal, tokens)
        self.active_at = time.monotonic()
        self._batches.wake()

    def today(self, principal: str) -> Spending:
        """Return the spending of a principal today, in this process and before its start in all."""
        day = self._today_iso()
        known, spent = self._today
        return _spending(day, principal, spent.get(principal, _NOTHING) if known == day else _NOTHING)

    def _spend_today(self, day: str, principal: str, tokens: tuple[int, ...]) -> None:
        if self._today[0] != day:
            self._today = (day, {})
        spent = self._today[1]
        spent[principal] = _sum(spent.get(principal, _NOTHING), tokens)

    def _today_iso(self) -> str:
        return self._clock().isoformat()[:10]

    def _day(self) -> date:
        return self._clock().date()

    # Writing.

    async def flush(self) -> bool:
        """Write the counts; false if that failed, and the counts stay for the next attempt."""
        return await self._batches.flush()

    async def _write_pending(self) -> None:
        async with self._lock:
            counts, self._pending = self._pending, _Counts()
            if not counts.calls and not counts.tokens:
                return
            written = False
            try:
                await self._database.write_driver(lambda connection: _write(connection, counts), _PATIENCE)
                written = True
            finally:  # also if cancelled before the thread began; after its start, its end is awaited
                if not written:
                    self._pending.add(counts)

    async def prune(self, older_than_days: int = 90, *, fence: Fence | None = None) -> None:
        """Delete the days before the last so many, unless another process has this job by now."""
        first = (self._day() - timedelta(days=older_than_days)).isoformat()

        def drop(connection: DriverConnection) -> None:
            if fence is not None:
                fence.check(connection)
            for statement in _DROPS:
                connection.execute(statement, (first,))

        async with self._lock:
            await self._database.write_driver(drop, _PATIENCE)

    # Reading.

    async def usage(self, days: int = 30) -> Mapping[ToolKey, Usage]:
        """Return the usage of each tool over a window up to today, in every gateway on this database."""
        return await self._usage(days, lambda key: key)

    async def by_server(self, days: int = 30, server: str = "") -> Mapping[str, Usage]:
        """Return the usage of each server, or of one, over a window up to today, in every gateway here."""
        if server:
            return await self._usage(days, lambda key: key.server, server)
        today, known = self._day(), self._past_of_servers.get(days)
        first = first_day(today, max(days, figures.MONTH))

        def fold_past(rows: Iterable[Sequence[Any]]) -> _ServerTallies:
            return {
                name: figures.fold_days(map(_tally, of_server), today, days)
                for name, of_server in _by_server(rows).items()
            }

        def read(connection: DriverConnection) -> tuple[_PastDays[_ServerTallies], Mapping[str, Usage]]:
            past = _past_days(connection, _CALLS_BETWEEN, (first, today.isoformat()), known, fold_past)
            fresh = _by_server(connection.execute(_CALLS_BETWEEN, (today.isoformat(), _NO_END)))
            tallies = {
                name: [*past.value.get(name, ()), *map(_tally, fresh.get(name, ())), *own.get(name, ())]
                for name in {**past.value, **fresh, **own}
            }
            return past, {name: usage_of(of_server, today, days) for name, of_server in tallies.items()}

        async with self._lock:  # no flush at the same time, so nothing is counted twice or missed
            own: dict[str, list[tuple[str, Tally]]] = defaultdict(list)
            for (day, key), tally in self._copy_pending().calls.items():
                own[key.server].append((day, tally))
            self._past_of_servers[days], usage = await self._database.read_driver(read)
        return usage

    async def of_tools(self, keys: Collection[ToolKey], days: int = 30) -> Mapping[ToolKey, Usage]:
        """Return the usage of some tools up to now: those that were called, in every gateway here."""
        today = self._day()
        window = _day_names(first_day(today, max(days, figures.MONTH)), today)
        statement = calls_of_tool(len(window))

        def read(connection: DriverConnection) -> Mapping[ToolKey, list[Any]]:
            return {
                key: connection.execute(statement, (*window, _text(key.server), _text(key.name))).fetchall()
                for key in keys
            }

        async with self._lock:  # as above
            fresh = self._copy_pending()
            kept = await self._database.read_driver(read)
        own: dict[ToolKey, list[tuple[str, Tally]]] = defaultdict(list)
        for (day, key), tally in fresh.calls.items():
            own[key].append((day, tally))
        found = {key: usage_of([*map(_tally, kept[key]), *own[key]], today, days) for key in kept}
        return {key: usage for key, usage in found.items() if usage.calls}

    async def calls(self, days: int = 30) -> Mapping[ToolKey, int]:
        """The number of calls of each tool over such a window; much less work than `usage`."""
        today, known = self._day(), self._past_calls.get(days)
        first = first_day(today, days)

        def read(connection: DriverConnection) -> tuple[_PastDays[_CallCounts], Counter[ToolKey]]:
            past = _past_days(connection, _CALL_COUNTS, (first, today.isoformat()), known, _call_counts)
            counts = Counter(past.value)
            counts.update(_call_counts(connection.execute(_CALL_COUNTS, (today.isoformat(), _NO_END))))
            return past, counts

        async with self._lock:  # as above
            own = [(key, tally.calls) for (day, key), tally in self._pending.calls.items() if day >= first]
            self._past_calls[days], counts = await self._database.read_driver(read)
        for key, number in own:
            counts[key] += number
        return counts

    def _copy_pending(self) -> _Counts:
        counts = _Counts()
        counts.add(self._pending)
        return counts

    async def totals(self, days: int = 30) -> Mapping[ToolKey, Usage]:
        """The usage of each called tool over such a window, without percentiles and shorter windows.

        The database adds up, so this is much less work than `usage`.
        """
        first = first_day(self._day(), days)
        async with self._lock:  # as in `_usage`
            fresh = _Counts()
            fresh.add(self._pending)
            kept = await self._database.read_driver(
                lambda connection: connection.execute(_TOTALS, (first,)).fetchall()
            )
        sums: dict[ToolKey, Tally] = {}
        for server, name, calls, errors, total_ms, last_used in kept:
            sums[ToolKey(server=server, name=name)] = Tally(
                calls=int(calls), errors=int(errors), total_ms=float(total_ms), last_used=last_used
            )
        for (day, key), tally in fresh.calls.items():
            if day >= first:
                sums.setdefault(key, Tally()).merge(tally)
        return {
            key: Usage(
                calls=one.calls,
                errors=one.errors,
                mean_ms=one.total_ms / one.calls,
                last_used=one.last_used,
            )
            for key, one in sums.items()
            if one.calls > 0
        }

    async def _usage(self, days: int, owner: Callable[[ToolKey], K], server: str = "") -> Mapping[K, Usage]:
        today = self._day()
        first = first_day(today, max(days, figures.MONTH))
        async with self._lock:  # as above
            fresh = self._copy_pending()
            statement, values = _calls_since(first, today, server)
            kept = await self._database.read_driver(
                lambda connection: connection.execute(statement, values).fetchall()
            )

        def fold() -> Mapping[K, Usage]:
            rows: dict[K, list[Any]] = defaultdict(list)
            own: dict[K, list[tuple[str, Tally]]] = defaultdict(list)
            for row in kept:
                rows[owner(ToolKey(server=row[1], name=row[2]))].append(row)
            for (day, key), tally in fresh.calls.items():
                if server not in ("", key.server):
                    continue
                own[owner(key)].append((day, tally))
            days_of = {key: chain(map(_tally, rows[key]), own[key]) for key in {**rows, **own}}
            return {key: usage_of(of_key, today, days) for key, of_key in days_of.items()}

        return await anyio.to_thread.run_sync(fold)

    async def spending(self, days: int = 30) -> Sequence[Spending]:
        """Return the spending of each principal and day of a window, in every gateway; newest day first."""
        first = first_day(self._day(), days)
        async with self._lock:
            counts = _Counts(tokens=dict(self._pending.tokens))
            kept = await self._database.read_driver(
                lambda connection: connection.execute(_SPENT, (first,)).fetchall()
            )
        for day, principal, *tokens in kept:
            counts.spend((day, principal), tuple(tokens))
        rows = sorted(counts.tokens.items(), key=lambda row: row[0][1])
        rows.sort(key=lambda row: row[0][0], reverse=True)
        return [_spending(day, principal, tokens) for (day, principal), tokens in rows if day >= first]


def _calls_since(first: str, today: date, server: str) -> tuple[str, Sequence[str]]:
    """The statement for the calls of a server, or of all, since a day; with its values.

    The day after today is one of them, for gateways on other machines whose clock is ahead.
    """
    count = (today - date.fromisoformat(first)).days + 2
    if not server:
        return _CALLS, (first,)
    if count > _MOST_DAYS:
        return _CALLS_OF_SERVER, (first, _text(server))
    days = _day_names(first, today)
    return calls_of_server(len(days)), (*days, _text(server))


def _day_names(first: str, today: date) -> Sequence[str]:
    """The days since the first one, and the day after today: clocks of other machines may be ahead."""
    count = (today - date.fromisoformat(first)).days + 2
    return [(today + timedelta(days=1 - back)).isoformat() for back in range(count)]


def _past_days(
    connection: DriverConnection,
    statement: str,
    window: tuple[str, str],
    known: _PastDays[V] | None,
    work_out: Callable[[Iterable[Sequence[Any]]], V],
) -> _PastDays[V]:
    """What is known of past days, worked out again if another process changed their rows."""
    stamp = tuple(connection.execute(_STAMP, window).fetchone())
    if known is not None and (known.window, known.stamp) == (window, stamp):
        return known
    return _PastDays(window=window, stamp=stamp, value=work_out(connection.execute(statement, window)))


def _by_server(rows: Iterable[Sequence[Any]]) -> Mapping[str, Sequence[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        found[row[1]].append(row)
    return found


def _call_counts(rows: Iterable[Sequence[Any]]) -> _CallCounts:
    return {ToolKey(server=server, name=name): int(calls) for server, name, calls in rows}


def _write(connection: DriverConnection, counts: _Counts) -> None:
    connection.executemany(_ADD_CALLS, list(_call_rows(connection, counts)))
    connection.executemany(
        _ADD_TOKENS, [(day, _text(principal), *n) for (day, principal), n in counts.tokens.items()]
    )


def _call_rows(connection: DriverConnection, counts: _Counts) -> Iterable[tuple[Any, ...]]:
    for (day, key), tally in counts.calls.items():
        of_day = (day, _text(key.server), _text(key.name))
        known = connection.execute(_HISTOGRAM, of_day).fetchone()
        histogram = figures.merge(figures.read(known[0]), tally.histogram) if known else tally.histogram
        yield (*of_day, tally.calls, tally.errors, tally.total_ms, json.dumps(histogram), tally.last_used)


def _tally(row: Sequence[Any]) -> tuple[str, Tally]:
    day, _, _, calls, errors, total_ms, histogram, last_used = row
    return day, Tally(
        calls=calls,
        errors=errors,
        total_ms=total_ms,
        histogram=figures.read(histogram),
        last_used=last_used,
    )


def _spending(day: str, principal: str, tokens: Sequence[int]) -> Spending:
    return Spending(day=day, principal=principal, **dict(zip(_TOKENS, tokens, strict=True)))


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(add, one, other))


def _text(name: str) -> str:
    """Make a name that a database can store: half a surrogate pair must not stop the other counts."""
    return name.encode("utf-8", "replace").decode()
