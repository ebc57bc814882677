"""`maitred browser`: the browser server as a program of its own, and what pages need to dial in."""

import sys
from typing import Annotated, Literal

import typer

from maitred.browser.pages.address import dial_in_file, read_address
from maitred.config.load import catalog_path
from maitred.config.sections import browser_faults
from maitred.errors import ConfigError
from maitred.model.browsers import BrowserOptions
from maitred.surfaces.cli.console import ConfigOption, JsonOption, out, prepare, print_json, run

group = typer.Typer(
    help="Chrome as an MCP server: 23 tools for tabs, elements, console and debugger.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="browser")


@group.callback()
def _group() -> None:
    """Chrome as an MCP server: 23 tools for tabs, elements, console and debugger."""


@group.command()
def serve(
    executable: Annotated[str, typer.Option(help="The browser; without it, the first known one.")] = "",
    profile: Annotated[
        str, typer.Option(help="A profile of maitred that stays, by its name; without it, a fresh one.")
    ] = "",
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Start browsers without their sandbox, as root has to.")
    ] = False,
    no_evaluate: Annotated[
        bool, typer.Option("--no-evaluate", help="Agents may run no expressions in paused pages.")
    ] = False,
    host: Annotated[
        list[str] | None, typer.Option(help="A host beside this machine that may be connected to.")
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(help="A flag that `extra_args` may have, such as --proxy-server.")
    ] = None,
    visibility: Annotated[
        Literal["dynamic", "all"], typer.Option(help="Whether lists show what makes sense now, or all tools.")
    ] = "dynamic",
) -> None:
    """Serve one MCP client over standard streams, until it closes them."""
    options = BrowserOptions(
        executable=executable,
        profile=profile,
        sandbox=not no_sandbox,
        evaluate=not no_evaluate,
        hosts=tuple(host or ()),
        flags=tuple(flag or ()),
    )
    if faults := [f"{key}: {fault}" for key, fault in browser_faults(options)]:
        raise ConfigError("maitred browser serve", faults)
    from maitred.browser.program import serve as serve_browser  # noqa: PLC0415  # loads the SDK

    run(lambda: serve_browser(options, visibility))


@group.command()
def dial_in(
    config: ConfigOption = None,
    script: Annotated[
        bool, typer.Option("--script", help="Print the JavaScript module that pages load instead.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say where pages of your own apps dial in, and in which file the servers of the apps find that."""
    if script:
        from maitred.browser.pages.scripts import dial_in_module  # noqa: PLC0415  # of this use only

        sys.stdout.write(dial_in_module())
        return
    settings, _ = prepare(config, "watch")
    names = [n for n, spec in settings.servers.items() if spec.pages and spec.pages.dial_in is not None]
    if not names:
        fault = "no server lets pages dial in; set `pages: {allow: [...], dial_in: 0}` for one"
        raise ConfigError(str(settings.source), [fault])
    found = {name: dial_in_file(catalog_path(settings), name) for name in names}
    if as_json:
        print_json({name: {"url": read_address(file)[0], "file": str(file)} for name, file in found.items()})
        return
    for name, file in found.items():
        out.print(f"{name}: {read_address(file)[0] or 'no gateway listens now'}, {file}")
