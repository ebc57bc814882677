"""Makes the backend of a server by its transport, and the pool of all backends of a gateway.

`MAKERS` has the function of each transport. The warden ends the processes of all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from maitred.config.load import catalog_path
from maitred.config.settings import Settings
from maitred.model.transports import UnknownTransportError, transport_kind
from maitred.thread_import import import_in_thread
from maitred.wiring.exceptions import single_error
from maitred.wiring.isolation import Containers, Programs
from maitred.wiring.logins import make_access, make_guarded, make_tokens
from maitred.wiring.orphans import ending_processes
from maitred.wiring.references import resolver_of

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.admission.definition import Definition
    from maitred.backends.base import Backend, Listener
    from maitred.backends.http import TokenSource
    from maitred.backends.oauth.caller_token_memory import CallerTokens
    from maitred.backends.placement import ServerPlacement
    from maitred.backends.pool import BackendPool
    from maitred.browser.browsers import Browsers
    from maitred.model.servers import ServerSpec


def make_pool(
    settings: Settings,
    in_process: "Mapping[str, Server]",
    callers: "CallerTokens",
    *,
    listener: "Listener",
    serves: bool,
    alone: bool = False,
    placement: "ServerPlacement | None" = None,
) -> "tuple[BackendPool, Containers]":
    """All backends of a gateway. The warden ends their processes even if the gateway is killed.

    If it `serves`, it keeps servers with `start: always` running, and first ends what killed gateways left.
    If its client is `alone`, no server has more than one instance. `placement` finds the replica that runs a
    server, where there are several.
    """
    from maitred.backends.orphans import catalog_of
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden

    catalog = catalog_path(settings)
    warden = Warden(catalog_of(catalog), path=catalog)
    containers = Containers(settings, warden)
    programs = Programs(settings, warden, containers.others)

    @cache
    def browsers() -> "Browsers":
        """The browsers of the gateway, which the pool holds open."""
        from maitred.browser.browsers import Browsers

        return Browsers(pool.spawn, warden)  # made when a server first needs it, after the pool

    parts = BackendParts(
        settings=settings,
        in_process=in_process,
        containers=containers,
        programs=programs,
        browsers=browsers,
        callers=callers,
        serves=serves,
        placement=placement,
    )

    def close() -> None:
        containers.close()
        warden.close()

    pool = BackendPool(
        lambda spec: make_backend(spec, parts),
        max_starting=settings.limits.max_starting,
        on_close=close,
        listener=listener,
        supervision=settings.supervision,
        keeps_running=serves,
        shares=not alone,
        prepare=ending_processes(catalog) if serves else None,
        load=load_backend,
    )
    return pool, containers


@dataclass(frozen=True, kw_only=True)
class BackendParts:
    """The parts of the backends of one gateway; `in_process` are SDK servers of this process, by name.

    `browsers` makes the browsers that all backends share, when one first needs them. `serves` says whether
    the gateway serves clients; only then pages may dial in.
    """

    settings: Settings
    in_process: "Mapping[str, Server]"
    containers: Containers
    programs: Programs
    browsers: "Callable[[], Browsers]"
    callers: "CallerTokens"
    serves: bool = False
    placement: "ServerPlacement | None" = None


async def read_definition(settings: Settings, server: str) -> "Definition":
    """Start a server of the configuration, read all that it publishes as it sends it, and end it.

    Raises:
        ServerError: It cannot be started, or does not list its tools.
    """
    from maitred.admission.definition import define
    from maitred.backends.oauth.caller_token_memory import CallerTokens
    from maitred.gateway.events import Events

    pool, _ = make_pool(settings, {}, CallerTokens(), listener=Events(), serves=False, alone=True)
    async with single_error(), pool:
        await pool.configure({server: settings.servers[server]}, {})
        async with pool.connection(server) as connection:
            listing = await connection.list_tools()
            offers = await connection.list_offers()
            return define(
                listing.as_sent,
                offers.as_sent,
                title=connection.title_as_sent,
                instructions=connection.instructions_as_sent,
            )


async def load_backend(spec: "ServerSpec") -> None:
    """Import what a backend of a specification needs, in a thread, because the SDK is slow to import."""
    await import_in_thread(*SLOW_MODULES.get(spec.transport, ()), *(_LOGIN_MODULES if spec.auth else ()))


def make_backend(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    """The backend of a specification, by its transport.

    Raises:
        ConnectError: The transport is not in the table, or `MAKERS` has no entry for it.
    """
    from maitred.backends.base import ConnectError

    try:
        kind = transport_kind(spec.transport)
    except UnknownTransportError as error:
        raise ConnectError(str(error)) from error
    if kind.name not in MAKERS:
        raise ConnectError(f"this gateway has no backend for its transport {kind.name!r}")
    backend = MAKERS[kind.name](spec, parts)
    if parts.placement is None or kind.reach not in ("program", "image"):
        return backend
    from maitred.backends.placed_backend import PlacedBackend

    return PlacedBackend(backend, parts.placement)


def _make_stdio(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    return parts.containers.beside(parts.programs.backend(spec))


def _make_container(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    return parts.containers.backend(spec)


def _make_memory(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    from maitred.backends.memory import MemoryBackend

    return MemoryBackend(spec, parts.in_process[spec.name], limits=parts.settings.limits)


def _make_browser(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    from maitred.browser.backend import BrowserBackend

    return BrowserBackend(spec, parts.browsers())


def _make_pages(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    from maitred.browser.pages.address import dial_in_file
    from maitred.browser.pages.backend import PagesBackend

    file = dial_in_file(catalog_path(parts.settings), spec.name) if parts.serves else None
    return PagesBackend(spec, parts.browsers(), serves=parts.serves, dial_in_file=file)


def _make_saved(spec: "ServerSpec", _: BackendParts) -> "Backend":
    from maitred.chains.saved_backend import SavedBackend

    return SavedBackend(spec)


def _make_http(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    """The backend of a server on HTTP. A registered server cannot lead to a forbidden address."""
    from maitred.backends.http import HttpBackend

    tokens_of = None
    if spec.auth is not None:

        def tokens_of(principal: str) -> "TokenSource":
            return make_tokens(make_access(spec, parts.settings, principal), parts.callers)

    return HttpBackend(
        spec,
        resolve=resolver_of(spec, parts.settings),
        limits=parts.settings.limits,
        make_transport=partial(make_guarded, spec) if spec.registered else None,
        tokens_of=tokens_of,
    )


MAKERS: "Final[dict[str, Callable[[ServerSpec, BackendParts], Backend]]]" = {
    "stdio": _make_stdio,
    "http": _make_http,
    "sse": _make_http,
    "container": _make_container,
    "browser": _make_browser,
    "pages": _make_pages,
    "memory": _make_memory,
    "chain": _make_saved,
}
"""The function that makes the backends of each transport of `maitred.model.transports`.

For a registered server, a backend of the reach `network` connects only to what
`maitred.admission.address_guard.allowed_addresses` returns, with the networks of `spec.exempted`.
A backend on httpx gets this from `make_guarded`.
"""

SLOW_MODULES: "Final[Mapping[str, tuple[str, ...]]]" = {
    "stdio": ("maitred.backends.stdio",),
    "http": ("maitred.backends.http",),
    "sse": ("maitred.backends.http",),
    "container": ("maitred.backends.isolation.container",),
    "memory": ("maitred.backends.memory",),
    "browser": ("maitred.browser.backend",),
    "pages": ("maitred.browser.pages.backend",),
}
"""The modules of transports that import the SDK: a thread imports them, so that the event loop goes on."""

_LOGIN_MODULES: Final = ("maitred.backends.oauth.tokens", "maitred.backends.oauth.caller_tokens")
