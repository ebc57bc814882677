"""A caller that passes on to another one; `Caller` is in `maitred.backends.base`."""

from collections.abc import Mapping
from typing import Any

from maitred.backends.base import Caller
from maitred.model.held_calls import HeldCall
from maitred.model.sharing import Sharer


class ForwardingCaller:
    """Passes everything on to another caller. A subclass changes the part that it is for."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def client(self) -> Caller:
        """The caller behind all that forward, to be remembered after the request has ended."""
        return client_of(self._caller)

    @property
    def key(self) -> str:
        """Identifies the client; see `Caller`."""
        return self._caller.key

    @property
    def principal(self) -> str:
        """Whose client it is; see `Caller`."""
        return self._caller.principal

    @property
    def sharer(self) -> Sharer:
        """The client as sharing knows it; see `Caller`."""
        return self._caller.sharer

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared; see `Caller`."""
        return self._caller.capabilities

    @property
    def log_level(self) -> str:
        """The least severe level that the client wants now; see `Caller`."""
        return self._caller.log_level

    @property
    def takes_rounds(self) -> bool:
        """Whether `input_required` may go to the client; see `Caller`."""
        return self._caller.takes_rounds

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked for progress; see `Caller`."""
        return self._caller.wants_progress

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client; see `Caller`."""
        return await self._caller.ask(method, params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        await self._caller.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send a log message; see `Caller`."""
        await self._caller.log(params, late=late)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification about a question; see `Caller`."""
        await self._caller.notify(method, params)

    def note_held(self, call: HeldCall) -> None:
        """Note a call that waits for a person; see `Caller`."""
        self._caller.note_held(call)


def client_of(caller: Caller) -> Caller:
    """The client itself, without the call for which it was asked."""
    return caller.client if isinstance(caller, ForwardingCaller) else caller
