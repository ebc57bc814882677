"""Values of a login and the protocol of their store, without OAuth and without encryption."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from shlex import quote
from typing import Any, Protocol, Self

from maitred.model.access import LOCAL


def login_command(server: str, principal: str) -> str:
    """The command by which a principal logs in; an empty name means the one login of the gateway."""
    return f"maitred login {server}" + (f" --for {quote(principal)}" if principal not in ("", LOCAL) else "")


@dataclass(frozen=True, kw_only=True)
class LoginGrant:
    """The tokens of one login, with all that is needed to renew and to revoke them.

    `url` is the server that they are for. `expires_at` is in Unix seconds, or None if the server did not say.
    `client`, `issuer` and `resource` are documents of the protocol: maitred's registration, the metadata
    of the authorization server, and those of the server. The last two are empty if there are none.
    """

    url: str
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    scope: str = ""
    expires_at: float | None = None
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    issuer: Mapping[str, Any] = field(default_factory=dict, repr=False)
    resource: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def credentials(self) -> Mapping[str, str]:
        """The secrets of the grant, by name."""
        secret = str(self.client.get("client_secret", ""))
        tokens = {"access_token": self.access_token, "refresh_token": self.refresh_token}
        return tokens | {"client_secret": secret}

    def to_bytes(self) -> bytes:
        """The grant as JSON, before it is encrypted."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """The grant that `to_bytes` encoded."""
        return cls(**json.loads(body))


@dataclass(frozen=True, kw_only=True)
class KeptGrant:
    """A stored body; `version` changes with each change of it."""

    body: bytes = field(repr=False)
    version: str


class GrantStore(Protocol):
    """Stores one body for each server, for all processes on this catalog, and for one principal.

    The methods raise `VaultError` if the encryption fails, and `StoreError` if the file does.
    """

    async def load(self, server: str) -> KeptGrant | None:
        """The stored body of a server."""
        ...

    async def save(self, server: str, body: bytes, *, after: str | None = None) -> bool:
        """Store a body; with `after`, only in place of this version. Returns whether it was stored."""
        ...

    async def claim(self, server: str, version: str, *, for_s: float) -> bool:
        """Reserve the right to change this version for some seconds; false if another process has it."""
        ...

    async def release(self, server: str, version: str) -> None:
        """Give the right back without a change."""
        ...

    async def forget(self, server: str, *, after: str | None = None) -> bool:
        """Delete the stored body; with `after`, only this version. Returns whether there was one."""
        ...
