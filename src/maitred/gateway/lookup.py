"""Finds the server or the tool that a path names, as far as it is there for a viewer.

A path has the raw or the published name of a tool. What a viewer's scope does not cover does not exist here,
except for a call: there the viewer hears that it may not call the tool.
"""

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Final

from maitred.catalog.snapshot import Snapshot
from maitred.disclosure.answers import ServerStatus
from maitred.errors import PathNotFoundError, ToolNotFoundError, ToolWithheldError
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import Ability, Viewer
from maitred.model.tools import Tool, ToolKey

_NEAREST: Final = 3


class PathLookup:
    """Finds servers and tools by name. `settled` waits so many seconds for servers that are discovered."""

    def __init__(
        self, context: GatewayState, access: Authorization, settled: Callable[[float], Awaitable[bool]]
    ) -> None:
        self._context = context
        self._access = access
        self._settled = settled

    def server(self, name: str, viewer: Viewer, ability: Ability) -> ServerStatus:
        """A configured server that is there for a viewer who has an ability on it.

        Raises:
            PathNotFoundError: There is none; the text names the nearest.
            NotAllowedError: The viewer does not have the ability.
        """
        there = self._access.portion(viewer)
        found = next((status for status in there.context.servers() if status.name == name), None)
        if found is None:
            self._access.check(viewer, ability)
            there.menu.page(f"server/{name}")  # raises, and knows the nearest
            raise PathNotFoundError(f"server/{name}")
        self._access.check(viewer, ability, server=name)
        return found

    def tool(self, server: str, name: str, viewer: Viewer) -> Tool:
        """A tool of a server that is there for a viewer.

        Raises:
            PathNotFoundError: There is no such server.
            ToolNotFoundError: It has no such tool; the text names the nearest.
            ToolWithheldError: Its tools are not known yet.
        """
        there = self._access.portion(viewer).context
        if found := _known(there.snapshot, server, name):
            return found
        status = self.server(server, viewer, "see")
        if not status.facts.era:
            why = status.withheld or status.error or status.health.error or "its tools are not known yet"
            raise ToolWithheldError(name, f"its server {server!r} is not available: {why}")
        raise ToolNotFoundError(name, nearest=_nearest(there, server, name))

    async def tool_to_call(self, server: str, name: str, viewer: Viewer) -> Tool:
        """The same for a viewer who is to call it; waits a while for a server that is being discovered.

        Raises:
            PathNotFoundError: There is no such server.
            ToolNotFoundError: It has no such tool; the text names the nearest.
            ToolWithheldError: Its tools are not known yet.
            NotAllowedError: The viewer may not call it.
        """
        known = _known(self._context.snapshot, server, name)
        if not known and not self.server(server, viewer, "see").facts.era:
            await self._settled(self._context.settings.disclosure.first_list_wait_s)
        if found := _known(self._context.snapshot, server, name):
            self._access.check(viewer, "call", tool=found)
            return found
        return self.tool(server, name, viewer)


def _known(snapshot: Snapshot, server: str, name: str) -> Tool | None:
    if found := snapshot.by_key.get(ToolKey(server=server, name=name)):
        return found
    found = snapshot.by_name.get(name)
    return found if found and found.server == server else None


def _nearest(there: GatewayState, server: str, name: str) -> list[str]:
    """Tools of the server that are spelled much the same, else those of other servers that are called so."""
    own = {tool.key.name: tool.name for tool in there.snapshot.by_server.get(server, ())}
    own |= {published: published for published in own.values()}
    near = [own[found] for found in get_close_matches(name, own, n=_NEAREST)]
    elsewhere = [tool.name for tool in there.visible_tools() if name in (tool.key.name, tool.name)]
    return list(dict.fromkeys([*near, *elsewhere]))[:_NEAREST]
