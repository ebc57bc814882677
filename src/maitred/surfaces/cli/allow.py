"""`maitred allow`: the patterns by which servers register without a person's approval, as data."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
)
from maitred.wiring import open_allow_list

if TYPE_CHECKING:  # slow to import
    from maitred.admission.allow_list import AllowList

T = TypeVar("T")

allow_app = typer.Typer(
    help="Show and change the allow list: what registers without a person's approval.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="images, trusted_images, trusted_digests, trusted_commands or trusted_hosts: as in the file.",
    ),
]
PatternArgument = Annotated[
    str, typer.Argument(metavar="PATTERN", help="As in the file, such as ghcr.io/acme/*.")
]
WhyOption = Annotated[str, typer.Option(help="The reason, for the history.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(allow_app, name="allow")


@allow_app.command()
def add(
    kind: KindArgument,
    pattern: PatternArgument,
    config: ConfigOption = None,
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add a pattern. A running gateway judges the next registration by it."""
    from maitred.admission.allow_list import pattern_json  # noqa: PLC0415  # slow to import

    settings, viewer = prepare(config)
    made = _with_list(settings, lambda known: known.add(kind, pattern, settings.admission, viewer, why=why))
    if as_json:
        print_json(pattern_json(made))
    else:
        out.note(Text(f"Added {pattern} to {kind}. It counts for registrations from now on."))


@allow_app.command()
def remove(
    kind: KindArgument,
    pattern: PatternArgument,
    config: ConfigOption = None,
    why: WhyOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove a pattern of the list. What was approved by it stays approved."""
    from maitred.admission.allow_list import pattern_json  # noqa: PLC0415  # slow to import

    settings, viewer = prepare(config)
    gone = _with_list(
        settings, lambda known: known.remove(kind, pattern, settings.admission, viewer, why=why)
    )
    if as_json:
        print_json(pattern_json(gone))
    else:
        out.note(Text(f"Removed {pattern} from {kind}. What was approved by it stays approved."))


@allow_app.command("list")
def list_patterns(
    config: ConfigOption = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show every change of the list instead.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the patterns that count: those of the configuration file, then those that were added."""
    from maitred.admission.allow_list import pattern_json  # noqa: PLC0415  # slow to import

    settings, viewer = prepare(config)
    if history:
        changes = [pattern_json(one) for one in _with_list(settings, lambda known: known.history(viewer))]
        _print({"changes": changes}, ("at", "action", "kind", "pattern", "who", "why"), as_json=as_json)
        return
    found = _with_list(settings, lambda known: known.listed(settings.admission, viewer))
    patterns = [pattern_json(one) for one in found]
    _print({"patterns": patterns}, ("kind", "pattern", "source", "who", "at", "why"), as_json=as_json)


def _print(found: dict[str, list[dict[str, str]]], headings: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    [entries] = found.values()
    if not entries:
        out.note("There are none.")
        return
    print_table(make_table("", headings, [tuple(one[name] for name in headings) for one in entries]))


def _with_list(settings: Settings, act: "Callable[[AllowList], Awaitable[T]]") -> T:
    async def go() -> T:
        async with open_allow_list(settings) as known:
            return await act(known)

    return run(go)
