"""`maitred find`: look for servers in a registry that speaks the MCP registry's API.

It searches the kept copy of the registry's list, and fetches the list only if there is no copy or it is old.
Everything that a registry says was written by strangers: it is shown as text on lines of bounded length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from maitred.audit.masking import mask_text
from maitred.config.load import load, state_file
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    config_path,
    err,
    out,
    print_json,
    remember,
    run,
    visible,
)
from maitred.wording import count_of

if TYPE_CHECKING:  # numpy and the HTTP client take half a second to import, which `--help` need not wait for
    from maitred.registry.entries import Input, RegistryEntry
    from maitred.registry.kept_copy import ServerList
    from maitred.registry.launches import LaunchOption

NO_REGISTRY: Final = (
    "registry.url: is not set; write there the address of a registry that speaks the MCP registry's API, or"
    " search an exported list with --file"
)
FileOption = Annotated[
    Path | None, typer.Option("--file", help="Search a list that was exported to this file, without network.")
]
_LONGEST: Final = 160
_HOUR_S: Final = 3_600.0
_DAY_H: Final = 48


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(find)


def find(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS...", help="What it should do.")] = None,
    config: ConfigOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most so many.")] = 10,
    file: FileOption = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch the list again first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find servers in a registry by what they do. `maitred add --from registry NAME` adds one."""
    from maitred.registry.ranking import rank  # noqa: PLC0415  # numpy takes a while to import

    if file and refresh:
        raise ConfigError("--refresh", ["a list of a file is not fetched; leave out one of the two"])
    found = open_registry(settings_for(config), file=file, refresh=refresh)
    with err.status("searching …"):
        fitting = rank(found.latest, " ".join(words or ()))
    shown = fitting[:limit]
    if as_json:
        told = [entry_json(entry) for entry in shown]
        print_json({"servers": told, "matching": len(fitting), "fetched_at": found.fetched_at})
        return
    for entry in shown:
        for line in _lines(entry):
            out.print(line)
    more = f"; {len(shown)} are shown" if len(shown) < len(fitting) else ""
    count = count_of(len(fitting), "server")
    out.note(Text(f"Found {count} among {len(found.latest):,}{more}. {found.age}".rstrip()))


def settings_for(config: Path | None) -> Settings:
    """The settings; those by default where there is no file yet. The viewer may register servers."""
    path = config_path(config)
    settings = load(path) if path.exists() else Settings(source=path)
    acting(settings, "register")
    return settings


@dataclass(frozen=True, kw_only=True)
class OpenRegistry:
    """The entries of a list, every version of them, and what is said of its age."""

    entries: "Sequence[RegistryEntry]"
    latest: "Sequence[RegistryEntry]"
    age: str
    fetched_at: str


def open_registry(settings: Settings, *, file: Path | None = None, refresh: bool = False) -> OpenRegistry:
    """The list of a registry: from a file, from the kept copy, or fetched now.

    Raises:
        ConfigError: No registry is configured, it cannot be asked, or the file cannot be read.
    """
    from maitred.registry.entries import latest, read_entries  # noqa: PLC0415  # with the others of its kind
    from maitred.registry.kept_copy import read_export  # noqa: PLC0415  # likewise

    known = read_export(file) if file else _kept_or_fetched(settings, refresh=refresh)
    entries = read_entries(known.items)
    return OpenRegistry(
        entries=entries,
        latest=latest(entries),
        age=_age(known),
        fetched_at=known.fetched_at.isoformat() if known.fetched_at else "",
    )


def _kept_or_fetched(settings: Settings, *, refresh: bool) -> "ServerList":
    from maitred.registry.client import RegistryUnreachableError  # noqa: PLC0415  # imports the HTTP client
    from maitred.registry.kept_copy import read_copy  # noqa: PLC0415  # with the others of its kind

    own = settings.registry
    if not own.url:
        raise ConfigError(str(settings.source), [NO_REGISTRY])
    kept = read_copy(_copy_path(settings), own.url)
    is_old = kept is not None and own.max_age_h and kept.age_s(datetime.now(UTC)) > own.max_age_h * _HOUR_S
    if kept is not None and not (refresh or is_old):
        return kept
    try:
        return _fetched(settings)
    except RegistryUnreachableError as error:
        if kept is None or refresh:
            raise
        err.print(Text.assemble(("the kept copy is used: ", "yellow"), visible(error.faults[0])))
        return kept


