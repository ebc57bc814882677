"""A stdio MCP client of a few lines, for figures that the SDK's client would blur.

It shows the JSON of a result as it came, knows the process it speaks to, and costs next to nothing. It is not
how an agent connects: call latencies are taken with the SDK's client (`bench.clients`).
"""

import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, Literal

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.stdio import get_default_environment

from bench.values import PeerError

Era = Literal["handshake", "stateless"]
Json = dict[str, Any]

_TIMEOUT_S = 120.0
_END_S = 5.0
_MAX_LINE = 64 * 1024 * 1024
_CLIENT = {"name": "maitred-bench", "version": "1"}
_META: Mapping[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Wire:
    """An open connection. Use `connect` to make one; requests are sent one at a time."""

    def __init__(self, process: anyio.abc.Process, errors: IO[bytes], era: Era) -> None:
        if process.stdin is None or process.stdout is None:
            raise PeerError("the process has no standard streams")
        self._process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self._errors = errors
        self._era = era
        self._next_id = 0

    @property
    def pid(self) -> int:
        """The process at the other end."""
        return self._process.pid

    async def open(self) -> None:
        """Shake hands, where the era has a handshake."""
        if self._era == "handshake":
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
            await self.request("initialize", params)
            await self._send({"method": "notifications/initialized"})

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        """Send a request and return its result.

        Raises:
            PeerError: An error answer, no answer in time, or the process has ended.
        """
        self._next_id += 1
        sent = dict(params or {})
        if self._era == "stateless":
            sent["_meta"] = dict(_META)
        try:
            with anyio.fail_after(_TIMEOUT_S):
                await self._send({"id": self._next_id, "method": method, "params": sent})
                answer = await self._answer(self._next_id)
        except TimeoutError:
            raise PeerError(f"no answer to {method} in {_TIMEOUT_S:g} s{self._last_words()}") from None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            raise PeerError(f"it ended during {method}{self._last_words()}") from None
        if "result" not in answer:
            raise PeerError(f"{method} was answered with {json.dumps(answer.get('error'))[:300]}")
        return dict(answer["result"])

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool; its failure is a result."""
        return await self.request("tools/call", {"name": tool, "arguments": dict(arguments)})

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

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _answer(self, request_id: int) -> Json:
        while True:
            line = await self._stdout.receive_until(b"\n", _MAX_LINE)
            message = json.loads(line)
            if message.get("id") == request_id:
                return dict(message)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"; its last words: {lines[-1][:300]}" if lines else ""

    async def end(self) -> None:
        """Close its standard input and wait; one that does not end is killed."""
        with anyio.CancelScope(shield=True):
            await self._stdin.aclose()
            with anyio.move_on_after(_END_S):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            await self._process.aclose()


@asynccontextmanager
async def connect(command: Sequence[str], era: Era = "handshake") -> AsyncIterator[Wire]:
    """Start a server, open a connection, and end the process afterwards."""
    with tempfile.TemporaryFile() as errors:
        environment = get_default_environment()
        wire = Wire(await anyio.open_process(command, stderr=errors, env=environment), errors, era)
        try:
            await wire.open()
            yield wire
        finally:
            await wire.end()
