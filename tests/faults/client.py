"""A client of `maitred serve` over standard streams, as small as can be, which sees the process it talks to.

The SDK's client hides and ends the process by itself; these tests end it in ways of their own.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import psutil
from anyio.streams.buffered import BufferedByteReceiveStream

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MAX_LINE = 16 * 1024 * 1024


class Client:
    """Speaks JSON-RPC with one gateway process."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._next = 0
        self._changes = 0

    async def send(self, method: str, **params: Any) -> int:
        """Send a request without waiting for its answer; returns its id."""
        self._next += 1
        await self._write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    async def _write(self, message: dict[str, Any]) -> None:
        await self._stdin.send(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", MAX_LINE))
        self._changes += message.get("method") == "notifications/tools/list_changed"
        return message

    async def answer(self) -> dict[str, Any]:
        """The next answer, whichever request it is for."""
        while "method" in (message := await self._read()):
            pass
        return message

    async def hello(self) -> None:
        await self.send("initialize", **HELLO)
        await self.answer()
        await self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, name: str, **arguments: Any) -> str:
        """Call a tool through `call_tool` and return the text of its answer."""
        await self.send("tools/call", name="call_tool", arguments={"name": name, "arguments": arguments})
        answer = await self.answer()
        return str(answer["result"]["content"][0]["text"])

    async def echo(self, server: str) -> None:
        """Call `echo` of a faulty server as soon as it is known."""
        changes = self._changes
        while (answer := await self.call(f"{server}__echo", text=server)) != server:
            assert "no tool named" in answer
            while self._changes == changes:
                await self._read()
            changes = self._changes

    async def close_input(self) -> None:
        await self._stdin.aclose()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def family(self) -> Sequence[psutil.Process]:
        """All processes that the gateway started, and those that they started."""
        return psutil.Process(self.process.pid).children(recursive=True)


@asynccontextmanager
async def serve(config: Path) -> AsyncIterator[Client]:
    """Run `maitred serve` for a configuration file; whatever becomes of it, it is gone afterwards.

    What it writes to standard error goes to `stderr` beside the file.
    """
    command = [sys.executable, "-m", "maitred", "serve", "--no-daemon", "--config", str(config)]
    environment = os.environ | {"XDG_STATE_HOME": str(config.parent / "state")}
    with (config.parent / "stderr").open("wb") as stderr:
        process = await anyio.open_process(command, env=environment, stderr=stderr, start_new_session=True)
    try:
        client = Client(process)
        await client.hello()
        yield client
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.aclose()
