"""`maitred status` and `stop`: the running gateways and their servers, and how to stop them."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from maitred.disclosure.answers import parts_withheld
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    in_json,
    make_table,
    out,
    print_json,
    print_table,
    token_of_environment,
    unwritable,
)
from maitred.surfaces.cli.tables import PlainTable
from maitred.surfaces.daemon.control import RunningGateway, gateways, stop_gateways

_EVERY_S: Final = 1.0
_GATEWAY: Final = ("gateway", "serves", "since", "clients", "version")
_SERVER: Final = (
    "server", "state", "wanted", "share", "cage", "pid", "starts", "calls now", "last end", "remark"
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(status)
    app.command()(stop)


def status(
    config: ConfigOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every second.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the gateways that serve this configuration now, with their servers."""
    path, token = config_path(config), token_of_environment()

    def look() -> Sequence[RunningGateway]:
        return gateways(path, token)

    if watch:
        _watch(look, as_json=as_json)
        return
    found = look()
    if as_json:
        print_json([one.to_json() for one in found])
    elif not found:
        out.note(Text(f"No gateway serves {path.absolute()} now."))
    else:
        for number, table in enumerate(_tables(found)):
            if number:
                out.print()
            print_table(table)
        for fault in _faults(found):
            out.print(fault)


def stop(
    config: ConfigOption = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", "-a", help="Those of all configurations and versions, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """End the gateway in the background that clients share. Their next request starts another."""
    path = config_path(config)
    ended = stop_gateways(path, token_of_environment(), all_of_them=all_of_them)
    if as_json:
        print_json({"stopped": list(ended)})
        raise typer.Exit(0 if ended else 1)
    if not ended:
        whose = "" if all_of_them else f" for {path.absolute()}"
        out.print(Text(f"No gateway runs in the background{whose}."))
        raise typer.Exit(1)
    for pid in ended:
        out.note(f"Stopped the gateway in the background (process {pid}).")


def _watch(look: Any, *, as_json: bool) -> None:
    try:
        if as_json:
            while True:
                typer.echo(in_json([one.to_json() for one in look()]))
                time.sleep(_EVERY_S)
        while not out.is_terminal:  # a file, or another program
            out.print(_seen(look()))
            time.sleep(_EVERY_S)
        with Live(console=out, auto_refresh=False, screen=True) as live:
            while True:
                live.update(_seen(look()), refresh=True)
                time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        return


def _seen(found: Sequence[RunningGateway]) -> Group:
    if not found:
        return Group("No gateway serves this configuration now.")
    return Group(*_tables(found), *_faults(found))


def _faults(found: Sequence[RunningGateway]) -> list[Text]:
    """The faults of catalogs; a gateway of an older version reports none."""
    told = [one.status["catalog"] for one in found if one.status and "catalog" in one.status]
    texts = [f"catalog {one['path']}: {unwritable(one['fault'])}" for one in told if one["fault"]]
    return [Text(text, style="red") for text in dict.fromkeys(texts)]


def _tables(found: Sequence[RunningGateway]) -> list[PlainTable]:
    """One table of all gateways, and one of the servers of each."""
    tables = [make_table("", _GATEWAY, [_gateway_row(one) for one in found], numbers={"clients"})]
    for one in found:
        if one.status is not None:
            rows = [row for server in one.status["servers"] for row in _server_rows(server)]
            title = f"servers of process {one.pid}" if len(found) > 1 else ""
            tables.append(make_table(title, _SERVER, rows, numbers={"pid", "starts", "calls now"}))
    return tables


def _gateway_row(one: RunningGateway) -> Sequence[str]:
    if one.status is None:
        return f"process {one.pid}", one.fault, "", "", ""
    told = one.status
    serves = {"daemon": "clients on stdio", "stdio": "one client on stdio"}.get(told["transport"], "HTTP")
    clients = "" if told["clients"] is None else str(told["clients"])
    return f"process {one.pid}", serves, told["since"], clients, told["version"]


def _server_rows(server: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """The row of a server, and one of each of its instances for some clients."""
    return [_server_row(server), *map(_instance_row, server.get("instances", ()))]


def _instance_row(one: Mapping[str, Any]) -> Sequence[str]:
    retry = one["retry_in_s"]
    again = "" if retry is None else f"tried again in {retry:.0f} s"
    remark = "; ".join(filter(None, (one["error"], again, one["note"])))
    told = [str(one[key] or "") for key in ("state", "pid", "starts", "in_flight", "ended")]
    return [f"  for {one['owner']}", told[0], "", "", "", *told[1:], remark]


def _share(server: Mapping[str, Any]) -> str:
    share = str(server.get("share", ""))
    return share if share in ("", "all") else f"{share}: {server['share_reason']}"


def _server_row(server: Mapping[str, Any]) -> Sequence[str]:
    """The row of a server; a gateway of another version may leave fields out."""
    retry, withheld = server.get("retry_in_s"), server.get("withheld", "")
    parts = parts_withheld(server.get("withheld_parts", 0))
    remark = withheld or "; ".join(filter(None, (server.get("error", ""), parts)))
    if retry is not None and not withheld:
        remark = f"{remark}; tried again in {retry:.0f} s".removeprefix("; ")
    told = [
        str(server.get(key) or "") for key in ("name", "state", "cage", "pid", "starts", "in_flight", "ended")
    ]
    return [*told[:2], _wanted(server), _share(server), *told[2:], remark]


def _wanted(server: Mapping[str, Any]) -> str:
    """The state that the gateway aims at; a server that it will start again later is still wanted."""
    paused = server.get("retry_in_s") is not None
    if (server.get("withheld") and not paused) or not server.get("enabled"):
        return "off"
    return str(server.get("desired", "")).replace("_", " ")
