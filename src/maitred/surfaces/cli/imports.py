"""`maitred import`: copy the servers of other clients that the user chooses."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from maitred.config.clients.connection import owed_servers
from maitred.config.clients.discovery import ClientServer, ImportedServers, discover
from maitred.config.clients.table import CLIENT_IDS
from maitred.config.clients.takeover import forget_declined, take_over, undo_takeover
from maitred.config.declined_servers import DeclinedServers, decline, read_declined
from maitred.config.load import load
from maitred.errors import ConfigError
from maitred.surfaces.cli.completion import complete_clients
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    err,
    fail,
    may_configure,
    out,
    print_json,
    remember,
    visible,
)
from maitred.surfaces.cli.entry import entry_line
from maitred.surfaces.cli.session import for_programs, reach
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import did_you_mean

FileOption = Annotated[Path | None, typer.Option(help="Read this file alone, in the format of any client.")]
ClientOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Only from this client; repeatable. One of {', '.join(CLIENT_IDS)}.",
        autocompletion=complete_clients,
    ),
]
UndoOption = Annotated[
    bool, typer.Option("--undo", help="Undo the last import: the configuration is as before it.")
]
_LATER = "names, `all`, `none` declines all, or nothing to decide later"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(import_servers)


def import_servers(
    config: ConfigOption = None,
    client: ClientOption = None,
    names: Annotated[list[str] | None, typer.Argument(help="Import just these, without asking.")] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Import without asking all that is new, except servers of project files and removed ones.",
        ),
    ] = False,
    file: FileOption = None,
    undo: UndoOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import the servers that other clients on this machine use; their files are not changed."""
    may_configure(config)
    path = config_path(config)
    if undo:
        _undo(path, {"NAMES": names, "--client": client, "--file": file, "--yes": yes}, as_json=as_json)
        return
    looked = _Looked(
        found=_discovered(client or CLIENT_IDS, file),
        known=set(load(path).servers) if path.exists() else set(),
        declined=read_declined(path),
    )
    if as_json:
        print_json(looked.to_json())
    elif VERBOSITY.quiet and (yes or names):  # nothing is asked, so what there is is no answer
        looked.show_faults()
    else:
        looked.show()
    chosen = _named_or_chosen(looked, names, path, yes=yes, asks=not as_json)
    if chosen:
        take_over(path, chosen)
        remember(lambda: forget_declined(path, chosen))
    if not as_json:
        _tell(chosen, path, config)


def _undo(path: Path, others: Mapping[str, Any], *, as_json: bool) -> None:
    """Undo the last import, and name the servers that are in no file then; no other option goes with it."""
    if given := [option for option, value in others.items() if value]:
        raise ConfigError(
            ", ".join(given), ["does not go with --undo, which undoes the last import as a whole"]
        )
    undone = undo_takeover(path)
    owed = {client: [name for name in names if name in undone] for client, names in owed_servers().items()}
    if as_json:
        print_json({"removed": list(undone)})
    else:
        gone = ", ".join(map(visible, undone)) or "no server any more"
        out.note(Text(f"Took {gone} out of {path} again."))
    for client, names in owed.items():
        if names:
            gave_up = f"{client} gave up {', '.join(map(visible, names))}, which no file has now"
            err.print(Text(f"{gave_up}: `maitred disconnect {client}` puts it back.", style="yellow"))


def _named_or_chosen(
    looked: "_Looked", names: Sequence[str] | None, path: Path, *, yes: bool, asks: bool
) -> list[ClientServer]:
    if names:
        return looked.named(names)
    if yes:
        return [one for one in looked.new if not one.is_shared]
    return _choose(looked, path) if asks and looked.can_be_imported else []


def _tell(chosen: Sequence[ClientServer], path: Path, config: Path | None) -> None:
    if not chosen:
        out.note("Nothing imported.")
        return
    out.note(Text(f"Imported {', '.join(visible(one.name) for one in chosen)} into {path}."))
    out.note("`maitred import --undo` takes them out again; `maitred doctor` tries them.")
    out.note("`maitred connect` puts this into your clients, and with `--move` in their place:")
    out.note(Text(entry_line(config), style="bold"))


def _discovered(clients: Collection[str], file: Path | None) -> ImportedServers:
    return discover(
        home=Path.home(),
        cwd=Path.cwd(),
        environ=os.environ,
        platform=sys.platform,
        clients=clients,
        file=file,
    )


