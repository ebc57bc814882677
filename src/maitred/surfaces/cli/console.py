r"""What the commands share: options, output, and how errors end a command.

`PlainConsole` shows control and invisible characters as escapes such as `\x1b`, and brackets are not markup.
So a text from a server can neither control a terminal nor deceive its reader.
`print_answer` prints a tool's answer; a file or a pipe gets it unchanged. JSON has such characters as JSON
escapes, and so the same value. Colors follow the terminal, NO_COLOR and CLICOLOR_FORCE.
"""

import gc
import json
import os
import re
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

import anyio
import typer
from anyio import from_thread
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from maitred.backends.listing import deceives
from maitred.background import Background
from maitred.config.load import load
from maitred.config.paths import default_path
from maitred.config.settings import Settings
from maitred.errors import ConfigError, MaitredError, NotAllowedError
from maitred.model.access import LOCAL_USER, Ability, Grant, Viewer, refusal
from maitred.surfaces.cli.hosted_command import ElsewhereError, hosted_command
from maitred.surfaces.cli.log_filter import warn_once
from maitred.surfaces.cli.tables import PlainTable, wrap
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wiring import make_credentials, open_gateway, single_error
from maitred.wording import did_you_mean, quote_input

_PLAIN: Final = re.compile(r"[\x20-\x7e\n\t]*")
_BYTES: Final = bytes(range(0x80, 0x100)).decode("ascii", "surrogateescape")
"""The characters by which Python represents bytes of a file name that are not valid text."""


_HANG: Final = 2
_LEAST_ROOM: Final = 20


_SIZE: Final = re.compile(r"0*[1-9][0-9]{0,3}", re.ASCII)
"""A number of columns or lines that a terminal can have."""


def _color_system(environ: Mapping[str, str]) -> Literal["auto", "standard"] | None:
    """Colors as bixense.com/clicolors and no-color.org say; `auto` asks the terminal."""
    if environ.get("NO_COLOR"):
        return None
    if environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return "standard"
    return None if environ.get("CLICOLOR") == "0" else "auto"


