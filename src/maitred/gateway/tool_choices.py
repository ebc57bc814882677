"""What a person decides about single tools, written into the configuration file and applied at once.

`ToolDecisions` has the methods of `Gateway` for it.

Texts of tools are in the file of overrides; see `maitred.gateway.override_texts`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from maitred.audit.service import AuditService
from maitred.config.edit_choices import ToolChange, change_choices
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.gateway.authorization import Authorization
from maitred.gateway.configure import Configuration
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.categories import ToolChoice
from maitred.model.tools import Tool, ToolKey

_HINT: Final = "by a manifest; `hide`, `pin` and `category` in a file of overrides do the same for its tools"


class ToolChoices:
    """Changes choices for a gateway. Its caller has checked what the viewer may do."""

    def __init__(self, configuration: Configuration, auditing: AuditService) -> None:
        self._configuration = configuration
        self._auditing = auditing

    async def change(self, tool: Tool, change: ToolChange, viewer: Viewer) -> Path:
        """Write the decisions; see `Gateway.change_tool`."""
        decisions = change.decisions
        if not decisions:
            raise ConfigError(f"the choices for {tool.name}", ["there is nothing to change"])

        def edit(settings: Settings) -> Path:
            spec = settings.servers.get(tool.server)
            if spec and spec.registered:
                fault = f"has no choices for {tool.server!r}, which is registered {_HINT}"
                raise ConfigError(str(settings.source), [fault])
            change_choices(settings.source, tool.key, change.values)
            return settings.source

        path = await self._configuration.change(edit)
        await self._auditing.record(
            viewer, "tool.change", server=tool.server, tool=tool.key.name, arguments=decisions
        )
        return path


class ToolDecisions:
    """The methods of a gateway about what the operator decided for single tools."""

    _access: Authorization
    _context: GatewayState
    _choices: ToolChoices

    async def change_tool(self, name: str, tool_change: ToolChange, viewer: Viewer) -> Path:
        """Switch a tool off or on, pin it or move it, in the configuration file; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure.
            ToolNotFoundError: There is no such tool.
            ConfigError: The file cannot hold this, has faults or cannot be changed. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        return await self._choices.change(self._access.find(name, viewer), tool_change, viewer)

    def tool_choices(self, viewer: Viewer) -> Mapping[ToolKey, ToolChoice]:
        """What the operator decided about single tools that a viewer may see."""
        known = self._access.portion(viewer).context.snapshot.by_key
        return {key: choice for key, choice in self._context.settings.tools.items() if key in known}

    def switched_off_tools(self, viewer: Viewer) -> Sequence[Tool]:
        """The known tools that the operator switched off, by published name.

        Raises:
            NotAllowedError: The viewer may not configure.
        """
        self._access.check(viewer, "configure")
        known = self._access.portion(viewer).context.snapshot.by_key
        off = [known[key] for key in self._context.switched_off if key in known]
        return sorted(off, key=lambda tool: tool.name)

    def offered_tools(self, server: str, viewer: Viewer) -> Sequence[Tool]:
        """The tools of a server that are not hidden, whatever its state."""
        found = self._access.portion(viewer).context.snapshot.by_server.get(server, ())
        return [tool for tool in found if not self._context.is_hidden(tool)]
