"""Runs a command in the gateway for another process: its words come in, and texts for its streams go out.

What a command is, the function that runs it knows. It may write from any thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio

from maitred.model.access import Viewer
from maitred.surfaces.daemon.handshake import decode_line, encode_line
from maitred.surfaces.mcp.wire import Wire

_MOST_BYTES: Final = 8 * 1024 * 1024
_WORDS_S: Final = 30.0

Stream = Literal["out", "err"]


@dataclass(frozen=True, kw_only=True)
class CommandRequest:
    """A command line of another process.

    `config` is the path of its configuration file as that process writes it, `folder` the one it works in.
    `terminals` and `encodings` are of its standard input, output and error. `environ` has the variables by
    which output depends on the terminal. `quiet` is the option `--quiet` before the command.
    """

    words: Sequence[str]
    config: str
    folder: str
    viewer: Viewer
    environ: Mapping[str, str]
    terminals: Sequence[bool]
    encodings: Sequence[str]
    quiet: bool


class CommandStreams:
    """The standard streams of the process that asked; writing is possible from any thread."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._input: str | None = None
        self._has_input = anyio.Event()
        self.left = anyio.Event()
        wire.attach(self._feed, self.left.set)

    def write(self, stream: Stream, text: str) -> None:
        """Write a text to one of the streams."""
        self._loop.call_soon_threadsafe(self.send, {"maitred": stream, "text": text})

    async def read_input(self) -> str:
        """All of standard input. It is asked for once."""
        if self._input is None:
            self.send({"maitred": "ask"})
            await self._has_input.wait()
        return self._input or ""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a process that is gone gets none."""
        with suppress(BrokenPipeError):
            self._wire.write(encode_line(message))

    def _feed(self, data: bytes) -> None:
        self._rest += data
        line, newline, self._rest = self._rest.partition(b"\n") if b"\n" in data else (b"", b"", self._rest)
        if newline:
            self._input = str(decode_line(line).get("text", ""))
            self._has_input.set()
        elif len(self._rest) > _MOST_BYTES:
            self._wire.close()


RunCommand = Callable[[CommandRequest, CommandStreams], Awaitable[int | str]]
"""Runs a command and returns its exit code, or why it has to be run by the process that asked."""


async def serve_command(wire: Wire, viewer: Viewer, run: RunCommand) -> None:
    """Welcome a process, and run its command until that ends or the process is gone.

    Raises:
        EOFError: It left without a command.
        TimeoutError: It sent none.
    """
    wire.write(encode_line({"maitred": "welcome"}))
    with anyio.fail_after(_WORDS_S):
        said = decode_line(await wire.line(_MOST_BYTES))
    streams = CommandStreams(wire)
    request = _request(said, viewer)
    async with anyio.create_task_group() as tasks:

        async def end_when_left() -> None:
            await streams.left.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_when_left)
        done = await run(request, streams)
        tasks.cancel_scope.cancel()
        if isinstance(done, int):
            streams.send({"maitred": "end", "code": done})
        else:
            streams.send({"maitred": "elsewhere", "text": done})


def _request(said: Mapping[str, Any], viewer: Viewer) -> CommandRequest:
    environ = said.get("environ")
    return CommandRequest(
        words=_texts(said.get("words")),
        config=str(said.get("config", "")),
        folder=str(said.get("folder", "")),
        viewer=viewer,
        environ={str(key): str(value) for key, value in environ.items()} if isinstance(environ, dict) else {},
        terminals=[*map(bool, _list(said.get("terminals"))), False, False, False][:3],
        encodings=[*_texts(said.get("encodings")), "utf-8", "utf-8", "utf-8"][:3],
        quiet=bool(said.get("quiet")),
    )


def _texts(value: Any) -> list[str]:
    return list(map(str, _list(value)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
