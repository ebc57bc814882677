"""`maitred connect` and `disconnect`: put this gateway into the files of clients, and give the files back."""

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from rich.text import Text

from maitred.config.clients.connection import (
    ClientChange,
    ClientState,
    connected_files,
    look_at,
    look_at_file,
    plan_connect,
    plan_disconnect,
    write_connection,
    write_disconnection,
)
from maitred.config.clients.entries import NAME, profile_of_words, start_command
from maitred.config.clients.files import UserMachine
from maitred.config.clients.table import CLIENT_IDS, KnownClient, find_client, known_clients
from maitred.config.clients.takeover import (
    TakeoverPlan,
    configuration_lock,
    configured_servers,
    forget_declined,
    plan_takeover,
    take_over,
    undo_last_time,
)
from maitred.config.load import load
from maitred.errors import ConfigError
from maitred.model.access import LOCAL_GRANT
from maitred.model.profiles import narrow_to_profile
from maitred.surfaces.cli.completion import complete_clients
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    YesOption,
    can_ask_to_change,
    config_path,
    err,
    fail,
    may_configure,
    out,
    print_json,
    remember,
    settings_of,
    visible,
)
from maitred.surfaces.cli.options import profile_option
from maitred.surfaces.cli.session import command_line
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import count_of, did_you_mean, join_with_or, quote_input

ClientArguments = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"One of {', '.join(CLIENT_IDS)}.", metavar="CLIENT", autocompletion=complete_clients
    ),
]
FileOption = Annotated[Path | None, typer.Option(help="Another file of the one client that is named.")]
ProjectOption = Annotated[
    bool, typer.Option("--project", help="The files of the project in this folder, not those of the user.")
]


_NO_CLIENTS: Final = "No clients found. Name one to make its file, such as `maitred connect cursor`."
_NONE_CONNECTED: Final = "No client has an entry of this gateway, so there is nothing to give back."


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is worked out for one client; `fault` says why nothing can be written."""

    state: ClientState
    change: ClientChange | None = None
    takeover: TakeoverPlan | None = None
    fault: str = ""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(connect)
    app.command()(disconnect)


def connect(
    clients: ClientArguments = None,
    config: ConfigOption = None,
    move: Annotated[
        bool,
        typer.Option("--move", help="Move the servers of the client into the configuration of this gateway."),
    ] = False,
    profile: Annotated[
        str, profile_option("Give the clients the tools of this profile of the configuration alone.")
    ] = "",
    project: ProjectOption = False,
    file: FileOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put this gateway into the files of clients. Without names it shows all clients that are found."""
    may_configure(config)
    source = config_path(config)
    if profile:  # a mistyped one would only show when the client starts
        narrow_to_profile(LOCAL_GRANT, profile, settings_of(config).profiles)
    words = start_command(Path(sys.argv[0]).absolute(), source, profile)
    states = _states(clients, file, is_project=project)
    _check_configuration(source, is_needed=move)
    known = _configured(source)
    plans: list[_Plan] = []
    for state in states:  # as if all clients were chosen; each is planned again before it is written
        others = [plan.takeover for plan in plans if plan.takeover and move]
        plans.append(_connect_plan(state, words, source, known, others, move=move))
    _show(plans, words, _NO_CLIENTS, as_json=as_json, move=move, yes=yes)
    is_made = any(plan.takeover and plan.takeover.new for plan in plans) and move
    if not source.exists() and not is_made and not as_json:
        out.note(Text(f"{source} is not there yet: `maitred import`, `maitred add` or `--move` makes it."))
    chosen = _chosen(plans, is_named=bool(clients or file), yes=yes, as_json=as_json)
    run_id = uuid4().hex  # `import --undo` takes back all that this command moves
    failed = []
    for plan in chosen:
        with configuration_lock(source) if move else nullcontext():
            now = _connect_plan(plan.state, words, source, _configured(source), move=move)
            failed += [] if _connect_one(now, source, run_id, as_json=as_json) else [now]
    if failed or any(plan.fault for plan in plans if clients):
        raise typer.Exit(1)


