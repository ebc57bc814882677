"""Makes what a login to a server needs, and the transport that leads to allowed addresses only."""

from functools import partial
from typing import TYPE_CHECKING

from maitred.config.settings import Settings
from maitred.wiring.references import resolver_of
from maitred.wiring.storage import vault_of

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.admission.guarded_transport import GuardedTransport
    from maitred.backends.oauth.client import LoginTarget
    from maitred.model.servers import ServerSpec


def make_guarded(spec: "ServerSpec") -> "GuardedTransport":
    """A transport that refuses addresses which a server may not lead to."""
    from maitred.admission.addresses import networks
    from maitred.admission.guarded_transport import GuardedTransport

    return GuardedTransport(exempted=networks(spec.exempted))


def make_access(spec: "ServerSpec", settings: Settings) -> "LoginTarget":
    """What a login to a server, or a logout, needs."""
    from maitred.backends.oauth.client import LoginTarget

    return LoginTarget(
        spec=spec,
        resolve=resolver_of(spec, settings),
        store=vault_of(settings),
        make_transport=partial(make_guarded, spec),
    )
