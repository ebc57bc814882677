"""Bring a store to the present tables with Alembic; imported only when a store is behind."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from maitred.errors import ConfigError


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def migrate(connection: Connection, revision: str | None) -> None:
    """Run every missing migration inside the open transaction of `connection`.

    Raises:
        ConfigError: The store was written by a newer maitred.
    """
    config = _config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        fault = (
            f"it was written by a newer maitred (revision {revision}); upgrade maitred, or set `catalog.path`"
            " to another file"
        )
        raise ConfigError("the catalog", [fault])
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
