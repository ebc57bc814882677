"""Connections of the SDK's own client to several servers at once, all open for as long as a bench needs.

Each has an owner task, since the SDK's client must be left in the task that entered it. One that cannot be
opened, or does not offer its tool, becomes a `Failure`; the others go on.
"""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Any

import anyio
import anyio.abc
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.values import Failure, PeerError, leaf

_OPEN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Front:
    """What a client connects to, and the call that it makes there."""

    name: str
    command: Sequence[str]
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Connected:
    """An open connection; `pid` is the process at its other end."""

    front: Front
    client: Client
    pid: int
    protocol_version: str

    async def call(self) -> str:
        """Make the call once and return the text of its answer.

        Raises:
            PeerError: The answer is an error.
        """
        result = await self.client.call_tool(self.front.tool, dict(self.front.arguments))
        text = str(getattr(result.content[0], "text", "")) if result.content else ""
        if result.is_error:
            raise PeerError(f"{self.front.tool} answered with an error: {text[:200]}")
        return text


@asynccontextmanager
async def connect_all(
    fronts: Sequence[Front], mode: str
) -> AsyncIterator[tuple[list[Connected], list[Failure]]]:
    """Connect to each front in turn and keep all connections open; `mode` is that of `mcp.Client`."""
    opened: list[Connected] = []
    failures: list[Failure] = []
    done = anyio.Event()
    async with anyio.create_task_group() as owners:
        for front in fronts:
            try:
                with anyio.fail_after(_OPEN_S):
                    outcome = await owners.start(_own, front, mode, done, failures)
            except TimeoutError:
                outcome = Failure(what=front.name, why=f"not connected within {_OPEN_S:g} s")
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
    mode: str,
    done: anyio.Event,
    failures: list[Failure],
    *,
    task_status: anyio.abc.TaskStatus[Connected | Failure],
) -> None:
    started = False
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        try:
            async with _client(front, mode, errors) as connected:
                task_status.started(connected)
                started = True
                await done.wait()
        except Exception as error:  # noqa: BLE001  # a peer may fail in any way; the report says how
            failure = Failure(what=front.name, why=leaf(error) + _last_words(errors))
            if started:
                failures.append(failure)
            else:
                task_status.started(failure)


@asynccontextmanager
async def _client(front: Front, mode: str, errors: IO[str]) -> AsyncIterator[Connected]:
    program, *arguments = front.command
    before = set(psutil.Process().children())
    parameters = StdioServerParameters(command=program, args=arguments)
    async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:  # type: ignore[arg-type]
        [process] = set(psutil.Process().children()) - before
        names = [tool.name for tool in (await client.list_tools()).tools]
        if front.tool not in names:
            raise PeerError(f"its tools/list has no {front.tool!r} but {names[:5]}")
        yield Connected(front=front, client=client, pid=process.pid, protocol_version=client.protocol_version)


def _last_words(errors: IO[str]) -> str:
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return f"; its last words: {lines[-1][:200]}" if lines else ""
