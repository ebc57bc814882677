"""Programs that try to get out or to use up the machine do neither, and leave all in order.

All of them go through a gateway, as an agent would send them, to tools of a real server; and those against
the language also to the engine alone, without a jail around it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import psutil
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp.server.lowlevel import Server
from tests.execution.chain.attacks import ALL, filled
from tests.gateway.rig import settings_of
from tests.support.processes import named
from tests.support.viewers import agent
from tests.support.waiting import eventually

from maitred.chains.answer import MAX_OUTPUT_SIZE
from maitred.chains.base import ChainFunction, ChainLimits, ChainModule, ChainProgram
from maitred.chains.monty import MontySandbox
from maitred.config.settings import Chain, Search
from maitred.gateway import Gateway
from maitred.wiring import open_gateway

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.processor_s(300, "attacks run to their limits"),
    pytest.mark.xdist_group("chain"),
]

TOKEN = "canary-5e1f"
SECRET = "MAITRED_TEST_CANARY"
LIMITS = ChainLimits(cpu_s=1.0, wall_s=2.0, calls=100)
SPINS_CPU_S: Mapping[str, float] = {"cpu": 0.25, "callback": 0.25}
"""Attacks that only spin are ended sooner; others get the time in which they might use up something else."""
SLACK_S = 20.0  # a machine may be busy; what does not end runs for ever
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
    fewer: anyio.Event = field(default_factory=anyio.Event)

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
            self.fewer.set()
            self.fewer = anyio.Event()

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

    async def idle(self) -> None:
        """Wait until no tool runs any more: a server hears a moment later that a call was given up."""
        with anyio.fail_after(120):
            while self.running:
                await self.fewer.wait()

    def sdk(self) -> Server[Any]:
        """The tools as a server."""

        async def list_tools(_: object, __: object) -> types.ListToolsResult:
            names = ("echo", "hang", "stuck", "fail", "flood")
            listed = [types.Tool(name=name, input_schema={"type": "object"}) for name in names]
            return types.ListToolsResult(tools=listed)

        async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            try:
                value = await self.call(params.name, params.arguments or {})
            except RuntimeError as error:
                return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
            text = value if isinstance(value, str) else json.dumps(value)
            return types.CallToolResult(content=[types.TextContent(text=text)])

        return Server("tools", on_list_tools=list_tools, on_call_tool=call_tool)


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


def complaint(host: Host, told: str, texts: str, took: float) -> str:
    """What is wrong with the end of an attack, empty if nothing is."""
    wrong = {
        f"took {took:.1f} s": took > LIMITS.wall_s + SLACK_S,
        "told a secret": TOKEN in told,
        "reached the network": host.reached > 0,
        "left files": len(list(host.file.parent.glob("canary*"))) != 1,
        "ran too many calls at once": host.most > LIMITS.in_flight,
        "gave too much": len(told) > 4 * LIMITS.call_bytes,
        "kept terminal sequences in its texts": "\x1b" in texts,
    }
    return ", ".join(what for what, is_so in wrong.items() if is_so)


def aimed(code: str, host: Host) -> str:
    return filled(code, file=str(host.file), port=host.port, secret=SECRET)


async def at_gateway(gateway: Gateway, host: Host, code: str) -> str:
    begun = time.perf_counter()
    answer = await gateway.run_chain(
        aimed(code, host), viewer=agent("ann"), timeout_ms=int(LIMITS.wall_s * 1000)
    )
    took = time.perf_counter() - begun
    told = json.dumps(answer.to_result())
    wrong = complaint(host, told, answer.text + str(answer.fault), took)
    if len(answer.text) > MAX_OUTPUT_SIZE + 5_000:
        wrong += f"; the text has {len(answer.text)} characters"
    after = await gateway.run_chain("return 6 * 7", viewer=agent("ann"))
    return wrong if after.result == 42 else f"{wrong}; the next chain failed: {after.fault}"


async def at_engine(sandbox: MontySandbox, host: Host, code: str) -> str:
    begun = time.perf_counter()
    outcome = await sandbox.run(ChainProgram(code=aimed(code, host), modules=[TOOLS]), host.call, LIMITS)
    told = f"{outcome.value!r} {outcome.fault!r} {outcome.logs!r}"
    texts = outcome.logs + (outcome.fault.message if outcome.fault else "")
    wrong = complaint(host, told, texts, time.perf_counter() - begun)
    after = await sandbox.run(ChainProgram(code="return 6 * 7"), host.call, LIMITS)
    return wrong if after.value == 42 else f"{wrong}; the next chain failed: {after.fault}"


async def all_of(kind: str, attack: Callable[[str], Awaitable[str]]) -> dict[str, str]:
    """Attacks of a class; those that did something wrong, with what.

    Two at a time, for they wait; but those by calls alone, so that the calls in flight can be counted.
    """
    wrong: dict[str, str] = {}
    left = iter(ALL[kind].items())

    async def some() -> None:
        for name, code in left:
            if told := await attack(code):
                wrong[name] = told

    async with anyio.create_task_group() as tasks:
        for _ in range(1 if kind in ("arguments", "callback") else 2):
            tasks.start_soon(some)
    return wrong


@pytest.mark.parametrize("kind", ALL)
async def test_attacks_through_the_gateway_neither_get_out_nor_use_up_the_machine(
    kind: str, host: Host, tmp_path: Path
) -> None:
    """Each ends in time, whatever it tries; the next chain runs, and no task or process is left."""
    before = asyncio.all_tasks()
    chain = Chain(cpu_s=SPINS_CPU_S.get(kind, LIMITS.cpu_s))
    settings = settings_of(tmp_path, "tools", chain=chain, search=Search(mode="lexical"))
    async with open_gateway(settings, in_process={"tools": host.sdk()}) as gateway:
        assert await gateway.settled(120)
        wrong = await all_of(kind, partial(at_gateway, gateway, host))
        await host.idle()
    assert wrong == {}
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}
    await no_process_left()


@pytest.mark.parametrize("kind", ["escape", "arguments"])
async def test_the_language_alone_keeps_a_program_in(kind: str, host: Host) -> None:
    """Where there is no bubblewrap."""
    before = asyncio.all_tasks()
    async with MontySandbox(processes=2, jail=False) as sandbox:
        wrong = await all_of(kind, partial(at_engine, sandbox, host))
        assert host.running == 0
    assert wrong == {}
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}
    await no_process_left()


async def no_process_left() -> None:
    await eventually(lambda: not workers())


def workers() -> list[psutil.Process]:
    return named({"monty", "bwrap", "worker"})


async def test_chains_whose_time_is_up_as_they_begin_leave_no_process(host: Host) -> None:
    """Bubblewrap is two processes, and who ends one of them at the wrong moment keeps the other.

    Source: issue "What broke", 9.
    """
    async with MontySandbox(processes=4) as sandbox:
        if not sandbox.jailed:
            pytest.skip(sandbox.why_not)

        async def one(number: int) -> None:
            code = "while True: pass" if number % 2 else "import time\ntime.sleep(30)"
            limits = ChainLimits(cpu_s=0.05 + number % 7 / 100, wall_s=0.03 + number % 11 / 50)
            assert (await sandbox.run(ChainProgram(code=code), host.call, limits)).fault is not None

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
    await no_process_left()


WAITING = {
    "while it computes": "await call_tool('begun')\nwhile True: pass",
    "while a call runs": "await call_tool('begun')\nawait call_tool('hang')",
    "while many calls run": "import asyncio\n"
    "await asyncio.gather(*[call_tool('hang') for i in range(20)], call_tool('begun'))",
    "while it sleeps": "import time\nawait call_tool('begun')\ntime.sleep(240)",
    "while it prints": "await call_tool('begun')\nwhile True: print('a' * 1000)",
    "while it swallows all": "await call_tool('begun')\nwhile True:\n"
    "    try: await call_tool('hang')\n    except BaseException: pass",
    "while it builds a bomb": "await call_tool('begun')\nx = [1]\nwhile True: x = [x, x]",
}


@pytest.mark.parametrize("code", WAITING.values(), ids=WAITING.keys())
async def test_a_cancelled_chain_is_gone_at_once_and_the_next_one_runs(code: str, host: Host) -> None:
    begun = anyio.Event()
    limits = ChainLimits(cpu_s=120, wall_s=240, in_flight=30)

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
                with anyio.fail_after(120):
                    await begun.wait()
                started = time.perf_counter()
                tasks.cancel_scope.cancel()
            assert time.perf_counter() - started < 60  # of the 120 s that it might compute
            assert host.running == 0
            assert asyncio.all_tasks() <= before | {asyncio.current_task()}
            after = await sandbox.run(ChainProgram(code="return 42"), call, limits)
            assert after.value == 42
    await no_process_left()