def _fetched(settings: Settings) -> "ServerList":
    """Fetch the whole list and keep it. An interruption leaves the copy that was there."""
    from maitred.registry.client import fetch_servers  # noqa: PLC0415  # imports the HTTP client
    from maitred.registry.kept_copy import ServerList, write_copy  # noqa: PLC0415  # with the others of its kind

    url = settings.registry.url
    with err.status("fetching the list of servers …") as status:
        items = run(
            lambda: fetch_servers(
                url, progress=lambda count: status.update(f"fetching the list of servers: {count:,} …")
            )
        )
    now = datetime.now(UTC)
    remember(lambda: write_copy(_copy_path(settings), url, items, now))
    return ServerList(items=items, fetched_at=now)


def _copy_path(settings: Settings) -> Path:
    if settings.registry.copy:
        return settings.source.parent / Path(settings.registry.copy).expanduser()
    return state_file(settings.source, ".registry.json")


def _age(known: "ServerList") -> str:
    """How old a list is, as a sentence; empty for a file that does not say it."""
    if known.fetched_at is None:
        return ""
    seconds = known.age_s(datetime.now(UTC))
    if seconds < _HOUR_S:
        age = count_of(int(seconds // 60), "minute")
    elif seconds < _DAY_H * _HOUR_S:
        age = count_of(int(seconds // _HOUR_S), "hour")
    else:
        if seconds == float("inf"):
            return "The list bears a date of the future; --refresh fetches it again."
        age = count_of(int(seconds // (24 * _HOUR_S)), "day")
    return f"The list is {age} old; --refresh fetches it again."


def shorten_line(text: str, most: int = _LONGEST) -> str:
    """A text of a registry on one line: without secrets, and with escapes for what does not show."""
    line = visible(mask_text(" ".join(text.split())))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _lines(entry: "RegistryEntry") -> Sequence[Text]:
    """An entry: its name, what it is for, how it runs, and what it needs."""
    from maitred.registry.launches import launches  # noqa: PLC0415  # with the others of its kind

    status = ("  deprecated", "yellow") if entry.status == "deprecated" else ""
    head = Text.assemble((shorten_line(entry.name), "bold"), f"  {shorten_line(entry.version, 40)}", status)
    about = shorten_line(entry.description or entry.title)
    lines = [head, *([Text(f"    {about}")] if about else [])]
    for launch in launches(entry):
        lines += [Text(f"    {line}") for line in launch_lines(launch)]
    if entry.repository:
        lines.append(Text(f"    source: {shorten_line(entry.repository)}"))
    return lines


def launch_lines(launch: "LaunchOption") -> Sequence[str]:
    """How an entry runs, and what it needs for that, a line each."""
    from maitred.registry.launches import missing  # noqa: PLC0415  # with the others of its kind

    lack = launch.fault or missing(launch)
    lines = [shorten_line(f"runs {launch.summary}") + (f" - {shorten_line(lack, 300)}" if lack else "")]
    if not launch.fault:
        lines += [f"  needs {line}" for line in map(_need, _required(launch))]
    return lines


def _required(launch: "LaunchOption") -> "Sequence[tuple[str, Input]]":
    from maitred.registry.proposal import questions  # noqa: PLC0415  # with the others of its kind

    return [(one.name, one.input) for one in questions(launch) if is_needed(one.input)]


def is_needed(own: "Input") -> bool:
    """Whether a person has to say it: it is required and has no value of its own."""
    return own.is_required and not own.default and not own.value


def _need(pair: "tuple[str, Input]") -> str:
    name, own = pair
    secret = " (secret)" if own.is_secret else ""
    about = f": {shorten_line(own.description)}" if own.description else ""
    return f"{shorten_line(name, 60)}{secret}{about}"


def entry_json(entry: "RegistryEntry") -> Mapping[str, Any]:
    """An entry for programs."""
    from maitred.registry.launches import launches, missing  # noqa: PLC0415  # with the others of its kind

    return {
        "name": entry.name,
        "version": entry.version,
        "title": mask_text(entry.title),
        "description": mask_text(entry.description),
        "status": entry.status,
        "published_at": entry.published_at,
        "repository": mask_text(entry.repository),
        "runs": [
            {
                "by": launch.by,
                "what": mask_text(launch.what),
                "fault": launch.fault,
                "missing": "" if launch.fault else missing(launch),
                "needs": [
                    {"name": name, "secret": own.is_secret, "description": mask_text(own.description)}
                    for name, own in _required(launch)
                ],
            }
            for launch in launches(entry)
        ],
    }
