"""`maitred budget`: what each answer of the menu costs over your own tools, and whether that is allowed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from maitred.config.settings import Settings
from maitred.surfaces.cli.common import (
    ConfigOption,
    JsonOption,
    acting,
    err,
    known_gateway,
    out,
    print_json,
    run,
    settings_of,
    warmed,
)
from maitred.surfaces.cli.tables import make_table, print_table

if TYPE_CHECKING:  # it takes a second to import, which `--help` need not wait for
    from maitred.evaluation.budget import Measured


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(budget)


def budget(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Measure every answer of the menu in tokens (o200k); exits with 1 when one is over its limit."""
    settings = settings_of(config)
    acting(settings, "watch")
    found = run(lambda: _measured(settings))
    over = [one for one in found if not one.ok]
    if as_json:
        print_json({"ok": not over, "measured": [one.to_json() for one in found]})
    else:
        rows = [
            (one.name, f"{one.tokens:,}", f"{one.limit:,}", "" if one.ok else "OVER", one.detail)
            for one in found
        ]
        headings = ("answer", "tokens", "at most", "", "the worst")
        print_table(make_table("", headings, rows, numbers=("tokens", "at most")))
        out.print(f"{len(over)} of {len(found)} over their limit" if over else "All within their limits.")
    if over:
        raise typer.Exit(1)


async def _measured(settings: Settings) -> "Sequence[Measured]":
    # they bring the gateway, see above
    from maitred.evaluation.budget import measure  # noqa: PLC0415
    from maitred.surfaces.mcp.metatools import definitions  # noqa: PLC0415

    async with known_gateway(settings) as gateway:
        await warmed(gateway)
        with err.status("asking for every page …"):
            return await measure(gateway, definitions)
