"""`maitred ui`: opens the web interface in a browser, at a gateway that runs, or at one that it starts."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from maitred.errors import DaemonError
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    err,
    print_json,
    settings_of,
    token_of_environment,
)
from maitred.surfaces.daemon.control import ask_for_pages, start_shared

_SERVE_HTTP = "maitred serve --transport http"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ui)


def ui(
    config: ConfigOption = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and open no browser.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the web interface. The address is good once, for 30 seconds."""
    path, token = config_path(config), token_of_environment()
    address = ask_for_pages(path, token) or _started(path, token)
    if as_json:
        print_json({"address": address})
    else:
        typer.echo(address)
    if not no_open and not webbrowser.open(address):
        err.print("No browser can be opened here; open the address yourself within 30 seconds.")


def _started(config: Path, token: str) -> str:
    """The address at the gateway that clients share, which is started.

    Raises:
        DaemonError: The configuration turns sharing off, or no gateway can be started.
    """
    if not settings_of(config).daemon.enabled:
        raise DaemonError(
            f"no gateway serves {config.absolute()}, and its `daemon.enabled` is false; "
            f"start one with `{_SERVE_HTTP}`, then type `maitred ui` again"
        )
    connection = start_shared(config, token)
    try:
        address = ask_for_pages(config, token)
    finally:
        connection.close()
    if not address:
        raise DaemonError("the gateway that was started ended again; `maitred status` may say why")
    return address