def disconnect(
    clients: ClientArguments = None,
    config: ConfigOption = None,
    project: ProjectOption = False,
    file: FileOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give the files of clients back as they were before `connect`. Without names: all that are connected."""
    may_configure(config)
    states = _states(clients, file, is_project=project) if file else _connected(clients, is_project=project)
    plans = [_disconnect_plan(state) for state in states]
    _show(plans, (), _NONE_CONNECTED, as_json=as_json, move=False, yes=yes)
    chosen = _chosen(plans, is_named=bool(clients or file), yes=yes, as_json=as_json)
    kept = _configured(config_path(config))
    failed = [plan for plan in chosen if not _disconnect_one(plan, kept, as_json=as_json)]
    if failed or any(plan.fault for plan in plans if clients):
        raise typer.Exit(1)


def _check_configuration(source: Path, *, is_needed: bool) -> None:
    """Say that the configuration has a fault: no client can start this gateway before it is mended.

    Raises:
        ConfigError: It has a fault, and is needed.
    """
    try:
        if source.exists():
            load(source)
    except ConfigError as error:
        if is_needed:
            raise
        hint = "clients cannot start this gateway until that is mended"
        err.print(Text.assemble(("warning: ", "yellow"), f"{visible(str(error))}\n  {hint}"))


def _configured(source: Path) -> Mapping[str, Mapping[str, Any]]:
    """The entries in the configuration; none if it cannot be read."""
    try:
        return configured_servers(source)
    except ConfigError:
        return {}


def _connected(clients: Sequence[str] | None, *, is_project: bool) -> list[ClientState]:
    """The connected files, of the named clients or all, in the project of this folder or everywhere.

    Of a named client that has none it is the file that would be connected.
    """
    at = UserMachine.here()
    found = [one for one in connected_files(at) if not is_project or one.file.project_of(one.path) == at.cwd]
    if not clients:
        return found
    of_client = {
        client.id: [one for one in found if one.client.id == client.id]
        for client in map(find_client, clients)
    }
    return [
        state
        for name, states in of_client.items()
        for state in states or [look_at(at, find_client(name), is_project=is_project)]
    ]


def _states(clients: Sequence[str] | None, file: Path | None, *, is_project: bool) -> list[ClientState]:
    """The files of the named clients, or those of all clients that seem to be installed."""
    at, named = UserMachine.here(), [find_client(name) for name in dict.fromkeys(clients or ())]
    if file is not None:
        if is_project:
            raise ConfigError(
                "--project, --file", ["give one of them; the file of a project is known by its place"]
            )
        if len(named) != 1:
            raise ConfigError("--file", ["name the one client whose file it is"])
        path = file.parent.resolve() / file.name if ".." in file.parts else file.absolute()
        return [look_at_file(at, named[0], named[0].file_at(at, path), path)]
    if named:
        return [look_at(at, client, is_project=is_project) for client in named]
    found = [
        look_at(at, client, is_project=is_project)
        for client in known_clients()
        if _has_file(client, is_project)
    ]
    return [state for state in found if state.is_installed or state.is_remembered]


def _has_file(client: KnownClient, is_project: bool) -> bool:
    at = UserMachine.here()
    return any(one.is_written and one.is_project == is_project and any(one.paths(at)) for one in client.files)


def _connect_plan(
    state: ClientState,
    words: Sequence[str],
    source: Path,
    known: Mapping[str, Mapping[str, Any]],
    others: Sequence[TakeoverPlan] = (),
    *,
    move: bool,
) -> _Plan:
    try:
        takeover = plan_takeover(state, source, known, others)
        change = plan_connect(state, state.client.stdio(words), takeover.leaving if move else ())
    except ConfigError as error:
        return _Plan(state=state, fault="; ".join(error.faults))
    return _Plan(state=state, change=change, takeover=takeover)


def _disconnect_plan(state: ClientState) -> _Plan:
    try:
        return _Plan(state=state, change=plan_disconnect(state))
    except ConfigError as error:
        return _Plan(state=state, fault="; ".join(error.faults))


def _show(
    plans: Sequence[_Plan], words: Sequence[str], nothing: str, *, as_json: bool, move: bool, yes: bool
) -> None:
    """Print what there is and what would change: names of servers, and no value of theirs.

    If it is written without a question, `--quiet` leaves out all but what is wrong.
    """
    if as_json:
        started = {"command": list(words), "profile": profile_of_words(words)} if words else {}
        print_json({"clients": [_as_json(plan, move=move) for plan in plans], **started})
        return
    if yes and VERBOSITY.quiet:
        for plan in plans:
            if plan.fault:
                _fail(plan, f"cannot be changed: {plan.state.path}: {plan.fault}")
        return
    if not plans:
        out.note(nothing)
    for plan in plans:
        title = Text.assemble((plan.state.client.title, "bold"), f"  {plan.state.client.id}")
        out.print(title)
        is_new = plan.change is not None and plan.change.before is None and plan.change.kind != "forget"
        out.print(Text(f"    {plan.state.path}{' (new)' if is_new else ''}"))
        for line in _lines(plan, words, move=move):
            out.print(Text(f"    {visible(line)}"))


def _lines(plan: _Plan, words: Sequence[str], *, move: bool) -> list[str]:
    if plan.change is None or plan.fault:
        return [f"cannot be changed: {plan.fault}"]
    lines = [f"has {', '.join(plan.state.names)}"] if plan.state.names else []
    change, takeover = plan.change, plan.takeover
    if not change.is_empty and plan.state.client.first:
        lines.append(plan.state.client.first)
    if takeover is None:  # nothing moves in a disconnection
        lines.append(change.way)
        lines += [f"takes out {', '.join(change.removed)}"] if change.removed else []
        return [*lines, *([f"puts back {', '.join(change.added)}"] if change.added else [])]
    if change.added:
        what = f"changes {', '.join(change.changed)} of" if plan.state.own else "adds"
        lines.append(f"{what} {change.added[0]}: {command_line(words[0], words[1:])}")
        lines += [f"takes {', '.join(change.dropped)} out of that entry"] if change.dropped else []
    elif NAME not in plan.state.own:
        lines.append(f"has this gateway as {', '.join(plan.state.own)}, which stays as it is")
    elif change.is_empty:
        lines.append(f"is connected already, as {', '.join(plan.state.own)}")
    return [*lines, *_takeover_lines(plan.state, takeover, move=move)]


def _takeover_lines(state: ClientState, takeover: TakeoverPlan, *, move: bool) -> list[str]:
    """What becomes of the servers of the client, or would with `--move`."""
    leaves = [f"leaves {name}: {why}" for name, why in takeover.staying.items()]
    if not move:
        what = count_of(len(takeover.leaving) + len(leaves), "server")
        would = f"leaves its {what}; `--move` moves {', '.join(takeover.leaving)} to maitred"
        return [would, *(f"`--move` {line}" for line in leaves)] if takeover.leaving else []
    new, present = [one.name for one in takeover.new], takeover.present
    lines = [f"moves {', '.join(new)}"] if new else []
    if present:
        out_of = [name if name == here else f"{name} (here {here})" for name, here in present.items()]
        lines.append(f"takes out {', '.join(out_of)}, which maitred has")
    return [
        *lines,
        *leaves,
        *(f"{one.name}: {note}" for one in takeover.new for note in one.notes),
        *(
            f"{one.name}: what the client switches off of it is not taken over"
            for one in state.servers
            if one.name in present and (one.hidden_tools or one.entry.get("enabled") is False)
        ),
    ]


def _as_json(plan: _Plan, *, move: bool) -> Mapping[str, Any]:
    state, change, takeover = plan.state, plan.change, plan.takeover
    return {
        "client": state.client.id,
        "path": str(state.path),
        "exists": state.content is not None,
        "connected": bool(state.own),
        "servers": list(state.names),
        "adds": list(change.added) if change else [],
        "removes": list(change.removed) if change else [],
        "imports": [one.name for one in takeover.new] if takeover and move else [],
        "changes": change is not None and not change.is_empty,
        "fault": plan.fault,
    }


def _chosen(plans: Sequence[_Plan], *, is_named: bool, yes: bool, as_json: bool) -> list[_Plan]:
    """The plans that a person wants written. Without a terminal and `--yes`, none."""
    possible = [plan for plan in plans if plan.change is not None and plan.change.is_needed]
    if yes or not possible:
        return possible
    if as_json:
        return []
    if not can_ask_to_change():
        return []
    if is_named:
        return possible if typer.confirm("Write this?", default=False) else []
    wanted = _ask_for_clients([plan.state.client.id for plan in plans])
    return possible if wanted == ["all"] else [plan for plan in possible if plan.state.client.id in wanted]


def _ask_for_clients(shown: Sequence[str]) -> Sequence[str]:
    """The names that a person types, or `all`; a name that was not shown is asked for again."""
    while True:
        answer = typer.prompt("Which? (names of clients, `all`, or nothing)", default="", show_default=False)
        wanted = str(answer).lower().replace(",", " ").split()
        if wanted in (["n"], ["no"], ["none"]):
            return []
        strange = [name for name in wanted if name not in shown and wanted != ["all"]]
        if not strange:
            return wanted
        hint = did_you_mean(strange[0], shown, otherwise=f"type {join_with_or(shown)}, `all`, or nothing")
        fail(ConfigError("CLIENT", [f"{quote_input(strange[0])} is none of these clients; {hint}"]))


def _fail(plan: _Plan, what: str) -> None:
    err.print(Text.assemble(("error: ", "red"), f"{plan.state.client.title} {what}"))


def _connect_one(plan: _Plan, source: Path, run_id: str, *, as_json: bool) -> bool:
    """Write one plan. If the file of the client cannot be written, the configuration is as before."""
    change = plan.change
    if change is None:
        _fail(plan, f"is not connected: {plan.state.path}: {plan.fault}")
        return False
    new = [one for one in plan.takeover.new if one.name in change.removed] if plan.takeover else []
    try:
        if new:
            take_over(source, new, command=run_id)
        try:
            copy = write_connection(change)
        except ConfigError:
            if new:
                undo_last_time(source)
            raise
    except ConfigError as error:
        _fail(plan, f"is not connected: {error.source}: {'; '.join(error.faults)}")
        return False
    if new:
        remember(lambda: forget_declined(source, new))
    if not as_json:
        moved = f" It moved {', '.join(visible(one.name) for one in new)} into {source}." if new else ""
        out.note(Text(f"Connected {plan.state.client.title}.{moved}"))
        out.note(Text(f"    {plan.state.client.then}"))
        where = f"; a copy is in {copy}" if copy else ""
        out.note(Text(f"    `maitred disconnect {plan.state.client.id}` undoes it{where}."))
    return True


def _disconnect_one(plan: _Plan, kept: Collection[str], *, as_json: bool) -> bool:
    """Write one plan; `kept` are the servers in the configuration."""
    change = plan.change
    if change is None:
        return False
    try:
        write_disconnection(change)
    except ConfigError as error:
        _fail(plan, f"is not disconnected: {error.source}: {'; '.join(error.faults)}")
        return False
    if not as_json:
        out.note(Text(f"Disconnected {plan.state.client.title}: {change.way}."))
        if back := [name for name in change.added if name != NAME]:
            also = "; maitred keeps them, too" if all(name in kept for name in back) else ""
            out.note(Text(f"    It has {', '.join(map(visible, back))} again{also}."))
    return True
