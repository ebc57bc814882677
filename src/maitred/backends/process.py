"""A server's process: in its own process group, read without blocking, ended with its descendants.

This module moves bytes and knows no protocol. Standard output goes to a callback, and the last 200 lines
of standard error are stored, those of the processes before it among them. If the process exceeds its rate of
output, the gateway pauses reading, and the process waits.
To end it, the gateway closes standard input, then sends SIGTERM, then SIGKILL. The signals go to the
whole process group and to the descendants that left it.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import structlog
from anyio import to_thread

from maitred.backends import warden
from maitred.backends.base import ConnectError, Ending
from maitred.backends.launch import Launch, find_program
from maitred.backends.orphans import NO_CATALOG, Claim, ClaimRegistry, Kind, new_mark
from maitred.config.redaction import redact
from maitred.model.servers import CERTIFICATES
from maitred.token_bucket import TokenBucket

log = structlog.get_logger(__name__)

STARTED_AGAIN = "--- started again ---"
"""What separates the lines of a process from those of the one before it."""
_KEPT_LINES = 200
_KEPT_CHARACTERS = 2_000
_ASK_S = 1.0
_TERMINATE_S = 1.0
_REAP_S = 2.0
_CODE_S = 0.3
_WARDEN_S = 12.0
_INHERITED = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", *CERTIFICATES})
_INHERITED_ON_WINDOWS = frozenset(
    {
        *("APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE"),
        *("SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
    }
)
"""Variables without which programs do not start there, or do not find the folders of their user."""
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def environment(granted: Mapping[str, str], base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a server's process, with what its configuration grants.

    Beside that it has PATH, HOME, the locale, and how the network is reached from this machine: the files of
    certificates and the proxies, but for a proxy whose address has a password.
    """
    names = _INHERITED | _INHERITED_ON_WINDOWS if sys.platform == "win32" else _INHERITED
    inherited = {k: v for k, v in base.items() if k in names or k.startswith("LC_") or _is_open_proxy(k, v)}
    return inherited | dict(granted)


def _is_open_proxy(name: str, value: str) -> bool:
    return name.lower() in _PROXIES and "@" not in value


