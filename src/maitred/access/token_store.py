"""Store access tokens: create, list and revoke them, and find the grant of a token.

A token is `maitred_<id>_<secret>`. Scanners recognise the prefix, the id finds the row and may be shown, the
secret has 256 random bits. The database holds only the SHA-256 of the whole token: with that much randomness
a fast hash is as good as a slow one. Known tokens stay in memory for a second, or until the database tells of
a change. So another process's revocation takes effect within a second, and this process's at once.
"""

import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from maitred.errors import StoreAwayError
from maitred.model.access import EVERYTHING, LOCAL, ROLES, Grant, RefusedAccess, Role, Scope
from maitred.storage.database import Database, WriteOptions
from maitred.wording import quote_input

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

PREFIX: Final = "maitred"
RESERVED: Final = (LOCAL, "http", "folder", "kubernetes", "policy", "configuration", "maitred")
"""Principals that no token may have: the local user, the token of the settings, and parts of maitred.

Those parts decide by themselves, and the audit trail has their names.
"""

_LASTING: Final = WriteOptions(wait_s=5.0, durable=True, lasting=True)
_MAX_KNOWN: Final = 1_000
_MAX_TOKEN: Final = 200
_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]{{10}})_[\w-]{{20,}}", re.ASCII)
_PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_COLUMNS: Final = (
    "id", "principal", "role", "scope", "made_by", "made_at", "expires_at", "revoked_at", "revoked_by",
    "digest",
)  # fmt: skip
_LISTED: Final = f"SELECT {', '.join(f'tokens.{name}' for name in _COLUMNS)} FROM tokens"  # noqa: S608  # our own names
_NEWEST_FIRST: Final = f"{_LISTED} ORDER BY tokens.made_at DESC, tokens.id"
_BY_ID: Final = f"{_LISTED} WHERE tokens.id = ?"
_UNKNOWN: Final = RefusedAccess(reason="this token is not known (`maitred tokens create` makes one)")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class TokenRecord:
    """What may be shown of a token. Times are ISO 8601 in UTC; empty if there is none."""

    grant: Grant
    made_by: str
    made_at: str
    expires_at: str = ""
    revoked_at: str = ""
    revoked_by: str = ""

    @property
    def id(self) -> str:
        """The id by which the token is revoked."""
        return self.grant.id


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A new token; show `token` once, since it cannot be read again."""

    token: str
    record: TokenRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenRow:
    record: TokenRecord
    digest: str
    read_at: float


class Grants:
    """The tokens in a database, whose tables exist already; for one event loop.

    `fresh_s`: for so many seconds a token stays valid after another process revoked it. Every method raises
    `StoreError` if the database cannot be read or written: then no caller is admitted. Only while its server
    is away, a token that was read not longer than `grace_s` ago stays as it was.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], datetime] = _now,
        monotonic: Callable[[], float] = time.monotonic,
        fresh_s: float = 1.0,
        grace_s: float = 0.0,
    ) -> None:
        self._database = database
        self._clock = clock
        self._monotonic = monotonic
        self._fresh_s = fresh_s
        # no TTLCache: a row ages from before it is read, not from when it is kept
        self._cache: LRUCache[str, _TokenRow] = LRUCache(_MAX_KNOWN)
        self._grace_s = grace_s
        self._changed_at = -math.inf
        database.signals.listen("tokens", self._age)

    async def make(
        self,
        principal: str,
        role: Role,
        *,
        scope: Scope = EVERYTHING,
        lifetime: timedelta | None = None,
        by: str = LOCAL,
    ) -> NewToken:
        """Create a token for a principal; a `lifetime` of `None` never ends.

        Raises:
            ValueError: The name of the principal, the role or the lifetime is invalid.
        """
        if not _PRINCIPAL.fullmatch(principal) or principal in RESERVED:
            raise ValueError(
                f"{quote_input(principal)} cannot name a principal: take letters, digits and `._@-`, at most"
                f" 100, and not {' or '.join(map(repr, RESERVED))}"
            )
        if role not in ROLES:
            raise ValueError(f"{quote_input(role)} is not a role; there are {', '.join(ROLES)}")
        if lifetime is not None and lifetime <= timedelta(0):
            raise ValueError("a token has to be valid for some time")
        now = self._clock()
        grant = Grant(principal=principal, role=role, scope=scope, id=secrets.token_hex(5))
        token = f"{PREFIX}_{grant.id}_{secrets.token_urlsafe(32)}"
        record = TokenRecord(
            grant=grant,
            made_by=by,
            made_at=_text(now),
            expires_at=_text(now + lifetime) if lifetime is not None else "",
        )
        await self._add(record, _digest(token))
        return NewToken(token=token, record=record)

    async def _add(self, record: TokenRecord, digest: str) -> None:
        row = {
            "id": record.id,
            "principal": record.grant.principal,
            "role": record.grant.role,
            "scope": _limits(record.grant.scope),
            "made_by": record.made_by,
            "made_at": record.made_at,
            "expires_at": record.expires_at,
            "digest": digest,
        }

        def add(connection: "Connection") -> None:
            from maitred.storage.tables import tokens  # noqa: PLC0415  # SQLAlchemy is slow to import

            connection.execute(tokens.insert().values(**row))

        await self._database.write(add, _LASTING)

    async def listed(self) -> Sequence[TokenRecord]:
        """All tokens, the newest first, with those that expired or were revoked."""
        rows = await self._database.read_driver(
            lambda connection: connection.execute(_NEWEST_FIRST).fetchall()
        )
        return [_record(row) for row in rows]

    async def revoke(self, token_id: str, *, by: str = LOCAL) -> bool:
        """Revoke a token for good; false if no valid one has this id."""
        values = {"revoked_at": _text(self._clock()), "revoked_by": by}

        def revoke(connection: "Connection") -> int:
            from maitred.storage.tables import tokens  # noqa: PLC0415  # SQLAlchemy is slow to import

            valid = (tokens.c.id == token_id) & (tokens.c.revoked_at == "")
            return connection.execute(tokens.update().where(valid).values(**values)).rowcount

        try:
            count = await self._database.write(revoke, _LASTING)
        finally:
            self._cache.pop(token_id, None)
        return count > 0

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of a token, or why the token is refused."""
        match = _TOKEN.fullmatch(token) if len(token) <= _MAX_TOKEN else None
        if match is None:
            return _UNKNOWN
        row = await self._look_up(match[1])
        if row is None or not hmac.compare_digest(row.digest, _digest(token)):
            return _UNKNOWN
        why = self._why_refused(row.record)
        return RefusedAccess(reason=why) if why else row.record.grant

    async def why_ended(self, grant: Grant) -> str:
        """Why a grant that a token had is refused now; empty if it goes on, or is that of no token here."""
        if not grant.id:
            return ""
        row = await self._look_up(grant.id)
        return self._why_refused(row.record) if row else f"the token {grant.id} is not known any more"

    def _why_refused(self, record: TokenRecord) -> str:
        if record.revoked_at:
            return f"the token {record.id} was revoked on {record.revoked_at}"
        if record.expires_at and record.expires_at <= _text(self._clock()):
            return f"the token {record.id} expired on {record.expires_at}"
        if record.grant.role not in ROLES:
            return f"the token {record.id} has a role that this version does not know"
        return ""

    async def _look_up(self, token_id: str) -> _TokenRow | None:
        cached_row, now = self._cache.get(token_id), self._monotonic()
        if cached_row is not None and cached_row.read_at > max(now - self._fresh_s, self._changed_at):
            return cached_row
        try:
            row = await self._database.read_driver(
                lambda connection: connection.execute(_BY_ID, (token_id,)).fetchone()
            )
        except StoreAwayError:
            if cached_row is None or now - cached_row.read_at >= self._grace_s:
                raise
            return cached_row
        if row is None:
            self._cache.pop(token_id, None)
            return None
        cached_row = self._cache[token_id] = _TokenRow(record=_record(row), digest=row[-1], read_at=now)
        return cached_row

    def _age(self) -> None:
        """Have every token read again: another process changed one. While the database is away, they stay."""
        self._changed_at = self._monotonic()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def _limits(scope: Scope) -> dict[str, Any]:
    limits = {"servers": scope.servers, "categories": scope.categories}
    values = {name: sorted(limit) for name, limit in limits.items() if limit is not None}
    profiles = {"profiles": list(scope.profiles)} if scope.profiles else {}
    return {**values, **profiles, "read_only": scope.read_only}


def _scope(text: str) -> Scope:
    values = json.loads(text)
    limits = {name: frozenset(values[name]) if name in values else None for name in ("servers", "categories")}
    profiles = tuple(values.get("profiles", ()))
    servers, categories = limits["servers"], limits["categories"]
    return Scope(servers=servers, categories=categories, read_only=values["read_only"], profiles=profiles)


def _record(row: Sequence[Any]) -> TokenRecord:
    token_id, principal, role, scope, made_by, made_at, expires_at, revoked_at, revoked_by = row[:9]
    return TokenRecord(
        grant=Grant(principal=principal, role=role, scope=_scope(scope), id=token_id),
        made_by=made_by,
        made_at=made_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        revoked_by=revoked_by,
    )
