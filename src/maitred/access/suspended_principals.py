"""Suspend principals: all their tokens are refused, what they have running ends, until they are resumed.

The suspensions are in the database. A process reads all of them again after half a second, so each process
on the catalog knows of one within a second. If they cannot be read, those that were read last count.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import anyio
import structlog

from maitred.access.token_store import RESERVED
from maitred.errors import StoreError
from maitred.storage.database import Database, DriverConnection, WriteOptions, placeholders

log = structlog.get_logger(__name__)

COLUMNS: Final = ("principal", "who", "why", "at")
ALL: Final = (
    f"SELECT {', '.join(f'suspended_principals.{name}' for name in COLUMNS)} FROM suspended_principals"  # noqa: S608  # our own names
    " ORDER BY suspended_principals.at, suspended_principals.principal"
)
ADD: Final = (
    f"INSERT INTO suspended_principals ({', '.join(COLUMNS)}) VALUES ({placeholders(len(COLUMNS))})"  # noqa: S608  # as above
    " ON CONFLICT (principal) DO NOTHING"
)
DROP: Final = "DELETE FROM suspended_principals WHERE suspended_principals.principal = ?"

_LASTING: Final = WriteOptions(wait_s=5.0, durable=True, lasting=True)
_FRESH_S: Final = 0.5
_AFTER_CALLS_S: Final = 0.2
"""Calls are ended first, and have a moment to answer; what else is open ends after it."""
HoldKind = Literal["call", "request"]


@dataclass(frozen=True, kw_only=True)
class SuspendedPrincipal:
    """A principal who is suspended: by whom, why, and since when (ISO 8601, UTC)."""

    principal: str
    who: str
    why: str
    at: str

    @property
    def reason(self) -> str:
        """Why its tokens are refused, for the bearer of one."""
        return f"{self.principal!r} is suspended since {self.at}{f': {self.why}' if self.why else ''}"

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {"principal": self.principal, "by": self.who, "why": self.why, "at": self.at}


class SuspendedPrincipals:
    """The suspensions in a database, whose tables exist already; for one event loop.

    `keep_up` must run, or what a principal has open ends only if this process suspends it.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._known: Mapping[str, SuspendedPrincipal] | None = None
        self._read_at = float("-inf")
        self._lock = anyio.Lock()
        self._holds = defaultdict[tuple[str, HoldKind], list[anyio.CancelScope]](list)
        self._followers = 0
        self._is_needed = anyio.Event()
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after a principal was suspended whom this process serves; it must not block."""
        self._listeners.append(listener)

    # --- what is suspended --------------------------------------------------------------------------------

    async def why(self, principal: str) -> str:
        """Why a principal is refused, without a full stop; empty if it is not suspended.

        Raises:
            StoreError: The suspensions could never be read.
        """
        if principal in RESERVED:
            return ""
        found = (await self._fresh()).get(principal)
        return found.reason if found else ""

    async def listed(self) -> Sequence[SuspendedPrincipal]:
        """All who are suspended, the first first.

        Raises:
            StoreError: They cannot be read.
        """
        self._read_at = float("-inf")
        return list((await self._fresh(or_known=False)).values())

    async def _fresh(self, *, or_known: bool = True) -> Mapping[str, SuspendedPrincipal]:
        async with self._lock:
            now = self._clock()
            if self._known is not None and now - self._read_at < _FRESH_S:
                return self._known
            try:
                found = await self._database.read_driver(_read)
            except StoreError as error:
                if self._known is None or not or_known:
                    raise
                log.warning("suspensions of principals cannot be read again", reason=error.reason)
                found = self._known
            self._known, self._read_at = found, now
            return found

    # --- changes ------------------------------------------------------------------------------------------

    async def suspend(self, principal: str, *, who: str, why: str) -> bool:
        """Suspend a principal; false if it is suspended already.

        Raises:
            StoreError: It cannot be written.
        """
        values = (principal, who, why, datetime.now(UTC).isoformat(timespec="seconds"))

        def add(connection: DriverConnection) -> int:
            return connection.execute(ADD, values).rowcount

        return await self._written(add)

    async def resume(self, principal: str) -> bool:
        """Give a principal back what it may do; false if it is not suspended.

        Raises:
            StoreError: It cannot be written.
        """

        def drop(connection: DriverConnection) -> int:
            return connection.execute(DROP, (principal,)).rowcount

        return await self._written(drop)

    async def _written(self, change: Callable[[DriverConnection], int]) -> bool:
        try:
            return await self._database.write_driver(change, _LASTING) > 0
        finally:
            self._read_at = float("-inf")

    # --- what is open -------------------------------------------------------------------------------------

    @contextmanager
    def hold(self, principal: str, kind: HoldKind) -> Iterator[None]:
        """Run what is open for a principal: it is left early, without an error, when that is suspended."""
        with anyio.CancelScope() as scope:
            scopes = self._holds[principal, kind]
            scopes.append(scope)
            self._is_needed.set()
            try:
                yield
            finally:
                scopes.remove(scope)
                if not scopes:
                    self._holds.pop((principal, kind), None)

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Have suspensions by other processes noticed in the meantime, though nothing is held."""
        self._followers += 1
        self._is_needed.set()
        try:
            yield
        finally:
            self._followers -= 1

    async def end(self, principal: str) -> None:
        """End what a principal has open in this process: calls first, then requests and streams."""
        is_open = (principal, "call") in self._holds
        self._cancel(principal, "call")
        if is_open:
            await anyio.sleep(_AFTER_CALLS_S)
        self._cancel(principal, "request")
        for listener in self._listeners:
            listener()

    def _cancel(self, principal: str, kind: HoldKind) -> None:
        for scope in [*self._holds.get((principal, kind), ())]:
            scope.cancel()

    async def keep_up(self) -> None:
        """End what suspended principals have open, whichever process suspended them; never returns."""
        ended = frozenset[str]()
        while True:
            if not (self._holds or self._followers):
                self._is_needed = anyio.Event()
                await self._is_needed.wait()
            try:
                suspended = frozenset(await self._fresh())
            except StoreError:
                suspended = ended
            for principal in {name for name, _ in self._holds} & suspended | (suspended - ended):
                await self.end(principal)
            ended = suspended
            await anyio.sleep(_FRESH_S)


def _read(connection: DriverConnection) -> Mapping[str, SuspendedPrincipal]:
    rows = connection.execute(ALL).fetchall()
    return {row[0]: SuspendedPrincipal(**dict(zip(COLUMNS, row, strict=True))) for row in rows}
