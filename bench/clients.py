"""Connections to several gateways at once, all open for as long as a bench needs.

The client is a lean one (`bench.wire`), or the SDK's own, as agents use it. Each has an owner task, since
the SDK's client must be left in the task that entered it. One that cannot be opened, or does not offer its
tool, becomes a `Failure`; the others go on.
"""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TextIO, cast

import anyio
import anyio.abc
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.http_wire import await_sse, connect_http, connect_sse
from bench.listening import listening
from bench.processes import descendants, family
from bench.values import Failure, PeerError, leaf
from bench.wire import VERSIONS, Era, Wire, connect, environment

_OPEN_S = 60.0
_LEARN_S = 10.0
_POLL_S = 0.1

Kind = Literal["lean", "sdk"]
Link = Literal["stdio", "http", "sse"]


@dataclass(frozen=True, kw_only=True)
class Front:
    """What a client connects to, and the call that it makes there.

    `server` is the command of the server behind it, which is not counted as part of the gateway. `port` is
    where the program listens, 0 if it prints that itself.
    """

    name: str
    command: Sequence[str]
    tool: str
    arguments: Mapping[str, Any]
    server: Sequence[str] = ()
    link: Link = "stdio"
    era: Era = "handshake"
    port: int = 0

    @property
    def label(self) -> str:
        """Its name, with the era where that is not the usual one."""
        return self.name if self.era == "handshake" else f"{self.name} ({VERSIONS[self.era]})"


@dataclass(frozen=True, kw_only=True)
class Connected:
    """An open connection; `roots` are the processes that were started for it."""

    front: Front
    protocol_version: str
    roots: Sequence[int]
    invoke: Callable[[str, Mapping[str, Any]], Awaitable[tuple[str, bool]]]

    async def call(self) -> str:
        """Make the call of the front."""
        return await self.ask(self.front.tool, self.front.arguments)

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Make a call once and return the text of its answer.

        Raises:
            PeerError: The answer is an error.
        """
        text, is_error = await self.invoke(tool, arguments)
        if is_error:
            raise PeerError(f"{tool} answered with an error: {text[:200]}")
        return text

    def gateway(self) -> list[int]:
        """The processes of the gateway now, without the server behind it."""
        return family(self.roots, without=self.front.server)


@asynccontextmanager
async def connect_all(
    fronts: Sequence[Front], kind: Kind
) -> AsyncIterator[tuple[list[Connected], list[Failure]]]:
    """Connect to each front in turn, and keep all connections open."""
    opened: list[Connected] = []
    failures: list[Failure] = []
    done = anyio.Event()
    async with anyio.create_task_group() as owners:
        for front in fronts:
            try:
                with anyio.fail_after(_OPEN_S):
                    outcome = await owners.start(_own, front, kind, done, failures)
            except TimeoutError:
                outcome = Failure(what=front.label, why=f"not connected within {_OPEN_S:g} s")
            if isinstance(outcome, Connected):
                opened.append(outcome)
            else:
                failures.append(outcome)
        try:
            yield opened, failures
        finally:
            done.set()


async def _own(
    front: Front,
    kind: Kind,
    done: anyio.Event,
    failures: list[Failure],
    *,
    task_status: anyio.abc.TaskStatus[Connected | Failure],
) -> None:
    started = False
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        errors = cast("TextIO", file)
        try:
            async with _lean(front) if kind == "lean" else _sdk(front, errors) as connected:
                task_status.started(connected)
                started = True
                await done.wait()
        except Exception as error:  # noqa: BLE001  # a peer may fail in any way; the report says how
            failure = Failure(what=front.label, why=leaf(error) + _last_words(errors))
            if started:
                failures.append(failure)
            else:
                task_status.started(failure)


@asynccontextmanager
async def _lean(front: Front) -> AsyncIterator[Connected]:
    before = descendants()
    async with AsyncExitStack() as stack:
        wire: Wire
        if front.link == "stdio":
            wire = await stack.enter_async_context(connect(front.command, front.era))
        else:
            port = await _listen(front, stack)
            opening = (
                connect_sse(port, "/mcp") if front.link == "sse" else connect_http(port, "/mcp", front.era)
            )
            wire = await stack.enter_async_context(opening)

        async def names() -> list[str]:
            return [str(tool["name"]) for tool in await wire.list_tools()]

        async def invoke(tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
            result = await wire.call(tool, arguments)
            return " ".join(str(one.get("text", "")) for one in result["content"]), bool(
                result.get("isError")
            )

        await _await_tool(front, names)
        yield Connected(
            front=front,
            protocol_version=wire.protocol_version,
            roots=sorted(descendants() - before),
            invoke=invoke,
        )


@asynccontextmanager
async def _sdk(front: Front, errors: TextIO) -> AsyncIterator[Connected]:
    program, *arguments = front.command
    before = descendants()
    async with AsyncExitStack() as stack:
        target: Any
        if front.link == "stdio":
            parameters = StdioServerParameters(command=program, args=arguments, env=environment())
            target = stdio_client(parameters, errlog=errors)
        else:
            port = await _listen(front, stack)
            url = f"http://127.0.0.1:{port}/mcp"
            target = sse_client(url) if front.link == "sse" else url
        mode = "legacy" if front.era == "handshake" else "auto"
        client = await stack.enter_async_context(Client(target, mode=mode))

        async def names() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        async def invoke(tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
            result = await client.call_tool(tool, dict(arguments))
            return " ".join(str(getattr(one, "text", "")) for one in result.content), bool(result.is_error)

        await _await_tool(front, names)
        yield Connected(
            front=front,
            protocol_version=str(client.protocol_version),
            roots=sorted(descendants() - before),
            invoke=invoke,
        )


async def _listen(front: Front, stack: AsyncExitStack) -> int:
    """Start a gateway that listens, and return its port when it takes connections."""
    port = (await stack.enter_async_context(listening(front.command, front.port))).port
    if front.link == "sse":
        await await_sse(port, "/mcp")
    return port


async def _await_tool(front: Front, names: Callable[[], Awaitable[list[str]]]) -> None:
    """Wait until a gateway lists the tool; some that listen do so before they know their servers.

    Raises:
        PeerError: It does not list the tool in time.
    """
    listed: list[str] = []
    with anyio.move_on_after(_LEARN_S):
        while front.tool not in (listed := await names()):  # noqa: ASYNC110  # no peer says when
            await anyio.sleep(_POLL_S)
    if front.tool not in listed:
        raise PeerError(f"its tools/list has no {front.tool!r} but {listed[:5]}")


def _last_words(errors: TextIO) -> str:
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return f"; its last words: {lines[-1][:200]}" if lines else ""
