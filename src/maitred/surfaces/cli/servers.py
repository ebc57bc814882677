"""`maitred add`, `add-json`, `remove` and `list`: the servers behind the gateway."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from maitred.admission.credential_detection import mask_url
from maitred.config.clients.discovery import is_sse_address
from maitred.config.clients.json_entry import read_json_entry
from maitred.config.declined_servers import accept, decline
from maitred.config.edit import add_server, remove_server
from maitred.config.load import entry_faults
from maitred.disclosure.answers import NO_SERVERS
from maitred.errors import ConfigError, MaitredError
from maitred.model.access import Viewer
from maitred.model.logins import describe_owners
from maitred.model.transports import TRANSPORTS
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    err,
    gateway_of,
    known_gateway,
    make_table,
    may_configure,
    out,
    prepare,
    print_json,
    print_table,
    remember,
    run,
    settings_of,
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
    refuse_registry_options,
)
from maitred.surfaces.cli.session import command_line
from maitred.surfaces.cli.trial import show_trial, try_server
from maitred.wording import count_of, one_of, quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway, ServerStatus

_KINDS = one_of([kind.name for kind in TRANSPORTS.values() if kind.key in ("command", "url")])


NewName = Annotated[str, typer.Argument(help="Name of the server.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Overwrite a server of this name.")]
NoTryOption = Annotated[bool, typer.Option("--no-try", help="Do not start it now.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(add)
    app.command("add-json")(add_json)
    app.command()(remove)
    app.command("list")(list_servers)


def add(
    context: typer.Context,
    name: NewName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARGS", help="The program to start.")
    ] = None,
    config: ConfigOption = None,
    url: Annotated[
        str, typer.Option("--url", "-u", help="Address of a server to reach over the network instead.")
    ] = "",
    transport: Annotated[str, typer.Option("--transport", "-t", help=f"{_KINDS}; usually detected.")] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="KEY=VALUE for its environment; repeatable.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="KEY=VALUE as HTTP header; repeatable.")
    ] = None,
    cwd: Annotated[str, typer.Option(help="Its working directory.")] = "",
    replace: ReplaceOption = False,
    no_try: NoTryOption = False,
    as_json: JsonOption = False,
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
    """Add a server, and try it: exits with 1 if it does not work yet. A running gateway takes it over."""
    may_configure(config)
    if source:
        add_from_registry(context.params, _pairs)
        return
    refuse_registry_options(context.params)
    _check_words(name, command or [])
    entry = _place(command or [], url, transport, cwd=cwd) | _environment(env or [], header or [])
    _add(config, name, entry, replace=replace, tries=not no_try, as_json=as_json)


def add_json(
    name: NewName,
    text: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The entry, with `mcpServers` around it or not; `-` reads it."),
    ],
    config: ConfigOption = None,
    replace: ReplaceOption = False,
    no_try: NoTryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add a server from JSON as pages print it for clients, and try it. Refuses keys that are unknown."""
    may_configure(config)
    entry, notes = read_json_entry(name, sys.stdin.read() if text == "-" else text)
    for note in notes:
        err.note(Text(f"note: {visible(note)}"))
    is_on = entry.get("enabled", True)
    _add(config, name, entry, replace=replace, tries=is_on and not no_try, as_json=as_json)


def _add(
    config: Path | None, name: str, entry: dict[str, Any], *, replace: bool, tries: bool, as_json: bool
) -> None:
    """Write the entry, and then try it. It stays in the file in either case."""
    path = config_path(config)
    if faults := entry_faults(name, entry):  # before the file is read, which has no line of it
        own = f"servers.{name}."
        raise ConfigError(f"the server {name!r}", [fault.removeprefix(own) for fault in faults])
    add_server(path, name, entry, replace=replace)
    remember(lambda: accept(path, {name: entry}))
    if not as_json:
        later = "" if tries else f" `maitred doctor {quote(name)}` tries it."
        sse = " It speaks the older SSE, by its address." if entry.get("transport") == "sse" else ""
        out.note(Text(f"Added {name!r} to {path}.{sse}{later}"))
    trial = try_server(config, name) if tries else None
    if as_json:
        print_json({"name": name, "path": str(path), "trial": trial.to_json() if trial else None})
    elif trial:
        show_trial(trial)
    if trial and trial.error:
        raise typer.Exit(1)


