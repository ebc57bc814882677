"""Keep connections alive on which the gateway has sent nothing for long: one task for all of them."""

import time
from typing import Final

import anyio

from maitred.background import Background
from maitred.surfaces.mcp.http_answer import HttpAnswer

PING_S: Final = 15.0
"""The longest silence on a connection; proxies cut one that is silent for longer."""


class Pings:
    """The answers that are not sent yet; `run` must run beside them."""

    def __init__(self, every_s: float = PING_S) -> None:
        self._every_s = every_s
        self._open: set[HttpAnswer] = set()
        self._under_way: set[HttpAnswer] = set()

    def add(self, answer: HttpAnswer) -> None:
        """Keep the connection of an answer alive until `discard`."""
        self._open.add(answer)

    def discard(self, answer: HttpAnswer) -> None:
        """Leave a connection to itself."""
        self._open.discard(answer)

    async def run(self) -> None:
        """Send something where there was silence; runs until cancelled."""
        async with Background() as background:
            while True:
                await anyio.sleep(self._every_s / 3)
                silent_since = time.monotonic() - self._every_s * 2 / 3
                for answer in self._open:
                    if answer.sent_at <= silent_since and answer not in self._under_way:
                        answer.sent_at = time.monotonic()
                        self._under_way.add(answer)  # for a client that does not read, it takes long
                        background.start(self._ping, answer)

    async def _ping(self, answer: HttpAnswer) -> None:
        try:
            await answer.ping()
        finally:
            self._under_way.discard(answer)
