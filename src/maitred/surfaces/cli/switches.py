"""`maitred disable` and `enable`: switch servers and tools off and on in the configuration file.

It writes the file without a gateway, so it checks itself whether the user may configure. It opens a gateway
only to find tools by name: a server that does not answer can be switched off without one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from maitred.config.edit_choices import check_switchable, switch
from maitred.config.settings import Settings
from maitred.errors import SwitchNotFoundError, ToolNotFoundError
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.surfaces.cli.completion import complete_names
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    config_path,
    known_gateway,
    out,
    prepare,
    print_json,
    run,
)
from maitred.wiring import open_auditing
from maitred.wording import near_names

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

_Names = Annotated[
    list[str],
    typer.Argument(
        metavar="SERVER|TOOL", help="Servers, or tools as search shows them.", autocompletion=complete_names
    ),
]


@dataclass(frozen=True, kw_only=True)
class _Switch:
    """What a name means: a tool, or a server if `tool` is empty; `name` is how messages call it."""

    name: str
    server: str
    tool: str = ""

    def to_json(self, *, enabled: bool, changed: bool) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "tool" if self.tool else "server",
            "server": self.server,
            "tool": self.tool,
            "enabled": enabled,
            "changed": changed,
        }


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(disable)
    app.command()(enable)


def disable(names: _Names, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Switch servers or tools off for all clients. A running gateway takes it over at once."""
    _switch(names, config, enabled=False, as_json=as_json)


def enable(names: _Names, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Switch servers or tools on again. A running gateway takes it over at once."""
    _switch(names, config, enabled=True, as_json=as_json)


def _switch(names: Sequence[str], config: ConfigOption, *, enabled: bool, as_json: bool) -> None:
    settings, viewer = prepare(config)
    acting(settings, "configure")
    path = config_path(config)
    wanted = list(dict.fromkeys(run(lambda: _find_all(settings, names, viewer))))
    wanted.sort(key=lambda one: bool(one.tool))  # servers come first, as the editor answers
    servers = [one.server for one in wanted if not one.tool]
    tools = [ToolKey(server=one.server, name=one.tool) for one in wanted if one.tool]
    changes = list(zip(wanted, switch(path, servers, tools, enabled=enabled), strict=True))
    run(lambda: _record(settings, viewer, [one for one, changed in changes if changed], enabled=enabled))
    if as_json:
        print_json([one.to_json(enabled=enabled, changed=changed) for one, changed in changes])
        return
    word = "enabled" if enabled else "disabled"
    for one, changed in changes:
        said = f"{word.capitalize()} {one.name}, in {path}." if changed else f"{one.name} is {word} already."
        out.note(Text(said))


async def _find_all(settings: Settings, names: Sequence[str], viewer: Viewer) -> list[_Switch]:
    """The servers and tools that some names mean; the whole name of a server means the server.

    Raises:
        SwitchNotFoundError: A name means neither.
        ConfigError: A name is that of a registered server.
    """
    if all(name in settings.servers for name in names):
        return [_Switch(name=name, server=name) for name in names]
    async with known_gateway(settings) as gateway:
        await gateway.warm()  # for unknown names, the index supplies the nearest ones
        return [_find(gateway, settings, name, viewer) for name in names]


def _find(gateway: "Gateway", settings: Settings, name: str, viewer: Viewer) -> _Switch:
    if name in settings.servers:
        return _Switch(name=name, server=name)
    servers = gateway.server_names(viewer)
    check_switchable(gateway.settings, name)
    try:
        tool = gateway.find(name, viewer)
    except ToolNotFoundError as error:
        nearest = near_names(name, [*servers, *error.nearest]) or error.nearest
        raise SwitchNotFoundError(name, nearest=nearest) from None
    return _Switch(name=tool.name, server=tool.server, tool=tool.key.name)


async def _record(settings: Settings, viewer: Viewer, changed: Sequence[_Switch], *, enabled: bool) -> None:
    """Write the switches into the audit trail."""
    async with open_auditing(settings) as auditing:
        for one in changed:
            action = "tool.change" if one.tool else "server.switch"
            await auditing.record(
                viewer, action, server=one.server, tool=one.tool, arguments={"enabled": enabled}
            )
