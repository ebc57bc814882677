"""Programs that listen on a port of their own choice and say which."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from bench.stage import ROOT
from bench.values import PeerError

START_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """One that runs, by its port on loopback."""

    port: int
    pid: int


@asynccontextmanager
async def listening(command: list[str]) -> AsyncIterator[Program]:
    """Run a program until it has said where it listens, and end it afterwards."""
    async with await anyio.open_process(command, cwd=ROOT, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            said = ""
            with anyio.fail_after(START_S):
                while "http://127.0.0.1:" not in said or not said.endswith("\n"):
                    said += (await process.stdout.receive()).decode()
            port = said.rpartition("http://127.0.0.1:")[2].split("/")[0]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, process.stdout)
                yield Program(port=int(port), pid=process.pid)
                tasks.cancel_scope.cancel()
        except anyio.EndOfStream:
            raise PeerError(f"{command[:3]} ended: {said[-300:]}") from None
        finally:
            process.terminate()


async def _drain(stream: anyio.abc.ByteReceiveStream) -> None:
    """Read what else it says, so that it never has to wait to be read."""
    async for _ in stream:
        pass
