"""Where the configuration is looked for, and where maitred keeps what is its own; quick to import."""

import os
from collections.abc import Mapping
from pathlib import Path

from maitred.errors import ConfigError


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the configuration is looked for when no `--config` is given.

    Never the working directory: a file found there could start any program.

    Raises:
        ConfigError: There is no home folder.
    """
    if chosen := environ.get("MAITRED_CONFIG"):
        return Path(chosen).expanduser()
    return _folder(environ, "XDG_CONFIG_HOME", ".config") / "maitred.yaml"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's folder for catalogs, logs and what else maitred writes by itself.

    Raises:
        ConfigError: There is no home folder.
    """
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, all for their owner alone, whatever the umask.

    `Path.mkdir(parents=True)` gives the mode to the last one only, and who may write to a folder may put away
    what is in it.

    Raises:
        OSError: One cannot be made, or a file has its name.
    """
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Our folder below one of the user's."""
    if chosen := environ.get(variable):
        return Path(chosen) / "maitred"
    try:
        return Path.home() / default / "maitred"
    except RuntimeError:
        fault = f"this account has no home folder; set HOME, or {variable}, to a folder"
        raise ConfigError("HOME", [fault]) from None
