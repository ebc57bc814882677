"""Refuse the calls of a principal that is suspended, and end those that run when it is."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import NotAllowedError
from maitred.model.access import LOCAL


class Suspensions(Protocol):
    """Knows who is suspended, and ends what they have open."""

    async def why(self, principal: str) -> str:
        """Why a principal is refused; empty if it is not suspended."""
        ...

    @property
    def hold(self) -> Callable[[str, Literal["call"]], AbstractContextManager[None]]:
        """Runs a call of a principal, and leaves it early when that is suspended."""
        ...


class RefuseSuspended:
    """A client over standard streams comes with its token once, so each of its calls is looked at."""

    def __init__(self, suspensions: Suspensions) -> None:
        self._suspensions = suspensions

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on; the local user is never suspended.

        Raises:
            NotAllowedError: The principal is suspended, or was while the call ran.
        """
        return proceed(call) if call.viewer.principal == LOCAL else self._unless_suspended(call, proceed)

    async def _unless_suspended(self, call: Call, proceed: Proceed) -> Answer:
        principal = call.viewer.principal
        if why := await self._suspensions.why(principal):
            raise NotAllowedError(why)
        with self._suspensions.hold(principal, "call"):
            return await proceed(call)
        why = await self._suspensions.why(principal) or f"{principal!r} was suspended"
        raise NotAllowedError(f"{why}; the call was ended while it ran, and may have been carried out")
