"""`maitred add`, `remove` and `list`: the servers behind the gateway."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from maitred.admission.credential_detection import mask_url
from maitred.config.declined_servers import accept, decline
from maitred.config.edit import add_server, remove_server
from maitred.disclosure.answers import NO_SERVERS
from maitred.errors import ConfigError
from maitred.model.transports import TRANSPORTS
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    known_gateway,
    may_configure,
    out,
    prepare,
    print_json,
    remember,
    run,
    visible,
)
from maitred.surfaces.cli.registry_add import (
    AsOption,
    ByOption,
    FromOption,
    ListOption,
    NetworkOption,
    RegisterOption,
    ValueOption,
    VersionOption,
    WriteOption,
    YesOption,
    add_from_registry,
)
from maitred.surfaces.cli.session import command_line
from maitred.wording import count_of, one_of, quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import ServerStatus

_KINDS = one_of([kind.name for kind in TRANSPORTS.values() if kind.key in ("command", "url")])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(add)
    app.command()(remove)
    app.command("list")(list_servers)


def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS...]", help="The program to start.")
    ] = None,
    config: ConfigOption = None,
    url: Annotated[str, typer.Option(help="Address of a server to reach over the network instead.")] = "",
    transport: Annotated[str, typer.Option(help=f"{_KINDS}; usually detected.")] = "",
    env: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for its environment; repeatable.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="KEY=VALUE as HTTP header; repeatable.")] = None,
    cwd: Annotated[str, typer.Option(help="Its working directory.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a server of this name.")] = False,
    source: FromOption = "",
    key: AsOption = "",  # this and what follows is for `add_from_registry`
    version: VersionOption = "",
    by: ByOption = "",
    value: ValueOption = None,
    file: ListOption = None,
    isolated: RegisterOption = False,
    network: NetworkOption = "",
    write_secrets: WriteOption = False,
    yes: YesOption = False,
) -> None:
    """Add a server to the configuration. A running gateway takes it over at once."""
    may_configure(config)
    if source:
        add_from_registry(context.params, _pairs)
        return
    entry: dict[str, Any] = _place(command or [])
    entry |= {k: v for k, v in (("url", url), ("transport", transport), ("cwd", cwd)) if v}
    entry |= {"env": _pairs("--env", env)} if env else {}
    entry |= {"headers": _pairs("--header", header)} if header else {}
    path = config_path(config)
    add_server(path, name, entry, replace=replace)
    remember(lambda: accept(path, {name: entry}))
    out.print(Text(f"Added {name!r} to {path}. `maitred doctor {name}` tries it."))


def _place(command: list[str]) -> dict[str, Any]:
    """The keys of an entry that say which program it starts."""
    return ({"command": command[0]} if command else {}) | ({"args": command[1:]} if command[1:] else {})


def remove(
    name: Annotated[str, typer.Argument(help="Name of the server.")], config: ConfigOption = None
) -> None:
    """Remove a server from the configuration. A running gateway stops it at once."""
    may_configure(config)
    path = config_path(config)
    entry = remove_server(path, name)
    remember(lambda: decline(path, {name: entry}))
    out.print(Text(f"Removed {name!r} from {path}. `maitred import` leaves it out, unless you name it."))


def list_servers(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the configured servers with what is known of them."""
    settings, viewer = prepare(config)

    async def go() -> None:
        async with known_gateway(settings) as gateway:
            servers = gateway.servers(viewer)
            mode = gateway.mode(viewer)
        if as_json:
            print_json({"mode": mode, "servers": [server.to_json() for server in servers]})
            return
        if not gateway.settings.servers:
            out.print(NO_SERVERS)
            return
        _show(servers)
        tools, tokens = sum(s.tools for s in servers), sum(s.cost_tokens for s in servers)
        shown = {"menu": "the menu", "categories": "categories"}.get(mode, "all tools, since they are few")
        count = f"{count_of(len(servers), 'server')}, {count_of(tools, 'tool')}"
        out.print(f"{count}, {count_of(tokens, 'token')} raw; clients see {shown}.")

    run(go)


def _show(servers: Sequence["ServerStatus"]) -> None:
    """Print figures for each server, and below them its whole command or address, and a remark."""
    rows = [("server", "tools", "tokens", "protocol")]
    rows += [
        (visible(s.name), f"{s.tools:,}", f"{s.cost_tokens:,}", s.facts.protocol_version) for s in servers
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, server in zip(rows, [None, *servers], strict=True):
        name, tools, tokens, protocol = row
        figures = f"{tools:>{widths[1]}}  {tokens:>{widths[2]}}  {protocol}"
        out.print(Text(f"{name:<{widths[0]}}  {figures}".rstrip(), style="" if server else "bold"))
        if server is not None:
            spec, remark = server.spec, server.remark
            shown = command_line(spec.command, spec.args) if spec.command else visible(mask_url(spec.target))
            out.print(Text(f"    {shown}"))
            if remark:
                out.print(Text(f"    {visible(remark)}", style="yellow"))


def _pairs(option: str, values: list[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise ConfigError(option, [f"{quote_input(value)} must be KEY=VALUE"])
        pairs[key] = text
    return pairs
