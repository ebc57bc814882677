"""`maitred restart` and `refresh`: start servers again, and list them again."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.model.access import Viewer
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    err,
    gateway_of,
    out,
    prepare,
    print_json,
    run,
    show_wait,
    token_of_environment,
    visible,
)
from maitred.surfaces.cli.hosted_command import hosted_command
from maitred.surfaces.daemon.command_client import why_not_run
from maitred.surfaces.daemon.control import gateways
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import ServerRefresh

_MOST_NAMES = 10


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(restart)
    app.command()(refresh)


def restart(
    servers: Annotated[
        list[str],
        typer.Argument(metavar="SERVER...", help="Servers to start again.", autocompletion=complete_servers),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """End servers of the running gateway and start them again. Exits with 1 when one does not start."""
    settings, viewer = prepare(config)
    if hosted_command() is None:
        run(lambda: _authorize(settings, servers, viewer))
        refuse_without_gateway(config, "there is nothing to restart")

    async def go() -> "Sequence[ServerRefresh]":
        async with (
            gateway_of(settings) as gateway,
            show_wait(f"restarting {count_of(len(servers), 'server')}"),
        ):
            return await gateway.restart(servers, viewer)

    _show(run(go), "restarted", "is not restarted", as_json=as_json)


def refresh(
    servers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SERVER]...",
            help="Servers to list again; none means all.",
            autocompletion=complete_servers,
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask servers for their tools again, and say what changed. Exits with 1 when one cannot be listed."""
    settings, viewer = prepare(config)

    async def go() -> "Sequence[ServerRefresh]":
        what = f"listing {_count(settings, servers)}"
        async with gateway_of(settings, discovers=False) as gateway, show_wait(what):
            return await gateway.refresh(servers or [], viewer)

    _show(run(go), "listed", "cannot be listed", as_json=as_json)


def refuse_without_gateway(config: ConfigOption, then: str) -> None:
    """End the command, since no gateway runs that could do it: it says why, and what to do.

    Raises:
        Exit: Always.
    """
    path = config_path(config)
    running = gateways(path, token_of_environment())
    if not running:
        said = f"No gateway serves {path.absolute()} now, so none of its servers runs, and {then}. "
        said += "A client starts one; `maitred serve --transport http` does, too."
    else:
        why = why_not_run(path, os.environ) or "`maitred -v` before the command says why"
        said = f"The gateway of process {running[0].pid} does not take this command from here: {why}."
    err.print(Text(said))
    raise typer.Exit(1)


async def _authorize(settings: Settings, servers: Sequence[str], viewer: Viewer) -> None:
    """Refuse who may not restart these servers, before anything is said about gateways that run."""
    async with gateway_of(settings, discovers=False) as gateway:
        gateway.authorize_restart(servers, viewer)


def _count(settings: Settings, servers: Sequence[str] | None) -> str:
    return count_of(len(servers or settings.servers), "server")


def _show(found: "Sequence[ServerRefresh]", done: str, not_done: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"servers": [one.to_json() for one in found]})
    else:
        for one in found:
            (out.print if one.error else out.note)(
                Text(f"{visible(one.server)}: {_line(one, done, not_done)}")
            )
            for note in one.notes:
                out.note(Text(f"    {visible(note)}", style="yellow"))
    if any(one.error for one in found):
        raise typer.Exit(1)


def _line(one: "ServerRefresh", done: str, not_done: str) -> str:
    if one.error:
        return f"{not_done}: {visible(one.error)}"
    kinds = (("added", one.added), ("changed", one.changed), ("removed", one.removed))
    changes = [f"{len(names):,} {word} ({_some(names)})" for word, names in kinds if names]
    return f"{done}, {count_of(one.tools, 'tool')}; {', '.join(changes) or 'none changed'}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
