"""The profiles of the configuration: what is in each, and viewers that have one.

`ProfileMethods` has the methods of `Gateway` for it. `maitred.gateway.authorization` applies profiles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from maitred.disclosure.introduction import ListContent
from maitred.gateway.authorization import Authorization
from maitred.gateway.lists import MenuLists
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import SpendingLedger
from maitred.model.access import Viewer
from maitred.model.profiles import Profile, narrow_to_profile


@dataclass(frozen=True, kw_only=True)
class ProfileContent:
    """A profile with the part of the catalog that a viewer with it has.

    `mode` is what its lists show now. `unmatched` are names and patterns in it that match nothing.
    """

    name: str
    profile: Profile
    servers: Sequence[str]
    tools: int
    cost_tokens: int
    mode: ListContent
    unmatched: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "name": self.name,
            "servers": list(self.servers),
            "tools": self.tools,
            "cost_tokens": self.cost_tokens,
            "mode": self.mode,
            "unmatched": list(self.unmatched),
        }


class ProfileMethods:
    """The methods of a gateway about profiles."""

    _access: Authorization
    _context: GatewayState
    _ledger: SpendingLedger
    _lists: MenuLists

    def within_profile(self, profile: str, viewer: Viewer) -> Viewer:
        """A viewer with the tools of a profile alone; without the name of one, the viewer as it is.

        Raises:
            ProfileNotFoundError: There is no such profile.
        """
        grant = narrow_to_profile(viewer.grant, profile, self._context.settings.profiles)
        return replace(viewer, grant=grant)

    def profiles(self, viewer: Viewer) -> Sequence[ProfileContent]:
        """The profiles of the configuration, each with what the viewer would have with it.

        Raises:
            NotAllowedError: The viewer may see nothing.
        """
        self._access.check(viewer, "see")
        return [self._content(name, viewer) for name in self._context.settings.profiles]

    def _content(self, name: str, viewer: Viewer) -> ProfileContent:
        within = self.within_profile(name, viewer)
        context, profile = self._access.portion(within).context, self._context.settings.profiles[name]
        return ProfileContent(
            name=name,
            profile=profile,
            servers=list(context.settings.servers),
            tools=len(context.listable()),
            cost_tokens=self._ledger.raw_tokens(within),
            mode=self._lists.mode(within),
            unmatched=list(self._unmatched(profile, viewer)),
        )

    def _unmatched(self, profile: Profile, viewer: Viewer) -> Iterator[str]:
        """The servers of a profile that are not there, and its patterns that no tool fits.

        Who has a scope gets none: they would tell of servers outside of it.
        """
        if self._access.portion(viewer) is not self._access.whole:
            return
        there = self._context
        for server in profile.servers or ():
            if server not in there.settings.servers:
                yield server
        own = [f"{tool.server}/{tool.key.name}" for tool in there.snapshot.tools]
        published = [tool.name for tool in there.snapshot.tools]
        for pattern in (*(profile.tools or ()), *profile.exclude):
            if not any(fnmatchcase(one, pattern) for one in (own if "/" in pattern else published)):
                yield pattern
