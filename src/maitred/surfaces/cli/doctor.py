"""`maitred doctor`: start every server once, and print each fault with advice."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.disclosure.answers import parts_withheld
from maitred.model.access import Viewer
from maitred.model.browsers import BrowserReport
from maitred.model.logins import describe_owners
from maitred.model.servers import MachineAspect
from maitred.search.results import Semantics
from maitred.surfaces.advice import advice
from maitred.surfaces.cli.audit_stream import describe_stream, stream_lines
from maitred.surfaces.cli.client_view import show_client
from maitred.surfaces.cli.completion import complete_clients, complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    check_servers,
    err,
    out,
    prepare,
    print_json,
    run,
    unwritable,
    wait_for_vectors,
)
from maitred.surfaces.cli.log_filter import warn_once
from maitred.surfaces.cli.options import tools_option
from maitred.surfaces.cli.required_tools import look_for_tools, names_in, show_required
from maitred.wiring import look_at_browsers, look_at_cages, open_gateway
from maitred.wording import count_of

_SHOWN_LINES = 10
_BROWSER: Final = "see `maitred docs browser`"
_NO_WAY: Final = "it can find no page: no server has `transport: browser`, and no page can dial in"
_NO_WAY_ADVICE: Final = "add such a server, as `chrome: {transport: browser}`, or `dial_in: 0` to its `pages`"


ClientOption = Annotated[
    str,
    typer.Option(
        help="Say what this client sees and gets; ask only servers that are not known yet.",
        autocompletion=complete_clients,
    ),
]
RequireOption = Annotated[
    list[str] | None,
    tools_option("Tools that must be callable, else exit with 1; repeatable.", metavar="TOOL,TOOL"),
]


ServersArgument = Annotated[
    list[str] | None, typer.Argument(help="Only these servers.", autocompletion=complete_servers)
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    servers: ServersArgument = None,
    config: ConfigOption = None,
    client: ClientOption = "",
    require: RequireOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration, start every enabled server, and advise.

    Exits with 1 if anything is wrong; with `--require`, if one of these tools cannot be called.
    """
    settings, viewer = prepare(config)
    warn_once()
    if client:
        required = names_in(require or ())
        show_client(client, servers or [], required, settings, viewer, as_json=as_json)
        return
    found = run(lambda: _examine(settings, servers or [], names_in(require or ()), viewer))
    findings, catalog = found.servers, found.catalog
    cages = run(lambda: look_at_cages(settings))
    browsers = run(lambda: look_at_browsers(settings))
    state, is_bad = run(lambda: _look_at_cluster(settings))
    findings = [_with_browser(_with_way(finding, settings), browsers) for finding in findings]
    if as_json:
        about = {"kubernetes": {"ok": not is_bad, "told": state} if state else None}
        print_json(_as_json(settings, found, findings, cages, browsers) | about)
    else:
        _show_gateway(settings, found)
        _show_cages(cages)
        _show_browsers(browsers)
        if state:
            (out.print if is_bad else out.note)(Text(f"kubernetes: {state}"))
        _show(findings, found.elapsed_s)
        show_required(found.required)
    has_browser_fault = any(one.fault for one in browsers if one.server)
    has_stream_fault = any(is_fault for _, is_fault in found.streams.values())
    has_fault = has_browser_fault or has_stream_fault or is_bad
    has_fault = has_fault or not all(one["ok"] for one in findings)
    if require:  # a project that needs these need not mend all else
        has_fault = not all(one["ok"] for one in found.required)
    if catalog["fault"] or has_fault:
        raise typer.Exit(1)


def _as_json(
    settings: Settings,
    found: "_DoctorReport",
    findings: Sequence[dict[str, Any]],
    cages: Sequence[MachineAspect],
    browsers: Sequence[BrowserReport],
) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "config": str(settings.source),
        "catalog": dict(found.catalog),
        "servers": findings,
        "required": list(found.required),
        "audit_stream": {name: {"ok": not bad, "told": text} for name, (text, bad) in found.streams.items()},
        "search": dataclasses.asdict(found.semantics),
        "chains": {"jailed": not found.cage, "why_not": found.cage},
        "cages": {one.name: {"works": one.works, "told": one.told} for one in cages},
        "browsers": [dataclasses.asdict(one) for one in browsers],
    }


def _show_gateway(settings: Settings, found: "_DoctorReport") -> None:
    """Print what is true of the gateway as a whole."""
    fault, cage = found.catalog["fault"], found.cage
    out.note(Text(f"configuration {settings.source}: fine, {count_of(len(settings.servers), 'server')}"))
    (out.print if fault else out.note)(
        Text(f"catalog {found.catalog['path']}: {unwritable(fault) if fault else 'fine'}")
    )
    out.note(Text(f"search: {_about(found.semantics)}"))
    for line in stream_lines(found.streams):
        out.print(line)
    jail = f"in a process of their own, without bubblewrap: {cage}" if cage else "in bubblewrap"
    out.note(Text(f"chains: {jail}"))


