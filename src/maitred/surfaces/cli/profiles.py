"""`maitred profiles`: the profiles of the configuration, with what each of them has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    known_gateway,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
)

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import ProfileContent


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(profiles)


def profiles(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the profiles of the configuration: the tools and tokens of each, and what matches nothing."""
    settings, viewer = prepare(config)

    async def go() -> "Sequence[ProfileContent]":
        if not settings.profiles:
            return []
        async with known_gateway(settings) as gateway:
            return gateway.profiles(viewer)

    found = run(go)
    if as_json:
        print_json({"profiles": [one.to_json() for one in found]})
    elif not found:
        out.note("The configuration has no profiles; `maitred docs profiles` says how to write one.")
    else:
        _show(found)


def _show(found: "Sequence[ProfileContent]") -> None:
    rows = [
        (
            *(one.name, f"{one.tools:,}", f"{one.cost_tokens:,}", one.mode),
            *(", ".join(one.servers), ", ".join(one.unmatched)),
        )
        for one in found
    ]
    headings = ("profile", "tools", "tokens", "list", "servers", "matches nothing")
    print_table(make_table("", headings, rows, numbers={"tools", "tokens"}))
