"""`maitred doctor`: start every server once, and print each fault with advice."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.disclosure.answers import ServerStatus, parts_withheld
from maitred.model.access import Viewer
from maitred.model.servers import FaultCode, MachineAspect, State
from maitred.search.results import Semantics
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
from maitred.wiring import look_at_cages, open_gateway
from maitred.wording import count_of

_SHOWN_LINES = 10
_ADVICE: Final[Mapping[FaultCode, str]] = {
    "program_missing": "install the program, or give its full path in `command`",
    "jail_missing": "install bubblewrap, as by `apt-get install bubblewrap`",
    "path_not_granted": "add that to the manifest, and register it again",
    "mount_unusable": "correct `filesystem` in its manifest, or put it there",
    "network_not_granted": "install its package, as by `uv tool install` or `npm install --global`",
    "variable_unset": "set the variable where maitred is started, for instance in your client's env",
    "not_ready": "raise `start_timeout_s` of the server if it is slow the first time",
    "image_not_fetched": "fetch or make the image by hand, or correct its name in the manifest",
    "login_needed": "run that command; docs/oauth.md explains the login",
    "unauthorized": "set `headers: {Authorization: Bearer ${TOKEN}}`",
    "open_files": "raise the limit as it says, or have fewer servers run at once",
}
_PROGRAMS: Final = {
    "npx": "install Node.js, which brings npx",
    "uvx": "install uv, which brings uvx",
    "docker": "install Docker, or run the server without a container",
}
_MEMORY: Final = "raise `memory` in its manifest, and register it again"
_MODULE: Final = "the server's Python package is not installed for the interpreter in `command`"
_SUSPENDED: Final = "see `maitred explain NAME`; `maitred resume NAME` ends it"
_EXIT: Final = "its last output is shown above; run its command by hand to see more"
_OTHERWISE: Final = "see docs/troubleshooting.md"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    servers: Annotated[list[str] | None, typer.Argument(help="Only these servers.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration, start every enabled server, and advise. Exits with 1 if anything is wrong."""
    settings, viewer = prepare(config)
    found = run(lambda: _examine(settings, servers or [], viewer))
    findings, catalog, cage = found.servers, found.catalog, found.cage
    fault = catalog["fault"]
    cages = run(lambda: look_at_cages(settings))
    if as_json:
        print_json(
            {
                "config": str(settings.source),
                "catalog": dict(catalog),
                "servers": findings,
                "search": dataclasses.asdict(found.semantics),
                "chains": {"jailed": not cage, "why_not": cage},
                "cages": {one.name: {"works": one.works, "told": one.told} for one in cages},
            }
        )
    else:
        out.print(Text(f"configuration {settings.source}: fine, {count_of(len(settings.servers), 'server')}"))
        out.print(Text(f"catalog {catalog['path']}: {unwritable(fault) if fault else 'fine'}"))
        out.print(Text(f"search: {_about(found.semantics)}"))
        jail = f"in a process of their own, without bubblewrap: {cage}" if cage else "in bubblewrap"
        out.print(Text(f"chains: {jail}"))
        _show_cages(cages)
        _show(findings, found.elapsed_s)
    if fault or not all(finding["ok"] for finding in findings):
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DoctorReport:
    """The findings about servers, catalog and search; `cage` is the reason why chains run without a jail."""

    servers: Sequence[dict[str, Any]]
    catalog: Mapping[str, Any]
    semantics: Semantics
    cage: str
    elapsed_s: float


async def _examine(settings: Settings, names: Sequence[str], viewer: Viewer) -> _DoctorReport:
    """Start the servers (all enabled ones by default), and look at the rest."""
    async with open_gateway(settings, asks_models=False) as gateway:
        gateway.watched_servers(viewer)  # before anything is said of servers
        check_servers(gateway.settings, names)  # those that are registered, too
        wanted = names or [name for name, spec in gateway.settings.servers.items() if spec.usable]
        started = time.perf_counter()
        with err.status(f"starting {count_of(len(wanted), 'server')} …"):
            reports = await gateway.sync(wanted, viewer=viewer)
        status = {entry.name: entry for entry in gateway.watched_servers(viewer)}
        strangers = gateway.unmatched_rules(viewer)
        findings = []
        for report in reports:
            lines = list(gateway.last_output(report.server, viewer))[-_SHOWN_LINES:]
            parts = parts_withheld(status[report.server].withheld_parts)
            remarks = [f"visibility: {one}" for one in strangers.get(report.server, ())]
            finding = status[report.server].to_json() | {
                "ok": not report.error,
                "error": report.error,
                "notes": [*report.notes, *filter(None, [parts]), *remarks],
                "last_output": lines if report.error else [],
                "advice": advice(status[report.server], lines) if report.error else "",
            }
            findings.append(finding)
        elapsed_s = time.perf_counter() - started
        await wait_for_vectors(gateway)
        return _DoctorReport(
            servers=findings,
            catalog=await gateway.catalog_status(viewer),
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


def advice(status: ServerStatus, lines: Sequence[str]) -> str:
    """What to do about a server that failed; `lines` are its last output."""
    health = status.health
    ended = health.ended if health.error else ""
    if health.fault == "program_missing" and status.spec.command in _PROGRAMS:
        return _PROGRAMS[status.spec.command]
    if health.fault:
        return _ADVICE[health.fault]
    if any("ModuleNotFoundError" in line for line in lines):  # a program has no code for it
        return _MODULE
    if ended == "memory":
        return _MEMORY
    if status.spec.suspended or health.state is State.SUSPENDED:
        return _SUSPENDED
    return _EXIT if ended == "exit" else _OTHERWISE


def _show_cages(cages: Sequence[MachineAspect]) -> None:
    """Print the kinds of cages for registered servers, and whether they work here."""
    for one in cages:
        out.print(Text(f"{one.name}: {one.told}"))


def _show(findings: Sequence[dict[str, Any]], elapsed_s: float) -> None:
    for finding in findings:
        if finding["ok"]:
            what = f"{count_of(finding['tools'], 'tool')}, {count_of(finding['tokens'], 'token')}"
            told = f"    {finding['name']}: {what}, protocol {finding['protocol_version']}"
            out.print(Text.assemble(("ok", "green"), told))
        else:
            out.print(Text.assemble(("fault", "red"), f" {finding['name']}: {finding['error']}"))
            for line in finding["last_output"]:
                out.print(Text(f"        | {line}"))
            out.print(Text(f"        advice: {finding['advice']}"))
        for note in finding["notes"]:
            out.print(Text(f"        note: {note}"))
    faults = sum(not finding["ok"] for finding in findings)
    out.print(f"{count_of(len(findings), 'server')} started in {elapsed_s:.1f} s, {faults} with faults")
