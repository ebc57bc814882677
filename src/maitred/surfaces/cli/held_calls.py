"""`maitred calls`: the calls that wait for a person, and decisions about them."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.surfaces.cli.admission import admitting
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    can_ask,
    out,
    prepare,
    print_json,
    run,
    visible,
)
from maitred.surfaces.cli.held_call_view import call_summary
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway
    from maitred.model.held_calls import CallDecision, HeldCall

Allowed = Literal["once", "session", "any"]
T = TypeVar("T")
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id that `maitred calls list` shows.")]

_TAKEN = "The gateway that holds it notices within a second."
_MEANS = {
    "once": "this call may be made, one time",
    "session": "it may be made, and again with the same arguments in its session",
    "any": "it may be made, and every call of this tool in its session, with any arguments",
    "refuse": "it is not made",
}

calls_app = typer.Typer(
    help="Calls that wait for a person: list them, show one, approve, refuse.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(calls_app, name="calls")


@calls_app.command("list")
def list_calls(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the calls that wait for your decision, the oldest first."""
    settings, viewer = prepare(config)
    found = _with_gateway(settings, lambda gateway: gateway.held_calls(viewer))
    if as_json:
        from maitred.surfaces.held_call_json import held_call_json  # noqa: PLC0415  # imports the gateway

        print_json({"calls": [held_call_json(one) for one in found]})
        return
    for one in found:
        _print(call_summary(one))
    verb = "waits" if len(found) == 1 else "wait"
    out.note(f"{count_of(len(found), 'call')} {verb} for a decision." if found else "No call waits for you.")


@calls_app.command()
def show(held_id: IdArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one held call, with its exact arguments while it waits."""
    settings, viewer = prepare(config)
    held = _with_gateway(settings, lambda gateway: gateway.held_call(held_id, viewer))
    if as_json:
        from maitred.surfaces.held_call_json import held_call_json  # noqa: PLC0415  # imports the gateway

        print_json(held_call_json(held))
        return
    _print(call_summary(held))


@calls_app.command()
def approve(
    held_id: IdArgument,
    config: ConfigOption = None,
    what: Annotated[
        Allowed,
        typer.Option("--for", help="once: this call; session: the same again; any: every call of the tool."),
    ] = "once",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve it, unasked.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Approve a call that waits. At a terminal, it shows the call and asks."""
    settings, viewer = prepare(config)
    if not yes and (as_json or not can_ask()):
        fault = f"there is no terminal to ask at; look at it by `maitred calls show {held_id}`, and use --yes"
        raise ConfigError("calls approve", [fault])

    async def go(gateway: "Gateway") -> "HeldCall | None":
        held = await gateway.held_call(held_id, viewer)
        if not yes and held.state == "waiting" and what in held.choices:  # else the gateway says why not
            _print(call_summary(held))
            if not typer.confirm(f"Approve it, so that {_MEANS[what]}?"):
                return None
        return await gateway.decide_call(held_id, what, viewer)

    _say(_with_gateway(settings, go), as_json=as_json)


@calls_app.command()
def refuse(held_id: IdArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Refuse a call that waits. Its caller gets an error that says so."""
    settings, viewer = prepare(config)
    decision: CallDecision = "refuse"
    held = _with_gateway(settings, lambda gateway: gateway.decide_call(held_id, decision, viewer))
    _say(held, as_json=as_json)


def _say(held: "HeldCall | None", *, as_json: bool) -> None:
    if held is not None and as_json:
        from maitred.surfaces.held_call_json import held_call_json  # noqa: PLC0415  # imports the gateway

        print_json(held_call_json(held))
        return
    if held is None:
        out.note("Nothing was decided.")
        return
    word = "Refused" if held.decision == "refuse" else "Approved"
    means = _MEANS.get(held.decision, "")
    out.note(Text(f"{word} {held.id} ({visible(held.name)}): {means}. {_TAKEN}"))


def _with_gateway(settings: Settings, function: "Callable[[Gateway], Awaitable[T]]") -> T:
    async def go() -> T:
        async with admitting(settings) as gateway:
            return await function(gateway)

    return run(go)


def _print(lines: Iterator[Text]) -> None:
    for line in lines:
        out.print(line)
