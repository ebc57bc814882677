"""`maitred register` and `unregister`: servers by their manifests; `schema`: the keys of a manifest.

`maitred approvals`, `approve`, `reject`, `suspend`, `resume`, `explain`: the operator's decisions on servers.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.surfaces.cli.case_view import (
    explanation,
    next_steps,
    origin_summary,
    refusal_lines,
    refused_summary,
    standing,
    summary,
)
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    can_ask,
    err,
    gateway_of,
    in_json,
    out,
    prepare,
    print_json,
    run,
    settings_of,
    visible,
)
from maitred.surfaces.cli.held_call_view import call_summary
from maitred.surfaces.cli.principals import (
    PrincipalOption,
    check_choice,
    resume_principal,
    suspend_principal,
)
from maitred.surfaces.manifest_folder import read_text
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.admission.findings import Decision, Finding
    from maitred.gateway import Gateway
    from maitred.gateway.cases import RegistrationResult
    from maitred.model.held_calls import HeldCall

Document = Literal["manifest"]
WhyOption = Annotated[str, typer.Option(help="Your reason, for the log.")]
TAKEN_OVER = "A running gateway takes it over within two seconds."

_STANDARD_INPUT = "-"
_INPUT = "standard input"

ServerArgument = Annotated[str, typer.Argument(help="Name of the server.", autocompletion=complete_servers)]
OptionalServer = Annotated[
    str | None, typer.Argument(help="Name of the server.", autocompletion=complete_servers)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("register")(register_servers)
    app.command()(unregister)
    app.command()(schema)
    for command in (approvals, approve, reject, suspend, resume, explain):
        app.command()(command)


def admitting(settings: Settings) -> "AbstractAsyncContextManager[Gateway]":
    """A gateway for a command that decides on servers and does not use them."""
    return gateway_of(settings, discovers=False)


def register_servers(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests; - reads standard input.")],
    config: ConfigOption = None,
    check: Annotated[bool, typer.Option("--check", help="Only print what the layers find.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Register servers by their manifests. If one manifest is refused, no server is registered."""
    settings, viewer = prepare(config)
    decisions, registered = run(lambda: _register(settings, _read(files), viewer, check=check))
    if as_json:
        from maitred.surfaces.case_json import registered_json  # noqa: PLC0415  # reads manifests with pydantic

        told = map(registered_json, registered) if registered else (d.record() for d in decisions.values())
        print_json([{"file": file, **one} for file, one in zip(decisions, told, strict=True)])
    elif registered:
        for file, one in zip(decisions, registered, strict=True):
            _show_registered(file, one)
    else:
        for file, decision in decisions.items():
            _show_checked(file, decision)
    if any(decision.outcome == "refused" for decision in decisions.values()):
        raise typer.Exit(2)