class Tail:
    """The last lines of a text stream that may be endless, undecodable, or without line ends.

    They are returned without the credentials that are known at that time. One tail may take the streams of
    several processes, one after the other.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._partial = b""
        self._since_begin = 0

    def begin(self) -> None:
        """A new process begins to write; the lines of those before it stay, up to a heading."""
        self.feed(b"\n" if self._partial.strip() else b"")
        self._partial = b""
        if self._since_begin:
            self._lines.append(STARTED_AGAIN)
        self._since_begin = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = partial[-_KEPT_CHARACTERS:]
        self._lines.extend(self._text(line) for line in lines[-_KEPT_LINES:])
        self._since_begin += len(lines)

    def lines(self, *, earlier: bool = False) -> list[str]:
        """The stored lines, oldest first, with the unfinished one; with `earlier` of all processes."""
        rest = [self._text(self._partial)] if self._partial.strip() else []
        whole = list(self._lines)
        own = whole if earlier else whole[max(0, len(whole) - self._since_begin) :]
        kept = [*own, *rest][-_KEPT_LINES:]
        return redact("\n".join(kept)).split("\n") if kept else []

    @staticmethod
    def _text(line: bytes) -> str:
        return line[:_KEPT_CHARACTERS].decode("utf-8", "replace").rstrip("\r")


class Warden:
    """The gateway's end of the pipe to `warden.py`, which ends the servers if the gateway is killed.

    `catalog` is the gateway's catalog, from `orphans.catalog_of`. With `path`, a claim beside the catalog
    says that this gateway runs, as soon as a server starts. Without it, no later gateway finds what this
    one leaves.
    """

    def __init__(self, catalog: str = NO_CATALOG, *, path: Path | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: dict[int | str, str] = {}
        self._mark = new_mark(catalog)
        self._path = path
        self._claims: dict[Kind, Claim] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The variable in every server's environment by which its processes can be found and ended."""
        return {warden.MARK: self._mark}

    @property
    def mark(self) -> str:
        """The mark that distinguishes this gateway from every earlier and concurrent one."""
        return self._mark

    def start(self) -> None:
        """Start the warden if it is not running; a replacement gets the whole list again."""
        if self._process is not None and self._process.poll() is None:
            return
        self._claim("processes")
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(warden.__file__)), self._mark],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={name: text for name, text in os.environ.items() if name != warden.MARK},  # it may be marked
        )
        if self._process.stdin is not None and sys.platform != "win32":
            os.set_blocking(self._process.stdin.fileno(), False)
        for line in self._watched.values():
            self._tell(line)

    def watch(self, pid: int) -> None:
        """Let the warden end a process group if this process ends."""
        self._watched[pid] = f"+{pid} {warden.start_time(pid)}\n"
        self._tell(self._watched[pid])

    def forget(self, pid: int) -> None:
        """A process group has been ended."""
        self._watched.pop(pid, None)
        self._tell(f"-{pid}\n")

    def hold(self, engine: str, container: str) -> None:
        """Let the warden remove a container if this process ends.

        `engine` is the Unix socket of its engine. It is empty for an engine that is reached otherwise, which
        the warden cannot contact.
        """
        self._claim("containers")
        if engine:
            self._watched[container] = f"@{engine} {container}\n"
            self._tell(self._watched[container])

    def let_go(self, container: str) -> None:
        """A container has been removed."""
        if self._watched.pop(container, None) is not None:
            self._tell(f"!{container}\n")

    def close(self, within_s: float = _WARDEN_S) -> None:
        """End the warden, and with it all that it still watches; the next gateway checks for the rest.

        A warden that takes longer than `within_s` seconds, which exceeds any of its work, hangs, and is
        killed.
        """
        self._end(within_s)
        for kind, claim in self._claims.items():
            of_kind = int if kind == "processes" else str
            claim.release(left=any(isinstance(one, of_kind) for one in self._watched))
        self._claims.clear()

    def _claim(self, kind: Kind) -> None:
        if self._path is None or kind in self._claims or sys.platform == "win32":  # it has no such locks
            return
        try:
            self._claims[kind] = ClaimRegistry(self._path, kind).take(self._mark)
        except OSError as error:
            said = "if this gateway is killed, the next one will not find what it left"
            log.warning(said, what=kind, reason=str(error))

    def _end(self, within_s: float = _WARDEN_S) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(within_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _tell(self, line: str) -> None:
        """Write to the warden without blocking; one that does not read, or is gone, is replaced later."""
        if self._process is None or self._process.stdin is None:
            return
        told = os.fsencode(line)
        with suppress(BrokenPipeError):
            if self._process.stdin.write(told) != len(told):  # its pipe is full: it hangs
                self._process.kill()


class ChildProcess(asyncio.SubprocessProtocol):
    """One running server process.

    `on_stdout` gets the raw chunks of standard output. `on_end` is called once, with a reason, when
    standard output has ended or the process has exited. `ending` is how it ended, if the gateway did not
    end it.
    """

    def __init__(
        self, launch: Launch, *, on_stdout: Callable[[bytes], None], on_end: Callable[[str], None], tail: Tail
    ) -> None:
        self._launch = launch
        self._on_stdout = on_stdout
        self._on_end: Callable[[str], None] | None = on_end
        self._tail = tail
        rate = launch.rate
        self._bucket = TokenBucket(per_s=rate, size=rate, now=time.monotonic()) if rate else None
        self._silent = anyio.Event()
        self.ending: Ending | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = anyio.Event()
        self._drained = anyio.Event()
        self._writable = anyio.Event()
        self._writable.set()
        self.pid = 0

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
        if self._bucket is not None and (wait_s := self._bucket.take(len(data), now=time.monotonic())) > 0:
            self._read(on=False)
            asyncio.get_running_loop().call_later(wait_s, self._read)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # asyncio's signature
        """Standard output ended: usually the process is about to exit, so wait a moment for its code."""
        if fd == 1:
            self._silent.set()
            asyncio.get_running_loop().call_later(_CODE_S, self._end)

    def connection_lost(self, exc: Exception | None) -> None:  # asyncio's signature
        """The process is gone, and all that it wrote was read."""
        self._drained.set()

    def process_exited(self) -> None:
        """The process is gone; descendants may still hold its pipes."""
        self._exited.set()
        self._writable.set()
        self._bucket = None  # only a little output is left in the pipe
        self._read()
        asyncio.get_running_loop().call_later(0.05, self._end)

    def pause_writing(self) -> None:
        """The server does not read as fast as the gateway writes."""
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """The server caught up."""
        self._writable.set()

    def write(self, data: bytes) -> anyio.Event | None:
        """Send bytes to the server's standard input; returns the event of its catching up, if it is behind.

        Raises:
            BrokenPipeError: The process does not take input any more, and has read nothing of this.
        """
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing() or self._exited.is_set():
            raise BrokenPipeError
        pipe.write(data)
        if pipe.is_closing():
            raise BrokenPipeError
        return None if self._writable.is_set() else self._writable

    def _end(self) -> None:
        """Report why the process ended, with the last line of its standard error."""
        on_end, self._on_end = self._on_end, None
        if on_end is None:
            return
        told = self._launch.ending(self._transport.get_returncode() if self._transport else None)
        lines = [line.strip() for line in self._tail.lines() if line.strip()]
        words = f"; its last words: {lines[-1][:300]}" if lines else ""
        self.ending = Ending(kind=told.kind, reason=told.reason + words)
        on_end(self.ending.reason)

    def _read(self, *, on: bool = True) -> None:
        """Resume or pause reading; while it is paused, the pipes fill up and the process waits."""
        for number in (1, 2):
            pipe = self._transport.get_pipe_transport(number) if self._transport else None
            if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
                (pipe.resume_reading if on else pipe.pause_reading)()

    async def stop(self) -> None:
        """End the process, its group and its descendants, by force if necessary, and reap it.

        Bounded in time.
        """
        transport = self._transport
        if transport is None:
            return
        with anyio.CancelScope(shield=True):
            await self._settle()
            strays = await to_thread.run_sync(warden.descendants, self.pid)  # it reads all of /proc
            if (stdin := transport.get_pipe_transport(0)) is not None:
                stdin.close()
            await self._wait(_ASK_S)
            strays |= await to_thread.run_sync(warden.descendants, self.pid)
            if self._ask(strays):
                await self._wait(_TERMINATE_S, strays)
                warden.signal_all(self.pid, strays, warden.KILL)
            await self._wait(_REAP_S)
            with anyio.move_on_after(_CODE_S):  # its last lines may still be in the pipe
                await self._drained.wait()
            transport.close()

    async def _settle(self) -> None:
        """Report an end that the gateway did not cause; a later end is the gateway's own."""
        if self._silent.is_set():
            await self._wait(_CODE_S)
        if self._silent.is_set() or self._exited.is_set():
            self._end()
        self._on_end = None
        self._bucket = None
        self._read()

    def _ask(self, strays: dict[int, str]) -> bool:
        """Send SIGTERM to all processes that should end by themselves; returns whether there were any."""
        if self._launch.wrapped:
            return bool(warden.signal_each(strays, signal.SIGTERM)) | warden.signal_group(self.pid, 0)
        return warden.signal_all(self.pid, strays, signal.SIGTERM)

    async def _wait(self, seconds: float, strays: Mapping[int, str] | None = None) -> None:
        """Wait until the process has exited and, if `strays` is given, its group is empty too."""
        with anyio.move_on_after(seconds):
            await self._exited.wait()
            while strays is not None and warden.signal_all(self.pid, dict(strays), 0):  # noqa: ASYNC110
                await anyio.sleep(0.02)  # polled: the kernel sends no event when a whole group is gone


async def start(launch: Launch, make: Callable[[], ChildProcess]) -> ChildProcess:
    """Start a program in a new session, and so in its own process group.

    Raises:
        ConnectError: The program does not exist or may not be started.
    """
    program, cwd = launch.argv[0], launch.cwd
    found = find_program(program, launch.env.get("PATH", os.defpath), cwd)
    if cwd is not None and not await anyio.Path(cwd).is_dir():
        raise ConnectError(f"its working directory {cwd!r} does not exist; correct `cwd`")
    try:
        _, child = await asyncio.get_running_loop().subprocess_exec(
            make,
            found,
            *launch.argv[1:],
            env=dict(launch.env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=launch.files,
        )
    except (OSError, ValueError) as error:
        raise ConnectError(f"its program {program!r} cannot be started: {error}") from error
    return child
