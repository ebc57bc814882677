"""`maitred chain` and `chains`: run a program that calls tools, and save reviewed ones as tools.

The gateway decides who may run a chain. `chains` reads and writes the configuration file without a gateway,
so it checks itself what the user may do.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from maitred.config.edit_choices import save_chain, unsave_chain
from maitred.config.settings import SAVED, Settings
from maitred.errors import ConfigError
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    config_path,
    known_gateway,
    make_table,
    may_configure,
    out,
    own_path,
    prepare,
    print_answer,
    print_json,
    print_table,
    read_input_bytes,
    run,
    settings_of,
)

if TYPE_CHECKING:  # what runs chains takes a while to import, which `--help` need not wait for
    from maitred.chains.answer import ChainAnswer

_LONGEST_MS = 60_000
_MAX_OUTPUT_SIZE = 1_000_000
_SHOWN = 12


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(chain)
    app.command()(chains)


def chain(
    action: Annotated[Literal["run"], typer.Argument(metavar="run", help="`run` runs the program.")],
    file: Annotated[str, typer.Argument(help="The program, or calls in a short form; `-` reads it.")],
    config: ConfigOption = None,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, max=_LONGEST_MS, help="Milliseconds that it may take.")
    ] = 30_000,
    max_output_size: Annotated[
        int, typer.Option("--max-output-size", min=0, help="Characters of the result that are printed.")
    ] = _MAX_OUTPUT_SIZE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is wrong; call nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a program that calls tools and print its answer. Exits with 1 when the program failed."""
    code = _decoded("-", read_input_bytes()) if file == "-" else _text(Path(file))

    settings, viewer = prepare(config)

    async def go() -> "ChainAnswer":
        async with known_gateway(settings) as gateway:
            return await gateway.run_chain(
                code,
                viewer=viewer,
                timeout_ms=timeout_ms,
                max_output_size=max_output_size,
                dry_run=dry_run,
                keep=False,  # this gateway ends before a user reads the answer
            )

    answer = run(go)
    if as_json:
        print_json(answer.to_json())
    else:
        print_answer(answer.text)
    if not answer.ok:
        raise typer.Exit(1)


def chains(
    action: Annotated[
        Literal["list", "add", "remove"], typer.Argument(metavar="list|add|remove", help="What to do.")
    ] = "list",
    name: Annotated[str, typer.Argument(help="Name of the chain, which its tool has too.")] = "",
    file: Annotated[
        Path | None, typer.Argument(help="YAML or JSON: description, code, parameters, read_only.")
    ] = None,
    config: ConfigOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a saved chain.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List saved chains. `add` saves a reviewed chain as a tool, `remove` takes it out again."""
    if action == "list":
        settings = settings_of(config)
        acting(settings, "watch")
        _list(settings, as_json=as_json)
        return
    may_configure(config)
    if action == "add":
        _add(config_path(config), name, file, replace=replace, as_json=as_json)
    else:
        unsave_chain(config_path(config), name)
        if as_json:
            print_json({"name": name, "removed": True})
            return
        out.note(Text(f"Removed the saved chain {name!r}; its file stays."))


def _add(path: Path, name: str, file: Path | None, *, replace: bool, as_json: bool) -> None:
    from maitred.chains.saved_chain import parse_saved  # noqa: PLC0415  # slow, and only needed here

    if not name or file is None:
        raise ConfigError("maitred chains add", ["needs a NAME and a FILE"])
    made = parse_saved(name, _text(file))
    kept = save_chain(path, name, file, made.hash, replace=replace)
    if as_json:
        print_json({"name": name, "tool": f"{SAVED}__{name}", "file": kept, "hash": made.hash})
        return
    reads = ", only reads" if made.read_only else ""
    said = f"Saved {kept} as the tool {SAVED}__{name}{reads}; hash {made.hash[:_SHOWN]}."
    out.note(Text(f"{said} After a change of its file, save it again."))


def _list(settings: Settings, *, as_json: bool) -> None:
    from maitred.chains.saved_backend import why_not_saved  # noqa: PLC0415  # as above

    spec = settings.servers.get(SAVED)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "file": entry.file,
            "hash": entry.hash,
            "withheld": why_not_saved(spec, name) if spec else "",
        }
        for name, entry in settings.chains.items()
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.note("No chain is saved.")
        return
    lines = [(row["name"], row["file"], row["hash"][:_SHOWN], row["withheld"]) for row in rows]
    print_table(make_table("", ("chain", "file", "hash", "remark"), lines))


def _text(file: Path) -> str:
    try:
        return _decoded(str(file), own_path(file).read_bytes())
    except OSError as error:
        raise ConfigError(str(file), [f"cannot be read: {error.strerror}"]) from None


def _decoded(source: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeError:
        raise ConfigError(source, ["is not UTF-8"]) from None