def _read(files: Sequence[str]) -> Mapping[str, str]:
    """The texts of manifests, by the names of files as the user wrote them.

    Raises:
        ConfigError: Files cannot be read. The error lists all of them.
    """
    texts, faults = {}, []
    for name in files:
        try:
            if name == _STANDARD_INPUT:
                texts[_INPUT] = sys.stdin.read()
            else:
                texts[name] = read_text(Path(name))
        except OSError as error:
            faults.append(f"{name}: the file cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            faults.append(f"{name}: is not UTF-8 text")
    if faults:
        raise ConfigError("register", faults)
    return texts


def _source(file: str) -> str:
    """The source of a manifest for the catalog: the file's absolute path."""
    return file if file == _INPUT else str(Path(file).absolute())


async def _register(
    settings: Settings, texts: Mapping[str, str], viewer: Viewer, *, check: bool
) -> "tuple[Mapping[str, Decision], Sequence[RegistrationResult]]":
    """The decision on each manifest, and the results. If one manifest is refused, no server is registered."""
    async with admitting(settings) as gateway:
        decisions = {
            file: await gateway.check_manifest(text, source=_source(file), viewer=viewer)
            for file, text in texts.items()
        }
        if faults := _twice(decisions):
            raise ConfigError("register", faults)
        if check or any(decision.outcome == "refused" for decision in decisions.values()):
            return decisions, ()
        return decisions, [
            await gateway.register_server(text, source=_source(file), viewer=viewer)
            for file, text in texts.items()
        ]


def _twice(decisions: "Mapping[str, Decision]") -> Sequence[str]:
    """The faults of files that are about the same server."""
    seen: dict[str, str] = {}
    faults = []
    for file, decision in decisions.items():
        if decision.server and decision.server in seen:
            faults.append(
                f"{file}: the server {decision.server!r} is also defined in {seen[decision.server]}"
            )
        seen.setdefault(decision.server, file)
    return faults


def _show_checked(file: str, decision: "Decision") -> None:
    """Print the findings of the layers, and what a registration would do."""
    if decision.outcome == "refused":
        err.print(Text.assemble((f"{file}: ", ""), ("refused", "red"), "; nothing was registered"))
        _show_findings(file, decision.findings, on_error=True)
        return
    told = (
        "a person would have to approve it" if decision.outcome == "needs approval" else "approved by policy"
    )
    out.print(Text(f"{file}: the server {decision.server!r} can be registered; {told}"))
    _show_findings(file, decision.findings)


def _show_registered(file: str, registered: "RegistrationResult") -> None:
    """Print the result of a registration, and the next step."""
    case = registered.case
    if case is None:  # the policy changed after the check
        _show_checked(file, registered.decision)
        return
    happened = {"changed": "registered again", "unchanged": "registered before, and unchanged"}
    told = happened.get(registered.happened, "registered")
    state = standing(case)
    if _is_auto(registered):
        state = state.replace("approved", "approved by policy", 1)
    out.note(Text(f"{case.server}: {told}; {state}"))
    _show_findings(file, registered.decision.findings)
    if case.awaits:
        out.note(Text(f"Go on with `maitred approve {case.server} --seen {case.digest}`."))
    elif case.state == "approved" and not case.withheld and registered.happened != "unchanged":
        out.note(TAKEN_OVER)


def _is_auto(registered: "RegistrationResult") -> bool:
    """Whether the policy approved a server, without a person's decision."""
    case = registered.case
    if case is None or case.state != "approved" or case.awaits:
        return False
    decided = [event.kind for event in case.log if event.kind in ("approved", "auto_approved")]
    return decided[-1:] == ["auto_approved"]


def _show_findings(file: str, findings: "Sequence[Finding]", *, on_error: bool = False) -> None:
    for finding in findings:
        line = str(replace(finding, file=file))
        (err if on_error else out).print(Text(f"  {visible(line)}"))


def unregister(
    server: ServerArgument,
    config: ConfigOption = None,
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Withdraw a server that a manifest registered. A running gateway stops it."""
    settings, viewer = prepare(config)

    async def go() -> "Case":
        async with admitting(settings) as gateway:
            return await gateway.decide(server, "withdraw", viewer=viewer, why=why)

    case = run(go)
    if as_json:
        _print_case(case)
        return
    out.note(Text(f"Withdrew {server!r}. {TAKEN_OVER}"))


def schema(
    document: Annotated[Document, typer.Argument(help="What the schema is of.")],
) -> None:
    """Print the JSON Schema of a manifest, for editors and programs."""
    del document  # there is one document so far
    from maitred.admission.manifest import manifest_schema  # noqa: PLC0415  # the other commands read no YAML

    typer.echo(in_json(manifest_schema(), indent=2))


if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway.admission import Verdict
    from maitred.gateway.cases import Case

OriginOption = Annotated[
    str,
    typer.Option(metavar="ORIGIN", help="Approve only the tools that web pages of this origin have now."),
]
SeenOption = Annotated[
    str, typer.Option(metavar="DIGEST", help="Decide only if the digest is still this one.")
]
_DONE = {"approve": "Approved", "reject": "Rejected", "suspend": "Suspended", "resume": "Resumed"}


def approvals(
    config: ConfigOption = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Show servers that need no decision, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what waits for your decision: servers, changes in what they publish, and calls."""
    settings, viewer = prepare(config)
    cases, calls = run(lambda: _undecided(settings, viewer))
    found = [case for case in cases if every or case.awaits]
    if as_json:
        from maitred.surfaces.case_json import case_json  # noqa: PLC0415  # reads manifests with pydantic
        from maitred.surfaces.held_call_json import held_call_json  # noqa: PLC0415  # imports the gateway

        cases_json = [case_json(case, whole=False) for case in found]
        print_json({"cases": cases_json, "calls": [held_call_json(call) for call in calls]})
        return
    for case in found:
        _print([*summary(case), *next_steps(case), Text()] if case.awaits else refused_summary(case))
    for call in calls:
        _print(call_summary(call))
    waiting = sum(case.awaits for case in found)
    counts = [count_of(waiting, "server")] if waiting else []
    counts += [count_of(len(calls), "call")] if calls else []
    verb = "waits" if waiting + len(calls) == 1 else "wait"
    out.note(f"{' and '.join(counts)} {verb} for a decision." if counts else "Nothing waits for you.")


async def _undecided(settings: Settings, viewer: Viewer) -> "tuple[Sequence[Case], Sequence[HeldCall]]":
    """All servers, and the calls that wait, if the viewer may decide on calls."""
    async with admitting(settings) as gateway:
        cases = await gateway.cases(viewer)
        decides = gateway.holds_calls and gateway.decides_calls(viewer)
        return cases, await gateway.held_calls(viewer) if decides else ()


def approve(
    server: ServerArgument,
    config: ConfigOption = None,
    origin: OriginOption = "",
    seen: SeenOption = "",
    why: WhyOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the present state, unasked.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Approve it although a person refused it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Approve a server, or the changes in what it publishes. At a terminal, it shows them and asks."""
    settings, viewer = prepare(config)
    asks = not (seen or yes or as_json)
    if as_json and not (seen or yes):
        raise ConfigError("approve", ["--json asks nothing; use --seen DIGEST, or --yes"])
    if asks and not can_ask():
        of = f" --origin {origin}" if origin else ""
        hint = (
            f"`maitred approve {server}{of} --seen DIGEST`, with the digest that `maitred approvals` prints"
        )
        raise ConfigError("approve", [f"there is no terminal to ask at; use {hint}, or --yes"])

    async def go() -> "Case | None":
        async with admitting(settings) as gateway:
            approved = await _approved(gateway, server, viewer, origin) if asks else _Approved(seen, again)
            if approved is None:
                return None
            digest, knows = approved
            return await gateway.decide(
                server, "approve", viewer=viewer, why=why, seen=digest, origin=origin, again=knows or again
            )

    what = f"the tools of {origin} at {server!r}" if origin else repr(server)
    case = run(go)
    if as_json:
        _print_case(case)
        return
    out.note(Text(f"Approved {what}. {TAKEN_OVER}" if case else "Nothing was decided."))


class _Approved(NamedTuple):
    """The digest of what is approved, and whether the operator knows that a person refused it."""

    digest: str
    again: bool


async def _approved(gateway: "Gateway", server: str, viewer: Viewer, origin: str) -> _Approved | None:
    """What the operator saw at the terminal and approved; `None` without approval."""
    case = await gateway.case(server, viewer=viewer, to_decide=True)
    if origin:
        chosen = case.waiting_origin(origin)
        _print([*refusal_lines(case), *origin_summary(case, chosen)])
        asked = "Approve them all the same?" if case.refused else "Approve them?"
        return _Approved(chosen.digest, case.refused is not None) if typer.confirm(asked) else None
    _print(summary(case))
    if not case.awaits and case.state == "approved" and case.refused is None:
        out.note(Text(f"{server!r} is {standing(case)} as it is."))
        return None
    asked = "Approve it all the same?" if case.refused else "Approve it?"
    return _Approved(case.digest, case.refused is not None) if typer.confirm(asked) else None


def reject(
    server: ServerArgument,
    config: ConfigOption = None,
    seen: SeenOption = "",
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Reject a server, or the changes in what it publishes. Parts that were approved before stay in use."""
    _decide(settings_of(config), server, "reject", why=why, seen=seen, as_json=as_json)


def suspend(
    server: OptionalServer = None,
    config: ConfigOption = None,
    principal: PrincipalOption = "",
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a server out of use until it is resumed, or refuse a principal: its tokens, calls and sessions."""
    check_choice("suspend", server, principal)
    settings = settings_of(config)
    if principal:
        suspend_principal(settings, acting(settings), principal, why, as_json=as_json)
    else:
        _decide(settings, server or "", "suspend", why=why, as_json=as_json)


def resume(
    server: OptionalServer = None,
    config: ConfigOption = None,
    principal: PrincipalOption = "",
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a suspended server into use again, as it was approved, or a principal."""
    check_choice("resume", server, principal)
    settings = settings_of(config)
    if principal:
        resume_principal(settings, acting(settings), principal, why, as_json=as_json)
    else:
        _decide(settings, server or "", "resume", why=why, as_json=as_json)


def _decide(
    settings: Settings, server: str, verdict: "Verdict", *, why: str, as_json: bool, seen: str = ""
) -> None:
    viewer = acting(settings)

    async def go() -> "Case":
        async with admitting(settings) as gateway:
            return await gateway.decide(server, verdict, viewer=viewer, why=why, seen=seen)

    case = run(go)
    if as_json:
        _print_case(case)
        return
    out.note(Text(f"{_DONE[verdict]} {server!r}: {standing(case)}. {TAKEN_OVER}"))


def explain(server: ServerArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show why a server is in its state: the findings of each layer, its definition, and its history."""
    settings, viewer = prepare(config)

    async def go() -> "Case":
        async with admitting(settings) as gateway:
            return await gateway.case(server, viewer=viewer)

    case = run(go)
    if as_json:
        _print_case(case)
        return
    _print([*explanation(case), *next_steps(case)])


def _print_case(case: "Case | None") -> None:
    from maitred.surfaces.case_json import case_json  # noqa: PLC0415  # reads manifests with pydantic

    print_json(case_json(case) if case else None)


def _print(lines: Iterable[Text]) -> None:
    for line in lines:
        out.print(line)
