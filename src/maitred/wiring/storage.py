"""Where the catalog is stored: one database for all stores of this process."""

import os
import secrets
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import anyio
import structlog

from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.load import catalog_path
from maitred.config.redaction import SECRETS
from maitred.config.sections import database_url_fault
from maitred.config.settings import Settings
from maitred.errors import ConfigError, StoreError, VaultError
from maitred.extras import install_command
from maitred.wiring.references import operator_resolver

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from collections.abc import Callable, Sequence

    from maitred.backends.oauth.vault import Vault
    from maitred.catalog.store import CatalogStore
    from maitred.storage.database import Database

log = structlog.get_logger(__name__)

_DATABASES: "Final[WeakValueDictionary[str, Database]]" = WeakValueDictionary()
"""By path, or by `catalog.url` as configured: all stores share what one of them learns about a disk."""


def database_of(settings: Settings) -> "Database":
    """The database of a configuration; nothing is opened.

    Raises:
        ConfigError: `catalog.url` cannot be used, or the packages for PostgreSQL are not installed.
    """
    place = settings.catalog.url or str(catalog_path(settings).absolute())
    if (database := _DATABASES.get(place)) is None:
        make = _make_postgres if settings.catalog.url else _make_sqlite
        database = _DATABASES[place] = make(settings)
    return database


def _make_sqlite(settings: Settings) -> "Database":
    from maitred.storage.sqlite import SqliteDatabase

    return SqliteDatabase(catalog_path(settings).absolute())


def _make_postgres(settings: Settings) -> "Database":
    url = _resolved_url(settings)
    try:
        from maitred.storage.postgres import PostgresDatabase
    except ImportError as error:  # the package, or the library of PostgreSQL that it loads
        reason, hint = str(error).partition("\n")[0], install_command("postgres")
        fault = f"PostgreSQL needs packages that are missing ({reason}); `{hint}` installs them"
        raise _url_error(settings, fault) from error
    return PostgresDatabase(url, connections=settings.catalog.connections)


def _resolved_url(settings: Settings) -> str:
    """`catalog.url` with its references replaced; from now on its password is never shown."""
    try:
        url = operator_resolver(settings)(settings.catalog.url)
    except UnresolvedReferenceError as error:
        raise _url_error(settings, str(error)) from error
    if fault := database_url_fault(url):
        raise _url_error(settings, fault)
    SECRETS.learn_address(url, {})
    return url


def _url_error(settings: Settings, fault: str) -> ConfigError:
    return ConfigError(str(settings.source), [f"catalog.url: {fault}"])


def open_store(settings: Settings, *, allows_memory: bool = False) -> "CatalogStore":
    """The catalog's store, which loads SQLAlchemy only to write and Alembic only to migrate.

    With `allows_memory` it is in memory as long as there is no file, and none can be made.
    """
    from maitred.catalog.store import CatalogStore

    return CatalogStore(database_of(settings), allows_memory=allows_memory)


def known_tool_names(settings: Settings) -> "Sequence[str]":
    """The names of the tools in the catalog, quickly and without any server; none if there is no catalog."""
    if not settings.catalog.url and not catalog_path(settings).exists():
        return ()

    async def read() -> "Sequence[str]":
        async with open_store(settings) as store:
            return await store.tool_names()

    try:
        return anyio.run(read)
    except StoreError:
        return ()


def vault_of(settings: Settings, principal: str = "") -> "Vault":
    """The logins of a principal, beside the catalog, with the key that encrypts them; nothing is opened."""
    from maitred.backends.oauth.vault import Vault

    key = os.environ.get("MAITRED_KEY", "")
    return Vault(database_of(settings), key_path(settings), key=key, principal=principal)


def task_key_of(settings: Settings) -> "Callable[[], bytes]":
    """The key that signs the ids of tasks. It lasts as long as the key of the catalog, if there is one."""
    return shared_key(settings, "ids of tasks")


def shared_key(settings: Settings, purpose: str) -> "Callable[[], bytes]":
    """The key for a purpose, the same in all gateways that share `MAITRED_KEY`; made when it is called."""

    @cache
    def key() -> bytes:
        try:
            return vault_of(settings).derive(purpose)
        except VaultError as error:
            log.warning("what is signed is valid until the gateway ends", what=purpose, reason=error.reason)
            return secrets.token_bytes(32)

    return key


def key_path(settings: Settings) -> Path:
    """The file of the key that encrypts logins, where the operator gives none."""
    path = catalog_path(settings)
    return path.with_name(f"{path.name}.key")
