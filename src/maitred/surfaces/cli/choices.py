"""`maitred tools`: single tools that the operator switched off, pinned or moved; switches them off, and pins.

It writes the configuration file without a gateway, so it checks itself whether the user may configure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from maitred.config.edit_choices import ToolChange, change_choices
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    config_path,
    find_tools,
    known_gateway,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
)
from maitred.surfaces.cli.options import tools_option
from maitred.wiring import open_auditing
from maitred.wording import quote_input

_CHANGES: Mapping[str, tuple[ToolChange, str]] = {
    "off": (ToolChange(enabled=False), "Switched off {name}, in {path}."),
    "on": (ToolChange(enabled=True), "Switched on {name}, in {path}."),
    "pin": (ToolChange(pinned=True), "Pinned {name}, in {path}."),
    "unpin": (ToolChange(pinned=False), "Unpinned {name}, in {path}."),
}
"""What each option changes, and what the command says of it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(tools)


def tools(
    config: ConfigOption = None,
    off: Annotated[list[str] | None, tools_option("Switch this tool off for all; repeatable.")] = None,
    on: Annotated[list[str] | None, tools_option("Undo --off for this tool; repeatable.")] = None,
    pin: Annotated[list[str] | None, tools_option("Put it at the top of the hot list; repeatable.")] = None,
    unpin: Annotated[list[str] | None, tools_option("Undo --pin for this tool; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tools that you switched off, pinned or moved. --off, --on, --pin and --unpin change that."""
    settings, viewer = prepare(config)
    wanted = [
        (what, name)
        for what, names in (("off", off), ("on", on), ("pin", pin), ("unpin", unpin))
        for name in names or ()
    ]
    if wanted:
        acting(settings, "configure")
        changed = _change(settings, config_path(config), viewer, wanted)
        if as_json:
            print_json(changed)
            return
        for one in changed:
            said = _CHANGES[one["changed"]][1]
            out.note(Text(said.format(name=one["name"], path=config_path(config))))
        return
    found = run(lambda: _decided(settings, viewer))
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        out.note("No tool is switched off, pinned or moved; see `maitred tools --help`.")
        return
    rows = [
        (
            *(one["name"], "on" if one["enabled"] else "off"),
            *("pinned" if one["pinned"] else "", one["category"]),
        )
        for one in found
    ]
    print_table(make_table("", ("tool", "state", "hot list", "moved to"), rows))


async def _decided(settings: Settings, viewer: Viewer) -> list[dict[str, Any]]:
    """The known tools about which the configuration decides something, by name."""
    async with known_gateway(settings) as gateway:
        known = gateway.catalog(viewer).by_key
        choices = gateway.tool_choices(viewer)
        found = [
            {
                "name": known[key].name,
                "server": key.server,
                "raw_name": key.name,
                "enabled": choice.enabled,
                "pinned": choice.pinned,
                "category": choice.category,
            }
            for key, choice in choices.items()
            if not choice.enabled or choice.pinned or choice.category
        ]
    return sorted(found, key=lambda one: str(one["name"]))


def _change(
    settings: Settings, path: Path, viewer: Viewer, wanted: Sequence[tuple[str, str]]
) -> list[dict[str, str]]:
    """Write the choices into the configuration file, if all tools exist; return what changed."""
    found = run(lambda: find_tools(settings, [name for _, name in wanted], viewer))
    changes: dict[ToolKey, ToolChange] = {}
    for (what, name), tool in zip(wanted, found, strict=True):
        before, decisions = changes.get(tool.key, ToolChange()), _CHANGES[what][0].decisions
        if before.decisions.keys() & decisions:
            raise ConfigError("maitred tools", [f"{quote_input(name)} is decided about more than once"])
        changes[tool.key] = replace(before, **decisions)
    for key, change in changes.items():
        change_choices(path, key, change.values)
    run(lambda: _record(settings, viewer, changes))
    return [{"name": tool.name, "changed": what} for (what, _), tool in zip(wanted, found, strict=True)]


async def _record(settings: Settings, viewer: Viewer, changes: Mapping[ToolKey, ToolChange]) -> None:
    """Write the choices into the audit trail."""
    async with open_auditing(settings) as auditing:
        for key, change in changes.items():
            await auditing.record(
                viewer, "tool.change", server=key.server, tool=key.name, arguments=change.decisions
            )
