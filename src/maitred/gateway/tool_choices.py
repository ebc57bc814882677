"""What a person decides about single tools, written into the configuration file and applied at once.

Texts of tools are in the file of overrides; see `maitred.gateway.override_texts`.
"""

from pathlib import Path
from typing import Final

from maitred.audit.service import AuditService
from maitred.config.edit_choices import ToolChange, change_choices
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.gateway.configure import Configuration
from maitred.model.access import Viewer
from maitred.model.tools import Tool

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
