"""All about single tools, with how they were used up to now; these are methods of `Gateway`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from maitred.disclosure import views
from maitred.disclosure.answers import InfoAnswer
from maitred.gateway.authorization import Authorization
from maitred.gateway.mediation import GatewayMediation
from maitred.gateway.menu import NOT_USED, Menu
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import UsageStatistics
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Viewer
from maitred.model.details import Detail
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import Usage


class ToolDetails:
    """The methods of a gateway that describe single tools."""

    _context: GatewayState
    _access: Authorization
    _visibility: VisibilityService
    _mediation: GatewayMediation
    _figures: UsageStatistics
    _menu: Menu

    async def info(self, names: Sequence[str], detail: Detail = "brief", *, viewer: Viewer) -> InfoAnswer:
        """T3 at a level of detail: some tools by published or raw name.

        Raises:
            UnknownDetailError: There is no such level.
            ToolNotFoundError: None of the names is known.
            ToolWithheldError: No name can be known, since the server is not known yet.
        """
        shows_usage = views.detail_view(detail).shows_usage
        menu = self._access.menu(viewer)
        used = await self._figures.of_tools(menu.keys(names)) if shows_usage else NOT_USED
        answer = menu.info(names, detail, partial(self._why_not, viewer=viewer), used)
        self._mediation.needed(tool.server for tool in answer.tools)
        return answer

    async def tool_json(self, tool: Tool, viewer: Viewer) -> Mapping[str, Any]:
        """Everything about one tool, for programs; its use is that of the last 30 days, up to now.

        Raises:
            NotAllowedError: The viewer may not see it.
        """
        self._access.check(viewer, "see", tool=tool)
        used = await self._figures.of_tools([tool.key])
        return self._menu.to_json(tool, self._why_not(tool, viewer), used.get(tool.key))

    async def tool_usage(self, tools: Sequence[Tool], viewer: Viewer) -> Mapping[ToolKey, Usage]:
        """The use of some tools in the last 30 days, up to now; those that were not called are not in it.

        Raises:
            NotAllowedError: The viewer may not see one of them.
        """
        for tool in tools:
            self._access.check(viewer, "see", tool=tool)
        return await self._figures.of_tools([tool.key for tool in tools])

    def why_unusable(self, tool: Tool, viewer: Viewer) -> str:
        """Why a tool cannot be used now; empty if it can be.

        Raises:
            NotAllowedError: The viewer may not see it.
        """
        self._access.check(viewer, "see", tool=tool)
        return self._context.reason(tool.server) or self._why_not(tool, viewer)

    def _why_not(self, tool: Tool, viewer: Viewer) -> str:
        return self._context.why_hidden(tool) or self._visibility.why_hidden(tool, viewer)
