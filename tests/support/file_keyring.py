"""A keyring in a file: a backend of the library `keyring`, as real as that of a desktop, but without one."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring
from keyring.errors import KeyringLocked, PasswordDeleteError


class FileKeyring(KeyringBackend):
    """Keeps secrets in a file; `is_locked` makes it refuse, as one that nobody unlocked."""

    priority = -1  # never chosen by itself

    def __init__(self, path: Path | None = None) -> None:
        """Without a path, as the library makes it in another process, it is the one in `FILE_KEYRING`."""
        super().__init__()  # type: ignore[no-untyped-call]  # of the library
        self._given = path
        self._lock = threading.RLock()
        self.is_locked = False
        self.reads: list[str] = []
        """The names that were read, in order."""

    @property
    def name(self) -> str:
        return "a file of the tests"

    @property
    def _path(self) -> Path:
        return self._given or Path(os.environ["FILE_KEYRING"])

    def _all(self) -> dict[str, str]:
        if self.is_locked:
            raise KeyringLocked("it was not unlocked")
        known: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return known

    def get_password(self, service: str, username: str) -> str | None:
        self.reads.append(username)
        with self._lock:
            return self._all().get(f"{service}:{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        with self._lock:
            self._path.write_text(json.dumps({**self._all(), f"{service}:{username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        known = self._all()
        if known.pop(f"{service}:{username}", None) is None:
            raise PasswordDeleteError("it is not there")
        self._path.write_text(json.dumps(known))


def no_keyring() -> KeyringBackend:
    """What the library finds on a machine that has no keyring."""
    backend: KeyringBackend = Keyring()  # type: ignore[no-untyped-call]  # of the library
    return backend


@contextmanager
def using(backend: KeyringBackend) -> Iterator[None]:
    """Make a backend the keyring of this process for a while."""
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    try:
        yield
    finally:
        keyring.set_keyring(before)
