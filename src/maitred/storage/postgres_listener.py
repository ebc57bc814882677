"""Hears by LISTEN what other processes changed in a PostgreSQL database; triggers of the tables send it.

It needs a connection of its own, straight to the server: a pooler that lends connections for a transaction
loses what is sent. So it sends itself a message now and then, by another connection, and says that it is deaf
as long as none arrives. Then those who listen poll, as they do on SQLite.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import psycopg
import structlog

from maitred.background import Background
from maitred.config.redaction import redact
from maitred.errors import StoreError
from maitred.storage.signals import MESSAGE, TOPICS, Signals

log = structlog.get_logger(__name__)

CHANNEL: Final = "maitred"
"""The name in LISTEN; the triggers of migration 0018 have it, too."""
PROBE: Final = "SELECT pg_notify('maitred', ?)"
_AGAIN_S: Final = 2.0
_PROBE_EVERY_S: Final = 10.0
_PROBE_WAIT_S: Final = 3.0
_BY_NAME: Final = {str(topic): topic for topic in TOPICS}


class PostgresListener:
    """Passes news of a database on to `signals`.

    `send` sends a text to the channel by an ordinary connection.
    """

    def __init__(self, text: str, signals: Signals, send: Callable[[str], Awaitable[object]]) -> None:
        self._text = text
        self._signals = signals
        self._send = send
        self._probe = ""
        self._heard = anyio.Event()
        self._is_failing = False

    async def run(self) -> None:
        """Listen, and begin again whenever the connection is lost; never returns."""
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self._text, autocommit=True)
                try:
                    await self._follow(connection)
                finally:  # also where a task is cancelled, which psycopg does not do by itself
                    with anyio.CancelScope(shield=True):
                        await connection.close()
            except psycopg.Error as error:
                self._note(redact(str(error).strip().partition("\n")[0]))
            finally:
                self._signals.is_live = False
            await anyio.sleep(_AGAIN_S)

    async def _follow(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"LISTEN {CHANNEL}".encode())
        self._signals.send_all()
        async with Background() as background:  # which ends when the connection does
            background.start(self._keep_probing)
            lost = await self._read(connection)
        raise lost

    async def _read(self, connection: psycopg.AsyncConnection[Any]) -> psycopg.Error:
        """Take what arrives until the connection is lost; returns why."""
        try:
            async for notice in connection.notifies():
                self._take(notice.payload)
        except psycopg.Error as error:
            return error
        return psycopg.OperationalError("the connection was closed")

    def _take(self, text: str) -> None:
        if (topic := _BY_NAME.get(text)) is not None:
            self._signals.send(topic)
        elif text.startswith(MESSAGE):
            self._signals.pass_message(text.removeprefix(MESSAGE))
        elif text == self._probe:
            self._heard.set()

    async def _keep_probing(self) -> None:
        while True:
            if await self._hears():
                if not self._signals.is_live:
                    self._signals.is_live = True
                    self._signals.send_all()
                self._is_failing = False
            else:
                self._signals.is_live = False
                self._note("a message to itself did not arrive; does a pooler lend the connection?")
            await anyio.sleep(_PROBE_EVERY_S)

    async def _hears(self) -> bool:
        """Whether a message by another connection arrives."""
        self._probe, self._heard = f"probe {secrets.token_hex(8)}", anyio.Event()
        try:
            await self._send(self._probe)
        except StoreError:
            return False
        with anyio.move_on_after(_PROBE_WAIT_S):
            await self._heard.wait()
        return self._heard.is_set()

    def _note(self, reason: str) -> None:
        """Log the first of several failures in a row."""
        if not self._is_failing:
            log.warning("changes of other processes are looked for every two seconds", reason=reason)
        self._is_failing = True
