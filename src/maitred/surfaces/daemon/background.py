"""What a gateway in the background does around its service: how it begins, what it says of that, its log.

Who starts it gives it the lock of the configuration as standard input and a pipe as standard output, on which
it says once that it listens, or why it cannot. It then holds neither. Started by hand it takes that lock.
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
from maitred.surfaces.daemon.handshake import packed, values
from maitred.surfaces.daemon.sockets import Address, hold

_LOG_BYTES: Final = 1024 * 1024
_LOOK_S: Final = 5.0


class BackgroundStart:
    """The time before a gateway listens; `is_asked` if a client waits for it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_asked = _is_door(address)
        self._lock = (
            0 if self.is_asked else os.open(address.door, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )
        self._is_over = False

    def take_turn(self) -> None:
        """Leave the client's processes, or, if there is no client, see that there is no other gateway.

        Raises:
            DaemonError: There is one.
        """
        if self.is_asked:
            if os.fork():
                os._exit(0)
            return
        hold(self._lock, wait=True)
        talk = found_now(EndpointQuery(self.address, {"values": values()}))
        if talk is not None:
            talk.close()
            raise DaemonError(
                "a gateway in the background serves this configuration already; see `maitred status`"
            )

    def settle(self, settings: Settings) -> None:
        """Go where servers are to run that say nothing of it: the same for all clients, if that can be."""
        if not runs_here(settings):
            home = Path.home()
            os.chdir(home if home.is_dir() else "/")

    def say(self, **what: Any) -> None:
        """Say how it went, once; others may look for this gateway from here on."""
        if self._is_over:
            return
        self._is_over = True
        if not self.is_asked:
            os.close(self._lock)
            return
        with suppress(BrokenPipeError):  # who asked may have gone
            os.write(1, packed({"maitred": "begun", **what}))
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)


@contextmanager
def beginning(address: Address) -> Iterator[BackgroundStart]:
    """Begin; an error that ends it before it listens is told to who waits.

    Raises:
        DaemonError: It is not needed.
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
    """The log, if that is where standard error goes; else nothing."""
    path = log_path(address)
    try:
        return str(path) if os.path.samestat(os.fstat(2), path.stat()) else ""
    except OSError:
        return ""


async def keep_short(log: Path, most: int = _LOG_BYTES, look_s: float = _LOOK_S) -> None:
    """Keep the log of standard error below about `most` bytes, whoever writes it; runs until cancelled."""
    while True:
        await anyio.sleep(look_s)
        with suppress(OSError):  # no room: what is lost is a log
            shorten(log, most)


def shorten(log: Path, most: int) -> None:
    """Move the log aside once it has more than `most` bytes."""
    if os.fstat(2).st_size > most:
        with opened_log(log.with_name(f"{log.name}.1"), os.O_TRUNC) as before:
            before.write(log.read_bytes()[-most:])
        os.ftruncate(2, 0)  # it is open for appending, here and in what was started from here
