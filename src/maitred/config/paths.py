"""The folders of the configuration file and of maitred's own files; quick to import."""

import os
from collections.abc import Mapping
from pathlib import Path

from maitred.errors import ConfigError


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the configuration file if there is no `--config`.

    Never the working directory: a file there could start any program.

    Raises:
        ConfigError: There is no home folder.
    """
    if chosen := environ.get("MAITRED_CONFIG"):
        return Path(chosen).expanduser()
    return _folder(environ, "XDG_CONFIG_HOME", ".config") / "maitred.yaml"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder for catalogs, logs and other files that maitred writes.

    Raises:
        ConfigError: There is no home folder.
    """
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, all for the owner alone, with any umask.

    `Path.mkdir(parents=True)` applies the mode to the last one only. A user with write permission on a folder
    can replace its content.

    Raises:
        OSError: A folder cannot be made, or a file has its name.
    """
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Return our folder below one of the user's."""
    if chosen := environ.get(variable):
        return Path(chosen) / "maitred"
    try:
        return Path.home() / default / "maitred"
    except RuntimeError:
        fault = f"this account has no home folder; set HOME, or {variable}, to a folder"
        raise ConfigError("HOME", [fault]) from None
