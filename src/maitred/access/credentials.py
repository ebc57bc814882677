"""Find the grant of a token: one that maitred created, or a JWT of a trusted authorization server.

The prefix of maitred's tokens separates the two, so neither kind reaches the other's checks. The JWT verifier
is made when the first JWT arrives, since few installations need it, and again when the settings change.
"""

from collections.abc import Awaitable, Callable

from maitred.access.suspended_principals import SuspendedPrincipals
from maitred.access.teams import PrincipalGroups
from maitred.access.token_store import PREFIX, Grants
from maitred.config.settings import AccessSettings
from maitred.model.access import Grant, RefusedAccess

TokenCheck = Callable[[str], Awaitable[Grant | RefusedAccess]]


class Credentials:
    """All tokens: `grants` are those of maitred. `make_check` makes the verifier of JWTs, if there is one.

    A token of a principal that is `suspended` is refused, also one of an authorization server.
    """

    def __init__(
        self,
        grants: Grants,
        make_check: Callable[[AccessSettings], TokenCheck | None],
        access: AccessSettings,
        suspended: SuspendedPrincipals,
        groups: PrincipalGroups,
    ) -> None:
        self.grants = grants
        self.suspended = suspended
        self.groups = groups
        self._make_check = make_check
        self._access = access
        self._checks: list[TokenCheck | None] = []

    def use(self, access: AccessSettings) -> None:
        """Apply new settings: what groups of people may do."""
        if access != self._access:
            self._access = access
            self._checks.clear()

    @property
    def _check(self) -> TokenCheck | None:
        if not self._checks:
            self._checks.append(self._make_check(self._access))
        return self._checks[0]

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of a token, or why the token is refused.

        Raises:
            StoreError: The tokens cannot be read.
        """
        check = None if token.startswith(f"{PREFIX}_") else self._check
        return await self.admit(await (check or self.grants.grant_of)(token))

    async def admit(self, grant: Grant | RefusedAccess) -> Grant | RefusedAccess:
        """A grant, unless its principal is suspended; notes the groups that it came with.

        Raises:
            StoreError: It is not known who is suspended.
        """
        if isinstance(grant, RefusedAccess):
            return grant
        if why := await self.suspended.why(grant.principal):
            return RefusedAccess(reason=why)
        self.groups.note(grant)
        return grant

    async def why_ended(self, grant: Grant) -> str:
        """Why a grant that was good is refused now; empty if it goes on.

        Raises:
            StoreError: The tokens cannot be read.
        """
        return await self.suspended.why(grant.principal) or await self.grants.why_ended(grant)
