"""The connections of one process to a PostgreSQL database: a bounded number, taken for one transaction each.

A connection that the server ended is replaced. While the server does not answer, one thread at a time tries
to reach it, and the others fail at once: each caller is refused within moments instead of after a time-out.
"""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from maitred.errors import StoreError

if TYPE_CHECKING:  # the first statement that needs SQLAlchemy imports it
    from sqlalchemy import Engine

_OPTIONS: Final[dict[str, str | int]] = {
    "application_name": "maitred",
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,  # ms; libpq would wait a quarter of an hour for a server that fell silent
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Options of a connection that `catalog.url` does not set."""
_WAIT_S: Final = 30.0
_IDLE_S: Final = 300.0
"""A connection that was not used for so long is closed: something between may have forgotten it."""
_SLOW_S: Final = 1.0
_PAUSE_S: Final = 1.0
"""After an attempt that failed only after `_SLOW_S`, how long all others fail at once."""


def connection_text(url: str) -> str:
    """The address with the options that it leaves open."""
    return make_conninfo("", **{**_OPTIONS, **conninfo_to_dict(url)})


@dataclass(kw_only=True, eq=False)
class PooledConnection:
    """A connection, with the SQLAlchemy engine over it once a statement needed one."""

    driver: psycopg.Connection[Any]
    engine: "Engine | None" = None
    idle_since: float = 0.0
    is_fresh: bool = True


class ConnectionPool:
    """At most `most` connections to the database at `url`; for any thread."""

    def __init__(self, url: str, name: str, *, most: int) -> None:
        self._text = connection_text(url)
        self._name = name
        self._most = most
        self._places = threading.BoundedSemaphore(most)
        self._guard = threading.Lock()
        self._idle: list[PooledConnection] = []
        self._away: psycopg.OperationalError | None = None
        self._again_at = 0.0
        self._is_trying = False

    def take(self) -> PooledConnection:
        """Take a connection; every one must be given back or dropped.

        Raises:
            StoreError: None became free.
            psycopg.OperationalError: The server cannot be reached.
        """
        if not self._places.acquire(timeout=_WAIT_S):
            raise StoreError(
                self._name,
                f"all {self._most} connections are in use",
                advice="Raise `catalog.connections`, or find out what the server waits for.",
            )
        try:
            return self._idle_one() or PooledConnection(driver=self._connect())
        except BaseException:
            self._places.release()
            raise

    def give_back(self, pooled: PooledConnection) -> None:
        """Keep a connection, which is in no transaction, for the next one."""
        pooled.is_fresh, pooled.idle_since = False, time.monotonic()
        with self._guard:
            self._idle.append(pooled)
        self._places.release()

    def drop(self, pooled: PooledConnection) -> None:
        """Close a connection. If the server ended it, those that are idle have ended, too."""
        was_ended = pooled.driver.broken
        pooled.driver.close()
        self._places.release()
        if was_ended:
            self.close_idle()

    def close_idle(self) -> None:
        """Close all connections that are idle."""
        with self._guard:
            idle, self._idle = self._idle, []
        for pooled in idle:
            pooled.driver.close()

    def _idle_one(self) -> PooledConnection | None:
        """The connection that was used last; those that are too old are closed."""
        with self._guard:
            pooled = self._idle.pop() if self._idle else None
            oldest = time.monotonic() - _IDLE_S
            old = [one for one in self._idle if one.idle_since < oldest]
            self._idle = [one for one in self._idle if one.idle_since >= oldest]
        if pooled is not None and pooled.idle_since < oldest:
            old.append(pooled)
            pooled = None
        for one in old:
            one.driver.close()
        return pooled

    def _connect(self) -> psycopg.Connection[Any]:
        started = time.monotonic()
        with self._guard:
            if self._away is not None:
                if self._is_trying or started < self._again_at:
                    raise psycopg.OperationalError(str(self._away)) from self._away
                self._is_trying = True
        try:
            connection = psycopg.connect(self._text)
        except psycopg.OperationalError as error:
            self._note_failure(error, started)
            raise
        with self._guard:
            self._away, self._is_trying = None, False
        return connection

    def _note_failure(self, error: psycopg.OperationalError, started: float) -> None:
        """An attempt that fails quickly costs nothing, so the next one may be made at once."""
        now = time.monotonic()
        with self._guard:
            self._is_trying = False
            self._away = error if now - started >= _SLOW_S else None
            self._again_at = now + _PAUSE_S
