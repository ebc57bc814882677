"""Who used how much; this is a method of `Gateway`."""

from collections.abc import Sequence

from maitred.access.tokens import TokenService
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import UsageStatistics
from maitred.gateway.usage_shares import ShareKind, usage_shares
from maitred.model.access import Viewer
from maitred.usage.prices import UsageShare


class UsageMethods:
    """The methods of a gateway about shares of use."""

    _access: Authorization
    _context: GatewayState
    _figures: UsageStatistics
    _tokens: TokenService

    async def usage_shares(self, days: int, by: ShareKind, viewer: Viewer) -> Sequence[UsageShare]:
        """What each principal, or all principals of a role, used in the last days, the most expensive first.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        rows = (await self._figures.spending(days, raw_tokens=0)).spending
        tokens = await self._tokens.records() if by == "role" else ()
        return usage_shares(rows, by, tokens, self._context.settings.usage)
