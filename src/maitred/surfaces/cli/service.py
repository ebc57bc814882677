"""`maitred service`: systemd or launchd starts the gateway over HTTP when the user logs in.

It writes one file of the user's, shows it first, and starts nothing unless it is asked to. Clients that start
the gateway over stdio need no service: the first of them starts a gateway that all share.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text

from maitred.config.clients.entries import start_command
from maitred.config.file_rewrite import rewrite
from maitred.config.interpolate import names_in, texts_in
from maitred.errors import ConfigError
from maitred.installation import find_installation, in_shell
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    YesOption,
    can_ask_to_change,
    config_path,
    may_configure,
    out,
    print_json,
    settings_of,
    visible,
)
from maitred.surfaces.service_files import LABEL, MARK, UNIT_NAME, launchd_agent, systemd_unit

Words = Sequence[str]

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_NO_MANAGER: Final = (
    "there is neither systemd nor launchd on this system; let what you have run"
    " `maitred serve --transport http` (`maitred docs install`)"
)

service_app = typer.Typer(
    help="Run the gateway over HTTP as a service of your user.", no_args_is_help=True, rich_markup_mode=None
)


@dataclass(frozen=True, kw_only=True)
class _Manager:
    """What keeps services running here: its file of ours, and its commands."""

    name: Literal["systemd", "launchd"]
    path: Path
    start: tuple[Words, ...]
    stop: tuple[Words, ...]
    ask: Words


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(service_app, name="service")


@service_app.command()
def install(
    config: ConfigOption = None,
    prints: Annotated[bool, typer.Option("--print", help="Print the file, and write nothing.")] = False,
    start: Annotated[bool, typer.Option("--start", help="Start it now, and at each login.")] = False,
    yes: YesOption = False,
) -> None:
    """Write the file of the service. It shows the file first, and starts nothing without `--start`."""
    may_configure(config)
    manager, source = _manager(), config_path(config).absolute()
    text = _file(manager, source, settings_of(config))
    if prints:
        typer.echo(text, nl=False)
        return
    _check_owner(manager)
    show = out.note if yes else out.print  # a question needs it
    show(Text(f"{manager.path}:\n"))
    show(Text("\n".join(f"    {visible(line)}" for line in text.splitlines()) + "\n"))
    for line in _missing(manager, source, settings_of(config)):
        show(Text(f"{line}\n"))
    if not _agreed("Write this?", yes=yes):
        return
    rewrite(manager.path, lambda _: text, create=True)
    out.note(Text(f"Written: {manager.path}"))
    _do(manager.start, "To start it now, and at each login:", runs=start)


@service_app.command()
def uninstall(
    stop: Annotated[bool, typer.Option("--stop", help="Stop it first.")] = False, yes: YesOption = False
) -> None:
    """Remove the file of the service. It stops nothing without `--stop`."""
    may_configure(None)
    manager = _manager()
    if _content(manager) is None:
        out.print(Text(f"There is no {manager.path}."))
        return
    _check_owner(manager)
    if not _agreed(f"Remove {manager.path}?", yes=yes):
        return
    try:
        _do(manager.stop, "It may still run. To stop it:", runs=stop)
    except ConfigError as error:
        stays = f"{manager.path} stays; without --stop it is removed, whether the service runs or not"
        raise ConfigError(error.source, [*error.faults, stays]) from None
    with _faults(manager):
        manager.path.unlink()
    out.note(Text(f"Removed: {manager.path}"))


@service_app.command()
def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say whether the file of the service is there, is what `install` would write, and runs."""
    manager, source = _manager(), config_path(config).absolute()
    content, fault = _content(manager), ""
    is_there = content is not None
    try:
        is_current: bool | None = content == _file(manager, source, settings_of(config))
    except ConfigError as error:
        is_current, fault = None, str(error)
    runs = _runs(manager)
    if as_json:
        print_json({
            "manager": manager.name, "path": str(manager.path), "installed": is_there, "current": is_current,
            "running": runs,
        })  # fmt: skip
        return
    if not is_there:
        out.print(Text(f"Not installed: there is no {manager.path}. `maitred service install` writes it."))
        return
    out.print(Text(f"Installed: {manager.path}"))
    if is_current is None:
        out.print(
            Text(
                f"It cannot be compared with what `maitred service install` would write now: {visible(fault)}"
            )
        )
    elif not is_current:
        out.print(Text("It differs from what `maitred service install` would write now."))
    out.print(
        Text({True: "It runs.", False: "It does not run.", None: f"{manager.name} cannot be asked."}[runs])
    )


