"""`maitred serve`: the gateway itself, or a relay to the gateway that clients share.

The command opens an address for HTTP by itself, so it checks itself whether the user may configure. The
gateway decides on each request.
"""

import gc
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import typer

from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.load import with_http
from maitred.config.sections import check_address, is_loopback
from maitred.config.settings import Http, Settings
from maitred.errors import ConfigError
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.profiles import narrow_to_profile
from maitred.model.replicas import ReplicaRole
from maitred.surfaces.cli.completion import complete_transports
from maitred.surfaces.cli.console import AS_TOKEN, ConfigOption, acting, config_path, err, run, settings_of
from maitred.surfaces.cli.options import profile_option
from maitred.surfaces.daemon.background import BackgroundStart, beginning
from maitred.surfaces.daemon.client_entry import serve_shared
from maitred.surfaces.daemon.sockets import address_of
from maitred.surfaces.http.inherited_socket import inherited_socket
from maitred.surfaces.kubernetes.server_watch import follow_mcp_servers
from maitred.surfaces.manifest_folder import follow_manifests
from maitred.wiring import follow_settings, open_gateway, operator_resolver

if TYPE_CHECKING:  # the gateway takes a while to import, which `--help` need not wait for
    from maitred.gateway import Gateway
    from maitred.surfaces.daemon.pages import PagesOnDemand
    from maitred.surfaces.mcp.lazy_surface import LazySurface

Transport = Literal["stdio", "http", "daemon"]
TransportOption = Annotated[
    Transport,
    typer.Option(
        "--transport",
        "-t",
        metavar="stdio|http",
        help="How clients reach the gateway.",
        autocompletion=complete_transports,
    ),
]

RoleOption = Annotated[
    ReplicaRole | None,
    typer.Option(
        metavar="gateway|runner|both",
        help="What this process does among several on one PostgreSQL (http).",
        envvar="MAITRED_ROLE",
    ),
]

_WARM_AFTER_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    context: typer.Context,
    config: ConfigOption = None,
    transport: TransportOption = "stdio",
    host: Annotated[str | None, typer.Option(help="Address to listen on (http).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on (http); 0 takes a free one.", min=0, max=65_535)
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="Bearer token that clients must send (http).", envvar="MAITRED_TOKEN")
    ] = None,
    as_token: Annotated[
        str | None,
        typer.Option(
            help="Token of `maitred tokens`, whose bearer the client is then (stdio).", envvar=AS_TOKEN
        ),
    ] = None,
    role: RoleOption = None,
    no_daemon: Annotated[
        bool, typer.Option("--no-daemon", help="Share no gateway with other clients (stdio).")
    ] = False,
    profile: Annotated[str, profile_option("Only tools of this profile of the configuration (stdio).")] = "",
) -> None:
    """Serve all configured servers to MCP clients as one."""
    if transport == "daemon":
        _serve_in_background(config_path(config))
        return
    settings = _with_role(with_http(settings_of(config), host=host, port=port, token=token), role)
    bearer, is_http, held = as_token or "", transport == "http", None
    _check_client(as_token, profile, is_http=is_http)
    viewer = acting(settings, "configure", token=bearer) if is_http else acting(settings, token=bearer)
    viewer = replace(viewer, grant=narrow_to_profile(viewer.grant, profile, settings.profiles))
    if is_http:  # stdio needs no token, so its variable need not be set
        if token is None:
            settings = with_http(settings, token=_resolved(settings))
        check_address(settings.http)
        held = inherited_socket(settings.http)
    elif settings.daemon.enabled and not no_daemon:
        _share(context, config_path(config), token=bearer, profile=profile)
    run(lambda: _serve(settings, transport, viewer, listening=held))


def _with_role(settings: Settings, role: ReplicaRole | None) -> Settings:
    """The settings of a process with another role than the file gives it, if there is one."""
    return replace(settings, replica=replace(settings.replica, role=role)) if role else settings


def _check_client(as_token: str | None, profile: str, *, is_http: bool) -> None:
    """Refuse options about the client that cannot be.

    Raises:
        ConfigError: It says what to do instead.
    """
    if as_token == "":
        raise ConfigError("--as-token", ["is empty; leave it out, or give a token"])
    if is_http and profile:
        hint = f"is for stdio; over HTTP a client names it in its address: /mcp?profile={profile}"
        raise ConfigError("--profile", [hint])


def _share(context: typer.Context, config: Path, *, token: str, profile: str) -> None:
    """Pass the client to the shared gateway, and end; returns if this process has to serve alone."""
    options = ["--verbose"] if context.find_root().params.get("verbose") else []
    code = serve_shared(config, token=token, profile=profile, options=options)
    if code is not None:
        raise typer.Exit(code)


def _serve_in_background(config: Path) -> None:
    """Run the gateway that clients share."""
    with beginning(address_of(config)) as begin:
        settings = settings_of(begin.address.config)
        if not settings.daemon.enabled and begin.is_asked:
            begin.say(alone=True)
            return
        begin.settle(settings)
        run(lambda: _serve(settings, "daemon", LOCAL_USER, begin))


