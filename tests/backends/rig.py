"""What the tests of backends share: servers to start, and ways to wait and to count what is left."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
from tests.support import prefork

from maitred.backends.base import ConnectOptions, Notice
from maitred.backends.process import Warden
from maitred.backends.stdio import StdioBackend
from maitred.config.interpolate import resolver
from maitred.config.settings import Limits
from maitred.model.servers import EraChoice, ServerSpec
from maitred.model.tools import ToolCall

FAULTY = Path(__file__).parent.parent / "support" / "faulty_server.py"
HONEST = Path(__file__).parent / "honest_server.py"

SOON_S = 120.0
LONG_S = 120.0
RESOLVE = resolver(os.environ)


def faulty_args(mode: str, *arguments: str) -> tuple[str, ...]:
    """The arguments with which Python runs the faulty server."""
    return ("-I", "-S", str(FAULTY), mode, *arguments)


def faulty(mode: str, *arguments: str, **fields: Any) -> ServerSpec:
    """The specification of a faulty server."""
    return ServerSpec(
        name="faulty",
        command=sys.executable,
        args=faulty_args(mode, *arguments),
        **{"era": "handshake"} | fields,
    )


def script(code: str, **fields: Any) -> ServerSpec:
    """The specification of a server that is a few lines of Python."""
    return ServerSpec(name="script", command=sys.executable, args=("-I", "-S", "-c", code), **fields)


def stdio(spec: ServerSpec, warden: Warden, limits: Limits | None = None) -> StdioBackend:
    return StdioBackend(spec, resolve=RESOLVE, limits=limits or Limits(), warden=warden)


class Heard:
    """Keeps what was announced, and lets a test wait until something has been."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._came = anyio.Event()

    def __call__(self, what: Any) -> None:
        self.all.append(what)
        self._came.set()

    async def until(self, what: Any, *, times: int = 1) -> None:
        """Wait until it has been announced so often."""
        with anyio.fail_after(LONG_S):
            while self.all.count(what) < times:
                self._came = anyio.Event()
                await self._came.wait()


def options(era: EraChoice = "auto", notices: Callable[[Notice], None] = lambda _: None) -> ConnectOptions:
    return ConnectOptions(era=era, on_notice=notices)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def text_of(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def eventually(condition: Callable[[], object], *, within_s: float = SOON_S) -> None:
    """Wait for what announces itself to nobody: a file of another process, or the end of one."""
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110  # as the docstring says
            await anyio.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process has ended and was reaped; only init may still have to reap what it adopted."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.ppid() == 1
    except psutil.NoSuchProcess:
        return True


def read_pid(path: Path) -> int:
    return int(path.read_text())


class Left:
    """What this process holds; `nothing` compares with how it was at first."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._children = set(psutil.Process().children(recursive=True))
        self._files = psutil.Process().num_fds()

    async def nothing(self) -> None:
        """Wait until no task, process or open file is left of what was started since."""
        await eventually(lambda: asyncio.all_tasks() <= self._tasks)
        await eventually(lambda: set(psutil.Process().children(recursive=True)) <= self._children)
        await eventually(lambda: psutil.Process().num_fds() <= self._files)


class HttpServer:
    """The honest server in a process of its own; it can be killed and started again at the same address."""

    def __init__(self, transport: str, token: str = "", age: str = "") -> None:
        self._transport = transport
        self._environment = os.environ | {"HONEST_TOKEN": token, "HONEST_AGE": age}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._process: prefork.Command | None = None
        path = "sse" if transport == "sse" else "mcp"
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{path}"

    def start(self) -> None:
        with open(1, "w", closefd=False) as out, open(2, "w", closefd=False) as err:
            streams = (self._listener, out, err)  # it listens on its standard input
            self._process = prefork.start(
                [self._transport, "0"], streams, env=self._environment, script=HONEST
            )

    def kill(self) -> None:
        """End the process; connections wait until the next `start`."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def close(self) -> int:
        """End it, so that connections are refused; returns the port at which it can be opened again."""
        self.kill()
        port: int = self._listener.getsockname()[1] if self._listener.fileno() >= 0 else 0
        self._listener.close()
        return port

    def reopen(self, port: int) -> None:
        """Start it where it was before it was closed."""
        self._listener = socket.create_server(("127.0.0.1", port))
        self.start()


@contextmanager
def http_server(transport: str, token: str = "", age: str = "") -> Iterator[HttpServer]:
    server = HttpServer(transport, token, age)
    server.start()
    try:
        yield server
    finally:
        server.close()
