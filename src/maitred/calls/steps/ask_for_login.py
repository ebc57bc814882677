"""Ask the principal of a call for its own login to the server, where each principal has one."""

from collections.abc import Awaitable
from typing import Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class LoginAsker(Protocol):
    """Knows which servers want a login of each principal, and asks for it."""

    def wants_login(self, server: str) -> bool:
        """Whether each principal has its own login to the server."""
        ...

    async def admit(self, call: Call) -> None:
        """Return when the principal has a login.

        Raises:
            ServerUnavailableError: It has none; the text says how to log in.
        """
        ...


class AskForLogin:
    """Asks before a person approves the call: who cannot log in needs no approval."""

    def __init__(self, asker: LoginAsker) -> None:
        self._asker = asker

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, at once or after a login.

        Raises:
            ServerUnavailableError: The principal has no login.
        """
        return self._with_login(call, proceed) if self._asker.wants_login(call.tool.server) else proceed(call)

    async def _with_login(self, call: Call, proceed: Proceed) -> Answer:
        await self._asker.admit(call)
        return await proceed(call)
