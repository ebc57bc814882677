"""Bring a database to the present tables with Alembic; imported only if a database has older tables."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from maitred.errors import ConfigError

_BEFORE_RELEASE: Final = frozenset({"0001", "0002", "0003", "0004"})
"""Revisions of development versions only; 0005 makes the tables to which they led."""

_OTHER_FILE: Final = "set `catalog.path` to another file"
_OTHER_DATABASE: Final = "set `catalog.url` to another database"


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
    other = _OTHER_DATABASE if connection.dialect.name == "postgresql" else _OTHER_FILE
    if revision in _BEFORE_RELEASE:
        fault = (
            f"a maitred from before the first release wrote it (revision {revision}); it is left as it is:"
            f" move it away, or {other}"
        )
        raise ConfigError("the catalog", [fault])
    if revision is not None and revision not in known:
        fault = f"it was written by a newer maitred (revision {revision}); upgrade maitred, or {other}"
        raise ConfigError("the catalog", [fault])
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
