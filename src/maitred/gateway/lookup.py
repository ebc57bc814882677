"""Which server or tool a name or a path means for a viewer, and whether the viewer may call that tool.

A tool outside of the viewer's scope does not exist here, except for a call: the gateway then says that the
viewer may not call it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from maitred.calls.arguments import ArgumentChecker
from maitred.calls.pipeline import Call
from maitred.catalog.name_forms import servers_named
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure import views
from maitred.disclosure.answers import ServerStatus
from maitred.errors import ArgumentsError, PathNotFoundError, ToolNotFoundError, ToolWithheldError
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Ability, Viewer
from maitred.model.tools import Tool, ToolKey
from maitred.wording import near_names

_NEAREST: Final = 3


class ToolLookup:
    """Finds tools for calls. `warm` builds the index, which names the nearest tools."""

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        visibility: VisibilityService,
        *,
        warm: Callable[[], Awaitable[object]],
    ) -> None:
        self._context = context
        self._access = access
        self._visibility = visibility
        self._warm = warm
        self._checker = ArgumentChecker()

    async def callable_tool(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, if the viewer may call it. May wait for a server that is starting.

        Raises:
            ToolNotFoundError: There is none.
            NotAllowedError: The viewer may not call it.
            ToolWithheldError: It cannot be called now; the text says why.
        """
        if not self.is_known(name):
            await self.await_server(name, viewer)
        tool = self.find(name, viewer)
        self.authorize(tool, viewer)
        return tool

    def is_known(self, name: str) -> bool:
        """Whether a tool is published under this name."""
        return name in self._context.snapshot.by_name

    def find(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, as far as it is there for the viewer.

        Raises:
            ToolNotFoundError: There is none.
        """
        return self._access.find(name, viewer)

    def authorize(self, tool: Tool, viewer: Viewer) -> None:
        """Refuse a tool that the viewer may not call, or that no caller can call now.

        Raises:
            NotAllowedError: The viewer may not call it.
            ToolWithheldError: Its server is not enabled, or the tool is hidden; the text says why.
        """
        self._access.check(viewer, "call", tool=tool)
        if not self._context.is_enabled(tool.server):
            raise ToolWithheldError(tool.name, self._context.why_closed(tool.server))
        if why := self._context.why_hidden(tool):
            raise ToolWithheldError(tool.name, f"it {why}")

    def check(self, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False) -> None:
        """Refuse arguments that do not fit the tool's schema.

        Args:
            tool: The tool to call.
            arguments: The arguments of the call.
            read_only: Whether to refuse a tool that its server does not mark read-only.

        Raises:
            ToolWithheldError: The tool is not read-only, though the caller wants that.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
        """
        try:
            self._checker.check(self._context.snapshot, tool, arguments, read_only=read_only)
        except ArgumentsError as error:
            raise ArgumentsError(tool.name, error.faults, schema=self.parameters(tool)) from error

    def recheck(self, call: Call) -> None:
        """Check a call again if its tool has changed in the catalog, or was switched off, since it was found.

        Raises:
            MaitredError: The call may not be made any more.
        """
        is_same = self._context.snapshot.by_name.get(call.tool.name) is call.tool
        if not is_same or call.tool.key in self._context.switched_off:
            self.check_again(call)

    def check_again(self, call: Call) -> None:
        """Check a call again, whether or not its tool has changed in the catalog.

        Raises:
            MaitredError: The call may not be made any more.
        """
        tool, name, viewer = call.tool, call.request.name, call.viewer
        current = self._access.find(name, viewer)
        self.authorize(current, viewer)
        if current.key != tool.key:
            raise ToolWithheldError(name, "its name went to another tool; search again")
        self._visibility.check(current, viewer, call.arguments)
        self.check(current, call.arguments, read_only=call.read_only)

    def parameters(self, tool: Tool) -> str:
        """The parameters of a tool, in short."""
        return views.compact_schema(self._context.snapshot, tool)

    async def await_server(self, name: str, viewer: Viewer) -> None:
        """Wait for the discovery of the server of an unknown name, if that is why the name is unknown.

        Raises:
            ToolWithheldError: The server's tools are not known; the text says why.
        """
        context = self._context
        for server in servers_named(name, context.settings.servers):
            if server in context.keeper.discovering:
                await context.keeper.discovered(server, context.settings.disclosure.first_list_wait_s)
        await context.keeper.catch_up(name)
        await self._warm()  # the error for an unknown name lists the nearest tools, by the index
        there = self._access.portion(viewer).context
        if name not in context.snapshot.by_name and (why := there.why_unknown(name)):
            raise ToolWithheldError(name, why)


class PathLookup:
    """Finds servers and their tools by raw or published name, as paths contain them.

    `settled` waits some seconds for servers that are being discovered.
    """

    def __init__(
        self, context: GatewayState, access: Authorization, settled: Callable[[float], Awaitable[bool]]
    ) -> None:
        self._context = context
        self._access = access
        self._settled = settled

    def server(self, name: str, viewer: Viewer, ability: Ability) -> ServerStatus:
        """A configured server in the scope of a viewer who has an ability on it.

        Raises:
            PathNotFoundError: There is none; the text names the nearest.
            NotAllowedError: The viewer does not have the ability.
        """
        there = self._access.portion(viewer)
        if name not in there.context.settings.servers:
            self._access.check(viewer, ability)
            near, lists = there.context.near_servers(name), "`maitred list` shows all servers."
            raise PathNotFoundError(f"server/{name}", nearest=near, lists=lists)
        self._access.check(viewer, ability, server=name)
        return there.context.status(name)

    def tool(self, server: str, name: str, viewer: Viewer) -> Tool:
        """A tool of a server in the scope of a viewer.

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
        """The same for a call by the viewer. Waits a while for a server that is being discovered.

        Raises:
            PathNotFoundError: There is no such server.
            ToolNotFoundError: It has no such tool; the text names the nearest.
            ToolWithheldError: Its tools are not known yet.
            NotAllowedError: The viewer may not call it.
        """
        known = _known(self._context.snapshot, server, name)
        if not known and not self.server(server, viewer, "see").facts.era:
            await self._settled(self._context.settings.disclosure.first_list_wait_s)
        elif not known:
            await self._context.keeper.catch_up(name)
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
    """Tools of the server with a similar name, else tools of other servers with that name."""
    own = {tool.key.name: tool.name for tool in there.snapshot.by_server.get(server, ())}
    own |= {published: published for published in own.values()}
    near = [own[one] for one in near_names(name, own, most=_NEAREST)]
    elsewhere = [tool.name for tool in there.visible_tools() if name in (tool.key.name, tool.name)]
    return list(dict.fromkeys([*near, *elsewhere]))[:_NEAREST]
