"""Write the audit trail: append-only lines in the catalog's file, chained by hashes.

`record` returns when the line survives the end of this process; changes use it before their answer leaves.
`note` costs almost nothing and is written soon after; reads use it. Both keep the order of calls, and waiting
lines share a transaction. Appending to a fast disk is quicker than a switch to a thread, so it happens
on the event loop while no other process writes. Everything else, such as a checkpoint, runs in a thread.
"""

import hashlib
import hmac
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

import anyio
import anyio.abc
import structlog

from maitred.audit import hash_chain
from maitred.audit.hash_chain import AuditFilter, AuditLines, Mark, Verification
from maitred.audit.masking import masked
from maitred.errors import StoreError
from maitred.model.tools import canonical
from maitred.storage.database import connect, standby_of, within
from maitred.storage.diagnosis import store_error
from maitred.wording import counted

T = TypeVar("T")

_BUSY_S: Final = 10.0
_QUICK_S: Final = 0.005
_PATIENCE_S: Final = 5.0
_BETWEEN_CHECKPOINTS: Final = 200
_MOST_AT_ONCE: Final = 50
_BUSY_CODE: Final = 0xFF


class Appender:
    """Writes to the SQLite file `path` through one connection, one at a time; `key` signs the chain."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key
        self._writer: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._slow_until = 0.0
        self._since_checkpoint = 0

    async def append(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """Append lines to the chain; returns the number of the first.

        Raises:
            StoreError: The lines cannot be written now.
        """
        self._since_checkpoint += len(lines)
        if self._is_quick() and len(lines) <= _MOST_AT_ONCE:
            first = self._append_at_once(lines)
            if first:
                return first
        return await self.run(lambda connection: self._append(connection, lines))

    def _is_quick(self) -> bool:
        is_due = self._since_checkpoint >= _BETWEEN_CHECKPOINTS
        return self._writer is not None and not is_due and time.monotonic() >= self._slow_until

    def _append_at_once(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """Append on the event loop; returns the number of the first line, or 0 if a thread has to do it."""
        started = time.monotonic()
        try:
            connection = self._open()
            connection.execute("PRAGMA busy_timeout=0")
            first = hash_chain.append(connection, lines, self._key)
        except (sqlite3.Error, OSError) as error:
            if not _is_busy(error):
                self.close()  # ends the transaction; while another process writes, there is none
            return 0
        if time.monotonic() - started > _QUICK_S:
            self._slow_until = time.monotonic() + _PATIENCE_S
        return first

    def _append(self, connection: sqlite3.Connection, lines: Sequence[Mapping[str, Any]]) -> int:
        first = hash_chain.append(connection, lines, self._key)
        if self._since_checkpoint >= _BETWEEN_CHECKPOINTS:
            self._since_checkpoint = 0
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
        return first

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with the connection in a thread, after other writers.

        Raises:
            StoreError: It failed, and nothing of it was written.
        """

        def work() -> T:
            try:
                connection = self._open()
                connection.execute(f"PRAGMA busy_timeout={_BUSY_S * 1_000:.0f}")
                return function(connection)
            except BaseException as error:
                self.close()  # ends the transaction
                if isinstance(error, sqlite3.Error | OSError):
                    raise store_error(self._path, error) from error
                raise

        return await anyio.to_thread.run_sync(work)

    def close(self) -> None:
        """Close the connection; the next write opens another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _open(self) -> sqlite3.Connection:
        """The open connection; a new one if the path now leads to another file.

        It stays open, since closing the last connection writes the whole log to the disk, which is slow.
        """
        if (standby := standby_of(self._path)) is not None:
            raise standby.why
        there = self._path.stat()
        file = (there.st_dev, there.st_ino)
        if self._writer is None or self._file != file:
            self.close()
            self._writer, self._file = connect(self._path, any_thread=True), file
            self._writer.execute("PRAGMA wal_autocheckpoint=0")
        return self._writer


def _is_busy(error: Exception) -> bool:
    """Whether another writer has the file, so that no transaction was begun."""
    return getattr(error, "sqlite_errorcode", 0) & _BUSY_CODE == sqlite3.SQLITE_BUSY


log = structlog.get_logger(__name__)


KeptArguments = Literal["hash", "full", "none"]
_LEAVE_S: Final = 12.0
_MAX_WAITING: Final = 20_000
_MAX_ARGUMENTS: Final = 20_000


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One act of a principal. `tool` is the name that the tool, prompt or resource has on its server.

    Args:
        token: The id of the token that allowed it.
        client: What the client calls itself, unverified.
        published: The name in the request, if it is not `tool`.
        action: A stable word, such as `call` or `approve`.
        outcome: `ok`, `begun`, or an error code.
        detail: More about the outcome, in words.
        arguments: Any JSON value.
        begun: The number of the line that recorded the start of this act; 0 if there is none.
    """

    who: str
    action: str
    token: str = ""
    client: str = ""
    surface: str = ""
    server: str = ""
    tool: str = ""
    published: str = ""
    arguments: Any = None
    outcome: str = "ok"
    detail: str = ""
    cached: bool = False
    ms: float = 0.0
    request_id: str = ""
    chain_id: str = ""
    begun: int = 0


