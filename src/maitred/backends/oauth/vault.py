"""Logins to servers, encrypted beside the catalog.

Each login is a row in the catalog's database, encrypted with a key that is elsewhere. The key is in the
environment, or in a file that is made at first use and that only its owner can read. So a copy of the
catalog alone gives no access. A reader of the owner's files has access. The login of a principal is encrypted
with a key derived for this principal and server, so no other principal's row can take its place.
Versions and claims let several processes renew a login one at a time. Implements
`maitred.backends.oauth.grants.GrantStore`.
"""

import base64
import hmac
import os
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from cryptography.fernet import Fernet, InvalidToken

from maitred.backends.oauth.grants import KeptGrant, login_command
from maitred.config.paths import make_folder
from maitred.errors import VaultError
from maitred.model.tools import canonical
from maitred.storage.database import Database, WriteOptions

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import ColumnElement, Connection

_LASTING: Final = WriteOptions(durable=True, lasting=True)
_LOGIN: Final = (
    "SELECT logins.body, logins.version FROM logins WHERE logins.server = ? AND logins.principal = ?"
)
_OWNERS: Final = "SELECT logins.server, logins.principal FROM logins ORDER BY logins.server, logins.principal"


class Vault:
    """Logins of one principal in the database of a catalog, whose tables exist already.

    Args:
        database: The catalog's database.
        key_path: The file of the key, used if the operator gives none.
        key: The key from the operator; empty if it is in the file.
        principal: Whose logins; empty for those of the gateway.
    """

    def __init__(self, database: Database, key_path: Path, *, key: str = "", principal: str = "") -> None:
        self._database = database
        self.key_path = key_path
        self._key = key
        self._principal = principal

    async def owners(self) -> Sequence[tuple[str, str]]:
        """All stored logins of everybody: pairs of a server and a principal, which is empty for the gateway.

        Raises:
            StoreError: The database cannot be read.
        """
        rows = await self._database.read_driver(lambda connection: connection.execute(_OWNERS).fetchall())
        return [(server, principal) for server, principal in rows]

    async def has(self, server: str) -> bool:
        """Whether there is a login of the principal. Needs no key.

        Raises:
            StoreError: The database cannot be read.
        """
        return await self._row(server) is not None

    async def _row(self, server: str) -> tuple[bytes, str] | None:
        place = (server, self._principal)
        row = await self._database.read_driver(
            lambda connection: connection.execute(_LOGIN, place).fetchone()
        )
        return (row[0], row[1]) if row else None

    async def load(self, server: str) -> KeptGrant | None:
        """The stored login of a server.

        Raises:
            VaultError: It was encrypted with another key.
            StoreError: The database cannot be read.
        """
        row = await self._row(server)
        if row is None:
            return None
        body = await anyio.to_thread.run_sync(self._decrypted, server, row[0])
        return KeptGrant(body=body, version=row[1])

    async def save(self, server: str, body: bytes, *, after: str | None = None) -> bool:
        """Store a body, with `after` only in place of this version; returns whether it was stored.

        Raises:
            VaultError: There is no key, and none can be made.
            StoreError: The database cannot be written.
        """
        encrypted = await anyio.to_thread.run_sync(lambda: self._cipher(server, make=True).encrypt(body))
        row = {"body": encrypted, "version": uuid.uuid4().hex, "held_until": 0.0}

        def save(connection: "Connection") -> bool:
            from maitred.storage import core  # noqa: PLC0415  # SQLAlchemy is slow to import
            from maitred.storage.tables import logins  # noqa: PLC0415  # as above

            if after is None:
                core.put(connection, logins, [{"server": server, "principal": self._principal, **row}])
                return True
            this = self._this(server) & (logins.c.version == after)
            return connection.execute(logins.update().where(this).values(**row)).rowcount > 0

        return await self._database.write(save, _LASTING)

    async def claim(self, server: str, version: str, *, for_s: float) -> bool:
        """Reserve the right to change this version for some seconds, so that a dead process loses it."""
        now = time.time()
        return await self._hold(server, version, until=now + for_s, free_at=now)

    async def release(self, server: str, version: str) -> None:
        """Give the right back without a change."""
        await self._hold(server, version, until=0.0)

    async def _hold(self, server: str, version: str, *, until: float, free_at: float | None = None) -> bool:
        def hold(connection: "Connection") -> bool:
            from maitred.storage.tables import logins  # noqa: PLC0415  # SQLAlchemy is slow to import

            this = self._this(server) & (logins.c.version == version)
            if free_at is not None:
                this &= logins.c.held_until <= free_at
            return connection.execute(logins.update().where(this).values(held_until=until)).rowcount > 0

        return await self._database.write(hold, _LASTING)

    async def forget(self, server: str, *, after: str | None = None) -> bool:
        """Delete a login, with `after` only this version; returns whether there was one. Needs no key."""

        def forget(connection: "Connection") -> bool:
            from maitred.storage.tables import logins  # noqa: PLC0415  # SQLAlchemy is slow to import

            this = self._this(server)
            if after is not None:
                this &= logins.c.version == after
            return connection.execute(logins.delete().where(this)).rowcount > 0

        return await self._database.write(forget, _LASTING)

    def _this(self, server: str) -> "ColumnElement[bool]":
        from maitred.storage.tables import logins  # noqa: PLC0415  # SQLAlchemy is slow to import

        return (logins.c.server == server) & (logins.c.principal == self._principal)

    def _decrypted(self, server: str, body: bytes) -> bytes:
        try:
            return self._cipher(server, make=False).decrypt(body)
        except InvalidToken:
            where = "MAITRED_KEY" if self._key else str(self.key_path)
            raise VaultError(
                f"the login to {server!r} was not encrypted with the key in {where}; put the right one there,"
                f" or run `{login_command(server, self._principal)}` again"
            ) from None

    def derive(self, purpose: str) -> bytes:
        """A secret for another purpose, the same as long as the key is; makes the key if there is none.

        Raises:
            VaultError: There is no key, and none can be made.
        """
        self._main_cipher(make=True)  # refuses what is no key
        return hmac.digest(base64.urlsafe_b64decode(self._key_text(make=True)), purpose.encode(), "sha256")

    def _cipher(self, server: str, *, make: bool) -> Fernet:
        """The cipher of the principal's login to a server; the gateway's has the key itself."""
        main = self._main_cipher(make=make)
        if not self._principal:
            return main
        own = self.derive(canonical(["login", server, self._principal]).decode())
        return Fernet(base64.urlsafe_b64encode(own))

    def _main_cipher(self, *, make: bool) -> Fernet:
        return _fernet(self._key_text(make=make), "MAITRED_KEY" if self._key else str(self.key_path))

    def _key_text(self, *, make: bool) -> str:
        if self._key:
            return self._key
        try:
            if make and not self.key_path.exists():
                _write_key(self.key_path, Fernet.generate_key())
            return self.key_path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            told = f"the key {self.key_path} is gone; put it back, or log in again by `maitred login`"
            raise VaultError(told) from None
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"the key {self.key_path} cannot be read: {_reason(error)}") from error


def _fernet(key: str, where: str) -> Fernet:
    try:
        return Fernet(key)
    except ValueError:
        raise VaultError(
            f"{where} holds no key: 32 bytes in base64, as `openssl rand -base64 32` prints"
        ) from None


def _write_key(path: Path, key: bytes) -> None:
    """Make the file of the key, whole or not at all; another process may do the same at this moment."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        make_folder(path.parent)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
            with suppress(FileExistsError):
                path.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise VaultError(f"the key {path} cannot be made: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or "it is no text"
