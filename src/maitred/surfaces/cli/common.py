"""What the commands share: options, output, and how errors end a command."""

import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import anyio
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from maitred.config.load import load
from maitred.config.places import default_path
from maitred.config.settings import Settings
from maitred.errors import ConfigError, MaitredError, NotAllowedError
from maitred.model.access import Ability, Grant, refusal
from maitred.model.principals import LOCAL_USER, Viewer
from maitred.surfaces.cli.output import Screen, in_json
from maitred.wiring import make_grants, open_gateway, plainly
from maitred.wording import did_you_mean

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

T = TypeVar("T")

out = Screen()
err = Screen(stderr=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file: maitred.yaml or a client's mcpServers JSON."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

AS_TOKEN: Final = "MAITRED_AS_TOKEN"  # noqa: S105  # a name
"""The variable with the token as whose bearer commands act."""

_DISCOVERY_S = 600.0
_SHOW_AFTER_S = 0.5
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())


def config_path(given: Path | None) -> Path:
    """The configuration file: as given, else $MAITRED_CONFIG, else the user's own."""
    return given or default_path()


def check_servers(settings: Settings, names: Iterable[str]) -> None:
    """Refuse names of servers that are not configured.

    Raises:
        ConfigError: It lists them all, with names that they may have meant.
    """
    faults = [
        f"there is no server {name!r}{did_you_mean(name, settings.servers, lead='; ')}"
        for name in sorted(set(names) - set(settings.servers))
    ]
    if faults:
        raise ConfigError(str(settings.source), faults)


def settings_of(given: Path | None) -> Settings:
    """Load the configuration of a command."""
    return load(config_path(given))


def acting(settings: Settings, *abilities: Ability, token: str = "") -> Viewer:
    """Who a command acts for: the user of this machine, or the bearer of a token that was set.

    It is asked once, before the command's coroutine runs; whoever does not have the abilities is refused.

    Raises:
        ConfigError: The token is not valid.
        NotAllowedError: An ability is missing.
    """
    viewer = LOCAL_USER
    if token := token or token_of_environment():
        grant = anyio.run(make_grants(settings).grant_of, token)
        if not isinstance(grant, Grant):
            raise ConfigError(AS_TOKEN, [grant.reason])
        viewer = Viewer(grant=grant)
    for ability in abilities:
        if why := refusal(viewer.grant, ability):
            raise NotAllowedError(why)
    return replace(viewer, surface="cli")


def token_of_environment() -> str:
    """The token that a command is to be for; one that is set and empty was meant to be one.

    Raises:
        ConfigError: It is empty.
    """
    token = os.environ.get(AS_TOKEN)
    if token == "":
        raise ConfigError(AS_TOKEN, ["is set and empty; unset it, or give a token"])
    return token or ""


def may_configure(given: Path | None) -> None:
    """Refuse who may not change the configuration; the file need not be there yet.

    Raises:
        ConfigError: A token is set that is not valid.
        NotAllowedError: Its bearer may not change the configuration.
    """
    if token_of_environment():
        acting(settings_of(given), "configure")


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine. Garbage is collected from here on."""
    gc.enable()

    async def main() -> T:
        async with plainly():
            return await function()

    return anyio.run(main)


async def warmed(gateway: "Gateway") -> None:
    """Wait until every tool can be found by meaning; a bar shows how far it is where that takes a while."""
    await gateway.warm()
    with Progress(*COLUMNS, console=err, transient=True) as bars:
        task = bars.add_task("reading tools for search", total=None, visible=False)

        async def show() -> None:
            while True:
                await anyio.sleep(_SHOW_AFTER_S)
                now = gateway.semantics
                bars.update(task, completed=now.done, total=now.total, visible=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show)
            await gateway.warm(wholly=True)
            tasks.cancel_scope.cancel()


def fail(error: MaitredError) -> typer.Exit:
    """Print an error as a person reads it; the exit that the command ends with."""
    err.print(Text.assemble(("error: ", "red"), str(error)))
    return typer.Exit(2)


def remember(change: Callable[[], None]) -> None:
    """Change what is remembered beside what a command did; where that fails, it says so and goes on."""
    try:
        change()
    except ConfigError as error:
        err.print(Text.assemble(("not remembered: ", "yellow"), str(error)))


def unwritable(fault: str) -> str:
    """What a fault of the catalog comes to, in words that go on from its name."""
    return f"cannot be written: {fault}; what is known is served"


def print_json(value: Any) -> None:
    """Print a value for programs."""
    typer.echo(in_json(value, indent=2))


@asynccontextmanager
async def known_gateway(settings: Settings) -> "AsyncIterator[Gateway]":
    """A gateway whose servers have all been discovered once; says what it is waiting for."""
    async with open_gateway(settings, asks_models=False) as gateway:
        if not await gateway.settled(0):
            with err.status("getting to know the servers that are new (first time only) …"):
                await gateway.settled(_DISCOVERY_S)
        yield gateway
