"""How servers are reached: a backend for each transport, with logins and the guard of addresses."""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from maitred.config.load import catalog_path
from maitred.config.settings import Settings
from maitred.wiring.containers import Containers
from maitred.wiring.orphans import ending_processes
from maitred.wiring.programs import Programs

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.admission.guard import GuardedTransport
    from maitred.backends.base import Backend
    from maitred.backends.oauth_client import Access
    from maitred.backends.pool import BackendPool
    from maitred.model.servers import ServerSpec


def make_pool(
    settings: Settings, in_process: "Mapping[str, Server]", *, serves: bool
) -> "tuple[BackendPool, Containers]":
    """All backends of a gateway; what they start is ended even if the gateway is killed.

    One that `serves` keeps servers running that are to run always, and ends what others left before it.
    """
    from maitred.backends.marks import catalog_of
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden

    catalog = catalog_path(settings)
    warden = Warden(catalog_of(catalog), path=catalog)
    containers = Containers(settings, warden)
    programs = Programs(settings, warden, containers.others)

    def close() -> None:
        containers.close()
        warden.close()

    pool = BackendPool(
        lambda spec: make_backend(spec, settings, in_process, containers, programs),
        max_starting=settings.limits.max_starting,
        on_close=close,
        supervision=settings.supervision,
        keeps_running=serves,
        prepare=ending_processes(catalog) if serves else None,
    )
    return pool, containers


def make_backend(
    spec: "ServerSpec",
    settings: Settings,
    in_process: "Mapping[str, Server]",
    containers: Containers,
    programs: Programs,
) -> "Backend":
    """The backend of a specification, by its transport.

    Raises:
        ConnectError: There is no such transport.
    """
    match spec.transport:
        case "stdio":
            return containers.beside(programs.backend(spec))
        case "container":
            return containers.backend(spec)
        case "http" | "sse":
            return _make_http(spec, settings)
        case "memory":
            from maitred.backends.memory import MemoryBackend

            return MemoryBackend(spec, in_process[spec.name], limits=settings.limits)
        case "chain":
            from maitred.gateway.saved import SavedBackend

            return SavedBackend(spec)
        case unknown:
            from maitred.backends.base import ConnectError

            raise ConnectError(f"its transport {unknown!r} is unknown, and nothing is opened by it")


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
