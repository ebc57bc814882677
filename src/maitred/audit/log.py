"""Remembers who did what: an append-only trail in the catalog's database whose lines are chained by hashes.

`record` returns when the line is on its way to survive anything that happens to this process; it is for what
changes something, before its answer leaves. `note` costs next to nothing and is written soon after; it is for
reads. Both keep the order in which they were called, and lines that wait share a transaction. Arguments are
kept as a hash, or in full with their secrets masked. Nothing is opened before there is something to write.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self

import anyio
import anyio.abc
import structlog

from maitred.audit import hash_chain
from maitred.audit.hash_chain import AuditFilter, AuditLines, Mark, Verification
from maitred.audit.masking import masked
from maitred.errors import StoreError
from maitred.model.tools import canonical
from maitred.storage.database import Database, DriverConnection
from maitred.wording import counted

log = structlog.get_logger(__name__)


KeptArguments = Literal["hash", "full", "none"]
_LEAVE_S: Final = 12.0
_MAX_WAITING: Final = 20_000
_MAX_ARGUMENTS: Final = 20_000


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One thing that somebody did. `tool` is the name that the tool, prompt or resource has on its server.

    `token` names the token by which it was allowed, `client` what the client calls itself, a claim.

    `published` is the name it was asked for by, where that is another; `action` a stable word (`call`,
    `approve`, ...), `outcome` what came of it (`ok`, `begun`, or the code of what went wrong), `detail` more
    of that in words. `arguments` is any JSON value. `begun` is the number of the line that said that this had
    begun; of what had no such line, 0.
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


_TOLD: Final = tuple(field.name for field in fields(AuditEntry) if field.name != "arguments")


@dataclass(kw_only=True, slots=True, eq=False)
class _Waiting:
    """A line on its way; `seq` is its number once it is written."""

    line: Mapping[str, Any]
    seq: int = 0


class AuditLog:
    """The audit trail in a database whose tables are made.

    With `key`, hashes of lines and arguments are HMACs: then nobody can forge a line, or guess arguments,
    with the database alone. `flush_every_s` is how long a note may wait. For one event loop; several
    processes may write to the same trail.
    """

    def __init__(
        self,
        database: Database,
        *,
        key: bytes = b"",
        arguments: KeptArguments = "hash",
        clock: Callable[[], datetime] = _now,
        flush_every_s: float = 0.5,
    ) -> None:
        self._database = database
        self._key = key
        self.arguments: KeptArguments = arguments
        self._clock = clock
        self._pause_s = flush_every_s
        self._waiting: list[_Waiting] = []
        self._lost = 0
        self._fresh = anyio.Event()
        self._lock = anyio.Lock()
        self._failing = False
        self._writer = database.quick_writer()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._flush_what_comes)
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
            await self._writer.close()
        return await tasks.__aexit__(kind, error, trace)

    # --- writing ------------------------------------------------------------------------------------------

    def note(self, act: AuditEntry) -> None:
        """Have an act written soon. Never raises; where too many wait, the oldest are counted instead."""
        self._add(act)
        self._fresh.set()

    async def record(self, act: AuditEntry, *, keep: bool = True) -> int:
        """Write an act, and all that were noted before it; the number of its line.

        Raises:
            StoreError: It cannot be written now. It is tried again with what comes next, unless told not to
                `keep` it.
        """
        one = self._add(act)
        try:
            await self._flush(one)
        except BaseException:
            if not keep and one in self._waiting:
                self._waiting.remove(one)
            self._fresh.set()  # given up or failed: the background tries again
            raise
        return one.seq

    def _add(self, act: AuditEntry) -> _Waiting:
        one = _Waiting(line=self._line(act))
        self._waiting.append(one)
        self._drop_what_is_too_much()
        return one

    def _drop_what_is_too_much(self) -> None:
        if (more := len(self._waiting) - _MAX_WAITING) > 0:
            del self._waiting[:more]
            self._lost += more

    def _line(self, act: AuditEntry) -> Mapping[str, Any]:
        kept = {name: value for name in _TOLD if (value := getattr(act, name))}
        return {"at": self._time(), **kept, **self._kept_arguments(act.arguments)}

    def _kept_arguments(self, arguments: Any) -> dict[str, Any]:
        if arguments is None or self.arguments == "none":
            return {}
        try:
            data = canonical(arguments)
        except RecursionError:  # what was refused may be anything
            return {"arguments_hash": "nested too deep"}
        digest = (
            hmac.digest(self._key, data, "sha256").hex() if self._key else hashlib.sha256(data).hexdigest()
        )
        if self.arguments == "hash" or len(data) > _MAX_ARGUMENTS:
            return {"arguments_hash": digest, "arguments_bytes": len(data)}
        return {"arguments_hash": digest, "arguments": masked(arguments)}

    def _time(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")

    async def _flush_what_comes(self) -> None:
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

    async def _flush(self, wanted: _Waiting | None = None) -> None:
        """Write what waits, unless the line that is wanted was written by somebody else meanwhile."""
        async with self._lock:
            if (wanted.seq > 0) if wanted else not self._waiting:
                return
            acts, self._waiting, lost = self._waiting, [], self._lost
            lines = [*self._told_lost(lost), *(one.line for one in acts)]
            first = 0
            try:
                with anyio.CancelScope(shield=True):  # whether it was written has to be known
                    first = await self._writer.write(
                        lambda connection: hash_chain.append(connection, lines, self._key), rows=len(lines)
                    )
            finally:
                if first:
                    self._lost -= lost
                    for number, one in enumerate(acts, first + len(lines) - len(acts)):
                        one.seq = number
                else:
                    self._waiting[:0] = acts
                    self._drop_what_is_too_much()
        if wanted and not wanted.seq:
            raise StoreError(self._database.name, "too much waits to be written")

    def _told_lost(self, lost: int) -> Sequence[Mapping[str, Any]]:
        told = f"lost {counted(lost, 'act')}: the file could not be written for too long"
        return [{"at": self._time(), "who": "maitred", "action": "lose", "detail": told}] if lost else []

    # --- retention, reading -------------------------------------------------------------------------------

    async def prune(self, older_than_days: int, *, who: str) -> int:
        """Drop lines older than so many days, and write that down; how many. What is left can be verified."""
        before = (self._clock() - timedelta(days=older_than_days)).astimezone(UTC)
        note = {"at": self._time(), "who": who, "action": "prune", "outcome": "ok"}
        at = before.isoformat(timespec="milliseconds")
        async with self._lock:
            with anyio.CancelScope(shield=True):
                gone = await self._writer.write(
                    lambda connection: hash_chain.prune(connection, at, note, self._key),
                    rows=1,
                    is_small=False,
                )
        return gone

    async def head(self) -> Mark:
        """The last line. Noted elsewhere, it lets `verify` notice that the whole file was written anew."""
        return await self._database.read_driver(lambda connection: hash_chain.mark(connection, "head"))

    async def verify(self, *, known: Mark | None = None) -> Verification:
        """Check that no line was changed, removed, moved or cut off; `known` is a head noted before."""
        return await self._database.read_driver(
            lambda connection: hash_chain.verify(connection, self._key, known)
        )

    async def lines(self, *, after: int = 0) -> AsyncIterator[str]:
        """The lines after a number as JSON objects, oldest first, each with its `digest` at the end.

        Without `,"digest":"..."` a line is the text that the digest is of.
        """
        while True:
            page = await self._database.read_driver(partial(_page, after))
            if not page:
                return
            for seq, _, body, digest in page:
                after = seq
                yield hash_chain.exported(body, digest)

    async def latest(self, wanted: AuditFilter, *, before: int = 0, limit: int = 50) -> AuditLines:
        """The newest lines that are wanted, the newest first, of those before a number (0: of all)."""
        return await self._database.read_driver(
            lambda connection: hash_chain.latest(connection, wanted, before, limit)
        )


def _page(after: int, connection: DriverConnection) -> Sequence[hash_chain.Row]:
    """Some rows after a line, none after the last."""
    return next(hash_chain.pages(connection, after), ())