def _with_way(finding: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """A finding about a server; one of web pages has a fault if no page can ever be found."""
    spec = settings.servers.get(finding["name"])
    if spec is None or spec.pages is None or spec.pages.dial_in is not None or not finding["ok"]:
        return finding
    if any(one.browser is not None and one.usable for one in settings.servers.values()):
        return finding
    return finding | {"ok": False, "error": _NO_WAY, "advice": _NO_WAY_ADVICE}


def _with_browser(finding: dict[str, Any], browsers: Sequence[BrowserReport]) -> dict[str, Any]:
    """A finding about a server; it has a fault if the server's browser has."""
    fault = next((one.fault for one in browsers if one.server == finding["name"] and one.fault), "")
    return finding | {"ok": False, "error": fault, "advice": _BROWSER} if fault else finding


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DoctorReport:
    """The findings about servers, catalog and search; `cage` is the reason why chains run without a jail."""

    servers: Sequence[dict[str, Any]]
    catalog: Mapping[str, Any]
    required: Sequence[dict[str, Any]]
    streams: Mapping[str, tuple[str, bool]]
    semantics: Semantics
    cage: str
    elapsed_s: float


async def _examine(
    settings: Settings, names: Sequence[str], required: Sequence[str], viewer: Viewer
) -> _DoctorReport:
    """Start the servers (all enabled ones by default), and look at the rest."""
    async with open_gateway(settings, asks_models=False) as gateway:
        gateway.watched_servers(viewer)  # before anything is said of servers
        check_servers(gateway.settings, names)  # those that are registered, too
        wanted = names or [name for name, spec in gateway.settings.servers.items() if spec.usable]
        started = time.perf_counter()
        with err.status(f"starting {count_of(len(wanted), 'server')} …"):
            reports = await gateway.sync(wanted, viewer=viewer)
        status, findings = {entry.name: entry for entry in gateway.watched_servers(viewer)}, []
        strangers = gateway.unmatched_rules(viewer)
        for report in reports:
            lines = list(gateway.last_output(report.server, viewer))[-_SHOWN_LINES:]
            parts = parts_withheld(status[report.server].withheld_parts)
            remarks = [f"visibility: {one}" for one in strangers.get(report.server, ())]
            owners = await gateway.login_owners(report.server, viewer)
            remarks += [] if owners is None else [describe_owners(owners)]
            finding = status[report.server].to_json() | {
                "ok": not report.error,
                "error": report.error,
                "notes": [*report.notes, *filter(None, [parts]), *remarks],
                "last_output": lines if report.error else [],
                "logins": owners,
                "advice": advice(status[report.server], lines) if report.error else "",
            }
            findings.append(finding)
        elapsed_s = time.perf_counter() - started
        await wait_for_vectors(gateway)
        states = await gateway.audit_stream(viewer)
        errors = {one["name"]: one["error"] for one in findings if not one["ok"]}
        return _DoctorReport(
            servers=findings,
            required=await look_for_tools(gateway, required, errors, viewer),
            catalog=await gateway.catalog_status(viewer),
            streams={name: describe_stream(name, states.get(name)) for name in settings.audit.stream},
            semantics=gateway.semantics,
            cage=await gateway.chain_isolation_fault(viewer),
            elapsed_s=elapsed_s,
        )


def _about(semantics: Semantics) -> str:
    """How search finds tools, in one line."""
    if semantics.why:
        return f"by words alone; the embedder does not work: {semantics.why}"
    about = f"by words and by meaning, model {semantics.model}" if semantics.model else "by words alone"
    if semantics.not_kept:
        about += (
            f"; the gateway computes vectors at each start, since it cannot store them: {semantics.not_kept}"
        )
    return about


def _show_cages(cages: Sequence[MachineAspect]) -> None:
    """Print the kinds of cages for registered servers, and whether they work here."""
    for one in cages:
        out.note(Text(f"{one.name}: {one.told}"))


def _show_browsers(browsers: Sequence[BrowserReport]) -> None:
    for browser in browsers:
        of = f" of {browser.server}" if browser.server else ""
        (out.print if browser.fault else out.note)(Text(f"browser{of}: {browser.text}"))


async def _look_at_cluster(settings: Settings) -> tuple[str, bool]:
    """What is true of the cluster whose resources become servers; an empty text if none is configured."""
    if settings.kubernetes.watch is None:
        return "", False
    from maitred.surfaces.kubernetes.cluster_api import describe_cluster  # noqa: PLC0415  # HTTP client

    return await describe_cluster(settings.kubernetes.watch)


def _show(findings: Sequence[dict[str, Any]], elapsed_s: float) -> None:
    for finding in findings:
        if finding["ok"]:
            what = f"{count_of(finding['tools'], 'tool')}, {count_of(finding['tokens'], 'token')}"
            told = f"    {finding['name']}: {what}, protocol {finding['protocol_version']}"
            out.note(Text.assemble(("ok", "green"), told))
        else:
            out.print(Text.assemble(("fault", "red"), f" {finding['name']}: {finding['error']}"))
            for line in finding["last_output"]:
                out.print(Text(f"        | {line}"))
            out.print(Text(f"        advice: {finding['advice']}"))
        for note in finding["notes"]:
            out.note(Text(f"        note: {note}"))
    faults = sum(not finding["ok"] for finding in findings)
    out.note(f"{count_of(len(findings), 'server')} started in {elapsed_s:.1f} s, {faults} with faults")
