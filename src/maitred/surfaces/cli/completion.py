"""`maitred completion`: the script by which a shell completes commands, options and names.

A completion starts no server. Names come from the configuration file and from the catalog. Where either
cannot be read, there are no names, since a shell has no place for an error.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from maitred.errors import MaitredError
from maitred.model.details import DETAILS
from maitred.surfaces.cli.commands import COMMANDS

if TYPE_CHECKING:  # reading a configuration takes half a second to import
    from maitred.config.settings import Settings

COMPLETE_VARIABLE: Final = "_MAITRED_COMPLETE"
"""The variable by which a shell asks this program for completions."""

_PLAIN: Final = re.compile(r"[\w./@:+-]+")
"""Names that mean the same in each shell without quotes; others are not completed."""

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class Completion:
    """A word that a shell may complete to; the names are those of the parser's own class."""

    value: str
    help: str
    type: str = "plain"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell to complete in.")],
) -> None:
    """Print the script that completes commands, options and names in your shell. docs/cli.md installs it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415  # only needed here

    typer.echo(get_completion_script(prog_name="maitred", complete_var=COMPLETE_VARIABLE, shell=shell))


def complete_commands(incomplete: str) -> list[str]:
    """Names of commands."""
    return _beginning(COMMANDS, incomplete)


def complete_clients(incomplete: str) -> list[str]:
    """Names of MCP clients."""
    from maitred.config.clients.table import CLIENT_IDS  # noqa: PLC0415  # as above

    return _beginning(CLIENT_IDS, incomplete)


def complete_pages(incomplete: str) -> list[str]:
    """Names of pages of the documentation."""
    from maitred.surfaces.cli.doc_pages import pages  # noqa: PLC0415  # as above

    return _beginning(sorted(pages()), incomplete)


def complete_transports(incomplete: str) -> list[str]:
    """How clients reach the gateway; that of the gateway in the background is not for people."""
    return _beginning(("stdio", "http"), incomplete)


def complete_details(incomplete: str) -> list[str]:
    """Detail levels."""
    return _beginning(DETAILS, incomplete)


def complete_servers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of servers."""
    return _names(ctx, incomplete, lambda settings: settings.servers)


def complete_tools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Published names of tools, as the catalog has them."""
    return _names(ctx, incomplete, _tools)


def complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of servers, then those of tools."""
    return _names(ctx, incomplete, lambda settings: [*settings.servers, *_tools(settings)])


def complete_profiles(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of profiles."""
    return _names(ctx, incomplete, lambda settings: settings.profiles)


def complete_categories(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of categories."""

    def names(settings: "Settings") -> list[str]:
        from maitred.config.taxonomy import merge_categories  # noqa: PLC0415  # as above

        return [one.name for one in merge_categories(settings.categories)]

    return _names(ctx, incomplete, names)


def complete_paths(ctx: typer.Context, incomplete: str) -> list[str]:
    """Paths of the menu."""
    paths = ["servers", "categories"]
    paths += [f"server/{name}" for name in complete_servers(ctx, "")]
    paths += [f"category/{name}" for name in complete_categories(ctx, "")]
    return _beginning(paths, incomplete)


def _tools(settings: "Settings") -> Iterable[str]:
    from maitred.wiring import known_tool_names  # noqa: PLC0415  # as above

    return known_tool_names(settings)


def _names(ctx: typer.Context, incomplete: str, names: "Callable[[Settings], Iterable[str]]") -> list[str]:
    from maitred.config.load import load  # noqa: PLC0415  # as above
    from maitred.config.paths import default_path  # noqa: PLC0415

    given = ctx.params.get("config")
    try:
        settings = load(Path(given) if given else default_path())
        return [name for name in _beginning(names(settings), incomplete) if _PLAIN.fullmatch(name)]
    except MaitredError:
        return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
