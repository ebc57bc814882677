"""Sign in at the provider of the settings: the way there, and the way back.

What a sign-in has to know on the way back is in a cookie of the browser, encrypted with a key of this
process. So an answer counts only in the browser that asked for it, and strangers fill no memory here.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from maitred.config.settings import SignIn
from maitred.errors import SignInError
from maitred.gateway import Gateway
from maitred.model.access import Grant
from maitred.model.sign_in import SignedIn, SignInStart
from maitred.surfaces.web.screen import BASE, Form, url_of

_LASTS_S: Final = 600
"""For how long a person may take at the provider."""
_PATH: Final = f"{BASE}/login"
_STATE: Final = re.compile(r"[\w-]{20,100}", re.ASCII)
_AGAIN: Final = "start again"
_MOVED: Final = "moved"


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A person who came back from the provider, and the page to go on to."""

    person: SignedIn
    grant: Grant
    onward: str
    lasts_s: float


class ProviderEntrance:
    """Sends browsers to the provider of a gateway, and receives them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._seal = Fernet(Fernet.generate_key())

    async def leave(self, request: Request, query: Form, onward: str) -> Response:
        """The answer that leads to the provider.

        Raises:
            SignInError: It cannot be used now.
        """
        settings = self._settings()
        if request.headers.get("host", "").lower() != urlsplit(settings.url).netloc.lower():
            return _to_own_name(settings, query, onward)
        begun = await self._gateway.start_sign_in()
        values = {"state": begun.state, "nonce": begun.nonce, "verifier": begun.verifier, "onward": onward}
        answer = RedirectResponse(begun.url, 303)
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.set_cookie(
            _cookie(begun.state),
            self._seal.encrypt(json.dumps(values).encode()).decode(),
            max_age=_LASTS_S,
            path=_PATH,
            httponly=True,
            samesite="lax",  # the way back begins at the provider's site
            secure=is_secure(settings),
        )
        return answer

    async def arrive(self, request: Request, query: Form) -> Arrival:
        """The person whom the provider sent back.

        Raises:
            SignInError: Its answer is not good, or this browser did not ask for it.
            StoreError: The sign-in cannot be recorded.
        """
        settings, fields = self._settings(), {name: query.text(name) for name in query.names()}
        if len(fields) < len(query.names()):
            raise SignInError("the provider's answer says something twice", _AGAIN)
        values = self._opened(request, fields.get("state", ""))
        begun = SignInStart(url="", state=values["state"], nonce=values["nonce"], verifier=values["verifier"])
        person, grant = await self._gateway.finish_sign_in(fields, begun)
        lasts_s = settings.session_s or person.expires_at - time.time()
        return Arrival(person=person, grant=grant, onward=values["onward"], lasts_s=lasts_s)

    def forget(self, request: Request, answer: Response) -> None:
        """Take back the cookie of the sign-in that a request ends: it is good once."""
        for state in request.query_params.getlist("state"):
            if _STATE.fullmatch(state):
                answer.delete_cookie(_cookie(state), path=_PATH)

    def _settings(self) -> SignIn:
        settings = self._gateway.sign_in
        if settings is None:
            raise SignInError("no provider is set here", "enter with an access token")
        return settings

    def _opened(self, request: Request, state: str) -> Mapping[str, str]:
        """What the cookie of a sign-in says."""
        sealed = request.cookies.get(_cookie(state), "") if _STATE.fullmatch(state) else ""
        try:
            values: Mapping[str, str] = json.loads(self._seal.decrypt(sealed.encode(), ttl=_LASTS_S))
        except (InvalidToken, ValueError):
            reason = "this sign-in did not begin in this browser, or began more than ten minutes ago"
            raise SignInError(reason, _AGAIN) from None
        return values


def is_secure(settings: SignIn) -> bool:
    """Whether browsers reach the pages over TLS."""
    return settings.url.startswith("https://")


def _to_own_name(settings: SignIn, query: Form, onward: str) -> Response:
    """Lead a browser to the name of the settings, since the provider sends it back there, to its cookies."""
    if query.text(_MOVED):
        raise SignInError(
            f"this gateway is not reached by the name in {settings.url!r}",
            "ask its operator to check `access.sign_in.url`, and that the proxy passes `Host` on",
        )
    return RedirectResponse(settings.url.rstrip("/") + url_of("login", next=onward, moved=1), 303)


def _cookie(state: str) -> str:
    """The name of the cookie: people may sign in in several tabs at once."""
    return f"maitred_sign_in_{state[:8]}"