def _resolved(settings: Settings) -> str:
    """The token with its references replaced, so that the file need not contain it."""
    try:
        return operator_resolver(settings)(settings.http.token)
    except UnresolvedReferenceError as error:
        raise ConfigError(str(settings.source), [f"http.token: {error}"]) from error


async def _serve(
    settings: Settings,
    transport: Transport,
    viewer: Viewer,
    begin: BackgroundStart | None = None,
    listening: socket.socket | None = None,
) -> None:
    gc.disable()  # until everything is loaded
    from maitred.surfaces.cli.hosting import CommandHost  # noqa: PLC0415  # the gateway takes a while to load
    from maitred.surfaces.daemon import serve as serving  # noqa: PLC0415  # the gateway takes a while to load
    from maitred.surfaces.daemon.environment import project_folder  # noqa: PLC0415
    from maitred.surfaces.daemon.handshake import working_folder  # noqa: PLC0415
    from maitred.surfaces.daemon.pages import PagesOnDemand  # noqa: PLC0415
    from maitred.surfaces.mcp.lazy_surface import LazySurface  # noqa: PLC0415
    from maitred.surfaces.mcp.stdio import serve_stdio  # noqa: PLC0415

    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(_until_signalled, stop, tasks.cancel_scope if transport == "stdio" else None)
        with serving.claim_endpoint(transport, settings.source) as held:
            is_alone, joins = transport == "stdio", transport == "http"
            async with open_gateway(settings, serves=True, alone=is_alone, joins=joins) as gateway:
                _follow_files(tasks, gateway, settings)
                if transport == "stdio":  # its one client started this process in its own folder
                    viewer = replace(viewer, folder=project_folder(working_folder()))
                surface = LazySurface(gateway, viewer=viewer)
                tasks.start_soon(_warm, gateway, surface)
                pages = PagesOnDemand(gateway, stop)
                host = CommandHost(gateway, settings)
                async with serving.answering(
                    held, gateway, transport, surface, stop, pages, host.run
                ) as door:
                    if begin is not None and held is not None:
                        idle_s = settings.daemon.idle_timeout
                        await serving.serve_clients(begin, held, door, surface, stop=stop, idle_s=idle_s)
                    elif transport == "stdio":
                        await serve_stdio(surface)
                    else:
                        await _serve_http(gateway, surface, settings.http, stop, pages, listening)
        tasks.cancel_scope.cancel()


def _follow_files(tasks: anyio.abc.TaskGroup, gateway: "Gateway", settings: Settings) -> None:
    """Take over what is written into the files of the gateway, now that it is loaded."""
    tasks.start_soon(follow_settings, gateway, settings)
    tasks.start_soon(follow_manifests, gateway)
    tasks.start_soon(follow_mcp_servers, gateway)
    gc.freeze()  # loaded objects stay, so the collector need not visit them
    gc.enable()


async def _serve_http(
    gateway: "Gateway",
    lazy: "LazySurface",
    settings: Http,
    stop: anyio.Event,
    pages: "PagesOnDemand",
    listening: socket.socket | None,
) -> None:
    surface = await lazy.load()
    from maitred.surfaces.http.app import application, web_interface  # noqa: PLC0415  # standard streams
    from maitred.surfaces.http.serve import serve_http  # noqa: PLC0415  # need no web framework
    from maitred.surfaces.mcp.http import mcp_app  # noqa: PLC0415

    web = web_interface(gateway, settings)

    def ready(url: str) -> None:
        pages.serve_at(web, url)
        gateway.join_replicas(url)
        if is_loopback(settings.host) and not settings.public_url:
            gateway.take_logins_at(url)
        err.print(f"maitred listens on {url}/mcp")

    def ending() -> None:
        web.close()
        surface.close()

    app = application(gateway, settings, mcp_app(surface, settings), web, is_draining=stop.is_set)
    await serve_http(
        app,
        settings,
        stop=stop,
        ready=ready,
        ending=ending,
        draining=gateway.drain_replica,
        is_idle=lambda: not surface.parked_calls.count and gateway.is_replica_drained,
        held=listening,
    )


async def _warm(gateway: "Gateway", surface: "LazySurface") -> None:
    """Import the SDK and build the search index after a delay: the client's first requests come first."""
    await surface.quiet(_WARM_AFTER_S)
    await surface.load()
    gc.freeze()  # see `_serve`
    await gateway.warm()


async def _until_signalled(
    stop: anyio.Event,
    scope: anyio.CancelScope | None,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """End in good order on SIGINT, SIGTERM and SIGHUP; a second signal ends the process at once."""
    if sys.platform == "win32":  # its event loop receives no signals; Ctrl-C cancels the whole command
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()
            if scope is not None:
                scope.cancel()