def _with_usable_width(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, without a `COLUMNS` or `LINES` that no terminal has."""
    odd = [name for name in ("COLUMNS", "LINES") if not _SIZE.fullmatch(environ.get(name, "1"))]
    return {name: value for name, value in environ.items() if name not in odd} if odd else environ


class PlainConsole(Console):
    """A console that treats printed text neither as markup nor as terminal control."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = True, width: int | None = None) -> None:
        hosted = hosted_command()
        stream = None if hosted is None else hosted.err if stderr else hosted.out
        super().__init__(
            stderr=stderr,
            soft_wrap=soft_wrap,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            file=cast("IO[str] | None", stream),
            color_system=_color_system(os.environ if hosted is None else hosted.environ),
            _environ=_with_usable_width(os.environ if hosted is None else hosted.environ),
        )

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a terminal gets long lines broken between words. No word is broken, as it may be copied."""
        if self.is_terminal and not options:
            objects = tuple(self._wrapped(one) if isinstance(one, str | Text) else one for one in objects)
        super().print(*objects, **options)

    def _wrapped(self, text: str | Text) -> Text:
        """A text whose long lines go on below, two columns to the right of where they begin."""
        lines = []
        for line in (Text(text) if isinstance(text, str) else text).split("\n", allow_blank=True):
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            room = self.width - indent - _HANG
            if line.cell_len <= self.width or room < _LEAST_ROOM:
                lines.append(line)
                continue
            body = line[indent:]
            first, *more = body.divide(_breaks(body.plain, room))
            lines.append(Text(" " * indent) + first)
            lines += [Text(" " * (indent + _HANG)) + one for one in more]
        for line in lines:
            line.rstrip()
        return Text("\n").join(lines)

    def status(self, *args: Any, **options: Any) -> Status:
        """A line that moves while something is waited for; none with `--quiet`."""
        return (
            Console(quiet=True).status(*args, **options)
            if VERBOSITY.quiet
            else super().status(*args, **options)
        )

    def note(self, message: RenderableType = "") -> None:
        """Print what `--quiet` leaves out: what was done, sums, hints."""
        if not VERBOSITY.quiet:
            self.print(message)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print; control segments come only from the console itself."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text, terminal=self.is_terminal), style)


def _breaks(text: str, room: int) -> Iterator[int]:
    """Where lines of at most `room` cells begin, but for the first; a longer word has a line of its own."""
    start = end = 0
    for word in text.split(" "):
        if start < end and cell_len(text[start : end + len(word)]) > room:
            yield end
            start = end
        end += len(word) + 1


class _CurrentConsole:
    """The console of the command that runs here, in its own process or for another one."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr
        self._own = PlainConsole(stderr=stderr)

    def actual(self) -> PlainConsole:
        """The console itself, for what prints from a thread of its own."""
        hosted = hosted_command()
        if hosted is None:
            return self._own
        key = "err" if self._stderr else "out"
        if key not in hosted.consoles:
            hosted.consoles[key] = PlainConsole(stderr=self._stderr)
        console: PlainConsole = hosted.consoles[key]
        return console

    def __getattr__(self, name: str) -> Any:
        return getattr(self.actual(), name)

    def __enter__(self) -> PlainConsole:
        return self.actual().__enter__()  # type: ignore[return-value]  # the class of the console itself

    def __exit__(self, *error: object) -> None:
        self.actual().__exit__(*error)


def printable(text: str, *, terminal: bool = True) -> str:
    r"""A text with escapes such as `\x1b` for characters that deceive a reader or control a terminal.

    A reader of a pipe gets the raw bytes of a file name that are not valid text.
    """
    if _PLAIN.fullmatch(text):
        return text
    kept = "" if terminal else _BYTES
    shown = {ord(c): escape(c) for c in set(text) if c not in kept and deceives(c)}
    return text.replace("\r\n", "\n").translate(shown)


def visible(text: str) -> str:
    r"""A text on one line in which every character shows; invisible ones are escapes such as `\u202e`."""
    return text.translate({ord(c): escape(c) for c in set(text) if not c.isprintable()})


def escape(character: str) -> str:
    """A character as a Python escape."""
    return character.encode("unicode_escape").decode("ascii")


def print_answer(text: str, *, wraps: bool = False) -> None:
    """Print an answer: to a terminal as printable text, to a file or a pipe unchanged.

    With `wraps`, a terminal gets long lines broken between words, and indented after the first.
    """
    shown = text
    hosted = hosted_command()
    if (hosted.out if hosted else sys.stdout).isatty():
        shown = printable(text)
        shown = "\n".join(wrap(shown.expandtabs(), out.width, hang=4)) if wraps else shown
    echo(shown)


def echo(text: str) -> None:
    """Print a text unchanged, as one or more lines."""
    if (hosted := hosted_command()) is not None:
        hosted.out.write(f"{text}\n")
    else:
        typer.echo(text, color=True)  # else it would remove colors from the output to a file


def read_input() -> str:
    """All of standard input. It waits, so it must not be called in a coroutine."""
    hosted = hosted_command()
    return from_thread.run(hosted.read_input) if hosted else sys.stdin.read()


def read_input_bytes() -> bytes:
    """The same, undecoded."""
    hosted = hosted_command()
    if hosted is None:
        return sys.stdin.buffer.read()
    return from_thread.run(hosted.read_input).encode("utf-8", "surrogateescape")


def own_path(path: Path) -> Path:
    """A path that a person wrote, from the folder of the process that was started."""
    hosted = hosted_command()
    return path if hosted is None else Path(hosted.folder or "/") / path


def can_ask() -> bool:
    """Whether there is a terminal to ask a person at.

    Raises:
        ElsewhereError: The terminal is that of another process, which has to ask.
    """
    if (hosted := hosted_command()) is None:
        return sys.stdin.isatty()
    if hosted.input_is_terminal:
        raise ElsewhereError("it asks at the terminal")
    return False


def can_ask_to_change() -> bool:
    """The same before a change; without a terminal it says that nothing was done."""
    if not (can := can_ask()):
        out.print("Not a terminal, so nothing was asked and nothing changed: `--yes` does it.")
    return can


def in_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON, in which no character deceives."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if _PLAIN.fullmatch(text):
        return text
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in set(text) if deceives(c)})


