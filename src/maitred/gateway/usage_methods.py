"""Who used how much; this is a method of `Gateway`."""

from collections.abc import Callable, Sequence

from maitred.access.tokens import TokenService
from maitred.gateway.stats import UsageStatistics
from maitred.gateway.teams import TeamMethods
from maitred.gateway.usage_shares import NO_TEAM, NO_TOKEN, ShareKind, roles_of, usage_shares
from maitred.model.access import Viewer
from maitred.model.usage import Spending
from maitred.usage.prices import UsageShare


class UsageMethods(TeamMethods):
    """The methods of a gateway about shares of use."""

    _figures: UsageStatistics
    _tokens: TokenService

    async def usage_shares(self, days: int, by: ShareKind, viewer: Viewer) -> Sequence[UsageShare]:
        """What each principal, or all of a role or a team, used in the last days, the most expensive first.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        rows = (await self._figures.spending(days, raw_tokens=0)).spending
        return usage_shares(rows, await self._groups(by, rows, viewer), self._context.settings.usage)

    async def _groups(self, by: ShareKind, rows: Sequence[Spending], viewer: Viewer) -> Callable[[str], str]:
        """Return what says of which group a principal is."""
        if by == "role":
            roles = roles_of(await self._tokens.records(viewer))
            return lambda principal: roles.get(principal, NO_TOKEN)
        if by == "team":
            teams = await self.teams_of({row.principal for row in rows}, viewer)
            return lambda principal: teams[principal] or NO_TEAM
        return lambda principal: principal
