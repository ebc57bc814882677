"""`maitred approvals`, `approve`, `reject`, `suspend`, `resume`, `explain`: a person's word on servers."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.surfaces.cli.admission import TAKEN_OVER, WhyOption, admitting
from maitred.surfaces.cli.cases import explanation, headline, next_steps, standing, summary
from maitred.surfaces.cli.common import (
    ConfigOption,
    JsonOption,
    acting,
    out,
    print_json,
    run,
    settings_of,
)
from maitred.wording import counted

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway.admission import Admission, Case, Verdict

ServerArgument = Annotated[str, typer.Argument(help="Name of the server.")]
SeenOption = Annotated[
    str, typer.Option(metavar="DIGEST", help="Decide only if it still is what had this digest.")
]
_DONE = {"approve": "Approved", "reject": "Rejected", "suspend": "Suspended", "resume": "Resumed"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (approvals, approve, reject, suspend, resume, explain):
        app.command()(command)


def approvals(
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--all", help="Also what waits for nobody.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what waits for a decision of yours: servers, and changes of what they publish."""
    settings = settings_of(config)
    acting(settings, "watch")
    found = [case for case in run(lambda: _cases(settings)) if every or case.awaits]
    if as_json:
        from maitred.surfaces.cases import case_json  # noqa: PLC0415  # reads manifests with pydantic

        print_json({"cases": [case_json(case, whole=False) for case in found]})
        return
    for case in found:
        _print([*summary(case), *next_steps(case), Text()] if case.awaits else [headline(case)])
    waiting = sum(case.awaits for case in found)
    verb = "waits" if waiting == 1 else "wait"
    out.print(f"{counted(waiting, 'server')} {verb} for a decision." if waiting else "Nothing waits for you.")


async def _cases(settings: Settings) -> "list[Case]":
    async with admitting(settings) as gateway:
        return list(await gateway.admission.cases())


def approve(
    server: ServerArgument,
    config: ConfigOption = None,
    seen: SeenOption = "",
    why: WhyOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve what is there now, unasked.")] = False,
) -> None:
    """Approve a server, or what changed of what it publishes; at a terminal you are shown it and asked."""
    settings = settings_of(config)
    viewer = acting(settings)
    asks = not (seen or yes)
    if asks and not sys.stdin.isatty():
        hint = f"`maitred approve {server} --seen DIGEST`, with the digest that `maitred approvals` prints"
        raise ConfigError("approve", [f"there is no terminal to ask at; use {hint}, or --yes"])

    async def go() -> bool:
        async with admitting(settings) as gateway:
            gateway.access.check(viewer, "approve", server=server)
            digest = await _asked(gateway.admission, server) if asks else seen
            if digest is None:
                return False
            await gateway.admission.decide(server, "approve", viewer=viewer, why=why, seen=digest)
            return True

    out.print(Text(f"Approved {server!r}. {TAKEN_OVER}" if run(go) else "Nothing was decided."))


async def _asked(admission: "Admission", server: str) -> str | None:
    """The digest of what somebody at the terminal saw and approved; `None` if they did not."""
    case = await admission.case(server)
    _print(summary(case))
    if not case.awaits and case.state == "approved":
        out.print(Text(f"{server!r} is {standing(case)} as it is."))
        return None
    return case.digest if typer.confirm("Approve it?") else None


def reject(
    server: ServerArgument, config: ConfigOption = None, seen: SeenOption = "", why: WhyOption = ""
) -> None:
    """Reject a server, or what changed of what it publishes; parts approved before stay in use."""
    _decide(settings_of(config), server, "reject", why=why, seen=seen)


def suspend(server: ServerArgument, config: ConfigOption = None, why: WhyOption = "") -> None:
    """Take a server out of use until it is resumed."""
    _decide(settings_of(config), server, "suspend", why=why)


def resume(server: ServerArgument, config: ConfigOption = None, why: WhyOption = "") -> None:
    """Take a suspended server into use again, as it was approved."""
    _decide(settings_of(config), server, "resume", why=why)


def _decide(settings: Settings, server: str, verdict: "Verdict", *, why: str, seen: str = "") -> None:
    viewer = acting(settings)

    async def go() -> "Case":
        async with admitting(settings) as gateway:
            gateway.access.check(viewer, "approve", server=server)
            return await gateway.admission.decide(server, verdict, viewer=viewer, why=why, seen=seen)

    case = run(go)
    out.print(Text(f"{_DONE[verdict]} {server!r}: {standing(case)}. {TAKEN_OVER}"))


def explain(server: ServerArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show why a server stands as it does: what each layer found, its definition, and all that happened."""
    settings = settings_of(config)
    viewer = acting(settings)

    async def go() -> "Case":
        async with admitting(settings) as gateway:
            gateway.access.check(viewer, "watch", server=server)
            return await gateway.admission.case(server)

    case = run(go)
    if as_json:
        from maitred.surfaces.cases import case_json  # noqa: PLC0415  # reads manifests with pydantic

        print_json(case_json(case))
        return
    _print([*explanation(case), *next_steps(case)])


def _print(lines: Iterable[Text]) -> None:
    for line in lines:
        out.print(line)
