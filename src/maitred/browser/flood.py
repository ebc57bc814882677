"""Turns off the messages of a page that writes them without end, such as by `console.log` in a loop.

All clients of a browser share one connection, so such a page would keep all of them waiting. Its messages are
turned off until another page is loaded in its tab. If its scripts never rest, they do not take that command:
then the session with the tab is ended.
"""

import time
from collections.abc import Callable
from typing import Final

from maitred.browser.cdp import CdpConnection, Params
from maitred.browser.oversize import OVERSIZE
from maitred.token_bucket import TokenBucket

_EVENTS: Final = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
_MESSAGES_S: Final = 100.0
_AT_ONCE: Final = 1_600
_MOST_LATE: Final = 10_000
_SIZE: Final = 10_000
"""So many characters count as one message more."""
_OF_OVERSIZE: Final = 500
_MOST_ARGUMENTS: Final = 100


class FloodGuard:
    """Counts the messages of one session. `on_flood` is called when they are turned off."""

    def __init__(self, connection: CdpConnection, session: str, on_flood: Callable[[], None]) -> None:
        self._connection = connection
        self._session = session
        self._on_flood = on_flood
        self._bucket = self._new_bucket()
        self._late = 0
        self.is_muted = False
        for event in _EVENTS:
            connection.on(session, event, self._count)
        connection.on(session, OVERSIZE, self._count_oversize)

    @staticmethod
    def _new_bucket() -> TokenBucket:
        return TokenBucket(per_s=_MESSAGES_S, size=_AT_ONCE, now=time.monotonic())

    def _count(self, params: Params) -> None:
        self._take(1 + size_of_message(params) / _SIZE)

    def _count_oversize(self, params: Params) -> None:
        if params["method"] in _EVENTS:
            self._take(_OF_OVERSIZE)

    def _take(self, messages: float) -> None:
        if self.is_muted:
            self._late += 1
            if self._late == _MOST_LATE:
                self._connection.post("Target.detachFromTarget", {"sessionId": self._session})
        elif self._bucket.take(messages, now=time.monotonic()) > 0:
            self.is_muted = True
            for domain in ("Runtime", "Log"):
                self._connection.post(f"{domain}.disable", {}, self._session)
            self._on_flood()

    def renew(self, *domains: str) -> None:
        """Another page is loaded: turn the messages of some domains on again, if they are off."""
        if self.is_muted:
            self.is_muted, self._late, self._bucket = False, 0, self._new_bucket()
            for domain in domains:
                self._connection.post(f"{domain}.enable", {}, self._session)


def size_of_message(params: Params) -> int:
    """The characters in the texts of a message of the console."""
    values = [one.get("value") for one in params.get("args", ())[:_MOST_ARGUMENTS]]
    return sum(len(value) for value in values if isinstance(value, str))
