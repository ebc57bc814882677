"""A manifest contains no credential, and refers only to what it may read.

People copy and mail manifests and keep them under version control. So a manifest names a secret by a
reference. The layer checks references, too: one to a variable of the gateway would give its value to the
server. Of the keyring, it may name the secrets below its own name, and it may name no command. No finding
repeats a value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maitred.admission.checks.base import LayerCheck, Policy
from maitred.admission.credential_detection import (
    LiteralParts,
    is_literal_secret,
    kind_of,
    secret_arguments,
    secrets_in_url,
    take_apart,
)
from maitred.admission.findings import Finding
from maitred.admission.manifest import Manifest
from maitred.config.secret_store import LONGEST_NAME, NAME

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FILE = re.compile(r"file:(/[^\x00-\x1f]+)")
_NOT_SECRETS = ("name", "transport", "image", "tags", "category")
_REFERRING = ("command", "args", "cwd", "env", "url", "headers")
_OPEN = ("/proc", "/sys", "/dev")
_FIX = "write a reference such as ${MY_TOKEN} or ${file:/run/secrets/my_token}"


class SecretsCheck(LayerCheck):
    """Refuses literal credentials, and asks for references that the policy does not list."""

    layer = "secrets"

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about every text of the manifest."""
        found: list[Finding] = []
        for key, name, text in _texts(manifest):
            parts = take_apart(text)
            found += self._literal(key, name, parts)
            if re.split(r"[.\[]", key)[0] in _REFERRING:
                found += self._references(key, manifest.name, parts, policy)
        found += self._arguments(manifest.args)
        return list(dict.fromkeys(found))

    def _literal(self, key: str, name: str, parts: LiteralParts) -> Iterator[Finding]:
        if name and is_literal_secret(name, parts.literal):
            yield self._finding(
                "refuse", key, "its name says that it is secret, but its value is written out", _FIX
            )
        elif kind := kind_of(parts.literal, name):
            yield self._finding("refuse", key, f"holds what looks like a credential ({kind})", _FIX)
        else:
            for what in secrets_in_url(parts.literal):
                yield self._finding("refuse", key, f"holds {what}", _FIX)

    def _arguments(self, args: Sequence[str]) -> Iterator[Finding]:
        """Credentials as `--token abc`, `--token=abc`, `TOKEN=abc` or `X-Api-Key: abc`."""
        reason = "is a credential, by the name before it, and its value is written out"
        for at, _ in secret_arguments(args):
            yield self._finding("refuse", f"args[{at}]", reason, _FIX)

    def _references(self, key: str, server: str, parts: LiteralParts, policy: Policy) -> Iterator[Finding]:
        if not parts.is_closed:
            yield self._finding("refuse", key, "holds a reference that does not end", "close it with `}`")
        for name in parts.references:
            if path := _FILE.fullmatch(name):
                yield from self._file(key, path[1], policy)
            elif name.startswith("keyring:"):
                yield from self._secret(key, server, name.removeprefix("keyring:"))
            elif name.startswith("command:"):
                fix = "only the operator's configuration may name one; write ${MY_TOKEN}"
                yield self._finding("refuse", key, "would run a command to get its value", fix)
            elif not _VARIABLE.fullmatch(name):
                fix = "there are ${VAR}, ${VAR:-default}, ${env:VAR} and ${file:/PATH}"
                yield self._finding("refuse", key, "holds a reference of an unknown kind", fix)
            elif name.upper().startswith("MAITRED_"):
                yield self._finding(
                    "refuse", key, "refers to a variable of maitred itself", "use another variable"
                )
            elif not any(_covers(pattern, name) for pattern in policy.references):
                yield self._finding(
                    "ask", key, f"would be given the variable {name}", "the operator's policy may list it"
                )

    def _secret(self, key: str, server: str, name: str) -> Iterator[Finding]:
        """Findings about a secret of the keyring, which is for the server whose name it begins with."""
        own = f"below the server's name, as in ${{keyring:{server}/TOKEN}}"
        if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
            yield self._finding("refuse", key, "refers to what is no name of a secret", f"name one {own}")
        elif not name.startswith(f"{server}/"):
            yield self._finding(
                "refuse", key, "refers to a secret that is not for this server", f"name one {own}"
            )
        else:
            fix = "a person with the admin role may approve it"
            yield self._finding("ask", key, f"would be given the secret {name} of the keyring", fix)

    def _file(self, key: str, path: str, policy: Policy) -> Iterator[Finding]:
        if ".." in path.split("/") or any(path.startswith(f"{top}/") for top in _OPEN):
            yield self._finding(
                "refuse", key, "refers to a file that no server may have", "name the file itself"
            )
        elif not any(path.startswith(f"{folder.rstrip('/')}/") for folder in policy.secret_folders):
            yield self._finding("ask", key, f"would be given the file {path}", "put it into /run/secrets")


def _texts(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Every text that may hold a credential, with its key, and the name of its variable or header."""
    for key, value in manifest.normal.items():
        if key not in _NOT_SECRETS:
            yield from _below(key, "", value)


def _below(key: str, name: str, value: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield key, name, value
    elif isinstance(value, Mapping):
        for below, one in value.items():
            is_named = key.partition(".")[0] in ("env", "headers")
            yield from _below(f"{key}.{below}", below if is_named else "", one)
    elif isinstance(value, Sequence):
        for at, one in enumerate(value):
            yield from _below(f"{key}[{at}]", name, one)


def _covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
