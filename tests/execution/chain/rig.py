"""What the tests of a run share: an engine and tools that stand at our own seams."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from maitred.chains.account import Account, ChainRun
from maitred.chains.base import CallTool, ChainFault, ChainLimits, ChainOutcome, ChainProgram
from maitred.chains.forms import DirectCalls
from maitred.chains.runner import ChainRunner, ChainTarget
from maitred.disclosure.budget import estimate
from maitred.errors import MaitredError

PROGRAM = ChainProgram(code="…")
Body = Callable[[CallTool], Awaitable[Any]]


def text(*parts: str, **rest: Any) -> dict[str, Any]:
    """A result of texts."""
    return {"content": [{"type": "text", "text": part} for part in parts], **rest}


class Engine:
    """Stands at the seam of the engine: runs a function of the test as if it were the program."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.limits = ChainLimits()

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        self.limits = limits
        try:
            return ChainOutcome(value=await self._body(call_tool))
        except RuntimeError as error:
            return ChainOutcome(fault=ChainFault(kind="runtime", message=str(error), line=1))

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        return [ChainFault(kind="type", message="seen before", line=1)]


class Tools:
    """Stands where the gateway is: answers with what it was given for a tool, or echoes the arguments."""

    def __init__(self, **answers: dict[str, Any] | MaitredError) -> None:
        self._answers = answers
        self.calls: list[tuple[str, Mapping[str, Any], str]] = []
        self.running = self.most = self.ended = 0
        self.begun = anyio.Event()
        self.hold: anyio.Event | None = None

    async def find(self, tool: str) -> ChainTarget:
        """Every name is a tool."""
        return ChainTarget(name=tool, call=partial(self.call, tool))

    async def call(self, tool: str, arguments: Mapping[str, Any], account: Account) -> dict[str, Any]:
        self.calls.append((tool, arguments, account.id))
        self.running += 1
        self.most = max(self.most, self.running)
        self.begun.set()
        try:
            if self.hold:
                await self.hold.wait()
            await anyio.lowlevel.checkpoint()
        finally:
            self.running -= 1
            self.ended += 1
        answer = self._answers.get(tool, {"content": [], "structuredContent": dict(arguments)})
        if isinstance(answer, MaitredError):
            raise answer
        return answer


async def run(
    body: Body | DirectCalls, tools: Tools, *, timeout_s: float = 5, progress: Any = None, **limits: Any
) -> ChainRun:
    """A chain as it went; the test fails if it does not end."""
    engine = Engine(idle if isinstance(body, DirectCalls) else body)
    runner = ChainRunner(
        engine, tools.find, limits=ChainLimits(**limits), estimate=estimate, grace_s=0, new_id=lambda: "c1"
    )
    with anyio.fail_after(120):
        return await runner.run(
            body if isinstance(body, DirectCalls) else PROGRAM, timeout_s=timeout_s, progress=progress
        )


async def idle(call: CallTool) -> None:
    """A program that does nothing."""
