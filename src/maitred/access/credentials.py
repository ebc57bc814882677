"""Find the grant of a token: one that maitred created, or a JWT of a trusted authorization server.

The prefix of maitred's tokens separates the two, so neither kind reaches the other's checks. The JWT verifier
is made when the first JWT arrives, since few installations need it.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property

from maitred.access.token_store import PREFIX, Grants
from maitred.model.access import Grant, RefusedAccess

TokenCheck = Callable[[str], Awaitable[Grant | RefusedAccess]]


class Credentials:
    """All tokens: `grants` are those of maitred, `make_check` makes the verifier of JWTs, if there is one."""

    def __init__(self, grants: Grants, make_check: Callable[[], TokenCheck | None]) -> None:
        self.grants = grants
        self._make_check = make_check

    @cached_property
    def _check(self) -> TokenCheck | None:
        return self._make_check()

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of a token, or why the token is refused.

        Raises:
            StoreError: The tokens cannot be read.
        """
        if token.startswith(f"{PREFIX}_") or self._check is None:
            return await self.grants.grant_of(token)
        return await self._check(token)
