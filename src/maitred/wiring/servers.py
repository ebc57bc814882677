"""How servers are reached: a backend for each transport, with logins and the guard of addresses."""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from maitred.config.load import catalog_path
from maitred.config.settings import Settings

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.admission.guard import GuardedTransport
    from maitred.backends.base import Backend
    from maitred.backends.oauth_client import Access
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden
    from maitred.model.servers import ServerSpec


def make_pool(settings: Settings, in_process: "Mapping[str, Server]") -> "BackendPool":
    """All backends of a gateway; what they start is ended even if the gateway is killed."""
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden

    warden = Warden()
    return BackendPool(
        lambda spec: make_backend(spec, settings, warden, in_process),
        max_starting=settings.limits.max_starting,
        on_close=warden.close,
    )


def make_backend(
    spec: "ServerSpec", settings: Settings, warden: "Warden", in_process: "Mapping[str, Server]"
) -> "Backend":
    """The backend of a specification, by its transport."""
    if spec.transport == "chain":
        from maitred.gateway.saved import SavedBackend

        return SavedBackend(spec)

    from maitred.backends.memory import MemoryBackend
    from maitred.backends.stdio import StdioBackend
    from maitred.config.interpolate import resolver

    resolve = resolver(os.environ)
    if spec.transport == "memory":
        return MemoryBackend(spec, in_process[spec.name], limits=settings.limits)
    if spec.transport == "stdio":
        return StdioBackend(spec, resolve=resolve, limits=settings.limits, warden=warden)
    return _make_http(spec, settings)


def _make_http(spec: "ServerSpec", settings: Settings) -> "Backend":
    """The backend of a server on HTTP: one that came by a manifest reaches no forbidden address."""
    from maitred.backends.http import HttpBackend
    from maitred.config.interpolate import resolver

    tokens = None
    if spec.auth is not None:
        from maitred.backends.oauth import OAuthTokens

        tokens = OAuthTokens(make_access(spec, settings))
    return HttpBackend(
        spec,
        resolve=resolver(os.environ),
        limits=settings.limits,
        make_transport=partial(make_guarded, spec) if spec.registered else None,
        tokens=tokens,
    )


def make_guarded(spec: "ServerSpec") -> "GuardedTransport":
    """A transport that refuses addresses which a server may not lead to."""
    from maitred.admission.addresses import networks
    from maitred.admission.guard import GuardedTransport

    return GuardedTransport(exempted=networks(spec.exempted))


def make_access(spec: "ServerSpec", settings: Settings) -> "Access":
    """What logging in to a server, and out of it, needs."""
    from maitred.backends.oauth_client import Access
    from maitred.catalog.vault import Vault
    from maitred.config.interpolate import resolver

    return Access(
        spec=spec,
        resolve=resolver(os.environ),
        store=Vault(catalog_path(settings), key=os.environ.get("MAITRED_KEY", "")),
        make_transport=partial(make_guarded, spec),
    )
