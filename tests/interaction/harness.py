"""Run the real gateway as a program and talk to it: through the SDK's client, or message by message.

It knows nothing of what a test claims. Nothing here polls: output is waited for on the pipe it comes from.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import anyio
import anyio.abc
import httpx2
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.support import prefork
from tests.support.processes import below

Json = dict[str, Any]
Mode = Literal["legacy", "auto"]
Transport = Literal["stdio", "http"]

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
WAIT_S = 120.0
STOP_S = 120.0
_MAX_LINE = 64 * 1024 * 1024


class Output:
    """What a program writes to a pipe, line by line, read in a thread of its own."""

    def __init__(self, pipe: IO[str]) -> None:
        self.lines: list[str] = []
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=[pipe], daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for(self, text: str, start: int = 0) -> str:
        """The first line from `start` on that holds `text`; fails when the program ends without it."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self._find(text, start), timeout=WAIT_S)
            found = self._find(text, start)
        assert found, f"{text!r} was not printed:\n" + "\n".join(self.lines[-40:])
        return found

    def _find(self, text: str, start: int) -> str:
        return next((line for line in self.lines[start:] if text in line), "")

    def join(self) -> None:
        self._thread.join(STOP_S)


@dataclass(frozen=True, kw_only=True)
class HttpGateway:
    """A gateway that listens."""

    url: str
    process: prefork.Command
    output: Output

    def servers(self) -> list[str]:
        """The command lines of all programs that it runs now, without its own two helpers."""
        return server_processes(self.process.pid)

    async def says_after(self, start: int, text: str) -> str:
        """The first line of its log that holds `text`, not counting the first `start` lines."""
        return await anyio.to_thread.run_sync(self.output.wait_for, text, start)

    def connect(self, mode: Mode, *, token: str = "", **options: Any) -> AbstractAsyncContextManager[Client]:
        """A client of one era; `options` are those of the SDK's client."""
        return over_http(self.url, mode, token=token, **options)


def server_processes(pid: int) -> list[str]:
    """The command lines of the programs below a gateway, without its warden and its counter of tokens."""
    lines = [" ".join(command) for _, _, command in below(pid)]
    return [line for line in lines if "warden.py" not in line and "maitred.catalog.token_count" not in line]


def serve_command(config: Path, *options: str) -> list[str]:
    """The command line that runs a gateway; its process stands for the one that runs it (see `prefork`)."""
    return prefork.command("serve", "--no-daemon", "--config", str(config), *options)


def own_command(config: Path) -> list[str]:
    """The command line that runs a gateway in the very process that it starts."""
    return [sys.executable, "-m", "maitred", "serve", "--no-daemon", "--config", str(config)]


def sdk_server(path: Path, *arguments: str) -> Json:
    """The entry of a server of our own that was made with the SDK."""
    program, *rest = prefork.script(path, *arguments)
    return {"command": program, "args": rest}


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("MAITRED_")}


