"""`maitred logs`: what a server wrote to standard error, or the log of the gateway in the background.

The gateway holds the last lines of each server in memory, without the credentials that it knows. Its own log
is a file. Both may be followed.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer
from rich.text import Text

from maitred.config.redaction import redact
from maitred.config.settings import Settings
from maitred.errors import DaemonError
from maitred.model.access import Viewer
from maitred.surfaces.cli.completion import complete_servers
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    echo,
    err,
    gateway_of,
    in_json,
    own_path,
    prepare,
    print_answer,
    print_json,
    run,
    visible,
)
from maitred.surfaces.cli.hosted_command import hosted_command
from maitred.surfaces.cli.server_control import refuse_without_gateway
from maitred.surfaces.daemon.discovery import log_path
from maitred.surfaces.daemon.sockets import address_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

_LOOK_S: Final = 0.3
_HEADING: Final = ("--- for ", " ---")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(logs)


def logs(
    server: Annotated[
        str,
        typer.Argument(
            metavar="[SERVER]",
            help="The server; without one, the gateway itself.",
            autocompletion=complete_servers,
        ),
    ] = "",
    config: ConfigOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written later.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="The last so many lines.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show what a server wrote to standard error, or the log of the gateway in the background."""
    settings, viewer = prepare(config)
    if not server:
        acting(settings, "watch")
        _show_own(settings, limit, follow=follow, as_json=as_json)
        return
    if hosted_command() is None:
        _show_known(settings, server, viewer)
        refuse_without_gateway(config, f"nothing is kept of its output; `maitred doctor {server}` tries it")

    async def go() -> None:
        async with gateway_of(settings) as gateway:
            gateway.watched_server(server, viewer)  # an unknown one is an error that names the nearest
            written = list(gateway.last_output(server, viewer, earlier=True))
            _print(written[len(written) - min(limit, len(written)) :], server, follow=follow, as_json=as_json)
            if not (written or follow or as_json):
                err.print(Text(f"{visible(server)} has written nothing to standard error."))
            if follow:
                async for line in _later(gateway, server, viewer, written):
                    _print([line], server, follow=True, as_json=as_json)

    run(go)


def _show_known(settings: Settings, server: str, viewer: Viewer) -> None:
    """Print what the catalog knows of a server that does not run: why it failed when it was asked last."""

    async def go() -> str:
        async with gateway_of(settings, discovers=False) as gateway:
            return gateway.watched_server(server, viewer).error

    if why := run(go):
        err.print(Text(f"{visible(server)} failed when it was asked last: {visible(why)}"))


def _print(lines: Sequence[str], server: str, *, follow: bool, as_json: bool) -> None:
    if as_json and follow:
        for line in lines:
            echo(in_json({"server": server, "line": line}))
    elif as_json:
        print_json({"server": server, "lines": list(lines)})
    elif lines:
        print_answer("\n".join(lines))


async def _later(
    gateway: "Gateway", server: str, viewer: Viewer, written: Sequence[str]
) -> AsyncIterator[str]:
    """The lines that are written from now on, also by instances for some clients, each under a heading."""
    before, shown = _sections(written), ""
    while True:
        await anyio.sleep(_LOOK_S)
        now = _sections(gateway.last_output(server, viewer, earlier=True))
        for heading, lines in now.items():
            fresh = added_lines(before.get(heading, ()), lines)
            if fresh and heading != shown:
                shown = heading
                yield heading or f"{_HEADING[0]}all{_HEADING[1]}"
            for line in fresh:
                yield line
        before = now


def _sections(lines: Sequence[str]) -> dict[str, list[str]]:
    """The lines of each instance by its heading; the default one has none."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in lines:
        if line.startswith(_HEADING[0]) and line.endswith(_HEADING[1]):
            heading = line
        found.setdefault(heading, []).extend(() if line == heading else (line,))
    return found


def added_lines(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """The lines that came since: both are the last lines of one stream, and the last may be unfinished."""
    for common in range(min(len(before), len(now)), 0, -1):
        old, new = before[len(before) - common :], now[:common]
        if old[:-1] == new[:-1] and new[-1].startswith(old[-1]):
            return now[common if new[-1] == old[-1] else common - 1 :]
    return now


def _show_own(settings: Settings, most: int, *, follow: bool, as_json: bool) -> None:
    try:
        address = address_of(own_path(settings.source))
        path, lives = log_path(address), any(one.is_daemon and one.lives() for one in address.seats())
    except OSError as error:
        raise DaemonError(f"the log cannot be looked for: {error}") from error
    data = _data(path)
    end = data.rfind(b"\n") + 1 if follow else len(data)  # an unfinished line is followed as a whole
    written = [*_lines(_data(path.with_name(f"{path.name}.1"))), *_lines(data[:end])]
    if not written and not follow and not as_json:
        err.print(Text(f"No gateway in the background has written a line into {path}."))
        return
    _print(written[len(written) - min(most, len(written)) :], "", follow=follow, as_json=as_json)

    if follow and not lives:
        before = "this is what the last one wrote; " if written else ""
        err.print(Text(f"No gateway runs in the background now: {before}the lines of the next one follow."))

    async def go() -> None:
        async for line in _appended(path, end):
            _print([line], "", follow=True, as_json=as_json)

    if follow:
        run(go)


def _data(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _lines(data: bytes) -> Sequence[str]:
    return _text(data).splitlines()


def _text(data: bytes) -> str:
    return redact(data.decode("utf-8", "replace"))


async def _appended(path: Path, at: int) -> AsyncIterator[str]:
    """The lines that a file has or gets behind an offset; it may be cut off, or not be there yet."""
    rest = b""
    while True:
        await anyio.sleep(_LOOK_S)
        data, at = await anyio.to_thread.run_sync(_read_from, path, at)
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield _text(line)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_from(path: Path, at: int) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            file.seek(at if _size(path) >= at else 0)
            data = file.read()
            return data, file.tell()
    except OSError:
        return b"", 0
