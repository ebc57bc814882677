"""The work of a background gateway around its service: its start, its report to the client, and its log.

The starting client passes the lock of the configuration as standard input and a pipe as standard output. On
the pipe the gateway reports once that it listens, or why it cannot; then it closes both. A gateway that an
operator starts takes the lock itself.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio

from maitred.config.settings import Settings
from maitred.errors import ConfigError, DaemonError, MaitredError
from maitred.surfaces.daemon.discovery import EndpointQuery, found_now, log_path, opened_log
from maitred.surfaces.daemon.environment import runs_here
from maitred.surfaces.daemon.handshake import encode_line, start, values
from maitred.surfaces.daemon.sockets import Address, hold

_LOG_BYTES: Final = 1024 * 1024
_LOOK_S: Final = 5.0


class BackgroundStart:
    """The time before a gateway listens; `is_asked` if a client waits for it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_asked = _is_door(address)
        self._lock = 0 if self.is_asked else os.open(address.door, os.O_RDWR | os.O_CREAT, 0o600)
        self._is_over = False

    def take_turn(self) -> None:
        """Leave the client's processes; without a client, check that no other gateway runs.

        Raises:
            DaemonError: Another gateway runs.
        """
        if self.is_asked:
            if os.fork():
                os._exit(0)
            return
        hold(self._lock, wait=True)
        talk = found_now(EndpointQuery(self.address, {"values": values(), "start": start()}))
        if talk is not None:
            talk.close()
            raise DaemonError(
                "a gateway in the background serves this configuration already; see `maitred status`"
            )

    def settle(self, settings: Settings) -> None:
        """Change to the home folder, the same for all clients, unless servers depend on the present one."""
        if not runs_here(settings):
            home = Path.home()
            os.chdir(home if home.is_dir() else "/")

    def say(self, **what: Any) -> None:
        """Report the outcome of the start, once; from now on clients may look for this gateway."""
        if self._is_over:
            return
        self._is_over = True
        if not self.is_asked:
            os.close(self._lock)
            return
        with suppress(BrokenPipeError):  # the client may have gone
            os.write(1, encode_line({"maitred": "begun", **what}))
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)


@contextmanager
def beginning(address: Address) -> Iterator[BackgroundStart]:
    """Begin a start; reports an error before the gateway listens to the waiting client.

    Raises:
        DaemonError: Another gateway runs already.
    """
    begin = BackgroundStart(address)
    try:
        begin.take_turn()
        yield begin
    except MaitredError as error:
        begin.say(error=str(error), lasts=isinstance(error, ConfigError))
        raise


def _is_door(address: Address) -> bool:
    try:
        return os.path.samestat(os.fstat(0), address.door.stat())
    except OSError:
        return False


def own_log(address: Address) -> str:
    """The path of the log if standard error goes there; else empty."""
    path = log_path(address)
    try:
        return str(path) if os.path.samestat(os.fstat(2), path.stat()) else ""
    except OSError:
        return ""


async def keep_short(log: Path, most: int = _LOG_BYTES, look_s: float = _LOOK_S) -> None:
    """Keep the log of standard error below about `most` bytes, for all its writers; runs until cancelled."""
    while True:
        await anyio.sleep(look_s)
        with suppress(OSError):  # no space: only a log is lost
            shorten(log, most)


def shorten(log: Path, most: int) -> None:
    """Move the log aside once it has more than `most` bytes."""
    if os.fstat(2).st_size > most:
        with opened_log(log.with_name(f"{log.name}.1"), os.O_TRUNC) as before:
            before.write(log.read_bytes()[-most:])
        os.ftruncate(2, 0)  # it is open for appending, here and in the processes started from here
