"""Mistyped commands and options: what the parser says about them, with the nearest name and the next step.

The parser's own classes have other places in each version of Typer, so they are recognized by what they have.
"""

import re
from typing import Any, Final

from rich.text import Text

from maitred.surfaces.cli.console import err
from maitred.wording import did_you_mean, one_of

_NO_COMMAND: Final = re.compile(r"No such command '(.*?)'\.?( Did you mean .*)?")
_NO_CHOICE: Final = re.compile(r"(.*): (?:Value error, )?'(.*)' is not one of (.*)", re.DOTALL)
_LISTED: Final = 8
_QUOTED: Final = re.compile(r"'([^']+)'")


def show_usage_error(error: Any) -> None:
    """Print how the command is used, and then what is wrong."""
    context = getattr(error, "ctx", None)
    if context is None:
        err.print(Text.assemble(("error: ", "red"), error.format_message()))
        return
    if type(error).__name__ == "NoArgsIsHelpError":
        err.print(error.format_message())
        return
    err.print(Text(context.get_usage()))
    err.print(Text(f"`{context.command_path} --help` says more.\n"))
    err.print(Text.assemble(("error: ", "red"), _message(error, context)))


def _message(error: Any, context: Any) -> str:
    command = context.command
    if option := getattr(error, "option_name", "") if hasattr(error, "possibilities") else "":
        return _no_such_option(option, context)
    message = str(error.format_message()).strip()
    if (found := _NO_COMMAND.fullmatch(message)) and hasattr(command, "list_commands"):
        known = command.list_commands(context)
        listed = (
            f"there is {one_of(known)}"
            if len(known) <= _LISTED
            else f"`{context.command_path} --help` lists all"
        )
        return f"No such command {found[1]!r}; {did_you_mean(found[1], known, otherwise=listed)}"
    if found := _NO_CHOICE.fullmatch(message):
        known = [one for one in _QUOTED.findall(found[3]) if one]
        hint = did_you_mean(found[2], known, lead="; ")
        return f"{found[1]}: {found[2]!r} is not {one_of(known)}{hint}" if known else message
    return message.replace("Value error, ", "")


def _no_such_option(option: str, context: Any) -> str:
    """The mistake, and the nearest option; after a program's name, how to pass options on to it."""
    command = context.command
    known = [name for one in command.get_params(context) for name in one.opts if name.startswith("--")]
    said = f"No such option: {option}"
    if hint := did_you_mean(option, known, quoted=str) if option.startswith("--") else "":
        return f"{said}; {hint}"
    if any(getattr(one, "metavar", None) == "-- COMMAND ARGS" for one in command.params):
        return (
            f"{said}; what belongs to the program goes after `--`: `{context.command_path} NAME -- COMMAND …`"
        )
    return f"{said}; `{context.command_path} --help` lists them"