if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway
    from maitred.model.tools import Tool

T = TypeVar("T")

out = cast("PlainConsole", _CurrentConsole(stderr=False))
err = cast("PlainConsole", _CurrentConsole(stderr=True))


def actual_console(console: PlainConsole) -> PlainConsole:
    """The console that `out` or `err` means now, for what prints from a thread of its own."""
    return console.actual() if isinstance(console, _CurrentConsole) else console


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file: maitred.yaml or a client's mcpServers JSON."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
JsonOption = Annotated[bool, typer.Option("--json", "-j", help="Print JSON for programs.")]

AS_TOKEN: Final = "MAITRED_AS_TOKEN"  # noqa: S105  # a name
"""The variable with a token; commands act as its bearer."""

_DISCOVERY_S = 600.0
_SHOW_AFTER_S = 1.0
_EVERY_S = 0.2
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())


def config_path(given: Path | None) -> Path:
    """The configuration file: as given, else $MAITRED_CONFIG, else the user's own."""
    if (hosted := hosted_command()) is not None:
        return hosted.path_for(given)
    return given or default_path()


def check_servers(settings: Settings, names: Iterable[str]) -> None:
    """Refuse names of servers that are not configured.

    Raises:
        ConfigError: It lists all unknown names, each with the nearest known one.
    """
    faults = [
        f"there is no server {quote_input(name)}{did_you_mean(name, settings.servers, lead='; ')}"
        for name in sorted(set(names) - set(settings.servers))
    ]
    if faults:
        raise ConfigError(str(settings.source), faults)


def settings_of(given: Path | None) -> Settings:
    """Load the configuration of a command."""
    if (hosted := hosted_command()) is not None:
        return hosted.settings_for(given)
    return load(config_path(given))


def prepare(config: Path | None, *abilities: Ability) -> tuple[Settings, Viewer]:
    """What a command begins with: its configuration, and the viewer for whom it acts (see `acting`)."""
    settings = settings_of(config)
    return settings, acting(settings, *abilities)


def acting(settings: Settings, *abilities: Ability, token: str = "") -> Viewer:
    """The viewer for whom a command acts: the user of this machine, or the bearer of a token.

    The gateway decides what it may do. Only commands that work on files beside any gateway name abilities
    here: those that write the configuration or a login, or that begin to listen.

    Raises:
        ConfigError: The token is not valid.
        NotAllowedError: An ability is missing.
    """
    hosted = hosted_command()
    viewer = LOCAL_USER if hosted is None else hosted.viewer
    if hosted is None and (token := token or token_of_environment()):
        grant = anyio.run(make_credentials(settings).grant_of, token)
        if not isinstance(grant, Grant):
            raise ConfigError(AS_TOKEN, [grant.reason])
        viewer = Viewer(grant=grant)
    for ability in abilities:
        if why := refusal(viewer.grant, ability):
            raise NotAllowedError(why)
    return replace(viewer, surface="cli")


def token_of_environment() -> str:
    """The token of the environment for a command; an empty variable is an error, as it was meant to be set.

    Raises:
        ConfigError: The variable is empty.
    """
    token = os.environ.get(AS_TOKEN)
    if token == "":
        raise ConfigError(AS_TOKEN, ["is set and empty; unset it, or give a token"])
    return token or ""


