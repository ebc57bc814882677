"""MCP clients of a few lines, for figures that the SDK's client would blur: their base, and stdio.

They show the JSON of a result as it came, take any number of requests at once, and cost next to nothing.
`bench.http_wire` has those over HTTP, `bench.clients` the SDK's client, as agents use it.
"""

import asyncio
import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, Final, Literal

from mcp.client.stdio import get_default_environment

from bench.values import LostError, PeerError

Era = Literal["handshake", "stateless"]
Json = dict[str, Any]

VERSIONS: Final[Mapping[Era, str]] = {"handshake": "2025-11-25", "stateless": "2026-07-28"}
_TIMEOUT_S = 120.0
_END_S = 5.0
_OF_THE_USER = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")
_CLIENT = {"name": "maitred-bench", "version": "1"}
META: Final[Mapping[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS["stateless"],
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def environment() -> dict[str, str]:
    """What clients pass to a program by default, and the folders in which gateways find each other."""
    return get_default_environment() | {key: os.environ[key] for key in _OF_THE_USER if key in os.environ}


class Wire(ABC):
    """An open connection. `heard` counts notifications by method."""

    def __init__(self, era: Era) -> None:
        self.era: Final = era
        self.protocol_version = VERSIONS[era]
        self.heard: Counter[str] = Counter()
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._next_id = 0

    async def open(self) -> None:
        """Shake hands, where the era has a handshake."""
        if self.era == "handshake":
            params = {"protocolVersion": VERSIONS[self.era], "capabilities": {}, "clientInfo": _CLIENT}
            self.protocol_version = (await self.request("initialize", params))["protocolVersion"]
            await self._notify("notifications/initialized")

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        """Send a request and return its result.

        Raises:
            LostError: The other end has gone.
            PeerError: An error answer, or no answer in time.
        """
        self._next_id += 1
        number, sent = self._next_id, dict(params or {})
        if self.era == "stateless":
            sent["_meta"] = META
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": sent}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await self._exchange(number, message)
        except TimeoutError:
            raise PeerError(f"no answer to {method} in {_TIMEOUT_S:g} s{self._last_words()}") from None
        except ConnectionRefusedError:
            raise LostError("nobody listens", was_sent=False) from None
        except (EOFError, OSError):
            raise LostError(f"it ended during {method}{self._last_words()}", was_sent=True) from None
        if "result" not in answer:
            raise PeerError(f"{method} was answered with {json.dumps(answer.get('error'))[:300]}")
        return dict(answer["result"])

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool; its failure is a result."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def list_tools(self) -> list[Json]:
        """All tools, over all pages."""
        tools: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self.request("tools/list", {"cursor": cursor} if cursor else {})
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if not cursor:
                return tools

    @abstractmethod
    async def _exchange(self, number: int, message: Json) -> Json:
        """Send a request and return the message that answers it."""

    @abstractmethod
    async def _notify(self, method: str) -> None:
        """Send a notification."""

    def _take(self, message: Json) -> None:
        """Give an answer to the request that waits for it, and count a notification."""
        if "method" in message:
            self.heard[message["method"]] += 1
        elif (waiting := self._waiting.pop(message.get("id", 0), None)) and not waiting.done():
            waiting.set_result(message)

    def _expect(self, number: int) -> asyncio.Future[Json]:
        """A future answer for `_take`."""
        self._waiting[number] = asyncio.get_running_loop().create_future()
        return self._waiting[number]

    def _give_up(self) -> None:
        """Answer no request any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EOFError())
        self._waiting.clear()

    def _last_words(self) -> str:
        return ""


class StdioWire(Wire, asyncio.SubprocessProtocol):
    """A process of its own, over its standard streams. Use `connect` to make one."""

    def __init__(self, errors: IO[bytes], era: Era) -> None:
        super().__init__(era)
        self._errors = errors
        self._held = b""
        self._transport: asyncio.SubprocessTransport
        self._stdin: asyncio.WriteTransport
        self._exited = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process at the other end."""
        return self._transport.get_pid()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the process and its standard input."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._transport, self._stdin = transport, stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take whole lines."""
        self._held += data
        if b"\n" in data:
            *lines, self._held = self._held.split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """No answer can come any more."""
        self._give_up()

    def process_exited(self) -> None:
        """Note the end of the process."""
        self._exited.set()

    async def _exchange(self, number: int, message: Json) -> Json:
        answer = self._expect(number)
        self._send(message)
        return await answer

    async def _notify(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def _send(self, message: Json) -> None:
        if self._stdin.is_closing():
            raise EOFError
        self._stdin.write(json.dumps(message).encode() + b"\n")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"; its last words: {lines[-1][:300]}" if lines else ""

    async def end(self) -> None:
        """Close its standard input and wait; one that does not end is killed."""
        self._stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._exited.wait()
        except TimeoutError:
            self._transport.kill()
            await self._exited.wait()
        finally:
            self._transport.close()


@asynccontextmanager
async def connect(command: Sequence[str], era: Era = "handshake") -> AsyncIterator[StdioWire]:
    """Start a server, open a connection, and end the process afterwards."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as errors:
        _, wire = await loop.subprocess_exec(
            lambda: StdioWire(errors, era), *command, stderr=errors, env=environment()
        )
        try:
            await wire.open()
            yield wire
        finally:
            await wire.end()
