"""A server's process: started in a group of its own, read without blocking, ended with all it started.

It moves bytes and knows no protocol: lines of standard output go to a callback, standard error is kept as
the last 200 lines. Ending is a ladder (close standard input, SIGTERM, SIGKILL) that takes the whole process
group and the descendants that left it.
"""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from maitred.backends import warden
from maitred.backends.base import ConnectError

_KEPT_LINES = 200
_KEPT_CHARACTERS = 2_000
_ASK_S = 1.0
_TERMINATE_S = 1.0
_REAP_S = 2.0
_INHERITED = ("PATH", "HOME", "LANG", "LANGUAGE")


def environment(granted: Mapping[str, str], base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a server's process sees: PATH, HOME and the locale, and what its configuration grants."""
    inherited = {k: v for k, v in base.items() if k in _INHERITED or k.startswith("LC_")}
    return inherited | dict(granted)


class Tail:
    """The last lines of a text stream that may be endless, undecodable, or without line ends."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = partial[-_KEPT_CHARACTERS:]
        self._lines.extend(self._text(line) for line in lines[-_KEPT_LINES:])

    def lines(self) -> list[str]:
        """The kept lines, oldest first, the unfinished one included."""
        rest = [self._text(self._partial)] if self._partial.strip() else []
        return [*self._lines, *rest][-_KEPT_LINES:]

    @staticmethod
    def _text(line: bytes) -> str:
        return line[:_KEPT_CHARACTERS].decode("utf-8", "replace").rstrip("\r")


class Warden:
    """Our end of the pipe to `warden.py`, which ends the servers if this process is killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: dict[int, str] = {}
        self._mark = secrets.token_hex(8)

    @property
    def environment(self) -> dict[str, str]:
        """What every server's environment carries, so that whatever it starts can be found and ended."""
        return {warden.MARK: self._mark}

    def start(self) -> None:
        """Start the warden, if it is not running; one that was killed is replaced and told everything."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(warden.__file__)), self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        for line in self._watched.values():
            self._tell(line)

    def watch(self, pid: int) -> None:
        """Have a process group ended if this process goes."""
        self._watched[pid] = f"+{pid} {warden.start_time(pid)}\n"
        self._tell(self._watched[pid])

    def forget(self, pid: int) -> None:
        """A process group has been ended."""
        self._watched.pop(pid, None)
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """End the warden; whatever is still watched is ended with it."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it was killed; the next start replaces it
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


class ChildProcess(asyncio.SubprocessProtocol):
    """One running server process.

    `on_stdout` gets the raw chunks of standard output; `on_end` is called once, with a reason, when standard
    output has ended or the process has exited.
    """

    def __init__(
        self, *, on_stdout: Callable[[bytes], None], on_end: Callable[[str], None], tail: Tail
    ) -> None:
        self._on_stdout = on_stdout
        self._on_end: Callable[[str], None] | None = on_end
        self._tail = tail
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = anyio.Event()
        self._writable = anyio.Event()
        self._writable.set()
        self.pid = 0

    # --- what asyncio calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process runs."""
        if not isinstance(transport, asyncio.SubprocessTransport):
            raise TypeError(f"expected a subprocess transport, got {transport!r}")
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Standard output goes to the protocol, standard error to the tail."""
        if fd == 1:
            self._on_stdout(data)
        else:
            self._tail.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # asyncio's signature
        """Standard output ended: usually the process is about to exit, so wait a moment for its code."""
        if fd == 1:
            asyncio.get_running_loop().call_later(0.3, self._end)

    def process_exited(self) -> None:
        """The process is gone; descendants may still hold its pipes."""
        self._exited.set()
        self._writable.set()
        asyncio.get_running_loop().call_later(0.05, self._end)

    def pause_writing(self) -> None:
        """The server does not read as fast as we write."""
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """The server caught up."""
        self._writable.set()

    # --- what we call -------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Send bytes to the server's standard input, waiting while it is behind.

        Raises:
            BrokenPipeError: The process does not take input any more, and has read nothing of this.
            ConnectionResetError: It ended while it was behind, and may have read some of it.
        """
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing() or self._exited.is_set():
            raise BrokenPipeError
        pipe.write(data)
        if pipe.is_closing():
            raise BrokenPipeError
        if not self._writable.is_set():
            await self._writable.wait()
            if self._exited.is_set():
                raise ConnectionResetError

    def reason(self) -> str:
        """Why the process is not there any more, with the last line it wrote to standard error."""
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            what = "it closed its standard output"
        elif code < 0:
            what = f"it was ended by {_signal_name(-code)}"
        else:
            what = f"it exited with code {code}"
        lines = [line.strip() for line in self._tail.lines() if line.strip()]
        return f"{what}; its last words: {lines[-1][:300]}" if lines else what

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.reason())

    async def stop(self) -> None:
        """End the process, its group and its descendants, however unwilling, and reap it. Bounded in time."""
        transport = self._transport
        if transport is None:
            return
        with anyio.CancelScope(shield=True):
            strays = warden.descendants(self.pid)
            if (stdin := transport.get_pipe_transport(0)) is not None:
                stdin.close()
            await self._wait(_ASK_S)
            strays |= warden.descendants(self.pid)
            if warden.signal_all(self.pid, strays, signal.SIGTERM):
                await self._wait(_TERMINATE_S, strays)
                warden.signal_all(self.pid, strays, signal.SIGKILL)
            await self._wait(_REAP_S)
            transport.close()

    async def _wait(self, seconds: float, strays: Mapping[int, str] | None = None) -> None:
        """Wait until the process has exited and, if `strays` is given, its group is empty too."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()
            while strays is not None and warden.signal_all(self.pid, dict(strays), 0):  # noqa: ASYNC110
                await anyio.sleep(0.02)  # polled: the kernel tells nobody when a whole group is gone


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, make: Callable[[], ChildProcess]
) -> ChildProcess:
    """Start a program in a new session (and so in a process group of its own).

    Raises:
        ConnectError: The program is not there or may not be started.
    """
    program = argv[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None and cwd is not None:
        found = shutil.which(str(Path(cwd) / program)) if os.sep in program else None
    if found is None:
        where = "does not exist or is not executable" if os.sep in program else "is not on PATH"
        raise ConnectError(f"its program {program!r} {where}; install it or correct `command`")
    if cwd is not None and not await anyio.Path(cwd).is_dir():
        raise ConnectError(f"its working directory {cwd!r} does not exist; correct `cwd`")
    try:
        _, child = await asyncio.get_running_loop().subprocess_exec(
            make, found, *argv[1:], env=dict(env), cwd=cwd, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise ConnectError(f"its program {program!r} cannot be started: {error}") from error
    return child
