"""Access tokens as persons handle them: made for parts that exist, listed, revoked by id or by name.

Each act is written into the audit trail before it is answered. What a token is, and how one is kept, is the
business of `maitred.access.token_store`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from maitred.access.token_store import Grants, MadeToken, TokenRecord
from maitred.audit.service import AuditService
from maitred.errors import ConfigError, TokenNotFoundError
from maitred.model.access import Role, Scope, Viewer
from maitred.wording import did_you_mean

Known = Callable[[], Awaitable[tuple[Collection[str], Collection[str]]]]
"""Gives the names of all servers and of all categories."""


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """A token that is to be made; `lifetime` is `None` for one that does not expire."""

    name: str
    role: Role
    scope: Scope
    lifetime: timedelta | None = None


class TokenService:
    """Handles tokens; `made` are all that there are, `known` what their scopes may name."""

    def __init__(self, made: Grants, auditing: AuditService, known: Known) -> None:
        self._made = made
        self._auditing = auditing
        self._known = known

    async def make(self, wanted: TokenRequest, viewer: Viewer) -> MadeToken:
        """Make a token.

        Raises:
            NotAllowedError: The viewer may not grant.
            ConfigError: It cannot be made as it is wanted; all faults are listed.
            StoreError: It cannot be kept.
        """
        self._auditing.require(viewer, "grant")
        servers, categories = await self._known()
        faults = [
            *_strangers("server", wanted.scope.servers, servers),
            *_strangers("category", wanted.scope.categories, categories),
        ]
        if faults:
            raise ConfigError(f"token {wanted.name!r}", faults)
        try:
            made = await self._made.make(
                wanted.name, wanted.role, scope=wanted.scope, lifetime=wanted.lifetime, by=viewer.principal
            )
        except ValueError as error:
            raise ConfigError(f"token {wanted.name!r}", [str(error)]) from None
        await self._auditing.record(viewer, "token.create", detail=_told(made.record))
        return made

    async def listed(self, viewer: Viewer) -> Sequence[TokenRecord]:
        """All tokens, the newest first, also those that expired or were revoked.

        Raises:
            NotAllowedError: The viewer may not grant.
            StoreError: They cannot be read.
        """
        self._auditing.require(viewer, "grant")
        return await self._made.listed()

    async def revoke(self, which: str, viewer: Viewer) -> Sequence[TokenRecord]:
        """Revoke the token of an id, or all of a name; those that were valid until now.

        Raises:
            NotAllowedError: The viewer may not grant.
            TokenNotFoundError: There is none that is valid.
            StoreError: It cannot be written down.
        """
        self._auditing.require(viewer, "grant")
        valid = [one for one in await self._made.listed() if not one.revoked_at]
        found = [one for one in valid if one.id == which] or [
            one for one in valid if one.grant.principal == which
        ]
        revoked = [one for one in found if await self._made.revoke(one.id, by=viewer.principal)]
        if not revoked:
            raise TokenNotFoundError(which)
        for one in revoked:
            await self._auditing.record(viewer, "token.revoke", detail=_told(one))
        return revoked


def token_json(record: TokenRecord) -> dict[str, Any]:
    """A token for programs: all but what has to be sent. Times are ISO 8601; a limit that is null is none."""
    grant = record.grant
    return {
        "id": grant.id,
        "name": grant.principal,
        "role": grant.role,
        "servers": None if grant.scope.servers is None else sorted(grant.scope.servers),
        "categories": None if grant.scope.categories is None else sorted(grant.scope.categories),
        "read_only": grant.scope.read_only,
        "state": state(record),
        "made_by": record.made_by,
        "made_at": record.made_at,
        "expires_at": record.expires_at,
        "revoked_by": record.revoked_by,
        "revoked_at": record.revoked_at,
    }


def state(record: TokenRecord) -> str:
    """`valid`, `expired` or `revoked`."""
    if record.revoked_at:
        return "revoked"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return "expired" if record.expires_at and record.expires_at <= now else "valid"


def _strangers(kind: str, named: Collection[str] | None, known: Collection[str]) -> Iterator[str]:
    for name in sorted(frozenset(named or ()) - frozenset(known)):
        yield f"there is no {kind} {name!r}{did_you_mean(name, known, lead='; ')}"


def _told(record: TokenRecord) -> str:
    """A token in words for the audit trail."""
    grant = record.grant
    limits = [
        f"{kind} {', '.join(sorted(names)) or 'none'}"
        for kind, names in (("servers", grant.scope.servers), ("categories", grant.scope.categories))
        if names is not None
    ]
    limits += ["read-only"] if grant.scope.read_only else []
    return "; ".join([f"{record.id} for {grant.principal}, {grant.role}", *limits])