@contextmanager
def serving(config: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[HttpGateway]:
    """Run a gateway over HTTP on a free port; it has to end well when it is told to."""
    errors, told = (
        os.fdopen(fd, mode, encoding="utf-8", errors="replace")
        for fd, mode in zip(os.pipe(), "rw", strict=True)
    )
    with errors, Path(os.devnull).open("r+", encoding="utf-8") as nothing:
        with told:
            process = prefork.start(
                ["serve", "--config", str(config), "--transport", "http", "--port", "0", *options],
                [nothing, nothing, told],
                env={**_environment(), **(env or {})},
            )
        output = Output(errors)
        try:
            said = output.wait_for("maitred listens on ")
            yield HttpGateway(url=said.rpartition(" ")[2], process=process, output=output)
            process.terminate()
            assert process.wait(STOP_S) == 0, "\n".join(output.lines[-40:])
        finally:
            process.close()
            output.join()


@asynccontextmanager
async def over_http(url: str, mode: Mode, *, token: str = "", **options: Any) -> AsyncIterator[Client]:
    """A client of one era over streamable HTTP."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http,
        opened(streamable_http_client(url, http_client=http), mode, **options) as client,
    ):
        yield client


@asynccontextmanager
async def opened(
    transport: Any, mode: Mode, *, limit_s: float | None = WAIT_S, **options: Any
) -> AsyncIterator[Client]:
    """Open a client; each of its requests is limited in time, and by default the whole of its use too."""
    with anyio.fail_after(limit_s):
        async with Client(transport, mode=mode, read_timeout_seconds=WAIT_S, **options) as client:
            yield client


@asynccontextmanager
async def over_stdio(
    config: Path, mode: Mode, *, env: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client of one era, and a gateway of its own that it starts."""
    program, *arguments = serve_command(config, "--transport", "stdio")
    async with direct(
        program, arguments, mode, log=config.parent / "stdio.log", env=env, **options
    ) as client:
        yield client


@asynccontextmanager
async def direct(
    program: str,
    arguments: list[str],
    mode: Mode,
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of one era, straight at a program that speaks MCP over its standard streams."""
    private = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}  # the SDK's client passes hardly any on
    parameters = StdioServerParameters(command=program, args=arguments, env={**private, **(env or {})})
    with log.open("a", encoding="utf-8") as errors:
        async with opened(stdio_client(parameters, errlog=errors), mode, **options) as client:
            yield client


@dataclass(frozen=True, kw_only=True)
class Front:
    """One of the four ways to reach a gateway: a transport and an era."""

    transport: Transport
    mode: Mode
    config: Path
    gateway: HttpGateway | None = None

    @property
    def tag(self) -> str:
        """Tells apart what the tests of the four ways write."""
        return f"{self.transport}-{self.mode}"

    @property
    def version(self) -> str:
        """The protocol revision that a connection must come to."""
        return LEGACY if self.mode == "legacy" else MODERN

    @property
    def folder(self) -> Path:
        """Where the servers of this gateway work."""
        return self.config.parent

    def connect(self, **options: Any) -> AbstractAsyncContextManager[Client]:
        """A client; over stdio it has a gateway of its own."""
        if self.gateway is not None:
            return self.gateway.connect(self.mode, **options)
        return over_stdio(self.config, self.mode, **options)


class RawClient:
    """Writes requests to a program and reads its lines: what passes is seen as it is on the wire."""

    def __init__(self, process: anyio.abc.Process, *, modern: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.notices: list[Json] = []
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._modern = modern
        self._count = 0

    async def request(self, method: str, params: Json | None = None) -> Json:
        """The whole answer message; notices that come before it are kept."""
        return json.loads(await self.request_bytes(method, params))  # type: ignore[no-any-return]

    async def request_bytes(self, method: str, params: Json | None = None) -> bytes:
        """The line of the answer, as it came."""
        number = await self.send(method, params)
        while True:
            line = await self._lines.receive_until(b"\n", _MAX_LINE)
            message = json.loads(line)
            if message.get("id") == number:
                return line
            self.notices.append(message)

    async def send(self, method: str, params: Json | None = None) -> int:
        """Send a request without waiting for its answer; returns its id."""
        self._count += 1
        await self._write({"id": self._count, "method": method, "params": self._stamped(params or {})})
        return self._count

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self._write({"method": method, "params": self._stamped(params or {})})

    async def call(self, name: str, arguments: Json, *, meta: Json | None = None) -> Json:
        """The result of a tool call, as it stands on the wire."""
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {})
        answer = await self.request("tools/call", params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def _write(self, message: Json) -> None:
        await self._stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _stamped(self, params: Json) -> Json:
        if not self._modern:
            return params
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        return {**params, "_meta": {**envelope, **params.get("_meta", {})}}


@asynccontextmanager
async def raw(command: list[str], *, modern: bool, cwd: Path) -> AsyncIterator[RawClient]:
    """Start a program that speaks MCP over its standard streams, with the handshake done in the older era."""
    with (cwd / "raw.log").open("ab") as errors, anyio.fail_after(WAIT_S):
        async with await anyio.open_process(command, stderr=errors, cwd=cwd) as process:
            client = RawClient(process, modern=modern)
            if not modern:
                info = {"name": "raw", "version": "1"}
                start = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
                await client.request("initialize", start)
                await client.notify("notifications/initialized")
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(STOP_S) as patience:
                    assert process.stdin is not None
                    await process.stdin.aclose()
                    await process.wait()
                if patience.cancelled_caught:
                    process.kill()


def text_of(result: Any) -> str:
    """All text of a `CallToolResult`."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def menu(client: Client, tool: str, **arguments: Any) -> str:
    """Call a meta-tool that must not fail; its text."""
    result = await client.call_tool(tool, arguments)
    text = text_of(result)
    assert not result.is_error, text
    return text


async def call(client: Client, name: str, arguments: Json | str | None = None, **options: Any) -> Any:
    """Call a tool through `call_tool`; the result may be an error."""
    return await client.call_tool("call_tool", {"name": name, "arguments": arguments or {}}, **options)


async def listed(client: Client) -> list[Any]:
    """Every tool of every page of `tools/list`, past the client's cache."""
    tools: list[Any] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools


def cli(
    config: Path | None, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of `maitred` to its end; `--config` is added after the command's name."""
    head, *rest = arguments
    chosen = ["--config", str(config)] if config else []
    return prefork.run(
        [head, *chosen, *rest],
        stdin=stdin,
        env={**_environment(), **(env or {})},
        timeout=2 * WAIT_S,
    )


def write_settings(folder: Path, servers: Mapping[str, Json], **sections: Any) -> Path:
    """Write a `maitred.yaml` into a folder, or over the one there, in one step."""
    path = folder / "maitred.yaml"
    settings = {"servers": dict(servers), "catalog": {"path": "catalog.db"}, **sections}
    fresh = folder / "fresh.tmp"
    fresh.write_text(json.dumps(settings, indent=2), encoding="utf-8")  # JSON is YAML
    fresh.replace(path)
    return path


def know_as(config: Path, folder: Path) -> None:
    """Have a configuration in a folder know the servers that another one knows, without starting them."""
    shutil.copy(config.with_name("catalog.db"), folder)


def faulty(mode: str, *arguments: str) -> Json:
    """The entry of a server of our own that misbehaves in one way."""
    script = str(SUPPORT / "faulty_server.py")
    return {"command": sys.executable, "args": ["-I", "-S", script, mode, *arguments]}
