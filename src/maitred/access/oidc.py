"""Sign people in at an OpenID provider: the authorization code flow with PKCE (S256).

It makes the address to go to, and turns the provider's answer into checked claims. A browser carries the
values of a sign-in from one to the other; `maitred.surfaces.web.sign_in` ties them to it. The provider is
known by its discovery document, whose issuer has to be the one of the settings, to the character.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import anyio
import httpx2
import jwt
import structlog

from maitred.access.jwt import JwtPolicy, JwtVerifier, KeySet, fetch_keys
from maitred.config.sections import is_safe_url
from maitred.config.settings import SignIn
from maitred.errors import SignInError
from maitred.model.access import RefusedAccess
from maitred.model.sign_in import SignedIn, SignInStart
from maitred.tls import tls_context

log = structlog.get_logger(__name__)

CALLBACK: Final = "/ui/login/callback"
"""Where the provider sends browsers back to."""
AFTER: Final = "/ui/enter"
"""Where the provider may send browsers after they have signed out."""
_DISCOVERY: Final = "/.well-known/openid-configuration"
_MAX_AGE_S: Final = 3_600.0
_MAX_BYTES: Final = 256 * 1024
_MOST_TEXT: Final = 200
_TIMEOUT_S: Final = 10.0
_RETRY: Final = "try again; if it goes on, ask the operator of this gateway"
_CHECK: Final = "ask the operator of this gateway to check `access.sign_in`"


@dataclass(frozen=True, kw_only=True)
class _Provider:
    """The part of a discovery document that is used."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    end_session_endpoint: str
    methods: frozenset[str]
    names_itself: bool
    """Whether its answers have the parameter `iss` (RFC 9207)."""