def may_configure(given: Path | None) -> None:
    """Refuse a viewer who may not change the configuration; the file need not exist yet.

    Raises:
        ConfigError: The token in the environment is not valid.
        NotAllowedError: Its bearer may not change the configuration.
    """
    if token_of_environment():
        acting(settings_of(given), "configure")


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine. Garbage collection is on from here."""

    async def main() -> T:
        async with single_error():
            return await function()

    if hosted_command() is not None:
        return from_thread.run(main)
    gc.enable()
    return anyio.run(main)


async def wait_for_vectors(gateway: "Gateway") -> None:
    """Wait until every tool can be found by meaning; a progress bar appears if that takes long."""

    def count() -> tuple[int, int]:
        now = gateway.semantics
        return now.done, now.total

    async with show_wait("reading tools for search", count):
        await gateway.warm()
        await gateway.warm(wholly=True)


@asynccontextmanager
async def show_wait(what: str, count: Callable[[], tuple[int, int]] | None = None) -> AsyncIterator[None]:
    """Show on standard error what a command waits for, once it has waited for a second.

    `count` returns how much is done, and of how much. Only a terminal shows it, whatever standard output is:
    it is taken away again at the end, and so in a file it would be no more than noise.
    """
    console = actual_console(err)
    if VERBOSITY.quiet or not console.is_terminal:
        yield
        return
    columns = COLUMNS if count else (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task(f"{what} …", total=None)

    async def show() -> None:
        await anyio.sleep(_SHOW_AFTER_S)
        bars.start()
        while count is not None:
            done, total = count()
            bars.update(task, completed=done, total=total)
            await anyio.sleep(_EVERY_S)

    try:
        async with Background() as background:
            background.start(show)
            yield
    finally:
        bars.stop()


def fail(error: MaitredError) -> typer.Exit:
    """Print an error for a person; returns the exit that ends the command."""
    err.print(Text.assemble(("error: ", "red"), str(error)))
    return typer.Exit(2)


def remember(change: Callable[[], None]) -> None:
    """Store a side effect of a command; if that fails, print a warning and go on."""
    try:
        change()
    except ConfigError as error:
        err.print(Text.assemble(("not remembered: ", "yellow"), str(error)))


def unwritable(fault: str) -> str:
    """A fault of the catalog, as the end of a sentence that begins with its name."""
    return f"cannot be written: {fault}; the gateway serves what it knows"


def print_json(value: Any) -> None:
    """Print a value for programs."""
    echo(in_json(value, indent=2))


@asynccontextmanager
async def gateway_of(settings: Settings, *, discovers: bool = True) -> "AsyncIterator[Gateway]":
    """The gateway that runs this command, or one that is opened for it; see `open_gateway`.

    It asks servers that it does not know, and does not try those again that failed when they were asked last.
    """
    if (hosted := hosted_command()) is not None:
        yield hosted.gateway
        return
    warn_once()
    async with open_gateway(settings, asks_models=False, discovers=discovers, retries=False) as gateway:
        yield gateway


@asynccontextmanager
async def known_gateway(settings: Settings) -> "AsyncIterator[Gateway]":
    """A gateway that has discovered each server at least once. Prints a status while it waits."""
    async with gateway_of(settings) as gateway:
        if not await gateway.settled(0):
            most = len(gateway.listing_first)

            def count() -> tuple[int, int]:
                left = len(gateway.listing_first)
                return max(most, left) - left, max(most, left)

            async with show_wait("asking new servers for their tools (first time only)", count):
                await gateway.settled(_DISCOVERY_S)
        yield gateway


async def find_tools(settings: Settings, names: Sequence[str], viewer: Viewer) -> "list[Tool]":
    """The tools that some names mean.

    Raises:
        ToolNotFoundError: A name means none.
    """
    async with known_gateway(settings) as gateway:
        await gateway.warm()  # for unknown names, the index supplies the nearest ones
        return [gateway.find(name, viewer) for name in names]


def print_table(table: PlainTable) -> None:
    """Print a table as wide as the terminal, or 80 columns where the width is unknown."""
    PlainConsole().print(table)  # a new one, which has the width of now


def make_table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    below: Collection[str] = (),
    whole: Collection[str] = (),
) -> PlainTable:
    """A table of texts, see `PlainTable`; characters that deceive are escapes before it is laid out."""
    is_terminal = out.is_terminal
    plain = [[printable(cell, terminal=is_terminal).expandtabs() for cell in row] for row in rows]
    return PlainTable(title=title, headings=headings, rows=plain, numbers=numbers, below=below, whole=whole)
