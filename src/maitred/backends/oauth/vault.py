"""Logins to servers, encrypted beside the catalog.

Each is a row of the catalog's file, encrypted with a key that stands elsewhere: in a file that is made at
first use and that only its owner can read, or in the environment. So a copy of the catalog alone, in a backup
or sent to somebody, gives no access; whoever reads the owner's files has it. Versions and claims let several
processes renew a login one at a time. It satisfies `maitred.backends.oauth.grants.GrantStore`.
"""

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

import anyio
from cryptography.fernet import Fernet, InvalidToken

from maitred.backends.oauth.grants import KeptGrant
from maitred.errors import VaultError
from maitred.storage.sqlite import opened


class Vault:
    """Logins in the SQLite file of a catalog, which must be there.

    Args:
        path: The catalog's file.
        key: The key that the operator gives; empty if it is kept in a file beside the catalog.
    """

    def __init__(self, path: Path, *, key: str = "") -> None:
        self._path = path
        self._key = key

    @property
    def key_path(self) -> Path:
        """The file of the key where the operator gives none."""
        return self._path.with_name(f"{self._path.name}.key")

    async def load(self, server: str) -> KeptGrant | None:
        """What is kept for a server.

        Raises:
            VaultError: It was encrypted with another key.
            StoreError: The file cannot be read.
        """
        query = "SELECT body, version FROM logins WHERE server = ?"

        def load() -> KeptGrant | None:
            with opened(self._path) as connection:
                row = connection.execute(query, (server,)).fetchone()
            return KeptGrant(body=self._decrypted(server, row[0]), version=row[1]) if row else None

        return await anyio.to_thread.run_sync(load)

    async def save(self, server: str, body: bytes, *, after: str | None = None) -> bool:
        """Keep a body, with `after` only in place of this version; whether it was kept.

        Raises:
            VaultError: There is no key, and none can be made.
            StoreError: The file cannot be written.
        """
        insert = (
            "INSERT INTO logins (body, version, held_until, server) VALUES (?, ?, 0, ?)"
            " ON CONFLICT (server) DO UPDATE SET"
            " body = excluded.body, version = excluded.version, held_until = 0"
        )
        update = "UPDATE logins SET body = ?, version = ?, held_until = 0 WHERE server = ? AND version = ?"

        def save() -> bool:
            values = (self._cipher(make=True).encrypt(body), uuid.uuid4().hex, server)
            if after is None:
                return self._changed(insert, values)
            return self._changed(update, (*values, after))

        return await anyio.to_thread.run_sync(save)

    async def claim(self, server: str, version: str, *, for_s: float) -> bool:
        """Reserve the right to change this version for some seconds; a process that dies loses it so."""
        query = "UPDATE logins SET held_until = ? WHERE server = ? AND version = ? AND held_until <= ?"
        now = time.time()
        return await self._change(query, (now + for_s, server, version, now))

    async def release(self, server: str, version: str) -> None:
        """Give the right back without a change."""
        query = "UPDATE logins SET held_until = 0 WHERE server = ? AND version = ?"
        await self._change(query, (server, version))

    async def forget(self, server: str, *, after: str | None = None) -> bool:
        """Drop what is kept, with `after` only this version; whether there was something. Needs no key."""
        query = "DELETE FROM logins WHERE server = ?"
        if after is None:
            return await self._change(query, (server,))
        return await self._change(f"{query} AND version = ?", (server, after))

    async def _change(self, query: str, values: tuple[object, ...]) -> bool:
        return await anyio.to_thread.run_sync(lambda: self._changed(query, values))

    def _changed(self, query: str, values: tuple[object, ...]) -> bool:
        with opened(self._path, synchronous="FULL", lasting=True) as connection:
            return connection.execute(query, values).rowcount > 0

    def _decrypted(self, server: str, body: bytes) -> bytes:
        try:
            return self._cipher(make=False).decrypt(body)
        except InvalidToken:
            where = "MAITRED_KEY" if self._key else str(self.key_path)
            raise VaultError(
                f"the login to {server!r} was not encrypted with the key in {where}; put the right one there,"
                f" or run `maitred login {server}` again"
            ) from None

    def _cipher(self, *, make: bool) -> Fernet:
        if self._key:
            return _fernet(self._key, "MAITRED_KEY")
        try:
            if make and not self.key_path.exists():
                _write_key(self.key_path, Fernet.generate_key())
            return _fernet(self.key_path.read_text(encoding="ascii").strip(), str(self.key_path))
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
