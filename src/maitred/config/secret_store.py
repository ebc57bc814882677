"""The secrets that maitred keeps in the keyring of the system, by their names.

The library `keyring` finds the keyring: that of the desktop on Linux, the keychain of macOS, the credential
manager of Windows, or a backend that the user configured. No keyring lists what it has, so a file beside the
catalog has the names, and only the names. Reading may wait for a person who unlocks the keyring.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maitred.config.file_rewrite import rewrite
from maitred.config.paths import state_folder
from maitred.config.redaction import SECRETS

if TYPE_CHECKING:  # it is imported when a secret is first read, as that takes a tenth of a second
    from keyring.backend import KeyringBackend

SERVICE: Final = "maitred"
"""The service under which the keyring has the secrets; their names are its user names."""

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.@+-]*)*")
"""The form of a name; no part of it is `..`, as some keyrings are folders."""
LONGEST_NAME: Final = 128
LONGEST_SECRET: Final = 65_536
"""Characters of the longest secret."""

_NO_KEYRING: Final = (
    "this machine has no keyring that can be used ({why}); start the one of your desktop, name a backend in"
    " the variable PYTHON_KEYRING_BACKEND, or use a variable or `${{file:PATH}}` instead"
)


class SecretStoreError(Exception):
    """The keyring cannot be used, or has no such secret; the text says what to do, and never has a value."""


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a secret.

    Raises:
        SecretStoreError: The name is empty, too long, or has other characters.
    """
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise SecretStoreError(
            f"{name[:LONGEST_NAME]!r} is no name of a secret; use letters, digits and _ . @ + - with / "
            f"between parts, at most {LONGEST_NAME} characters"
        )


class SecretStore:
    """Reads, writes and removes secrets of the keyring, and keeps the list of their names.

    `names_file` is where the names are; by default a file in the user's folder for state.
    """

    def __init__(self, names_file: Path | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        self._names_file = names_file
        self._environ = os.environ if environ is None else environ

    def check(self) -> str:
        """Return what the keyring is called.

        Raises:
            SecretStoreError: There is none that can be used.
        """
        with _keyring() as backend:
            return str(backend.name)

    def read(self, name: str) -> str:
        """Return a secret; from now on it is never shown.

        Raises:
            SecretStoreError: There is no keyring, it stays locked, or it has no secret of this name.
        """
        check_name(name)
        with _keyring() as backend:
            value = backend.get_password(SERVICE, name)
        if value is None:
            raise SecretStoreError(
                f"the keyring has no secret {name!r}; `maitred secret set {name}` keeps one"
            )
        SECRETS.learn(value)
        return value

    def write(self, name: str, value: str) -> str:
        """Keep a secret, in place of one of the same name; returns what the keyring is called.

        Raises:
            SecretStoreError: There is no keyring, or it did not keep the secret.
            ConfigError: The list of names cannot be written.
        """
        check_name(name)
        if not value or len(value) > LONGEST_SECRET or "\0" in value:
            raise SecretStoreError(f"a secret must have 1 to {LONGEST_SECRET:,} characters, and no NUL")
        SECRETS.learn(value)
        with _keyring() as backend:
            backend.set_password(SERVICE, name, value)
            if backend.get_password(SERVICE, name) != value:
                raise SecretStoreError(f"the keyring ({backend.name}) did not keep it")
            title = str(backend.name)
        self._change_names(lambda names: {*names, name})
        return title

    def remove(self, name: str) -> None:
        """Remove a secret and its name.

        Raises:
            SecretStoreError: There is no keyring, or it has no secret of this name.
            ConfigError: The list of names cannot be written.
        """
        check_name(name)
        with _keyring() as backend:
            is_there = backend.get_password(SERVICE, name) is not None
            if is_there:
                backend.delete_password(SERVICE, name)
        if name in self.names():
            self._change_names(lambda names: {*names} - {name})
        elif not is_there:
            raise SecretStoreError(
                f"the keyring has no secret {name!r}; `maitred secret list` shows the names"
            )

    def names(self) -> Sequence[str]:
        """Return the names of the secrets that were kept, in order.

        Raises:
            SecretStoreError: The list of names cannot be read, or is damaged.
        """
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise SecretStoreError(f"{self._path} cannot be read: {type(error).__name__}") from error
        return self._names_of(text)

    @property
    def _path(self) -> Path:
        return self._names_file or state_folder(self._environ) / "secret-names.json"

    def _change_names(self, change: Callable[[Sequence[str]], set[str]]) -> None:
        """Change the list, for the owner only; two at once both count."""
        rewrite(self._path, lambda text: json.dumps(sorted(change(self._names_of(text)))), create=True)

    def _names_of(self, text: str) -> Sequence[str]:
        """The names in the text of the list, in order; none in an empty one.

        Raises:
            SecretStoreError: It is no list of names. No keyring can list them, so it is not overwritten.
        """
        try:
            names = json.loads(text or "[]")
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise SecretStoreError(
                f"the list of names in {self._path} is damaged; mend it, or remove it to forget the names"
            )
        return sorted({one for one in names if NAME.fullmatch(one)})


@contextmanager
def _keyring() -> "Iterator[KeyringBackend]":
    """Yield the keyring of the system; every failure of it becomes a reason without any value.

    Raises:
        SecretStoreError: There is none, or it failed.
    """
    try:
        import keyring  # noqa: PLC0415  # takes a tenth of a second, and most starts need no keyring
        from keyring.backends import fail, null  # noqa: PLC0415  # likewise
    except ImportError as error:
        why = f"the library for it cannot be loaded: {type(error).__name__}"
        raise SecretStoreError(_NO_KEYRING.format(why=why)) from error
    try:
        backend = keyring.get_keyring()
        if isinstance(backend, fail.Keyring | null.Keyring):
            raise SecretStoreError(_NO_KEYRING.format(why="none was found"))  # noqa: TRY301  # passed on below
        yield backend
    except SecretStoreError:
        raise
    except Exception as error:  # a backend is a plug-in, with errors of its own
        why = SECRETS.redact(f"{type(error).__name__}: {error}")[:200]
        raise SecretStoreError(f"the keyring cannot be used: {why}; unlock it, and try again") from error
