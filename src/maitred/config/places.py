"""Where the configuration is looked for, and where maitred keeps what is its own; quick to import."""

import os
from collections.abc import Mapping
from pathlib import Path


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the configuration is looked for when no `--config` is given.

    Never the working directory: a file found there could start any program.
    """
    if chosen := environ.get("MAITRED_CONFIG"):
        return Path(chosen).expanduser()
    home = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "maitred" / "maitred.yaml"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's folder for catalogs, logs and what else maitred writes by itself."""
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "maitred"
