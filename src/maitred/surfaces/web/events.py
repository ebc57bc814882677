"""Which parts of pages have changed: one stream of server-sent events that names them.

A fragment is a part of a page with a name, such as `servers` or `server:github`. The gateway keeps for each
fragment the number of its last change. A page says up to which number it was made, and gets the names of all
that changed since. So a connection that breaks loses nothing, and nothing comes twice. The state is here: a
page only fetches itself again.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import Final
from urllib.parse import quote, unquote

import anyio

from maitred.gateway import Gateway

EVERYTHING_CHANGED: Final = "*"
"""The name for all fragments of a page: the page was made by another run of the gateway."""
_SERVER: Final = "maitred://server/"
_PREFIX: Final = "server:"
_MOST: Final = 10_000
_MOST_DIGITS: Final = 20
_BEAT_S: Final = 15.0
_PAUSE_S: Final = 0.25
_WRITTEN_S: Final = 1.0
"""After how many seconds the audit trail has the line of a call: it writes twice a second."""


def server_fragment(server: str) -> str:
    """The name of the fragments that are about one server; it has neither spaces nor line breaks."""
    return f"{_PREFIX}{quote(server, safe='')}"


def server_of(fragment: str) -> str:
    """The server that a fragment is about; empty if it is about more."""
    return unquote(fragment.removeprefix(_PREFIX)) if fragment.startswith(_PREFIX) else ""


class FragmentChanges:
    """The number of the last change of each fragment; `position` is a page's place in the sequence."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        self._number = 0
        self._last: dict[str, int] = {}
        self._news = anyio.Event()
        self._soon: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def follow(self, gateway: Gateway) -> None:
        """Mark fragments when the gateway reports a change."""

        def called(server: str, _ok: object, _seconds: float) -> None:
            self.mark("today", server_fragment(server))
            self.mark_soon("activity")

        def resource(uri: str, _origin: object) -> None:
            if uri.startswith(_SERVER):
                self.mark("servers", "today", f"{_PREFIX}{uri.removeprefix(_SERVER)}")

        gateway.watch(called)
        gateway.watch_suspensions(lambda: self.mark("access"))  # streams then look whose session goes on
        gateway.watch_held_calls(lambda: self.mark("approvals", "today"))
        gateway.listen(
            lists=lambda: self.mark("servers", "tools", "approvals", "today", "activity"), resource=resource
        )

    def mark(self, *fragments: str) -> None:
        """Record that fragments changed now."""
        self._number += 1
        self._last |= dict.fromkeys(fragments, self._number)
        if len(self._last) > _MOST:  # names of servers that come and go: every page is out of date
            self._run, self._last = secrets.token_hex(4), {}
        self._news.set()
        self._news = anyio.Event()

    def mark_soon(self, *fragments: str) -> None:
        """Record in a second that fragments changed, once however often that is said until then."""
        self._soon |= set(fragments)
        if self._timer is None and not self.closed:
            self._timer = asyncio.get_running_loop().call_later(_WRITTEN_S, self._mark_those)

    def _mark_those(self) -> None:
        fragments, self._soon, self._timer = self._soon, set(), None
        self.mark(*fragments)

    @property
    def position(self) -> str:
        """The place after the last change, for a page that is made now."""
        return f"{self._run}-{self._number}"

    def number_of(self, fragment: str) -> int:
        """The number of the last change of a fragment; 0 if it never changed."""
        return self._last.get(fragment, 0)

    def since(self, position: str) -> frozenset[str]:
        """The fragments that changed after a position; all of them if the position is of another run."""
        run, _, number = position.partition("-")
        is_number = number.isdecimal() and len(number) <= _MOST_DIGITS
        if run != self._run or not is_number or int(number) > self._number:
            return frozenset({EVERYTHING_CHANGED})
        return frozenset(name for name, last in self._last.items() if last > int(number))

    async def news(self, seconds: float) -> None:
        """Wait until something changes, for some seconds at most."""
        with anyio.move_on_after(seconds):
            await self._news.wait()

    def close(self) -> None:
        """End all streams: the gateway ends."""
        self.closed = True
        if self._timer:
            self._timer.cancel()
        self._news.set()


async def stream(
    changes: FragmentChanges,
    position: str,
    *,
    visible: Callable[[Collection[str]], Iterable[str]],
    goes_on: Callable[[], Awaitable[bool]],
    beat_s: float = _BEAT_S,
    pause_s: float = _PAUSE_S,
) -> AsyncIterator[str]:
    """The events of one page from a position on, until its session ends or the gateway does.

    `visible` returns those of some fragments that its viewer may know of.
    """
    yield f": the names of what changed\nretry: 2000\nid: {position}\n\n"
    while not changes.closed and await goes_on():
        now, names = changes.position, sorted(visible(changes.since(position)))
        if names:
            data = "".join(f"data: {name}\n" for name in names)
            yield f"id: {now}\nevent: changed\n{data}\n"
            position = now
            await anyio.sleep(pause_s)  # changes come in groups
            continue
        position = now
        await changes.news(beat_s)
        if changes.position == now:
            yield ": still here\n\n"
