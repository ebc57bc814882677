"""`maitred mediate`: the changes that mediation proposes for tools, their effect, and a person's choice.

`--accept`, `--reject` and `--unset` write the configuration file without a gateway, so they check themselves
whether the user may operate.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress
from rich.text import Text

from maitred.config.edit_choices import set_choice, unset_choice
from maitred.config.settings import Settings
from maitred.errors import ConfigError, MaitredError
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    COLUMNS,
    ConfigOption,
    JsonOption,
    acting,
    check_servers,
    config_path,
    err,
    find_tools,
    known_gateway,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
    visible,
)
from maitred.surfaces.cli.options import tools_option
from maitred.wiring import open_auditing
from maitred.wording import count_of, quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway
    from maitred.gateway.mediation import ToolDiff

_STATES = {
    "used": "used",
    "accepted": "used, as you accepted it",
    "rejected": "not used, as you rejected it",
    "unfit": "not used: its text does not fit the tool",
    "harmful": "not used: search would get worse",
    "unproven": "not used until it is proven",
}
_MOST_PROBES = 5
_LONGEST = 300
Tools = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mediate)


def mediate(
    servers: Annotated[
        list[str] | None, typer.Argument(help="Servers; none: all.", autocompletion=complete_servers)
    ] = None,
    config: ConfigOption = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show each tool: before, after, by whom, why not.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the configured language model now; prints the cost.")
    ] = False,
    accept: Annotated[Tools, tools_option("Use the proposal, with or without proof; repeatable.")] = None,
    reject: Annotated[Tools, tools_option("Leave a tool as its server has it; repeatable.")] = None,
    unset: Annotated[Tools, tools_option("Undo --accept or --reject; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how mediation changes tools. --accept and --reject write your choice into the configuration."""
    settings, viewer = prepare(config)
    if accept or reject or unset:
        acting(settings, "operate")
        if servers or diff or ask or as_json:
            raise ConfigError(
                "maitred mediate", ["--accept, --reject and --unset take no server and no other option"]
            )
        chosen = {"accept": accept or [], "reject": reject or []}
        _choose(settings, config_path(config), viewer, chosen, unset or [])
        return
    found, costs = run(lambda: _look(settings, servers or [], viewer, ask=ask))
    if as_json:
        print_json({"tools": [one.to_json() for one in found], **costs})
        return
    _show_all(found, diff=diff)
    if not (found or settings.mediation.auto_enhance or settings.mediation.overrides_url):
        out.note("To have some, set mediation.auto_enhance or mediation.overrides in the configuration.")
    _show_costs(costs, asked=ask)


def _show_all(proposals: "Sequence[ToolDiff]", *, diff: bool) -> None:
    if not diff:
        _show_counts(proposals)
        return
    for proposal in proposals:
        _show(proposal)


async def _look(
    settings: Settings, servers: Sequence[str], viewer: Viewer, *, ask: bool
) -> tuple[Sequence["ToolDiff"], dict[str, Any]]:
    """The proposals, and the cost of the language model: expected (`estimate`) and actual (`spent`)."""
    async with known_gateway(settings) as gateway:
        gateway.model_spending(viewer)  # refuses before anything is said of servers
        check_servers(gateway.settings, servers)  # those that are registered, too
        estimate = await gateway.estimate_mediation(servers, viewer=viewer)
        spent = await _ask(gateway, servers, viewer) if ask else None
        with err.status("proving what is proposed …"):
            found = await gateway.mediation_diff(servers, viewer=viewer)
        return found, {
            "estimate": asdict(estimate) if estimate else None,
            "spent": asdict(spent) if spent else None,
        }


