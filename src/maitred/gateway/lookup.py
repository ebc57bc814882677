"""Which tool a caller may call, and with what: the questions about a call that the catalog answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from maitred.calls.arguments import ArgumentChecker
from maitred.calls.pipeline import Call
from maitred.catalog.name_forms import servers_named
from maitred.disclosure import views
from maitred.errors import ArgumentsError, ToolWithheldError
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState, why_hidden
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class ToolLookup:
    """Finds tools that are to be called. `warm` readies the index, which names the nearest tools."""

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
        tool = await self.find(name, viewer)
        self.authorize(tool, viewer)
        return tool

    async def find(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, as far as it is there for the viewer, who may wait for its server.

        Raises:
            ToolNotFoundError: There is none.
            ToolWithheldError: The tools of its server are not known; the text says why.
        """
        if name not in self._context.snapshot.by_name:
            await self._await_server(name, viewer)
        return self._access.find(name, viewer)

    def authorize(self, tool: Tool, viewer: Viewer) -> None:
        """Refuse a tool that the viewer may not call, or that nobody can call now.

        Raises:
            NotAllowedError: The viewer may not call it.
            ToolWithheldError: Its server is not enabled, or the tool is hidden; the text says why.
        """
        self._access.check(viewer, "call", tool=tool)
        if not self._context.is_enabled(tool.server):
            raise ToolWithheldError(tool.name, self._context.why_closed(tool.server))
        if why := why_hidden(tool):
            raise ToolWithheldError(tool.name, f"it {why}")

    def check(self, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False) -> None:
        """Refuse arguments that do not fit the tool's schema.

        Args:
            tool: What would be called.
            arguments: What it would be called with.
            read_only: Whether a tool is refused that its server does not call read-only.

        Raises:
            ToolWithheldError: Not read-only though the caller wants that.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
        """
        try:
            self._checker.check(self._context.snapshot, tool, arguments, read_only=read_only)
        except ArgumentsError as error:
            raise ArgumentsError(tool.name, error.faults, schema=self.parameters(tool)) from error

    def recheck(self, call: Call) -> None:
        """Check a call again if the catalog knows something else of its tool than when it was found.

        Raises:
            MaitredError: The call may not be made any more.
        """
        tool, name, viewer = call.tool, call.request.name, call.viewer
        if self._context.snapshot.by_key.get(tool.key) is tool:
            return
        current = self._access.find(name, viewer)
        self.authorize(current, viewer)
        if current.key != tool.key:
            raise ToolWithheldError(name, "its name went to another tool; search again")
        self._visibility.check(current, viewer)
        self.check(current, call.arguments, read_only=call.read_only)

    def parameters(self, tool: Tool) -> str:
        """What a tool takes, in short."""
        return views.compact_schema(self._context.snapshot, tool)

    async def _await_server(self, name: str, viewer: Viewer) -> None:
        """Give the server of an unknown name the time to become known, if that is why it is unknown.

        Raises:
            ToolWithheldError: The server's tools are not known; the text says why.
        """
        context = self._context
        for server in servers_named(name, context.settings.servers):
            if server in context.keeper.discovering:
                await context.keeper.discovered(server, context.settings.disclosure.first_list_wait_s)
        await self._warm()  # the answer to a mistake names the nearest tools, by the index
        there = self._access.portion(viewer).context
        if name not in context.snapshot.by_name and (why := there.why_unknown(name)):
            raise ToolWithheldError(name, why)
