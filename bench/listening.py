"""Programs that listen on a port of loopback: one of their own choice, which they print, or a given one."""

import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from bench.stage import ROOT
from bench.values import PeerError

START_S: Final = 60.0
_HOST: Final = "127.0.0.1"
_POLL_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Program:
    """One that runs, by its port on loopback."""

    port: int
    pid: int


def free_port() -> int:
    """A port on which no program listens now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def listening(command: Sequence[str], port: int = 0) -> AsyncIterator[Program]:
    """Run a program until it listens on the port, 0 for the one that it prints, and end it afterwards."""
    async with await anyio.open_process(command, cwd=ROOT, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(START_S):
                port = port or await _printed_port(process.stdout, command)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_drain, process.stdout)
                    await _reach(port, process, command)
                    tasks.cancel_scope.cancel()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, process.stdout)
                yield Program(port=port, pid=process.pid)
                tasks.cancel_scope.cancel()
        finally:
            process.terminate()


async def _printed_port(stream: anyio.abc.ByteReceiveStream, command: Sequence[str]) -> int:
    said = ""
    try:
        while f"http://{_HOST}:" not in said or not said.endswith("\n"):
            said += (await stream.receive()).decode()
    except anyio.EndOfStream:
        raise PeerError(f"{command[:3]} ended: {said[-300:]}") from None
    return int(said.rpartition(f"http://{_HOST}:")[2].split("/")[0].split()[0])


async def _reach(port: int, process: anyio.abc.Process, command: Sequence[str]) -> None:
    """Wait until a program takes connections."""
    while True:
        try:
            await (await anyio.connect_tcp(_HOST, port)).aclose()
        except OSError:
            if process.returncode is not None:
                raise PeerError(f"{command[:3]} ended with {process.returncode}") from None
            await anyio.sleep(_POLL_S)
        else:
            return


async def _drain(stream: anyio.abc.ByteReceiveStream) -> None:
    """Read what else it says, so that it never has to wait to be read."""
    async for _ in stream:
        pass
