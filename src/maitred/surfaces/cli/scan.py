"""`maitred scan`: scan what a server publishes, or a text that it answered, without a gateway."""

import json
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from maitred.config.load import entry_faults, parse
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    echo,
    err,
    in_json,
    may_configure,
    out,
    read_input,
    run,
    settings_of,
)
from maitred.wording import did_you_mean, quote_input

if TYPE_CHECKING:  # it brings the rules, which `--help` need not wait for
    from maitred.admission.published_parts import PublishedServer
    from maitred.poisoning.scan import PoisonFinding
    from maitred.surfaces.cli.scan_verdicts import ScanVerdict

Format = Literal["table", "json", "sarif"]

_ADDRESSES = ("http://", "https://")
_STARTED = "scanned"


@dataclass(frozen=True, kw_only=True)
class _ScanSource:
    """What was scanned: a server, and the file that it was read from, if any."""

    server: "PublishedServer"
    file: str = ""
    text: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(scan)


def scan(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|URL|SERVER...",
            help="An answer of tools/list, a manifest, an address, or a server of the configuration.",
            autocompletion=complete_servers,
        ),
    ] = None,
    config: ConfigOption = None,
    command: Annotated[str, typer.Option(help="Start this command line as a server, and scan it.")] = "",
    answer: Annotated[
        bool, typer.Option("--answer", help="The files are texts that calls returned, not definitions.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How to print what was found.")] = "table",
    allow: Annotated[
        list[str] | None,
        typer.Option(help="A KIND, a TOOL or TOOL/KIND that is not withheld; repeatable."),
    ] = None,
    false_alarms: Annotated[
        Path | None, typer.Option(help="Append what was allowed to this file, as honest texts to train by.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Scan what servers publish for orders to a model; exits with 1 if a gateway would withhold any of it."""
    from maitred.surfaces.cli import scan_verdicts as views  # noqa: PLC0415  # as above

    may_configure(config)  # a server that is scanned is started or reached, with what the configuration has
    sources = _sources(targets or [], command, config, is_answer=answer)
    if not sources:
        raise ConfigError("scan", ["names nothing to scan: give a file, an address, a server or --command"])
    servers, verdicts = [source.server for source in sources], _allowed(sources, allow or [])
    if false_alarms is not None:
        _append(false_alarms, [views.false_alarm(one) for one in verdicts if one.allowed])
    _print("json" if as_json else output, servers, verdicts)
    if views.counting(verdicts):
        raise typer.Exit(1)


def _allowed(sources: "Sequence[_ScanSource]", allow: Sequence[str]) -> "list[ScanVerdict]":
    """The verdicts on all sources, of which some are allowed."""
    from maitred.surfaces.cli import scan_verdicts as views  # noqa: PLC0415  # as above

    if unknown := views.unknown_allowed(allow, [source.server for source in sources]):
        raise ConfigError("--allow", [f"{quote_input(one)} is no kind and no part of it" for one in unknown])
    verdicts = [verdict for source in sources for verdict in _verdicts(source)]
    return [replace(one, allowed=views.is_allowed(allow, one.part, one.finding.rule)) for one in verdicts]


def _print(output: Format, servers: "Sequence[PublishedServer]", verdicts: "Sequence[ScanVerdict]") -> None:
    from maitred.surfaces.cli import scan_verdicts as views  # noqa: PLC0415  # as above

    if output == "sarif":
        echo(in_json(views.to_sarif(verdicts), indent=2))
        return
    if output == "json":
        echo(in_json(views.to_json(servers, verdicts), indent=2))
        return
    for verdict in verdicts:
        for line in verdict.lines():
            out.print(line)
    for server in servers:
        for part in server.unread:
            err.print(Text(f"not read: {part}: a schema of it is too large or too deep"))
    out.note(Text(views.summary(servers, verdicts)))


def _sources(
    targets: Sequence[str], command: str, config: Path | None, *, is_answer: bool
) -> list[_ScanSource]:
    sources = [source for target in targets for source in _of_target(target, config, is_answer=is_answer)]
    if command:
        program, *arguments = shlex.split(command)
        sources.append(_started({"command": program, "args": arguments}))
    return sources


def _of_target(target: str, config: Path | None, *, is_answer: bool) -> list[_ScanSource]:
    if target.startswith(_ADDRESSES):
        return [_started({"url": target})]
    path = Path(target)
    if target == "-" or path.is_file():
        return _of_file(path, read_input() if target == "-" else _text(path), is_answer=is_answer)
    try:
        settings = settings_of(config)
    except ConfigError as error:
        fault = f"{quote_input(target)} is no file and no address, and no server: {'; '.join(error.faults)}"
        raise ConfigError("scan", [fault]) from error
    if target not in settings.servers:
        hint = did_you_mean(target, settings.servers, otherwise="`maitred list` lists the servers")
        raise ConfigError("scan", [f"{quote_input(target)} is no file, no address and no server; {hint}"])
    return [_read_live(settings, target)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ["is not text in UTF-8"]) from error


def _of_file(path: Path, text: str, *, is_answer: bool) -> list[_ScanSource]:
    from maitred.admission.published_parts import PublishedPart, PublishedServer, read_published  # noqa: PLC0415

    file = path.as_posix()
    if is_answer:
        part = PublishedPart(kind="answer", name="", definition={"text": text})
        return [_ScanSource(server=PublishedServer(name=path.stem, parts=[part]), file=file, text=text)]
    return [_ScanSource(server=server, file=file, text=text) for server in read_published(path, text)]


def _started(entry: dict[str, object]) -> _ScanSource:
    """A server that is in no configuration; what the gateway writes for it is removed again."""
    if faults := entry_faults(_STARTED, entry):
        raise ConfigError("scan", [fault.removeprefix(f"servers.{_STARTED}.") for fault in faults])
    with tempfile.TemporaryDirectory(prefix="maitred-scan-") as folder:
        catalog = {"path": str(Path(folder) / "catalog.db")}
        text = json.dumps({"servers": {_STARTED: entry}, "catalog": catalog})
        return _read_live(parse(Path(folder) / "maitred.yaml", text), _STARTED)


def _read_live(settings: Settings, name: str) -> _ScanSource:
    from maitred.admission.published_parts import published_of  # noqa: PLC0415  # as above
    from maitred.wiring import read_definition  # noqa: PLC0415  # as above

    with err.status(f"asking {name} …"):
        definition = run(lambda: read_definition(settings, name))
    return _ScanSource(server=published_of(name, definition))


def _verdicts(source: _ScanSource) -> "list[ScanVerdict]":
    from maitred.poisoning.scan import PoisonScan, scan_text  # noqa: PLC0415  # as above
    from maitred.surfaces.cli.scan_verdicts import ScanVerdict, line_of  # noqa: PLC0415  # as above

    server = source.server
    judge = PoisonScan({server.name: server.tools})
    verdicts = []
    for part in server.parts:
        findings: Sequence[PoisonFinding] = (
            scan_text(part.definition["text"])
            if part.kind == "answer"
            else judge.scan(server.name, part.definition)
        )
        line = line_of(source.text, part)
        verdicts += [
            ScanVerdict(server=server.name, part=part, finding=one, file=source.file, line=line)
            for one in findings
        ]
    return verdicts


def _append(path: Path, lines: list[dict[str, object]]) -> None:
    """Append lines whose ids the file does not have yet."""
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        new = [one for one in lines if f'"{one["id"]}"' not in before]
        new = list({one["id"]: one for one in new}.values())
        gap = "\n" if before and not before.endswith("\n") else ""
        with path.open("a", encoding="utf-8") as file:
            file.write(gap + "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in new))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror}"]) from error
    err.note(Text(f"{len(new)} false alarms added to {path}; `maitred eval scan {path}` measures by it."))
