"""Whose a token is: one that maitred made, or one of an authorization server that is trusted.

The two are told apart by how ours begin, so that neither kind is ever shown to the other's checks. What
checks the second kind is made with the first of them, since hardly anybody has one.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property

from maitred.access.token_store import PREFIX, Grants
from maitred.model.access import Grant, RefusedAccess

TokenCheck = Callable[[str], Awaitable[Grant | RefusedAccess]]


class Credentials:
    """Knows all tokens; `made` are those of maitred, `make_check` gives the check of the others, if any."""

    def __init__(self, made: Grants, make_check: Callable[[], TokenCheck | None]) -> None:
        self.made = made
        self._make_check = make_check

    @cached_property
    def _check(self) -> TokenCheck | None:
        return self._make_check()

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """What the sender of a token was given, or why nothing.

        Raises:
            StoreError: The tokens cannot be read.
        """
        if token.startswith(f"{PREFIX}_") or self._check is None:
            return await self.made.grant_of(token)
        return await self._check(token)
