"""Makes what a login to a server needs, and the transport that leads to allowed addresses only."""

from functools import partial
from typing import TYPE_CHECKING

from maitred.config.settings import Settings
from maitred.wiring.references import resolver_of
from maitred.wiring.storage import vault_of

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.admission.guarded_transport import GuardedTransport
    from maitred.backends.http import TokenSource
    from maitred.backends.oauth.caller_token_memory import CallerTokens
    from maitred.backends.oauth.client import LoginTarget
    from maitred.backends.oauth.login_requests import LoginRequests
    from maitred.model.servers import ServerSpec


def make_guarded(spec: "ServerSpec") -> "GuardedTransport":
    """A transport that refuses addresses which a server may not lead to."""
    from maitred.admission.addresses import networks
    from maitred.admission.guarded_transport import GuardedTransport

    return GuardedTransport(exempted=networks(spec.exempted))


def make_access(spec: "ServerSpec", settings: Settings, principal: str = "") -> "LoginTarget":
    """What a login of a principal to a server, or a logout, needs; without a name, it is the gateway's."""
    from maitred.backends.oauth.client import LoginTarget

    return LoginTarget(
        spec=spec,
        resolve=resolver_of(spec, settings),
        principal=principal,
        store=vault_of(settings, principal),
        make_transport=partial(make_guarded, spec),
    )


def make_tokens(access: "LoginTarget", callers: "CallerTokens") -> "TokenSource":
    """The tokens for requests of a principal to a server, by what its `auth` says."""
    from maitred.backends.oauth.caller_tokens import ExchangedTokens, ForwardedTokens
    from maitred.backends.oauth.tokens import OAuthTokens

    auth = access.spec.auth
    if auth is not None and auth.exchange is not None:
        return ExchangedTokens(access, callers)
    if auth is not None and auth.forward:
        return ForwardedTokens(access, callers)
    return OAuthTokens(access)


def make_login_requests(settings: Settings) -> "LoginRequests":
    """The logins that principals are asked for while the gateway runs."""
    from maitred.backends.oauth.login_requests import LoginRequests

    requests = LoginRequests(
        lambda spec, principal: make_access(spec, settings, principal), partial(vault_of, settings)
    )
    requests.serve_at(settings.http.public_url)
    return requests
