"""`maitred add`, `remove`, `list` and `import`: which servers the gateway stands before."""

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from maitred.config.clients import CLIENTS, Discovery, Found, discover
from maitred.config.edit import add_server, add_servers, remove_server
from maitred.config.load import load
from maitred.errors import ConfigError
from maitred.surfaces.cli.common import (
    ConfigOption,
    JsonOption,
    acting,
    config_path,
    known_gateway,
    may_configure,
    out,
    print_json,
    run,
    settings_of,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(add)
    app.command()(remove)
    app.command("list")(list_servers)
    app.command("import")(import_servers)


def add(
    name: Annotated[str, typer.Argument(help="What to call the server.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS...]", help="The program to start.")
    ] = None,
    config: ConfigOption = None,
    url: Annotated[str, typer.Option(help="Address of a server to reach over HTTP instead.")] = "",
    transport: Annotated[str, typer.Option(help="stdio, http or sse; usually found out.")] = "",
    env: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for its environment; repeatable.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="KEY=VALUE as HTTP header; repeatable.")] = None,
    cwd: Annotated[str, typer.Option(help="Its working directory.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a server of this name.")] = False,
) -> None:
    """Add a server to the configuration. A running gateway takes it over at once."""
    may_configure(config)
    entry: dict[str, Any] = {}
    if command:
        entry |= {"command": command[0]} | ({"args": command[1:]} if command[1:] else {})
    entry |= {k: v for k, v in (("url", url), ("transport", transport), ("cwd", cwd)) if v}
    if env:
        entry["env"] = _pairs("--env", env)
    if header:
        entry["headers"] = _pairs("--header", header)
    path = config_path(config)
    add_server(path, name, entry, replace=replace)
    out.print(Text(f"Added {name!r} to {path}. `maitred doctor {name}` tries it."))


def remove(
    name: Annotated[str, typer.Argument(help="Name of the server.")], config: ConfigOption = None
) -> None:
    """Remove a server from the configuration. A running gateway stops it at once."""
    may_configure(config)
    path = config_path(config)
    remove_server(path, name)
    out.print(Text(f"Removed {name!r} from {path}."))


def list_servers(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the configured servers with what is known of them."""
    settings = settings_of(config)
    viewer = acting(settings, "see")

    async def go() -> None:
        async with known_gateway(settings) as gateway:
            servers = gateway.access.portion(viewer).context.servers()
            mode = gateway.mode()
        if as_json:
            print_json({"mode": mode, "servers": [server.to_json() for server in servers]})
            return
        table = Table(box=None, pad_edge=False)
        for heading in ("server", "tools", "tokens", "protocol", "reached by", "remark"):
            table.add_column(heading, justify="right" if heading in ("tools", "tokens") else "left")
        for server in servers:
            table.add_row(
                Text(server.name),
                str(server.tools),
                f"{server.cost_tokens:,}",
                server.facts.protocol_version,
                Text(server.spec.target[:60]),
                Text((server.withheld or server.error)[:80]),
            )
        out.print(table)
        tools, tokens = sum(s.tools for s in servers), sum(s.cost_tokens for s in servers)
        shown = {"menu": "the menu", "categories": "categories"}.get(mode, "all tools, since they are few")
        count = "1 server" if len(servers) == 1 else f"{len(servers)} servers"
        out.print(f"{count}, {tools} tools, {tokens:,} tokens raw; clients see {shown}.")

    run(go)


def import_servers(
    config: ConfigOption = None,
    client: Annotated[
        list[str] | None,
        typer.Option(help=f"Only from this client; repeatable. One of {', '.join(CLIENTS)}."),
    ] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Import just these, without asking.")] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Import all new servers but those of project files, without asking."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Import the servers that other clients on this machine use; their files are not changed."""
    may_configure(config)
    found = _discovered(client or CLIENTS)
    path = config_path(config)
    known = set(load(path).servers) if path.exists() else set()
    if as_json:
        print_json(_as_json(found, known))
    else:
        _show(found, known)
    new = [one for one in found.found if one.name not in known]
    if names:
        chosen = _named(found, names, known)
    elif yes:
        chosen = [one for one in new if not one.is_shared]
    else:
        chosen = [] if as_json or not new else _choose(new)
    if chosen:
        add_servers(path, {one.name: one.entry for one in chosen})
    if not as_json:
        imported = ", ".join(one.name for one in chosen)
        out.print(Text(f"Imported {imported} into {path}." if chosen else "Nothing imported."))


def _discovered(clients: Collection[str]) -> Discovery:
    return discover(
        home=Path.home(), cwd=Path.cwd(), environ=os.environ, platform=sys.platform, clients=clients
    )


def _show(found: Discovery, known: set[str]) -> None:
    if found.found:
        table = Table(box=None, pad_edge=False)
        for heading in ("server", "from", "reached by", "remark"):
            table.add_column(heading)
        for one in found.found:
            command = [one.entry.get("command", ""), *one.entry.get("args", [])]
            remarks = ["name already configured"] if one.name in known else []
            if one.is_shared:
                remarks.append("from a project's file: `--yes` leaves it out, its name imports it")
            reach = Text(str(one.entry.get("url") or " ".join(command))[:70])
            table.add_row(Text(one.name), Text(one.client), reach, Text("; ".join([*remarks, *one.notes])))
        out.print(table)
    else:
        out.print("No servers found in other clients.")
    for problem in found.problems:
        what = f" ({problem.name})" if problem.name else ""
        out.print(Text(f"Skipped {problem.client}{what}: {problem.path}: {problem.reason}"))


def _named(found: Discovery, names: list[str], known: set[str]) -> list[Found]:
    by_name = {one.name: one for one in found.found}
    faults = [f"no client has a server {name!r}" for name in names if name not in by_name]
    faults += [
        f"{name!r} is configured already; `maitred remove {name}` first" for name in names if name in known
    ]
    if faults:
        raise ConfigError("import", faults)
    return [by_name[name] for name in names]


def _choose(new: list[Found]) -> list[Found]:
    """Ask which servers to import; nothing is chosen where nobody can answer."""
    if not sys.stdin.isatty():
        out.print("Not a terminal, so nothing was asked: `maitred import --yes` imports all that is new.")
        return []
    answer = typer.prompt("Import which? (names, `all`, or nothing)", default="", show_default=False)
    names = answer.replace(",", " ").split()
    return new if names == ["all"] else [one for one in new if one.name in names]


def _as_json(found: Discovery, known: set[str]) -> dict[str, Any]:
    return {
        "found": [
            {
                "name": one.name,
                "clients": list(one.clients),
                "path": str(one.path),
                "entry": one.entry,
                "notes": list(one.notes),
                "configured": one.name in known,
                "from_a_project_file": one.is_shared,
            }
            for one in found.found
        ],
        "problems": [
            {"client": p.client, "path": str(p.path), "name": p.name, "reason": p.reason}
            for p in found.problems
        ],
    }


def _pairs(option: str, values: list[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise ConfigError(option, [f"{value!r} must be KEY=VALUE"])
        pairs[key] = text
    return pairs
