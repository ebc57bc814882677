"""Bring a database to the present tables with Alembic; imported only if a database has older tables."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from maitred.errors import ConfigError
from maitred.storage.tables import metadata

_BEFORE_RELEASE: Final = frozenset({"0001", "0002", "0003", "0004"})
"""Revisions of development versions only; 0005 makes the tables to which they led."""

_SHOWN: Final = 3
_OTHER_FILE: Final = "set `catalog.path` to another file"
_OTHER_DATABASE: Final = "set `catalog.url` to another database"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def check(connection: Connection, revision: str | None, name: str) -> None:
    """Refuse a database whose tables are not those of this version, nor older ones that can be migrated.

    Args:
        connection: A connection to it, which may only read.
        revision: Its migration; `None` if it has none.
        name: Its place, for the error.

    Raises:
        ConfigError: A newer maitred wrote it, or one from before the first release, or another program.
    """
    is_file = connection.dialect.name == "sqlite"
    other = _OTHER_FILE if is_file else _OTHER_DATABASE
    if revision in _BEFORE_RELEASE:
        fault = (
            f"a maitred from before the first release wrote it (revision {revision}); it is left as it is:"
            f" move it away, or {other}"
        )
        raise ConfigError(name, [fault])
    if revision is not None and revision not in _known(_config()):
        fault = f"it was written by a newer maitred (revision {revision}); upgrade maitred, or {other}"
        raise ConfigError(name, [fault])
    if revision is None:
        tables = set(inspect(connection).get_table_names())
        foreign = tables if is_file else tables & metadata.tables.keys()  # other programs may share a server
        if foreign:
            shown = ", ".join(sorted(foreign)[:_SHOWN])
            fault = f"it has tables that are not those of a catalog ({shown}); it is left as it is: {other}"
            raise ConfigError(name, [fault])


def migrate(connection: Connection, revision: str | None) -> None:
    """Run every missing migration inside the open transaction of `connection`, which `check` accepted."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _known(config: Config) -> frozenset[str]:
    return frozenset(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())
