"""`maitred upgrade`: how this installation is replaced by a newer one, and whether there is one.

It installs nothing. It asks an index only with `--check`, and only one that the operator configured.
"""

import re
from typing import Annotated, Final

import typer
from rich.text import Text

from maitred import __version__
from maitred.errors import ConfigError
from maitred.installation import find_installation
from maitred.surfaces.cli.console import ConfigOption, JsonOption, out, print_json, run, settings_of, visible
from maitred.surfaces.cli.package_index import newest_release, version_key

_NEW_WHEEL: Final = "NEW_WHEEL"
"""What a person replaces by the file or the address of a wheel."""
_OFF: Final = (
    "names no index, so nothing was asked: set it to the page of maitred on an index that you trust"
    " (`maitred docs install`)"
)
_OWN: Final = re.compile(r"([\d.]+\d(?:\.post\d+)?)([^+]*)")
"""A version, and what makes it a pre-release of it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(upgrade)


def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Ask the index of the configuration for a newer version.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how to replace this installation by a newer version. Installs nothing."""
    here = find_installation()
    found = None
    if check:
        settings = settings_of(config)
        if not settings.upgrade.url:
            raise ConfigError("upgrade.url", [_OFF])
        found = run(lambda: newest_release(settings.upgrade.url))
    is_newer = found is not None and _is_newer(found.version)
    command = here.upgrade_command(found.url if found and is_newer else _NEW_WHEEL)
    if as_json:
        newest = found.version if found else None
        print_json({
            "version": __version__, "way": here.way, "checked": check, "newest": newest, "newer": is_newer,
            "command": command,
        })  # fmt: skip
        return
    out.print(Text(f"maitred {__version__}, installed by {here.title}"))
    if check and not is_newer:
        out.print(Text("This is the newest version." if found else "The index has no version of it."))
        return
    if found and is_newer:
        out.print(Text(f"{visible(found.version)} is there. To install it:"))
    else:
        out.print(Text(f"With the file or the address of a newer wheel as {_NEW_WHEEL}:"))
    out.print(Text(f"    {visible(command)}"))
    if not here.is_lasting:
        out.print("Then `maitred connect` once more: the entries of clients name the wheel of today.")


def _is_newer(version: str) -> bool:
    """Whether a release is newer than what runs; a pre-release is older than its release."""
    own, key = _OWN.match(__version__), version_key(version)
    own_key = version_key(own[1]) if own else None
    if key is None or own is None or own_key is None:
        return key is not None
    return key > own_key or (key == own_key and bool(own[2]))