class OidcClient:
    """Signs people in at the provider of the settings. `resolve` replaces references in the client's secret.

    `clock` returns seconds since 1970.
    """

    def __init__(
        self, settings: SignIn, resolve: Callable[[str], str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self._resolve = resolve
        self._clock = clock
        self._provider: _Provider | None = None
        self._read_at = float("-inf")
        self._verifier: JwtVerifier | None = None
        self._lock = anyio.Lock()
        self._here = settings.url.rstrip("/")

    async def start(self) -> SignInStart:
        """Begin a sign-in.

        Raises:
            SignInError: The provider cannot be reached, or cannot be used.
        """
        provider, _ = await self._known()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._here + CALLBACK,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _base64(digest),
            "code_challenge_method": "S256",
        }
        url = _with_query(provider.authorization_endpoint, asked)
        return SignInStart(url=url, state=state, nonce=nonce, verifier=verifier)

    async def finish(self, answer: Mapping[str, str], begun: SignInStart) -> SignedIn:
        """The person of an answer that the provider sent a browser back with.

        Raises:
            SignInError: The provider refused, or its answer is not good; the text says what to do.
        """
        provider, verifier = await self._known()
        self._check_answer(answer, begun, provider)
        tokens = await self._exchange(answer.get("code", ""), begun, provider)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise SignInError("the provider sent no ID token", _CHECK)
        claims = await verifier.claims_of(id_token)
        if isinstance(claims, RefusedAccess):
            advice = _RETRY if claims.unavailable else _CHECK
            raise SignInError(f"the ID token of the provider is refused: {claims.reason}", advice)
        self._check_claims(claims, begun, tokens, id_token)
        claims = {**await self._user(claims, tokens, provider), **claims}
        claims.setdefault("scope", str(tokens.get("scope", " ".join(self.settings.scopes))))
        return SignedIn(
            claims=claims,
            expires_at=float(claims["exp"]),
            sign_out_url=self._sign_out_url(id_token, provider),
        )

    # --- checks -------------------------------------------------------------------------------------------

    def _check_answer(self, answer: Mapping[str, str], begun: SignInStart, provider: _Provider) -> None:
        if not hmac.compare_digest(answer.get("state", "").encode(), begun.state.encode()):
            raise SignInError("the answer belongs to another sign-in", "start again")
        issuer = answer.get("iss")
        if issuer is None and provider.names_itself:
            raise SignInError("the answer does not say which provider it comes from", _RETRY)
        if issuer is not None and issuer != self.settings.issuer:
            raise SignInError("the answer comes from another provider", "start again, and tell the operator")
        if reason := answer.get("error"):
            said = answer.get("error_description", "")
            text = f"the provider refused: {reason[:_MOST_TEXT]}{f' ({said[:_MOST_TEXT]})' if said else ''}"
            raise SignInError(text, "sign in with an account that may use this gateway, or ask its operator")
        if not answer.get("code"):
            raise SignInError("the provider sent no code", "start again")

    def _check_claims(
        self, claims: Mapping[str, Any], begun: SignInStart, tokens: Mapping[str, Any], id_token: str
    ) -> None:
        """Check what is particular to ID tokens (OpenID Connect Core, 3.1.3.7)."""
        audience, party = claims["aud"], claims.get("azp")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if (is_shared or party is not None) and party != self.settings.client_id:
            raise SignInError("the ID token was made for another client (azp)", _CHECK)
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), begun.nonce.encode()):
            raise SignInError("the ID token belongs to another sign-in (nonce)", "start again")
        digest, algorithm = claims.get("at_hash"), str(jwt.get_unverified_header(id_token)["alg"])
        if digest is not None and algorithm[2:] in ("256", "384", "512"):
            whole = hashlib.new(f"sha{algorithm[2:]}", str(tokens.get("access_token", "")).encode()).digest()
            if digest != _base64(whole[: len(whole) // 2]):
                raise SignInError("the ID token belongs to another access token (at_hash)", _CHECK)

    # --- the provider -------------------------------------------------------------------------------------

    async def _known(self) -> tuple[_Provider, JwtVerifier]:
        """The provider as it describes itself, and what checks its ID tokens."""
        async with self._lock:
            if self._provider is None or self._clock() - self._read_at >= _MAX_AGE_S:
                document = await self._ask("GET", self.settings.issuer.rstrip("/") + _DISCOVERY)
                found = _read(document, self.settings.issuer)
                if (
                    self._verifier is None
                    or self._provider is None
                    or found.jwks_uri != self._provider.jwks_uri
                ):
                    keys = KeySet(partial(fetch_keys, found.jwks_uri))
                    policy = JwtPolicy(issuer=self.settings.issuer, audiences=(self.settings.client_id,))
                    self._verifier = JwtVerifier(policy, keys, clock=self._clock)
                self._provider, self._read_at = found, self._clock()
            assert self._verifier is not None  # noqa: S101  # made with the provider
            return self._provider, self._verifier

    async def _exchange(self, code: str, begun: SignInStart, provider: _Provider) -> Mapping[str, Any]:
        """The tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._here + CALLBACK,
            "code_verifier": begun.verifier,
        }
        headers = dict[str, str]()
        client_id, secret = self.settings.client_id, await self._secret()
        if not secret:
            form["client_id"] = client_id
        elif "client_secret_basic" in provider.methods:
            pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": secret}
        return await self._ask("POST", provider.token_endpoint, headers, form)

    async def _secret(self) -> str:
        """The secret of the client; the keyring or a command may take long."""
        if not self.settings.client_secret:
            return ""
        resolving = partial(self._resolve, self.settings.client_secret)
        try:
            return await anyio.to_thread.run_sync(resolving, abandon_on_cancel=True)
        except Exception as error:  # whatever a keyring or a command raises, the operator is to look there
            log.warning("the secret of the sign-in cannot be read", reason=str(error))
            raise SignInError("the secret of this client cannot be read", _CHECK) from error

    async def _user(
        self, claims: Mapping[str, Any], tokens: Mapping[str, Any], provider: _Provider
    ) -> dict[str, Any]:
        """More claims about the person: many providers have the groups there, and not in the ID token."""
        token = tokens.get("access_token")
        if not provider.userinfo_endpoint or not isinstance(token, str) or not token.isascii():
            return {}
        headers = {"Authorization": f"Bearer {token}"}
        user = await self._ask("GET", provider.userinfo_endpoint, headers)
        if user.get("sub") != claims["sub"]:
            raise SignInError("the provider describes another person", _RETRY)
        return dict(user)

    def _sign_out_url(self, id_token: str, provider: _Provider) -> str:
        if not provider.end_session_endpoint:
            return ""
        asked = {
            "id_token_hint": id_token,
            "client_id": self.settings.client_id,
            "post_logout_redirect_uri": self._here + AFTER,
        }
        return _with_query(provider.end_session_endpoint, asked)

    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """The JSON object that an address of the provider answers with; redirects are not followed.

        Raises:
            SignInError: It cannot be reached, answers with an error, or with something else.
        """
        where = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{urlsplit(url).path}"
        body = b""
        try:
            with anyio.fail_after(_TIMEOUT_S):
                async with (
                    httpx2.AsyncClient(timeout=_TIMEOUT_S, verify=tls_context()) as client,
                    client.stream(
                        method, url, headers={"Accept": "application/json", **(headers or {})}, data=form
                    ) as response,
                ):
                    async for piece in response.aiter_bytes():
                        body += piece
                        if len(body) > _MAX_BYTES:
                            raise SignInError(f"{where} answered with too much", _CHECK)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise SignInError(f"{where} cannot be reached ({type(error).__name__})", _RETRY) from error
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if response.status_code != httpx2.codes.OK:
            reason = found.get("error") if isinstance(found, dict) else ""
            said = f": {str(reason)[:_MOST_TEXT]}" if reason else ""
            raise SignInError(f"{where} answered with {response.status_code}{said}", _CHECK)
        if not isinstance(found, dict):
            raise SignInError(f"{where} did not answer with a JSON object", _CHECK)
        return found


def _read(document: Mapping[str, Any], issuer: str) -> _Provider:
    """The part of a discovery document that is used.

    Raises:
        SignInError: It is that of another issuer, lacks an address, or has one that is not safe.
    """
    if document.get("issuer") != issuer:
        named = str(document.get("issuer"))[:_MOST_TEXT]
        raise SignInError(f"the provider calls itself {named!r} and not {issuer!r}", _CHECK)
    urls = dict[str, str]()
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        urls[name] = str(document.get(name, ""))
        if not is_safe_url(urls[name]):
            raise SignInError(f"the provider has no {name} that can be used", _CHECK)
    for name in ("userinfo_endpoint", "end_session_endpoint"):
        url = document.get(name)
        urls[name] = url if isinstance(url, str) and is_safe_url(url) else ""
    challenges = document.get("code_challenge_methods_supported")
    if isinstance(challenges, list) and "S256" not in challenges:
        raise SignInError("the provider does not offer PKCE with S256", _CHECK)
    methods = document.get("token_endpoint_auth_methods_supported")
    return _Provider(
        **urls,
        methods=frozenset(map(str, methods if isinstance(methods, list) else ["client_secret_basic"])),
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(fields)}"


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