def _check_words(name: str, command: Sequence[str]) -> None:
    """Refuse a whole command line as one word, which no program can have as its name."""
    first, more = next(iter(command), ""), command[1:]
    if first and not more and " " in first and not Path(first).expanduser().exists():
        hint = f"write its words apart: `maitred add {quote(name)} -- {first}`"
        raise ConfigError("COMMAND", [f"{quote_input(first)} is not a program; {hint}"])


def _place(command: list[str], url: str, transport: str, *, cwd: str) -> dict[str, Any]:
    """The keys of an entry that say which program it starts and where, or where the server is."""
    place = {
        "command": "".join(command[:1]),
        "args": command[1:],
        "url": url,
        "transport": transport or ("sse" if is_sse_address(url) else ""),
        "cwd": cwd,
    }
    return {key: value for key, value in place.items() if value}


def remove(
    name: Annotated[str, typer.Argument(help="Name of the server.", autocompletion=complete_servers)],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a server from the configuration. A running gateway stops it at once."""
    may_configure(config)
    path = config_path(config)
    entry = remove_server(path, name)
    remember(lambda: decline(path, {name: entry}))
    with contextlib.suppress(MaitredError):  # else the next gateway forgets its tools
        _forget_tools(config)
    if as_json:
        print_json({"name": name, "path": str(path)})
        return
    out.note(Text(f"Removed {name!r} from {path}. `maitred import` leaves it out, unless you name it."))


def _forget_tools(config: Path | None) -> None:
    """Have the catalog forget what is not configured any more: another server may get the name."""
    settings = settings_of(config)

    async def go() -> None:
        async with gateway_of(settings, discovers=False):
            pass  # it forgets them when it is opened

    run(go)


def list_servers(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the configured servers with what is known of them."""
    settings, viewer = prepare(config)

    async def go() -> None:
        async with known_gateway(settings) as gateway:
            servers = gateway.servers(viewer)
            mode = gateway.mode(viewer)
            owners = await _owners(gateway, servers, viewer)
        if as_json:
            entries = [server.to_json() | {"logins": owners.get(server.name)} for server in servers]
            print_json({"mode": mode, "servers": entries})
            return
        if not gateway.settings.servers:
            out.print(NO_SERVERS)
            return
        _show(servers)
        for name, names in owners.items():
            out.print(Text(f"{name}: {describe_owners(names)}"))
        tools, tokens = sum(s.tools for s in servers), sum(s.cost_tokens for s in servers)
        shown = {"menu": "the menu", "categories": "categories"}.get(mode, "all tools, since they are few")
        count = f"{count_of(len(servers), 'server')}, {count_of(tools, 'tool')}"
        out.note(f"{count}, {count_of(tokens, 'token')} raw; clients see {shown}.")

    run(go)


async def _owners(
    gateway: "Gateway", servers: Sequence["ServerStatus"], viewer: Viewer
) -> dict[str, Sequence[str]]:
    """Whose logins there are to the servers at which each principal has its own, if the viewer may watch."""
    found: dict[str, Sequence[str]] = {}
    for server in servers:
        if gateway.is_allowed(viewer, "watch", server=server.name):
            owners = await gateway.login_owners(server.name, viewer)
            found |= {} if owners is None else {server.name: owners}
    return found


def _show(servers: Sequence["ServerStatus"]) -> None:
    """Print figures for each server, and below them its whole command or address, and a remark."""
    rows = [
        (s.name, f"{s.tools:,}", f"{s.cost_tokens:,}", s.facts.protocol_version, _reach(s), visible(s.remark))
        for s in servers
    ]
    headings = ("server", "tools", "tokens", "protocol", "reach", "remark")
    below = ("reach", "remark")
    numbers = ("tools", "tokens")
    print_table(make_table("", headings, rows, numbers=numbers, below=below, whole=("reach",)))


def _reach(server: "ServerStatus") -> str:
    spec = server.spec
    return command_line(spec.command, spec.args) if spec.command else visible(mask_url(spec.target))


def _environment(env: list[str], header: list[str]) -> dict[str, dict[str, str]]:
    """The keys of an entry for variables and headers; without those that are empty."""
    pairs = {"env": _pairs("--env", env), "headers": _pairs("--header", header)}
    return {key: value for key, value in pairs.items() if value}


def _pairs(option: str, values: list[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise ConfigError(option, [f"{quote_input(value)} must be KEY=VALUE"])
        pairs[key] = text
    return pairs
