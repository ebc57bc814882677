"""What a login leaves behind, and where it is kept: nothing here knows the protocol or the encryption."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self


@dataclass(frozen=True, kw_only=True)
class LoginGrant:
    """The tokens of one login, with all that is needed to renew and to revoke them.

    `url` is the server that they are for, and `expires_at` is in unix seconds, or None where nobody said.
    `client`, `issuer` and `resource` are the documents of the protocol: who maitred is there, the metadata
    of the authorization server and those of the server; the last two are empty where there are none.
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
        """What of it nobody may be told, by name."""
        secret = str(self.client.get("client_secret", ""))
        tokens = {"access_token": self.access_token, "refresh_token": self.refresh_token}
        return tokens | {"client_secret": secret}

    def to_bytes(self) -> bytes:
        """As it is kept, before it is encrypted."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """What `to_bytes` was made of."""
        return cls(**json.loads(body))


@dataclass(frozen=True, kw_only=True)
class KeptGrant:
    """A body as it is kept; `version` is another one after each change."""

    body: bytes = field(repr=False)
    version: str


class GrantStore(Protocol):
    """Keeps one body for each server, for all processes on this catalog.

    The methods raise `VaultError` where the encryption, and `StoreError` where the file is at fault.
    """

    async def load(self, server: str) -> KeptGrant | None:
        """What is kept for a server."""
        ...

    async def save(self, server: str, body: bytes, *, after: str | None = None) -> bool:
        """Keep a body; with `after`, only in place of this version. Returns whether it was kept."""
        ...

    async def claim(self, server: str, version: str, *, for_s: float) -> bool:
        """Reserve the right to change this version for some seconds; false if somebody else has it."""
        ...

    async def release(self, server: str, version: str) -> None:
        """Give the right back without a change."""
        ...

    async def forget(self, server: str, *, after: str | None = None) -> bool:
        """Drop what is kept; with `after`, only this version. Returns whether there was something."""
        ...
