"""What the pages of one gateway share: who has entered, what has changed, and who reads the stream of it."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

import anyio
from cachetools import LRUCache
from starlette.requests import Request

from maitred.gateway import Gateway
from maitred.model.access import Grant, Role, Viewer
from maitred.surfaces.web.events import FragmentChanges
from maitred.surfaces.web.session import GrantOf, WebSessions, cookie_name

T = TypeVar("T")

_MOST_VALUES: Final = 64
_MOST_DRAWN: Final = 8
_RECALL_S: Final = 10.0


class PageMemory:
    """Values that take a while to work out.

    Those of `recall` are good until a fragment changes, and for a few seconds at most; those of `keep` for
    as long as what they are made of is the same. Who tries out many searches at once holds `trials`, so that
    one person at a time slows agents down.
    """

    def __init__(self, changes: FragmentChanges) -> None:
        self._changes = changes
        self.trials = anyio.Lock()
        self._values: LRUCache[Hashable, tuple[int, float, Any]] = LRUCache(_MOST_VALUES)
        self._drawn: LRUCache[Hashable, tuple[object, Any]] = LRUCache(_MOST_DRAWN)

    async def recall(self, key: Hashable, fragment: str, work_out: Callable[[], Awaitable[T]]) -> T:
        """The value of a key, worked out again if the fragment changed since."""
        number, now = self._changes.number_of(fragment), time.monotonic()
        known = self._values.get(key)
        if known and known[0] == number and now - known[1] < _RECALL_S:
            value: T = known[2]
            return value
        value = await work_out()
        self._values[key] = (number, now, value)
        return value

    def keep(self, key: Hashable, source: object, work_out: Callable[[], T]) -> T:
        """The value of a key, worked out again for another `source`, which is all that the value needs."""
        known = self._drawn.get(key)
        if known and known[0] == source:
            value: T = known[1]
            return value
        value = work_out()
        self._drawn[key] = (source, value)
        return value


class WebState:
    """The state of the pages of one gateway.

    Args:
        gateway: The gateway.
        grant_of: Checks an access token of the form.
        unasked: The grant of a person on this machine who has no token; `None` if a token or code is needed.
        serves_mcp: Whether clients reach the gateway at the address of the pages.
    """

    def __init__(
        self,
        gateway: Gateway,
        grant_of: GrantOf,
        *,
        unasked: Grant | None = None,
        serves_mcp: bool = False,
    ) -> None:
        self.gateway = gateway
        self.serves_mcp = serves_mcp
        self.sessions = WebSessions(grant_of)
        self.unasked = unasked
        self.changes = FragmentChanges()
        self.memory = PageMemory(self.changes)
        self.streams = Counter[tuple[str, Role]]()
        """How many pages of each principal read the stream of changes now."""
        self.going_on = Counter[tuple[str, Role]]()
        """How much goes on now after forms that were answered, of each principal."""
        self.ending = anyio.Event()
        self.acting = 0
        """How many forms are acted on now, though most of them may be answered already."""
        self.used_at = time.monotonic()
        """When a person last used a page, or until when a code is good."""

    async def visitor(self, request: Request) -> Viewer | None:
        """The person who has entered the pages in the browser that sends a request."""
        found = await self.sessions.find(request.cookies.get(cookie_name(request), ""))
        return found.viewer if found else None

    def unused_s(self) -> float:
        """For how many seconds no person has used the pages; 0 while one is open, or a call goes on."""
        return 0.0 if self.streams.total() or self.acting else time.monotonic() - self.used_at

    def close(self) -> None:
        """End the streams of open pages, which would keep a gateway from ending; soon also what goes on."""
        self.ending.set()
        self.changes.close()
