"""Tokens that callers send to the gateway: exchanged for tokens of a server (RFC 8693), or forwarded to it.

What comes back from an exchange is kept until it ends, and used for the same principal and server.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from pydantic_core import from_json

from maitred.backends.base import ConnectError, LoginNeededError
from maitred.backends.listing import clean
from maitred.backends.oauth.caller_token_memory import CallerTokens, ExchangedToken, audience_of, end_of
from maitred.backends.oauth.client import LoginTarget
from maitred.config.redaction import SECRETS
from maitred.config.sections import is_loopback
from maitred.model.servers import TokenExchange

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # the name of a kind

_MARGIN_S: Final = 10.0
_UNKNOWN_S: Final = 60.0
_LONGEST: Final = 200
_OK: Final = 200
_REFUSING: Final = frozenset({400, 401, 403})


class _CallerTokenSource:
    """What both kinds of tokens have in common; implements a part of `maitred.backends.http.TokenSource`."""

    def __init__(self, access: LoginTarget, callers: CallerTokens) -> None:
        self._access = access
        self._callers = callers

    @property
    def scope(self) -> str:
        """See `TokenSource`."""
        return ""

    @property
    def remedy(self) -> str:
        """See `TokenSource`."""
        return "call the gateway with another token of its authorization server (`http.jwt`)"

    def _own(self) -> str:
        principal = self._access.principal
        token = self._callers.token_of(principal)
        if not token:
            who = repr(principal) if principal else "the gateway itself"
            raise LoginNeededError(
                f"it takes the callers' own tokens, and {who} has none that is good now: call the gateway"
                " over HTTP with a token of its authorization server (`http.jwt`)"
            )
        return token


class ExchangedTokens(_CallerTokenSource):
    """Exchanges the caller's token for one of the server, once for all calls of the principal."""

    @property
    def scope(self) -> str:
        """See `TokenSource`."""
        known = self._callers.exchanged.get(self._place)
        return known.scope if known else ""

    @property
    def _place(self) -> tuple[str, str]:
        return self._access.principal, self._access.spec.name

    async def token(self) -> str:
        """See `TokenSource`."""
        own = self._own()  # also where a token of the server is kept: a caller without one gets none
        known = self._known()
        return known.token if known else await self._exchanged(own, "")

    async def renewed(self, refused: str) -> str:
        """See `TokenSource`."""
        return await self._exchanged(self._own(), refused)

    def _known(self) -> ExchangedToken | None:
        known = self._callers.exchanged.get(self._place)
        return known if known and known.ends_at - _MARGIN_S > self._callers.clock() else None

    async def _exchanged(self, own: str, refused: str) -> str:
        async with self._callers.lock(self._place):
            known = self._known()
            if known is not None and known.token != refused:
                return known.token  # another call exchanged it meanwhile
            got = await self._send(own)
            if got.token == refused:
                raise LoginNeededError(f"it refuses the token that it was exchanged for: {self.remedy}")
            SECRETS.learn_named({"access_token": got.token})
            self._callers.exchanged[self._place] = got
            return got.token

    async def _send(self, own: str) -> ExchangedToken:
        url, auth = await self._access.resolved()
        if auth.exchange is None:
            raise ConnectError("its configuration has no `auth.exchange` any more")
        try:
            async with self._access.sending() as send:
                response = await send(_request(auth.exchange, url, own))
        except httpx2.HTTPError as error:
            told = clean(str(error) or type(error).__name__)[:_LONGEST]
            raise ConnectError(f"no token can be had for it now: {told}") from error
        answer = _object(response)
        if response.status_code in _REFUSING and isinstance(answer.get("error"), str):
            told = clean(answer["error"])[:_LONGEST]
            raise LoginNeededError(f"the token of {self._access.principal!r} was not exchanged ({told})")
        return self._read_answer(response.status_code, answer, auth.exchange, url, own)

    def _read_answer(
        self, status: int, answer: Mapping[str, Any], exchange: TokenExchange, url: str, own: str
    ) -> ExchangedToken:
        token, lasts_s = answer.get("access_token"), answer.get("expires_in")
        if status != _OK or not isinstance(token, str) or not token:
            raise ConnectError(f"no token can be had for it now: the exchange answered HTTP {status}")
        audience = audience_of(token)
        wanted = {exchange.audience} if exchange.audience else {url, _origin(url)}
        if token == own or (audience is not None and not wanted & audience):
            raise ConnectError(
                "the exchange answered with a token that is not for this server alone; see `auth.exchange`"
            )
        now = self._callers.clock()
        ends_at = end_of(token, now + _UNKNOWN_S)
        if isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool):
            ends_at = now + lasts_s
        scope = answer.get("scope")
        return ExchangedToken(token=token, ends_at=ends_at, scope=scope if isinstance(scope, str) else "")


class ForwardedTokens(_CallerTokenSource):
    """Sends the caller's own token, where the operator and the token itself allow that."""

    async def token(self) -> str:
        """See `TokenSource`."""
        url, auth = await self._access.resolved()
        parts = urlsplit(url)
        host = parts.hostname or ""
        if host not in auth.forward_to:
            raise ConnectError(
                f"tokens of callers are not sent to {host}: the operator adds it to `http.jwt.forward_to`"
            )
        if parts.scheme != "https" and not is_loopback(host):
            raise ConnectError(f"tokens of callers are not sent to {host} without https")
        own = self._own()
        if not {url, _origin(url)} & (audience_of(own) or set()):
            raise LoginNeededError(
                f"the token of {self._access.principal!r} is not for it: its audience (`aud`) must have"
                f" {_origin(url)} besides the gateway"
            )
        return own

    async def renewed(self, refused: str) -> str:
        """See `TokenSource`."""
        own = await self.token()
        if own == refused:
            raise LoginNeededError(f"it refuses the token of {self._access.principal!r}: {self.remedy}")
        return own


def _request(exchange: TokenExchange, url: str, own: str) -> httpx2.Request:
    """The request of RFC 8693, with the server as the resource (RFC 8707)."""
    form = {
        "grant_type": GRANT_TYPE,
        "subject_token": own,
        "subject_token_type": ACCESS_TOKEN,
        "requested_token_type": ACCESS_TOKEN,
        "resource": url,
        "audience": exchange.audience,
        "scope": " ".join(exchange.scopes),
    }
    headers = {"Accept": "application/json"}
    if exchange.client_secret:
        pair = f"{_form_text(exchange.client_id)}:{_form_text(exchange.client_secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = exchange.client_id
    data = {key: value for key, value in form.items() if value}
    return httpx2.Request("POST", exchange.token_url, data=data, headers=headers)


def _form_text(text: str) -> str:
    """A part of Basic credentials as RFC 6749, 2.3.1, wants it."""
    return str(httpx2.QueryParams({"x": text})).removeprefix("x=")


def _object(response: httpx2.Response) -> Mapping[str, Any]:
    try:
        answer = from_json(response.content)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
