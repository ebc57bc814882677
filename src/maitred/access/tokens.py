"""Create, list and revoke access tokens for operators: checks their scopes and writes the audit trail.

Each change is in the audit trail before its answer leaves. The tokens themselves are in
`maitred.access.token_store`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from maitred.access.token_store import Grants, NewToken, TokenRecord
from maitred.audit.service import AuditService
from maitred.errors import ConfigError, TokenNotFoundError
from maitred.model.access import Role, Scope, Viewer
from maitred.wording import did_you_mean, quote_input


@dataclass(frozen=True, kw_only=True)
class ScopeNames:
    """The names that a scope may have, all of them."""

    servers: Collection[str]
    categories: Collection[str]
    profiles: Collection[str]


KnownNames = Callable[[], Awaitable[ScopeNames]]


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """A token to create; a `lifetime` of `None` never ends."""

    name: str
    role: Role
    scope: Scope
    lifetime: timedelta | None = None


class TokenService:
    """Manages tokens. `known_names` returns what scopes may name."""

    def __init__(self, store: Grants, auditing: AuditService, known_names: KnownNames) -> None:
        self._store = store
        self._auditing = auditing
        self._known_names = known_names

    async def make(self, request: TokenRequest, viewer: Viewer) -> NewToken:
        """Create a token.

        Raises:
            NotAllowedError: The viewer may not grant.
            ConfigError: The request is invalid; the error lists all faults.
            StoreError: The token cannot be stored.
        """
        self._auditing.require(viewer, "grant")
        known = await self._known_names()
        faults = [
            *_strangers("server", request.scope.servers, known.servers),
            *_strangers("category", request.scope.categories, known.categories),
            *_strangers("profile", request.scope.profiles, known.profiles),
        ]
        if faults:
            raise ConfigError(f"token {quote_input(request.name)}", faults)
        try:
            token = await self._store.make(
                request.name,
                request.role,
                scope=request.scope,
                lifetime=request.lifetime,
                by=viewer.principal,
            )
        except ValueError as error:
            raise ConfigError(f"token {quote_input(request.name)}", [str(error)]) from None
        await self._auditing.record(viewer, "token.create", detail=_describe(token.record))
        return token

    async def listed(self, viewer: Viewer) -> Sequence[TokenRecord]:
        """All tokens, the newest first, with those that expired or were revoked.

        Raises:
            NotAllowedError: The viewer may not grant.
            StoreError: The tokens cannot be read.
        """
        self._auditing.require(viewer, "grant")
        return await self._store.listed()

    async def records(self, viewer: Viewer) -> Sequence[TokenRecord]:
        """Every token that is or was, for figures by role, which show none of them.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: They cannot be read.
        """
        self._auditing.require(viewer, "watch")
        return await self._store.listed()

    async def revoke(self, id_or_name: str, viewer: Viewer) -> Sequence[TokenRecord]:
        """Revoke the token of an id, or all tokens of a name; returns those that were valid until now.

        Raises:
            NotAllowedError: The viewer may not grant.
            TokenNotFoundError: No valid token has this id or name.
            StoreError: The revocation cannot be stored.
        """
        self._auditing.require(viewer, "grant")
        valid = [record for record in await self._store.listed() if not record.revoked_at]
        matches = [record for record in valid if record.id == id_or_name] or [
            record for record in valid if record.grant.principal == id_or_name
        ]
        records = [record for record in matches if await self._store.revoke(record.id, by=viewer.principal)]
        if not records:
            raise TokenNotFoundError(id_or_name)
        for record in records:
            await self._auditing.record(viewer, "token.revoke", detail=_describe(record))
        return records


def token_json(record: TokenRecord) -> dict[str, Any]:
    """A token as JSON, without its secret. Times are ISO 8601; a limit of null means no limit."""
    grant = record.grant
    return {
        "id": grant.id,
        "name": grant.principal,
        "role": grant.role,
        "servers": None if grant.scope.servers is None else sorted(grant.scope.servers),
        "categories": None if grant.scope.categories is None else sorted(grant.scope.categories),
        "read_only": grant.scope.read_only,
        "profile": ", ".join(grant.scope.profiles),
        "state": token_state(record),
        "made_by": record.made_by,
        "made_at": record.made_at,
        "expires_at": record.expires_at,
        "revoked_by": record.revoked_by,
        "revoked_at": record.revoked_at,
    }


def token_state(record: TokenRecord) -> str:
    """`valid`, `expired` or `revoked`."""
    if record.revoked_at:
        return "revoked"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return "expired" if record.expires_at and record.expires_at <= now else "valid"


def _strangers(kind: str, names: Collection[str] | None, known_names: Collection[str]) -> Iterator[str]:
    for name in sorted(frozenset(names or ()) - frozenset(known_names)):
        yield f"there is no {kind} {quote_input(name)}{did_you_mean(name, known_names, lead='; ')}"


def _describe(record: TokenRecord) -> str:
    """A token in words, for the audit trail."""
    grant = record.grant
    limits = [
        f"{kind} {', '.join(sorted(names)) or 'none'}"
        for kind, names in (("servers", grant.scope.servers), ("categories", grant.scope.categories))
        if names is not None
    ]
    limits += ["read-only"] if grant.scope.read_only else []
    limits += [f"profile {name}" for name in grant.scope.profiles]
    return "; ".join([f"{record.id} for {grant.principal}, {grant.role}", *limits])
