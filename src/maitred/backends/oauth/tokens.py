"""The tokens of a login to a server, that of the gateway or of one principal, renewed when they expire.

This module never starts a login. Without one, or if it cannot be renewed, the error names the command to run.
A refresh token is often valid for one use only. So of all calls and processes only one renews a login,
and the others wait for its result.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import anyio
import httpx2
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError
from pydantic_core import from_json

from maitred.backends.base import ConnectError, LoginNeededError
from maitred.backends.listing import clean
from maitred.backends.oauth.client import Client, LoginTarget
from maitred.backends.oauth.grants import KeptGrant, LoginGrant, login_command
from maitred.config.redaction import SECRETS
from maitred.errors import StoreError, VaultError

_FRESH_S = 2.0
_MARGIN_S = 10.0
_RENEWAL_S = 60.0
_LOOK_AGAIN_S = 0.05
_LONGEST = 200
_REFUSING = frozenset({400, 401, 403})


class OAuthTokens:
    """Implements `maitred.backends.http.TokenSource`; one for each backend."""

    def __init__(self, access: LoginTarget, *, clock: Callable[[], float] = time.time) -> None:
        self._access = access
        self._server = access.spec.name
        self._clock = clock
        self._lock = anyio.Lock()
        self._known: LoginGrant | None = None
        self._read_at = 0.0

    @property
    def scope(self) -> str:
        """The scopes of the last token; see `TokenSource`."""
        return self._known.scope if self._known is not None else ""

    @property
    def remedy(self) -> str:
        """The command that helps; see `TokenSource`."""
        return f"run `{login_command(self._server, self._access.principal)}`"

    async def token(self) -> str:
        """The present token, renewed if it has expired; see `TokenSource`."""
        grant = self._known
        if grant is None or time.monotonic() - self._read_at > _FRESH_S:
            with _connect_errors():
                _, grant = await self._load()
        return await self.renewed(grant.access_token) if self._is_over(grant) else grant.access_token

    async def renewed(self, refused: str) -> str:
        """Another token than this one; see `TokenSource`."""
        async with self._lock:
            with _connect_errors(), anyio.move_on_after(_RENEWAL_S):
                while True:
                    kept, grant = await self._load()
                    if grant.access_token != refused and not self._is_over(grant):
                        return grant.access_token
                    if not grant.refresh_token:
                        if self._access.principal:  # so that the principal is asked to log in
                            await self._access.store.forget(self._server, after=kept.version)
                        raise self._login_needed("its login has ended")
                    if await self._access.store.claim(self._server, kept.version, for_s=_RENEWAL_S):
                        with anyio.CancelScope(shield=True):  # the old token may be used up by now
                            return await self._renew(kept, grant)
                    await anyio.sleep(_LOOK_AGAIN_S)  # another process is renewing it
        raise ConnectError("another process is renewing its login, so far without success")

    def _is_over(self, grant: LoginGrant) -> bool:
        return grant.expires_at is not None and grant.expires_at - _MARGIN_S < self._clock()

    async def _load(self) -> tuple[KeptGrant, LoginGrant]:
        """The stored grant, if it is for this server."""
        url, auth = await self._access.resolved()
        kept = await self._access.store.load(self._server)
        if kept is None:
            raise self._login_needed("it needs a login")
        grant = LoginGrant.from_bytes(kept.body)
        if grant.url != url:
            raise self._login_needed("its address has changed since the login")
        if auth.client_id and grant.client.get("client_id") != auth.client_id:
            raise self._login_needed("its `auth.client_id` has changed since the login")
        self._know(grant)
        return kept, grant

    async def _renew(self, kept: KeptGrant, grant: LoginGrant) -> str:
        """Exchange the refresh token; the caller holds the claim."""
        try:
            response = await self._send_renewal(grant)
        except (ConnectError, httpx2.HTTPError) as error:
            await self._access.store.release(self._server, kept.version)
            told = str(error) or type(error).__name__
            raise ConnectError(f"its login cannot be renewed now: {clean(told)[:_LONGEST]}") from error
        refusal = _refusal(response)
        if refusal and response.status_code in _REFUSING:
            await self._access.store.forget(self._server, after=kept.version)
            raise self._login_needed(f"its login has ended ({refusal})")
        try:
            tokens = OAuthToken.model_validate_json(response.content)
        except ValidationError:
            await self._access.store.release(self._server, kept.version)
            told = f"its authorization server answered HTTP {response.status_code}"
            raise ConnectError(f"its login cannot be renewed now: {told}") from None
        fresh = replace(
            grant,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or grant.refresh_token,
            scope=tokens.scope or grant.scope,
            expires_at=None if tokens.expires_in is None else self._clock() + tokens.expires_in,
        )
        if not await self._access.store.save(self._server, fresh.to_bytes(), after=kept.version):
            _, fresh = await self._load()  # the operator logged in or out in the meantime
        self._know(fresh)
        return fresh.access_token

    def _know(self, grant: LoginGrant) -> None:
        SECRETS.learn_named(grant.credentials)
        self._known, self._read_at = grant, time.monotonic()

    async def _send_renewal(self, grant: LoginGrant) -> httpx2.Response:
        url, auth = await self._access.resolved()
        client = Client(url, auth, redirect_uri=auth.redirect_uri)
        client.resume(grant)
        async with self._access.sending() as send:
            return await send(await client.renewal())

    def _login_needed(self, why: str) -> LoginNeededError:
        self._known = None
        return LoginNeededError(f"{why}: {self.remedy}")


@contextmanager
def _connect_errors() -> Iterator[None]:
    """Turn errors of the store into reasons why the server cannot be reached."""
    try:
        yield
    except VaultError as error:
        raise LoginNeededError(str(error)) from error
    except StoreError as error:
        raise ConnectError(str(error)) from error


def _refusal(response: httpx2.Response) -> str:
    """The OAuth error code of an answer, empty if it has none."""
    try:
        told = from_json(response.content)
    except ValueError:
        return ""
    error = told.get("error") if isinstance(told, dict) else None
    return clean(error)[:_LONGEST] if isinstance(error, str) else ""
