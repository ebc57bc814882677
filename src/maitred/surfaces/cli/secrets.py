"""`maitred secret`: keep secrets in the keyring of the system, list their names, remove them.

No command prints a secret. A configuration uses one as `${keyring:NAME}`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from maitred.config.interpolate import names_in, texts_in
from maitred.config.load import load
from maitred.config.secret_store import LONGEST_SECRET, SecretStore, SecretStoreError, check_name
from maitred.errors import ConfigError
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    make_table,
    may_configure,
    out,
    print_json,
    print_table,
)

secret_app = typer.Typer(
    help="Keep secrets in the keyring of the system, list their names, remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name, as in ${keyring:NAME}, such as github/TOKEN.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(secret_app, name="secret")


@secret_app.command("set")
def set_secret(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Keep a secret. A terminal is asked for it and does not show it; otherwise it is standard input."""
    may_configure(config)
    try:
        check_name(name)
        SecretStore().check()  # before a person types the secret
        title = SecretStore().write(name, _value(name))
    except SecretStoreError as error:
        raise ConfigError("secret", [str(error)]) from error
    if as_json:
        print_json({"name": name, "keyring": title})
        return
    out.note(Text(f"Kept {name} in the keyring ({title}). `${{keyring:{name}}}` uses it."))


@secret_app.command("list")
def list_secrets(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the names of the secrets, and what uses each."""
    may_configure(config)
    users = _users_by_secret(config_path(config))
    try:
        names = SecretStore().names()
    except SecretStoreError as error:
        raise ConfigError("secret", [str(error)]) from error
    if as_json:
        print_json({"secrets": [{"name": name, "used_by": users.get(name, [])} for name in names]})
        return
    if not names:
        out.print("There are none. `maitred secret set NAME` keeps one.")
        return
    print_table(
        make_table("", ("secret", "used by"), [(name, ", ".join(users.get(name, ()))) for name in names])
    )


@secret_app.command()
def remove(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Remove a secret from the keyring."""
    may_configure(config)
    try:
        SecretStore().remove(name)
    except SecretStoreError as error:
        raise ConfigError("secret", [str(error)]) from error
    used = _users_by_secret(config_path(config)).get(name, ())
    if as_json:
        print_json({"name": name, "used_by": list(used)})
        return
    remark = f" It is still used by {', '.join(used)}." if used else ""
    out.note(Text(f"Removed {name} from the keyring.{remark}"))


def _value(name: str) -> str:
    """The secret that the user types, or standard input without its last newline."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"Secret {name} (not shown)", hide_input=True))
    text = sys.stdin.read(LONGEST_SECRET + 2)
    return text.removesuffix("\n").removesuffix("\r")


def _users_by_secret(path: Path) -> Mapping[str, Sequence[str]]:
    """The servers and other settings that use each secret, as far as the configuration can be read."""
    try:
        settings = load(path) if path.exists() else None
    except ConfigError:  # its faults are the matter of other commands
        return {}
    found: dict[str, list[str]] = {}
    for keys, text in texts_in(settings):
        user = keys[1] if keys[0] == "servers" else ".".join(keys)
        for name in names_in(text, "keyring"):
            found.setdefault(name, []).append(user)
    return {name: list(dict.fromkeys(users)) for name, users in found.items()}
