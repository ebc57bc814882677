"""The team of a principal, as methods of `Gateway`; `gateway.authorization` applies the limits of teams."""

from collections.abc import Collection, Mapping

from maitred.access.teams import PrincipalGroups, team_of
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer


class TeamMethods:
    """The methods of a gateway about teams."""

    _access: Authorization
    _context: GatewayState
    _principal_groups: PrincipalGroups

    async def team_of(self, principal: str, viewer: Viewer) -> str:
        """The team of a principal, by the groups that it came with last; empty if it is in none.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The groups cannot be read.
        """
        return (await self.teams_of([principal], viewer))[principal]

    async def teams_of(self, principals: Collection[str], viewer: Viewer) -> Mapping[str, str]:
        """The team of each of some principals; empty for one that is in none.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The groups cannot be read.
        """
        self._access.check(viewer, "watch")
        teams = self._context.settings.access.teams
        groups = await self._principal_groups.listed() if teams else {}
        return {name: team_of(name, groups.get(name, ()), teams) for name in principals}