async def _ask(gateway: "Gateway", servers: Sequence[str], viewer: Viewer) -> Any:
    """Ask the model; print the highest cost before, and a progress bar."""
    if estimate := await gateway.estimate_mediation(servers, viewer=viewer):
        err.note(Text(f"Asking the language model: {_cost(asdict(estimate), most=True)}."))
    with Progress(*COLUMNS, console=err, transient=True) as bars:
        task = bars.add_task("asking the language model", total=None)

        def tell(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        try:
            return await gateway.ask_model(servers, viewer=viewer, progress=tell)
        except MaitredError:
            if (spent := gateway.model_spending(viewer)) and spent.calls:
                err.note(Text(f"The language model was asked: {_cost(asdict(spent), most=False)}."))
            raise


def _cost(figures: Mapping[str, Any], *, most: bool) -> str:
    """Calls, tokens and money in words."""
    usd = figures["usd"]
    money = "price not known" if usd is None else f"{usd:.4f} USD"
    tokens = f"{figures['input_tokens']:,} tokens in, {figures['output_tokens']:,} out"
    return f"{'at most ' if most else ''}{count_of(figures['calls'], 'question')}, {tokens}, {money}"


def _show_costs(costs: Mapping[str, Any], *, asked: bool) -> None:
    if spent := costs["spent"]:
        out.note(Text(f"The language model was asked: {_cost(spent, most=False)}."))
    elif (estimate := costs["estimate"]) and estimate["calls"] and not asked:
        out.note(Text(f"Asking the language model (--ask) takes {_cost(estimate, most=True)}."))


def _show_counts(found: Sequence["ToolDiff"]) -> None:
    """Print how many tools of each server are in which state."""
    counts: Counter[tuple[str, str]] = Counter((one.tool.server, one.proposal.state) for one in found)
    rows = [
        (server, *(f"{counts[server, state]:,}" for state in _STATES))
        for server in sorted({one.tool.server for one in found})
    ]
    headings = ("server", *_STATES)
    if rows:
        print_table(make_table("", headings, rows, numbers=tuple(_STATES)))
    out.note(f"{count_of(len(found), 'tool')} with a proposal; --diff shows each")


def _show(one: "ToolDiff") -> None:
    """Print a tool as it is and as it is proposed, with its places in search."""
    proposal, verdict = one.proposal, one.proposal.verdict
    by = f"{proposal.after.enhanced_by}, confidence {proposal.after.confidence:.2f}"
    out.print(Text.assemble((one.tool.name, "bold"), f"  {_STATES[proposal.state]} (by {by})"))
    for field, (before, after) in one.changes.items():
        if field == "input_schema":
            _show_schema(before, after)
        else:
            _say(f"{field}: {_told(before)} -> {_told(after)}")
    if verdict and verdict.unfit:
        _say(f"unfit: {verdict.unfit}", style="red")
    for probe in verdict.probes[:_MOST_PROBES] if verdict else ():
        _say(f"found by {probe.query!r}: {_place(probe.before)} -> {_place(probe.after)}")
    for harm in verdict.harmed if verdict else ():
        places = f"{_place(harm.before)} -> {_place(harm.after)}"
        _say(f"harms {harm.tool} for {harm.query!r}: {places}", style="red")
    out.print()


def _show_schema(before: Any, after: Any) -> None:
    """Print the parameters that differ."""
    was, now = ((schema or {}).get("properties") or {} for schema in (before, after))
    for name in now:
        if was.get(name) != now[name]:
            _say(f"parameter {name}: {_told(was.get(name))} -> {_told(now[name])}")


def _say(text: str, *, style: str = "") -> None:
    """Print a line without terminal control: names of tools and parameters may hold any character."""
    out.print(Text(f"  {visible(text)}", style=style))


def _told(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if value else "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _place(rank: int) -> str:
    return f"place {rank}" if rank else "not found"


def _choose(
    settings: Settings,
    path: Path,
    viewer: Viewer,
    chosen: Mapping[str, Sequence[str]],
    unset: Sequence[str],
) -> None:
    """Write choices into the configuration file, after a check that all tools exist."""
    names = [*chosen["accept"], *chosen["reject"], *unset]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(
            "maitred mediate", [f"{quote_input(name)} is chosen more than once" for name in twice]
        )
    found = run(lambda: find_tools(settings, names, viewer))
    keys = dict(zip(names, (tool.key for tool in found), strict=True))
    acts = [(choice, keys[name]) for choice in chosen for name in chosen[choice]]
    run(lambda: _record(settings, viewer, [*acts, *(("unset", keys[name]) for name in unset)]))
    for choice in ("accept", "reject"):
        for name in chosen[choice]:
            set_choice(path, keys[name], "mending", choice)
            out.note(Text(f"Wrote {choice} for {name} into {path}."))
    for name in unset:
        was = unset_choice(path, keys[name], "mending")
        said = f"Took the choice for {name} out of {path}." if was else f"Nothing was chosen for {name}."
        out.note(Text(said))


async def _record(settings: Settings, viewer: Viewer, acts: Sequence[tuple[str, ToolKey]]) -> None:
    """Write the coming choices into the audit trail."""
    async with open_auditing(settings) as auditing:
        for choice, key in acts:
            await auditing.record(viewer, f"mediation.{choice}", server=key.server, tool=key.name)
