"""Switch servers and tools off and on, in the configuration file; a change is applied at once.

`SwitchMethods` has the methods of `Gateway` for it. A server that is switched off is not started, and its
tools, resources and prompts are not there for any caller.
"""

from pathlib import Path

from maitred.audit.service import AuditService
from maitred.config.edit_choices import ToolChange, check_switchable, switch
from maitred.config.settings import Settings
from maitred.gateway.authorization import Authorization
from maitred.gateway.configure import Configuration
from maitred.gateway.lookup import PathLookup
from maitred.gateway.tool_choices import ToolChoices
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class ServerSwitches:
    """Switches servers for a gateway. Its caller has checked what the viewer may do."""

    def __init__(self, configuration: Configuration, auditing: AuditService) -> None:
        self._configuration = configuration
        self._auditing = auditing

    async def switch(self, server: str, viewer: Viewer, *, enabled: bool) -> Path:
        """Write the switch; see `Gateway.switch_server`."""

        def edit(settings: Settings) -> Path:
            check_switchable(settings, server)
            switch(settings.source, [server], [], enabled=enabled)
            return settings.source

        path = await self._configuration.change(edit)
        await self._auditing.record(viewer, "server.switch", server=server, arguments={"enabled": enabled})
        return path


class SwitchMethods:
    """The methods of a gateway about switches."""

    _access: Authorization
    _paths: PathLookup
    _choices: ToolChoices
    _switches: ServerSwitches

    async def switch_server(self, name: str, viewer: Viewer, *, enabled: bool) -> Path:
        """Switch a server off or on, in the configuration file; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure.
            PathNotFoundError: There is no such server; the text names the nearest.
            ConfigError: The file cannot hold this, has faults or cannot be changed. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        server = self._paths.server(name, viewer, "configure").name
        return await self._switches.switch(server, viewer, enabled=enabled)

    async def switch_tool(self, server: str, name: str, viewer: Viewer, *, enabled: bool) -> Tool:
        """The same for a tool of a server, by its raw or published name; returns the tool.

        Raises:
            NotAllowedError: The viewer may not configure.
            NotFoundError: There is no such server, or it has no such tool.
            ToolWithheldError: Its tools are not known yet.
            ConfigError: The file cannot hold this, has faults or cannot be changed. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        tool = self._paths.tool(server, name, viewer)
        await self._choices.change(tool, ToolChange(enabled=enabled), viewer)
        return tool
