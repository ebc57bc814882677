"""The `maitred` command and its subcommands; a subcommand's module is imported only when it runs."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from maitred.errors import MaitredError
from maitred.surfaces.cli.commands import COMMANDS, GROUPS, MEASURE, SHOW_ALL
from maitred.surfaces.cli.completion import COMPLETE_VARIABLE, Completion
from maitred.surfaces.cli.options import QuietOption, VerboseOption, apply_verbosity, verbosity_options
from maitred.surfaces.cli.verbosity import reset_verbosity
from maitred.wording import did_you_mean

USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]
"""What the parser raises for a command line that is wrong; where the class is differs by version."""


class _Commands(TyperGroup):
    """The subcommands by name; imports one module to run one, and none to list them.

    The base class is Click's; Typer includes it under a name that differs by version.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        part = typer.Typer(rich_markup_mode=None, add_completion=False)
        import_module(f"maitred.surfaces.cli.{COMMANDS[cmd_name].module}").register(part)
        command = typer.main.get_group(part).commands[cmd_name]
        for leaf in _leaves(command):
            leaf.params = [*leaf.params, *verbosity_options()]
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shows_all = ctx.meta.get(SHOW_ALL, False)
        width = max(map(len, COMMANDS))  # the same for each group
        for group in GROUPS:
            if group == MEASURE and not shows_all:
                continue
            with formatter.section(group):
                entries = [(name, one) for name, one in COMMANDS.items() if one.group == group]
                formatter.write_dl([(name.ljust(width), one.about) for name, one in entries])
        if not shows_all:
            names = ", ".join(name for name, one in COMMANDS.items() if one.group == MEASURE)
            formatter.write_paragraph()
            formatter.write_text(f"`maitred help --all` also lists the commands that measure: {names}.")

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [Completion(name, one.about) for name, one in COMMANDS.items() if name.startswith(incomplete)]

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


def _leaves(command: Any) -> Iterator[Any]:
    """The commands that can be run: a command, or those of a group, and the group if it runs by itself."""
    inner = getattr(command, "commands", {})
    for one in inner.values():
        yield from _leaves(one)
    if not inner or command.invoke_without_command:
        yield command


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
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    apply_verbosity()


def main() -> None:
    """Run the command line. An expected error ends the process with a message and exit code 2."""
    gc.disable()  # until the command runs: collections would take a tenth of the start and free nothing
    reset_verbosity()
    if COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415  # for the shell only

        completion_init()
    try:
        code = app(prog_name="maitred", standalone_mode=False, complete_var=COMPLETE_VARIABLE)
    except MaitredError as error:
        from maitred.surfaces.cli.console import fail  # noqa: PLC0415

        sys.exit(fail(error).exit_code)
    except typer.Abort:
        typer.echo("Aborted!", err=True)
        sys.exit(1)
    except USAGE_ERROR as error:
        from maitred.surfaces.cli.usage_errors import show_usage_error  # noqa: PLC0415

        show_usage_error(error)
        sys.exit(2)
    sys.exit(code or 0)