_LINE_FIELDS: Final = tuple(field.name for field in fields(AuditEntry) if field.name != "arguments")


@dataclass(kw_only=True, slots=True, eq=False)
class _Waiting:
    """A line that is not written yet; `seq` is its number afterwards."""

    line: Mapping[str, Any]
    seq: int = 0


class AuditLog:
    """The audit trail in the SQLite file `path`, whose tables exist already.

    With `key`, the hashes of lines and arguments are HMACs: the file alone is then not enough to forge lines
    or guess arguments. `flush_every_s` is how many seconds a note may wait. For one event loop; several
    processes may write to the same file.
    """

    def __init__(
        self,
        path: Path,
        *,
        key: bytes = b"",
        arguments: KeptArguments = "hash",
        clock: Callable[[], datetime] = _now,
        flush_every_s: float = 0.5,
    ) -> None:
        self._path = path
        self._key = key
        self.arguments: KeptArguments = arguments
        self._clock = clock
        self._pause_s = flush_every_s
        self._waiting: list[_Waiting] = []
        self._lost_count = 0
        self._fresh = anyio.Event()
        self._lock = anyio.Lock()
        self._failing = False
        self._appender = Appender(path, key)
        self._tasks: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._flush_repeatedly)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        if tasks is None:
            return None
        tasks.cancel_scope.cancel()
        with anyio.move_on_after(_LEAVE_S, shield=True):
            await self._flush_quietly()
            await anyio.to_thread.run_sync(self._appender.close)
        return await tasks.__aexit__(kind, error, trace)

    def note(self, act: AuditEntry) -> None:
        """Write an act soon. Never raises; if too many acts wait, the oldest are dropped and counted."""
        self._add(act)
        self._fresh.set()

    async def record(self, act: AuditEntry, *, keep: bool = True) -> int:
        """Write an act after all acts that wait; returns the number of its line.

        Raises:
            StoreError: The act cannot be written now. It waits for the next attempt, unless `keep` is false.
        """
        waiting = self._add(act)
        try:
            await self._flush(waiting)
        except BaseException:
            if not keep and waiting in self._waiting:
                self._waiting.remove(waiting)
            self._fresh.set()  # cancelled or failed: the background task tries again
            raise
        return waiting.seq

    def _add(self, act: AuditEntry) -> _Waiting:
        waiting = _Waiting(line=self._line(act))
        self._waiting.append(waiting)
        self._drop_excess()
        return waiting

    def _drop_excess(self) -> None:
        if (excess := len(self._waiting) - _MAX_WAITING) > 0:
            del self._waiting[:excess]
            self._lost_count += excess

    def _line(self, act: AuditEntry) -> Mapping[str, Any]:
        values = {name: value for name in _LINE_FIELDS if (value := getattr(act, name))}
        return {"at": self._time(), **values, **self._kept_arguments(act.arguments)}

    def _kept_arguments(self, arguments: Any) -> dict[str, Any]:
        if arguments is None or self.arguments == "none":
            return {}
        try:
            data = canonical(arguments)
        except RecursionError:  # refused arguments may be of any depth
            return {"arguments_hash": "nested too deep"}
        digest = (
            hmac.digest(self._key, data, "sha256").hex() if self._key else hashlib.sha256(data).hexdigest()
        )
        if self.arguments == "hash" or len(data) > _MAX_ARGUMENTS:
            return {"arguments_hash": digest, "arguments_bytes": len(data)}
        return {"arguments_hash": digest, "arguments": masked(arguments)}

    def _time(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")

    async def _flush_repeatedly(self) -> None:
        while True:
            await self._fresh.wait()
            await anyio.sleep(self._pause_s)
            self._fresh = anyio.Event()
            await self._flush_quietly()
            if self._waiting:
                self._fresh.set()

    async def _flush_quietly(self) -> None:
        try:
            await self._flush()
            self._failing = False
        except StoreError as error:
            if not self._failing:
                log.warning("the audit trail cannot be written; it is kept in memory", reason=error.reason)
            self._failing = True

    async def _flush(self, target: _Waiting | None = None) -> None:
        """Write all acts that wait, unless another task has already written the wanted one."""
        async with self._lock:
            if (target.seq > 0) if target else not self._waiting:
                return
            acts, self._waiting, lost_count = self._waiting, [], self._lost_count
            lines = [*self._lost_line(lost_count), *(waiting.line for waiting in acts)]
            first = 0
            try:
                with anyio.CancelScope(shield=True):  # a cancelled write would leave the outcome unknown
                    first = await self._appender.append(lines)
            finally:
                if first:
                    self._lost_count -= lost_count
                    for number, waiting in enumerate(acts, first + len(lines) - len(acts)):
                        waiting.seq = number
                else:
                    self._waiting[:0] = acts
                    self._drop_excess()
        if target and not target.seq:
            raise StoreError(str(self._path), "too much waits to be written")

    def _lost_line(self, count: int) -> Sequence[Mapping[str, Any]]:
        detail = f"lost {counted(count, 'act')}: the file could not be written for too long"
        return [{"at": self._time(), "who": "maitred", "action": "lose", "detail": detail}] if count else []

    async def prune(self, older_than_days: int, *, who: str) -> int:
        """Delete lines older than so many days and record that; returns how many. The rest stays valid."""
        before = (self._clock() - timedelta(days=older_than_days)).astimezone(UTC)
        note = {"at": self._time(), "who": who, "action": "prune", "outcome": "ok"}
        at = before.isoformat(timespec="milliseconds")
        async with self._lock:
            with anyio.CancelScope(shield=True):
                count = await self._appender.run(
                    lambda connection: hash_chain.prune(connection, at, note, self._key)
                )
        return count

    async def head(self) -> Mark:
        """The last line of the trail.

        An operator who saves it elsewhere can prove later with `verify` that the file was not rewritten.
        """
        return await self._query(lambda connection: hash_chain.mark(connection, "head"))

    async def verify(self, *, known: Mark | None = None) -> Verification:
        """Check that no line was changed, removed, moved or cut off; `known` is a head saved before."""
        return await self._query(lambda connection: hash_chain.verify(connection, self._key, known))

    async def lines(self, *, after: int = 0) -> AsyncIterator[str]:
        """The lines after a number as JSON objects, oldest first, each with its `digest` at the end.

        The digest is that of the line without `,"digest":"..."`.
        """
        while True:
            start = after
            page = await self._query(lambda connection: next(hash_chain.pages(connection, start), ()))  # noqa: B023  # called at once
            if not page:
                return
            for seq, _, body, digest in page:
                after = seq
                yield hash_chain.exported(body, digest)

    async def latest(self, criteria: AuditFilter, *, before: int = 0, limit: int = 50) -> AuditLines:
        """The newest matching lines, the newest first, of those before a number (0: of all)."""
        return await self._query(lambda connection: hash_chain.latest(connection, criteria, before, limit))

    async def _query(self, function: Callable[[sqlite3.Connection], T]) -> T:
        return await within(self._path, function)