class _Looked:
    """The servers of clients, compared with the configured and the declined ones."""

    def __init__(self, *, found: ImportedServers, known: Collection[str], declined: DeclinedServers) -> None:
        self.found = found
        self._known = known
        self._declined = declined

    @property
    def can_be_imported(self) -> list[ClientServer]:
        """The servers that are not configured."""
        return [one for one in self.found.found if one.name not in self._known]

    @property
    def new(self) -> list[ClientServer]:
        """The servers that are neither configured nor declined."""
        return [one for one in self.can_be_imported if not self._is_declined(one)]

    def _is_declined(self, one: ClientServer) -> bool:
        return bool(self._declined_as(one))

    def _declined_as(self, one: ClientServer) -> str:
        """The name under which it was declined; empty if it was not."""
        return "" if one.name in self._known else self._declined.name_of(one.name, one.entry)

    def named(self, names: Sequence[str]) -> list[ClientServer]:
        """The servers of these names, declined ones too.

        Raises:
            ConfigError: No client has one of them, or it is configured. The error lists all such names.
        """
        by_name = {one.name: one for one in self.found.found}
        faults = [
            f"no client has a server {name!r}{did_you_mean(name, by_name, lead='; ')}"
            for name in names
            if name not in by_name
        ]
        faults += [
            f"{name!r} is configured already; `maitred remove {name}` first"
            for name in names
            if name in self._known
        ]
        if faults:
            raise ConfigError("import", faults)
        return [by_name[name] for name in dict.fromkeys(names)]

    def show(self) -> None:
        """Print each server with all that it would start or reach, on lines that are never cut."""
        if not self.found.found:
            out.note("No servers found in other clients.")
        for one in self.found.found:
            out.print(Text.assemble((visible(one.name), "bold"), f"  from {one.client}"))
            for line in reach(one.entry):
                out.print(Text(f"    {line}"), soft_wrap=True)
            for remark in self._remarks(one):
                out.print(Text(f"    - {visible(remark)}", style="yellow"))
        for problem in self.found.problems:
            what = f" ({visible(problem.name)})" if problem.name else ""
            out.print(Text(f"Skipped {problem.client}{what}: {problem.path}: {visible(problem.reason)}"))

    def show_faults(self) -> None:
        """Print the files that cannot be read."""
        for problem in self.found.problems:
            if not problem.name:
                err.print(Text(f"Skipped {problem.client}: {problem.path}: {visible(problem.reason)}"))

    def _remarks(self, one: ClientServer) -> list[str]:
        remarks = ["name already configured"] if one.name in self._known else []
        if declined := self._declined_as(one):
            also = "" if declined == one.name else f" as {declined}, which starts or reaches the same"
            remarks.append(f"removed or declined before{also}: `maitred import {quote(one.name)}` imports it")
        if one.is_shared:
            remarks.append("from a project's file: `--yes` leaves it out, its name imports it")
        return [*remarks, *one.notes]

    def to_json(self) -> dict[str, Any]:
        """The same for programs, without credentials and without values of variables and headers."""
        return {
            "found": [
                {
                    "name": one.name,
                    "clients": list(one.clients),
                    "path": str(one.path),
                    "entry": for_programs(one.entry),
                    "notes": list(one.notes),
                    "configured": one.name in self._known,
                    "declined": self._is_declined(one),
                    "from_a_project_file": one.is_shared,
                }
                for one in self.found.found
            ],
            "problems": [
                {"client": p.client, "path": str(p.path), "name": p.name, "reason": p.reason}
                for p in self.found.problems
            ],
        }


def _choose(looked: _Looked, path: Path) -> list[ClientServer]:
    """Ask which servers to import, and store which are declined. Without a terminal, ask nothing."""
    if not sys.stdin.isatty():
        if looked.new:
            out.print("Not a terminal, so nothing was asked: `maitred import --yes` imports all that is new.")
        return []
    while True:
        answer = typer.prompt(f"Import which? ({_LATER})", default="", show_default=False).strip()
        if not answer:
            return []
        try:
            chosen = _servers_of_answer(looked, answer)
        except ConfigError as error:
            fail(error)
            continue
        left = {one.name: one.entry for one in looked.new if one not in chosen}
        remember(lambda: decline(path, left))  # noqa: B023  # called at once
        return chosen


def _servers_of_answer(looked: _Looked, answer: str) -> list[ClientServer]:
    """The servers of an answer; names may contain spaces if commas separate them."""
    if answer in ("all", "none"):
        return looked.new if answer == "all" else []
    if "," in answer:
        return looked.named([name.strip() for name in answer.split(",") if name.strip()])
    whole = [one.name for one in looked.found.found if one.name == answer]
    return looked.named(whole or answer.split())
