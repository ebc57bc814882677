"""A command that this gateway runs for another process: who asks, and the streams of that process.

`console` looks here, so a command reads and prints in the same way, whichever process runs it. A command that
finds that it cannot be run here raises `ElsewhereError` before it acts.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # they take half a second and more to import, which `--help` need not wait for
    from maitred.config.settings import Settings
    from maitred.gateway import Gateway
    from maitred.model.access import Viewer


class ElsewhereError(Exception):
    """The process that asked has to run the command itself; the text says why."""


class OutputStream:
    """A text stream whose other end is in another process; any thread may write to it."""

    errors = "strict"

    def __init__(self, send: Callable[[str], None], *, is_terminal: bool, encoding: str) -> None:
        self._send = send
        self._is_terminal = is_terminal
        self.encoding = encoding

    def write(self, text: str) -> int:
        """Send a text."""
        if text:
            self._send(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: each text is sent at once."""

    def isatty(self) -> bool:
        """Whether the stream is a terminal there."""
        return self._is_terminal


@dataclass(kw_only=True)
class HostedCommand:
    """What a command knows of the process that asked, and the gateway that runs it.

    `settings` are those of the configuration file, and `config` is its path as that process writes it, from
    its `folder`.
    `consoles` are made by `console`.
    """

    gateway: "Gateway"
    settings: "Settings"
    config: str
    folder: str
    viewer: "Viewer"
    out: OutputStream
    err: OutputStream
    environ: Mapping[str, str]
    input_is_terminal: bool
    read_input: Callable[[], Coroutine[Any, Any, str]]
    quiet: bool = False
    consoles: dict[str, Any] = field(default_factory=dict)

    def settings_for(self, given: Path | None) -> "Settings":
        """The settings by the option `--config` of the command.

        Raises:
            ElsewhereError: It names another file.
        """
        if given is not None and given != Path(self.config):
            raise ElsewhereError("it names another configuration")
        return replace(self.settings, source=Path(self.config))

    def path_for(self, given: Path | None) -> Path:
        """The path of the configuration, to write it.

        Raises:
            ElsewhereError: It names another file, or one below the folder of the other process.
        """
        path = self.settings_for(given).source
        if not path.is_absolute():
            raise ElsewhereError("the path of its configuration depends on its folder")
        return path


_CURRENT: Final[ContextVar[HostedCommand | None]] = ContextVar("hosted_command", default=None)


def hosted_command() -> HostedCommand | None:
    """The command that this thread or task runs for another process; `None` in a process of its own."""
    return _CURRENT.get()


def host_command(command: HostedCommand) -> None:
    """From here on, this thread runs a command for another process."""
    _CURRENT.set(command)
