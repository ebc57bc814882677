"""`maitred login` and `maitred logout`: log in to a server that requires OAuth, and log out of it.

Both write the stored login without a gateway, so they check themselves whether the user may configure. Where
each principal has its own login, it is that of who types the command, unless `--for` names another.
"""

import webbrowser
from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError, LoginError, StoreError
from maitred.model.access import Viewer
from maitred.model.servers import ServerSpec
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    check_servers,
    err,
    out,
    prepare,
    print_json,
    run,
)
from maitred.wiring import make_access, open_gateway, open_store
from maitred.wording import count_of

if TYPE_CHECKING:  # it takes half a second to import, which `--help` need not wait for
    from maitred.catalog.discovery import Report

For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="PRINCIPAL",
        help="Whose login, where each principal has its own (`per: user`). Default: yours.",
    ),
]
OfGateway = Annotated[
    bool,
    typer.Option("--of-gateway", help="The gateway's own login, by which it lists tools; see `per: user`."),
]
Server = Annotated[str, typer.Argument(help="Name of the server.", autocompletion=complete_servers)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(login)
    app.command()(logout)


def login(
    server: Server,
    config: ConfigOption = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address instead of opening it.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that you have in the browser.")] = 300,
    for_principal: For = "",
    of_gateway: OfGateway = False,
    as_json: JsonOption = False,
) -> None:
    """Log in to a server in your browser. A running gateway uses the login with its next call."""
    settings, viewer = prepare(config, "configure")
    spec = _spec(run(lambda: _with_registered(settings)), server)
    principal = _principal(settings, spec, viewer, for_principal, of_gateway=of_gateway)
    report = run(lambda: _log_in(settings, spec, viewer, principal, opens=not no_browser, timeout_s=timeout))
    if report is not None and report.error:
        raise LoginError(server, f"the login was stored, but {report.error.rstrip('.')}")
    if as_json:
        tools = {} if report is None else {"tools": report.tools}
        print_json({"server": server, "principal": principal, **tools})
        return
    listed = "" if report is None else f": {count_of(report.tools, 'tool')}"
    out.note(Text(f"Logged in to {server}{_whose(spec, principal)}{listed}."))


def logout(
    server: Server,
    config: ConfigOption = None,
    for_principal: For = "",
    of_gateway: OfGateway = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the login to a server here, and end it at the server."""
    settings, viewer = prepare(config, "configure")
    known = run(lambda: _with_registered(settings))
    spec = known.servers.get(server)  # the configuration may not have it any more
    if spec is None:
        spec, principal = ServerSpec(name=server), for_principal
    else:
        principal = _principal(settings, spec, viewer, for_principal, of_gateway=of_gateway)
    told = run(lambda: _log_out(settings, spec, principal))
    if told is None:
        check_servers(known, [server])
    if as_json:
        known_of = {"server": server, "principal": principal, "was_logged_in": told is not None}
        print_json({**known_of, "remark": told or ""})
        return
    if told is None:
        out.print(Text(f"There is no login to {server}{_whose(spec, principal)}."))
        return
    out.note(Text(f"Logged out of {server}{_whose(spec, principal)}."))
    if told:
        err.print(
            Text(f"Its tokens are deleted here, but the server may accept them until they expire: {told}.")
        )


def _principal(
    settings: Settings, spec: ServerSpec, viewer: Viewer, for_principal: str, *, of_gateway: bool
) -> str:
    """Whose login is meant; empty for the gateway's.

    Raises:
        ConfigError: The server has one login for all, and the command names a principal; or it names two.
    """
    if not spec.is_personal:
        if for_principal:
            told = f"servers.{spec.name}: it has one login for all; `--for` needs `per: user` in its `auth`"
            raise ConfigError(str(settings.source), [told])
        return ""
    if of_gateway and for_principal:
        raise ConfigError("login", ["--for and --of-gateway exclude each other"])
    return "" if of_gateway else for_principal or viewer.principal


def _whose(spec: ServerSpec, principal: str) -> str:
    """Whose login it is, as the end of a sentence; empty where there is one for all."""
    if not spec.is_personal:
        return f" for {principal}" if principal else ""
    return f" for {principal or 'the gateway itself'}"


def _spec(settings: Settings, server: str) -> ServerSpec:
    """The server to log in to.

    Raises:
        ConfigError: There is no such server, or it does not use OAuth.
    """
    check_servers(settings, [server])
    spec = settings.servers[server]
    if spec.auth is None:
        where = f"the manifest of {server}" if spec.registered else f"servers.{server}"
        raise ConfigError(str(settings.source), [f"{where}: set `auth: oauth` to log in to it"])
    if not spec.auth.has_logins:
        told = f"servers.{server}: its callers bring their own tokens, so no person logs in to it"
        raise ConfigError(str(settings.source), [told])
    return spec


async def _with_registered(settings: Settings) -> Settings:
    """The settings with the servers registered by manifests; starts no server."""
    async with open_gateway(settings, asks_models=False, discovers=False) as gateway:
        return gateway.settings


async def _log_in(
    settings: Settings, spec: ServerSpec, viewer: Viewer, principal: str, *, opens: bool, timeout_s: float
) -> "Report | None":
    """Log in, and connect once to show that it works, unless the login is another person's: then `None`."""
    from maitred.backends.oauth.login import log_in  # noqa: PLC0415  # slow to import

    async def browse(page: str) -> None:
        shown = opens and await anyio.to_thread.run_sync(_open, page)
        told = "If your browser shows nothing, open" if shown else "Open"
        err.print(Text(f"{told} this address to log in to {spec.name}:\n{page}"))

    async with open_store(settings) as store:
        if why := await store.check():  # checked first, so that no operator logs in without effect
            raise StoreError(store.name, f"the login could not be stored: {why}")
        await log_in(make_access(spec, settings, principal), browse, timeout_s=timeout_s)
    if principal not in ("", viewer.principal):
        return None
    async with open_gateway(settings, asks_models=False) as gateway:
        with err.status(Text(f"connecting to {spec.name} …")):
            [report] = await gateway.sync([spec.name], viewer=viewer, as_gateway=not principal)
    return report


def _open(page: str) -> bool:
    try:
        return webbrowser.open(page)
    except webbrowser.Error:
        return False


async def _log_out(settings: Settings, spec: ServerSpec, principal: str) -> str | None:
    from maitred.backends.oauth.login import log_out  # noqa: PLC0415  # slow to import

    async with open_store(settings):
        return await log_out(make_access(spec, settings, principal))
