"""The log messages of one server: passed on to the clients that they concern, in the order of their coming.

A message concerns the caller of the request on whose stream it came, or the client of all requests under way.
If several clients have requests under way and nothing says whose message it is, no client gets it: it may
contain what is another client's. A message that comes while no request is under way goes to all clients of
the handshake era that use the connection, as long as they are of one principal.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import anyio
import structlog

from maitred.backends.base import Caller
from maitred.config.redaction import SECRETS
from maitred.model.log_levels import reaches

log = structlog.get_logger(__name__)

_MOST_QUEUED: Final = 1_000
_DELIVERED_S: Final = 0.2
_SENT_S: Final = 5.0


class Audience(Protocol):
    """Knows the callers of a connection; see `maitred.backends.callers`."""

    def concerned(self) -> tuple[Sequence[Caller], bool]:
        """Whom a message concerns that comes now, and whether none of their requests is under way."""
        ...


class LogMessages:
    """Sends messages one after the other while `run` runs."""

    def __init__(self, server: str, audience: Audience) -> None:
        self._server = server
        self._audience = audience
        self._queue: deque[tuple[Caller, dict[str, Any], bool]] = deque()
        self._news = anyio.Event()
        self._empty = anyio.Event()
        self._is_sending = False
        self._drops = False

    def take(self, params: Mapping[str, Any]) -> None:
        """Queue a message for each client that it concerns and that wants its level; does not wait."""
        concerned, late = self._audience.concerned()
        callers = [one for one in concerned if reaches(params.get("level"), one.log_level)]
        if not callers:
            return
        logger = params.get("logger")
        message = {
            **params,
            "data": SECRETS.redact_json(params.get("data")),
            "logger": f"{self._server}/{logger}" if isinstance(logger, str) and logger else self._server,
        }
        self._queue.extend((caller, message, late) for caller in callers)
        while len(self._queue) > _MOST_QUEUED:
            self._queue.popleft()
            if not self._drops:
                self._drops = True
                log.warning(
                    "a client reads slowly; log messages of a server are dropped", server=self._server
                )
        self._news.set()

    async def run(self) -> None:
        """Send what is queued; runs until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            self._is_sending = True
            while self._queue:
                caller, message, late = self._queue.popleft()
                try:
                    with anyio.move_on_after(_SENT_S):
                        await caller.log(message, late=late)
                except Exception as error:  # noqa: BLE001  # one client's connection must not stop the others
                    log.debug("a log message was not delivered", server=self._server, reason=repr(error))
            self._is_sending = self._drops = False
            self._empty.set()
            self._empty = anyio.Event()

    async def delivered(self) -> None:
        """Wait until every message that has come was sent, but not for long: a client may read slowly."""
        if not self._queue and not self._is_sending:
            return
        with anyio.move_on_after(_DELIVERED_S):
            while self._queue or self._is_sending:
                await self._empty.wait()
