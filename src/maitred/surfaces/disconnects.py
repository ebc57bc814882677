"""How an application hears that a client has closed its connection before it was answered.

ASGI says so only to a task that waits for it, and a task for each call is dear. The server of this program
puts a `Disconnection` into the scope of each request, and completes it when the connection is lost.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

ON_DISCONNECT: Final = "maitred.on_disconnect"
"""The key of the `Disconnection` in the scope; another server may have none."""


class Disconnection:
    """Calls functions once when a connection is lost, and at once those that come later."""

    __slots__ = ("_calls", "_is_lost")

    def __init__(self) -> None:
        self._calls: set[Callable[[], None]] = set()
        self._is_lost = False

    def add(self, call: Callable[[], None]) -> None:
        """Have a function called."""
        if self._is_lost:
            call()
        else:
            self._calls.add(call)

    def discard(self, call: Callable[[], None]) -> None:
        """Do not call a function any more."""
        self._calls.discard(call)

    def complete(self) -> None:
        """Note that the connection is lost."""
        self._is_lost = True
        for call in tuple(self._calls):
            call()


class OnDisconnect:
    """Has a function called if the client of a request leaves, or has left, while the context is open."""

    __slots__ = ("_call", "_disconnection")

    def __init__(self, scope: Mapping[str, Any], call: Callable[[], None]) -> None:
        self._disconnection: Disconnection | None = scope.get(ON_DISCONNECT)
        self._call = call

    def __enter__(self) -> None:
        if self._disconnection is not None:
            self._disconnection.add(self._call)

    def __exit__(self, *_: object) -> None:
        if self._disconnection is not None:
            self._disconnection.discard(self._call)
