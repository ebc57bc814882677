"""Bring a database to the present tables with Alembic; imported only when a database is behind."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from maitred.errors import ConfigError

_BEFORE_RELEASE: Final = frozenset({"0001", "0002", "0003", "0004"})
"""Revisions that only development versions wrote; 0005 holds what they led to."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def migrate(connection: Connection, revision: str | None) -> None:
    """Run every missing migration inside the open transaction of `connection`.

    Raises:
        ConfigError: The database was written by a newer maitred, or by one from before the first release.
    """
    config = _config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision in _BEFORE_RELEASE:
        fault = (
            f"a maitred from before the first release wrote it (revision {revision}); it is left as it is:"
            " move it away, or set `catalog.path` to another file"
        )
        raise ConfigError("the catalog", [fault])
    if revision is not None and revision not in known:
        fault = (
            f"it was written by a newer maitred (revision {revision}); upgrade maitred, or set `catalog.path`"
            " to another file"
        )
        raise ConfigError("the catalog", [fault])
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
