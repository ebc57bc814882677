"""A program that runs gateways and kills each in the middle of calls that change something.

`python recorder.py FOLDER SEED KILLS`: every gateway is a forked child of this process, in which a first one
ran to its end, so that all is loaded once. The server writes down each call in `seen`, the caller each answer
in `answered`. A child is killed after a random number of calls, whatever it is doing then.
"""

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server

from maitred.config.settings import Audit, Catalog, Disclosure, Settings
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

CALLERS = 4
MOST_CALLS = 60


class Marks:
    """A file to which names are appended, each at once and whole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, name: str) -> None:
        os.write(self._file, f"{name}\n".encode())


async def serve(folder: Path, run: int, pulse: int, calls: int = 1_000_000) -> None:
    """Call the writing tool again and again; each call gives a byte to the pipe."""
    seen, answered = Marks(folder / "seen"), Marks(folder / "answered")

    async def list_tools(_: Any, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="write", input_schema={"type": "object"})])

    async def write(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        seen.add((params.arguments or {})["n"])
        os.write(pulse, b".")
        return types.CallToolResult(content=[])

    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory")},
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="menu"),
        audit=Audit(arguments="full"),
    )
    server = Server("s", on_list_tools=list_tools, on_call_tool=write)
    async with open_gateway(settings, in_process={"s": server}) as gateway:
        await gateway.settled(120)

        async def call(caller: int) -> None:
            for number in range(calls):
                name = f"{run}-{caller}-{number}"
                await gateway.call(ToolCall(name="s__write", arguments={"n": name}), viewer=LOCAL_USER)
                answered.add(name)

        async with anyio.create_task_group() as tasks:
            for caller in range(CALLERS):
                tasks.start_soon(call, caller)


def main(folder: Path, seed: int, kills: int) -> None:
    """Run and kill so many gateways."""
    chance = random.Random(seed)
    anyio.run(serve, folder, 0, os.open(os.devnull, os.O_WRONLY), 1)
    for run in range(1, kills + 1):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            anyio.run(serve, folder, run, writing)
            os._exit(1)  # it ends by being killed alone
        os.close(writing)
        left = chance.randint(1, MOST_CALLS)
        while left > 0 and (come := os.read(reading, left)):
            left -= len(come)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