def _manager() -> _Manager:
    """What this system has to keep a service running.

    Raises:
        ConfigError: It has nothing that is known here.
    """
    home = Path.home()
    if sys.platform == "darwin":
        path, domain = home / "Library" / "LaunchAgents" / f"{LABEL}.plist", f"gui/{os.getuid()}"
        return _Manager(
            name="launchd",
            path=path,
            start=(("launchctl", "bootstrap", domain, str(path)),),
            stop=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
            ask=("launchctl", "print", f"{domain}/{LABEL}"),
        )
    if sys.platform.startswith("linux"):
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
        control = ("systemctl", "--user")
        return _Manager(
            name="systemd",
            path=folder / UNIT_NAME,
            start=((*control, "daemon-reload"), (*control, "enable", "--now", UNIT_NAME)),
            stop=((*control, "disable", "--now", UNIT_NAME),),
            ask=(*control, "is-active", "--quiet", UNIT_NAME),
        )
    raise ConfigError("service", [_NO_MANAGER])


def _file(manager: _Manager, source: Path, settings: Any) -> str:
    words = [*start_command(Path(sys.argv[0]).absolute(), source)]
    if "--config" not in words:  # the service has none of the variables by which the file is found
        words += ["--config", str(settings.source.absolute())]
    words += ["--transport", "http"]
    path = os.environ.get("PATH") or _PATH
    if manager.name == "launchd":
        return launchd_agent(words, path, home=Path.home())
    return systemd_unit(words, path, _variables_file(source))


def _variables_file(source: Path) -> Path:
    return source.with_name("service.env")


@contextmanager
def _faults(manager: _Manager) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(str(manager.path), [f"cannot be read or changed: {error.strerror}"]) from error


def _content(manager: _Manager) -> str | None:
    """The text of the file of the service; `None` if there is none.

    Raises:
        ConfigError: It cannot be read.
    """
    with _faults(manager):
        return manager.path.read_text(encoding="utf-8", errors="replace") if manager.path.exists() else None


def _check_owner(manager: _Manager) -> None:
    """Refuse to touch a file that another program or a person wrote.

    Raises:
        ConfigError: There is one, or it cannot be read.
    """
    if MARK not in (_content(manager) or MARK):
        raise ConfigError(str(manager.path), ["was not written by maitred; remove it, or keep it as it is"])


def _missing(manager: _Manager, source: Path, settings: Any) -> Iterator[str]:
    """Name the variables that the configuration refers to: their values are secrets more often than not."""
    found = {name for _, text in texts_in(settings) for name in names_in(text, "env")}
    names = sorted(name for name in found if name.isidentifier())
    if names:
        place = f"in {_variables_file(source)}" if manager.name == "systemd" else "by `${file:…}` instead"
        listed = ", ".join(map(visible, names))
        yield f"Not copied, since they may be secrets: {listed}. Set them {place}."
    if not find_installation().is_lasting:
        yield "uvx downloads what it runs when its cache was emptied; `uv tool install` keeps it."


def _agreed(question: str, *, yes: bool) -> bool:
    return yes or (can_ask_to_change() and typer.confirm(question, default=False))


def _do(commands: Sequence[Words], say: str, *, runs: bool) -> None:
    """Run commands of the manager, each shown before; or only show them."""
    if not runs:
        out.note(Text(say))
    for words in commands:
        out.note(Text(f"    {in_shell(words)}"))
        if not runs:
            continue
        try:
            done = subprocess.run(words, check=False)
        except OSError as error:
            raise ConfigError(words[0], [f"cannot be run: {error.strerror}"]) from None
        if done.returncode != 0:
            raise ConfigError(words[0], [f"failed with code {done.returncode}; see what it printed above"])


def _runs(manager: _Manager) -> bool | None:
    if shutil.which(manager.ask[0]) is None:
        return None
    try:
        done = subprocess.run(manager.ask, capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode == 0
