"""The `maitred` command and its subcommands; a subcommand's module is imported only when it runs."""

import gc
import re
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from maitred.errors import MaitredError
from maitred.wording import did_you_mean

COMMANDS = {
    "serve": "serve",
    "ui": "ui",
    "status": "status",
    "stop": "status",
    "add": "servers",
    "remove": "servers",
    "list": "servers",
    "import": "imports",
    "search": "tools",
    "info": "tools",
    "call": "tools",
    "chain": "chains",
    "chains": "chains",
    "menu": "menu",
    "categories": "menu",
    "tools": "choices",
    "disable": "switches",
    "enable": "switches",
    "profiles": "profiles",
    "mediate": "mediate",
    "register": "admission",
    "unregister": "admission",
    "approvals": "admission",
    "approve": "admission",
    "reject": "admission",
    "allow": "allow",
    "calls": "held_calls",
    "suspend": "admission",
    "resume": "admission",
    "explain": "admission",
    "schema": "admission",
    "logs": "server_logs",
    "restart": "server_control",
    "refresh": "server_control",
    "login": "login",
    "logout": "login",
    "stats": "stats",
    "tiers": "stats",
    "tokens": "tokens",
    "budget": "stats",
    "audit": "audit",
    "browser": "browser",
    "doctor": "doctor",
    "eval": "eval",
    "demo": "demo",
    "entry": "entry",
    "connect": "connect",
    "disconnect": "connect",
}


class _Commands(TyperGroup):
    """The subcommands by name; imports one module to run one, and all modules to list them.

    The base class is Click's; Typer includes it under a name that differs by version.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        part = typer.Typer(rich_markup_mode=None, add_completion=False)
        import_module(f"maitred.surfaces.cli.{COMMANDS[cmd_name]}").register(part)
        return typer.main.get_group(part).commands[cmd_name]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        own = {name for one in self.get_params(ctx) for name in one.opts}
        words = [word.partition("=")[0] for word in args]
        first = next((word for word in words if word not in own), "")
        command = next((word for word in words if word in COMMANDS), "")
        is_option = first.startswith("--") or re.fullmatch("-[A-Za-z]", first)  # `-vh` is two of our own
        if is_option and (command or first in ("-c", "--config")):
            place = f"`maitred {command or 'COMMAND'} {first} …`"
            ctx.fail(f"No such option: {first}; an option of a command goes after the command: {place}")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            hint = did_you_mean(name, COMMANDS, otherwise="`maitred --help` lists all")
            ctx.fail(f"No such command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="maitred",
    cls=_Commands,
    help="A gateway between AI agents and many MCP servers.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from maitred import __version__  # noqa: PLC0415  # reads the installed package's metadata

        typer.echo(f"maitred {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # its callback handles it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what happens to standard error.")
    ] = False,
) -> None:
    from maitred.surfaces.cli.logs import set_up_logging  # noqa: PLC0415  # not needed for `--help`

    set_up_logging(verbose=verbose)


def main() -> None:
    """Run the command line. An expected error ends the process with a message and exit code 2."""
    gc.disable()  # until the command runs: collections would take a tenth of the start and free nothing
    try:
        app(standalone_mode=True)
    except MaitredError as error:
        from maitred.surfaces.cli.console import fail  # noqa: PLC0415

        sys.exit(fail(error).exit_code)
