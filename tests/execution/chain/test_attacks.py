"""Programs that try to get out or to use up the machine do neither, and leave the engine in order."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tests.execution.chain.attacks import ALL, filled

from maitred.execution.chain.base import (
    ChainFunction,
    ChainLimits,
    ChainModule,
    ChainOutcome,
    ChainProgram,
)
from maitred.execution.chain.monty import MontySandbox

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(170), pytest.mark.xdist_group("chain")]

TOKEN = "canary-5e1f"
SECRET = "MAITRED_TEST_CANARY"
LIMITS = ChainLimits(cpu_s=1.0, wall_s=2.0, calls=100)
SLACK_S = 1.0
TOOLS = ChainModule(
    name="tools",
    server="tools",
    functions=[ChainFunction(name="echo", tool="echo", parameters=[("x", "x")])],
)


@dataclass
class Host:
    """What must not be reached, and the tools that a program is given."""

    file: Path
    port: int = 0
    reached: int = 0
    running: int = 0
    most: int = 0
    asked: list[str] = field(default_factory=list)

    async def serve(self, stream: SocketStream) -> None:
        self.reached += 1
        await stream.aclose()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self._answer(tool, arguments)
        finally:
            self.running -= 1

    async def _answer(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        if tool == "hang":
            await anyio.sleep_forever()
        if tool == "stuck":
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
        if tool == "fail":
            raise RuntimeError("it \x1b[31mfailed")
        return "a" * 2_000_000 if tool == "flood" else dict(arguments)


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(SECRET, TOKEN)
    file = tmp_path / "canary"
    file.write_text(TOKEN)
    yield file
    assert file.read_text() == TOKEN
    assert list(tmp_path.glob("canary*")) == [file]


@pytest.fixture
async def host(canary: Path) -> AsyncIterator[Host]:
    host = Host(file=canary)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    host.port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, host.serve)
        await anyio.lowlevel.checkpoint()
        yield host
        tasks.cancel_scope.cancel()


def complaint(outcome: ChainOutcome, host: Host, took: float) -> str:
    """What is wrong with the end of an attack, empty if nothing is."""
    told = f"{outcome.value!r} {outcome.fault!r} {outcome.logs!r}"
    wrong = {
        f"took {took:.1f} s": took > LIMITS.wall_s + SLACK_S,
        "told a secret": TOKEN in told,
        "reached the network": host.reached > 0,
        "left files": len(list(host.file.parent.glob("canary*"))) != 1,
        "ran too many calls at once": host.most > 2 * LIMITS.in_flight,
        "gave too much": len(told) > 4 * LIMITS.call_bytes,
        "kept terminal sequences in its texts": "\x1b" in outcome.logs + (outcome.fault or NO_FAULT).message,
    }
    return ", ".join(what for what, is_so in wrong.items() if is_so)


NO_FAULT = type("NoFault", (), {"message": ""})()


async def attack(sandbox: MontySandbox, host: Host, code: str) -> str:
    program = ChainProgram(
        code=filled(code, file=str(host.file), port=host.port, secret=SECRET), modules=[TOOLS]
    )
    begun = time.perf_counter()
    outcome = await sandbox.run(program, host.call, LIMITS)
    wrong = complaint(outcome, host, time.perf_counter() - begun)
    after = await sandbox.run(ChainProgram(code="return 6 * 7"), host.call, LIMITS)
    return wrong if after.value == 42 else f"{wrong}; the next chain failed: {after.fault}"


@pytest.mark.parametrize(
    ("kind", "jail"),
    [*((kind, True) for kind in ALL), ("escape", False), ("arguments", False)],
    ids=[*ALL, "escape without a jail", "arguments without a jail"],
)
async def test_attacks_neither_get_out_nor_use_up_the_machine(kind: str, jail: bool, host: Host) -> None:
    before = asyncio.all_tasks()
    wrong: dict[str, str] = {}
    left = iter(ALL[kind].items())

    async def some(sandbox: MontySandbox) -> None:
        for name, code in left:
            if told := await attack(sandbox, host, code):
                wrong[name] = told

    async with MontySandbox(processes=2, jail=jail) as sandbox:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(some, sandbox)
            tasks.start_soon(some, sandbox)
        assert host.running == 0
        assert asyncio.all_tasks() <= before | {asyncio.current_task()}
    assert wrong == {}
    await no_process_left()


async def no_process_left() -> None:
    with anyio.fail_after(5):
        while workers():
            await anyio.lowlevel.checkpoint()


def workers() -> list[psutil.Process]:
    names = {"monty", "bwrap", "worker"}
    return [p for p in psutil.Process(os.getpid()).children(recursive=True) if p.name() in names]


WAITING = {
    "while it computes": "await call_tool('begun')\nwhile True: pass",
    "while a call runs": "await call_tool('begun')\nawait call_tool('hang')",
    "while many calls run": "import asyncio\n"
    "await asyncio.gather(*[call_tool('hang') for i in range(20)], call_tool('begun'))",
    "while it sleeps": "import time\nawait call_tool('begun')\ntime.sleep(30)",
    "while it prints": "await call_tool('begun')\nwhile True: print('a' * 1000)",
    "while it swallows all": "await call_tool('begun')\nwhile True:\n"
    "    try: await call_tool('hang')\n    except BaseException: pass",
    "while it builds a bomb": "await call_tool('begun')\nx = [1]\nwhile True: x = [x, x]",
}


@pytest.mark.parametrize("code", WAITING.values(), ids=WAITING.keys())
async def test_a_cancelled_chain_is_gone_at_once_and_the_next_one_runs(code: str, host: Host) -> None:
    begun = anyio.Event()
    limits = ChainLimits(cpu_s=30, wall_s=60, in_flight=30)

    async def call(tool: str, arguments: Mapping[str, Any]) -> Any:
        if tool == "begun":
            begun.set()
            return None
        return await host.call(tool, arguments)

    before = asyncio.all_tasks()
    async with MontySandbox() as sandbox:
        for _ in range(3):
            begun = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sandbox.run, ChainProgram(code=code), call, limits)
                with anyio.fail_after(10):
                    await begun.wait()
                started = time.perf_counter()
                tasks.cancel_scope.cancel()
            assert time.perf_counter() - started < 2
            assert host.running == 0
            assert asyncio.all_tasks() <= before | {asyncio.current_task()}
            after = await sandbox.run(ChainProgram(code="return 42"), call, limits)
            assert after.value == 42
    await no_process_left()
