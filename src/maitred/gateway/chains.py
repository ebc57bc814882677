"""Chains as the gateway runs them: a program, or calls written down, behind one answer.

Every call inside takes the way of a call from outside, with the same checks, counts and limits. The engine
is made with the first program and ends with the gateway; calls that are only written down need none.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio

from maitred.backends.base import Progress
from maitred.config.settings import SAVED
from maitred.disclosure.budget import estimate
from maitred.disclosure.guide import GUIDE_TOKENS, chain_guide
from maitred.errors import ArgumentsError, MaitredError, ToolWithheldError
from maitred.execution.chain.answer import MAX_OUTPUT_SIZE, ChainAnswer, answer, checked
from maitred.execution.chain.base import (
    CagedSandbox,
    ChainFault,
    ChainLimits,
    ChainOutcome,
    ChainProgram,
    FaultKind,
)
from maitred.execution.chain.forms import DirectCalls, read_form
from maitred.execution.chain.runner import ChainRunner
from maitred.execution.chain.saved import SavedChain
from maitred.execution.chain.stubs import ModuleIndex
from maitred.execution.results import ResultStore
from maitred.gateway.calls import Calls
from maitred.gateway.context import Context
from maitred.gateway.menu import Menu
from maitred.gateway.saved import read_saved
from maitred.model.tools import Tool, ToolCall

DEFAULT_MS: Final = 30_000
LONGEST_MS: Final = 60_000


class Chains:
    """Runs chains for a gateway. Enter it before use; leaving it ends the engine, if there is one."""

    def __init__(
        self,
        context: Context,
        menu: Menu,
        calls: Calls,
        *,
        results: ResultStore,
        open_sandbox: Callable[[], CagedSandbox],
    ) -> None:
        self._context = context
        self._menu = menu
        self._calls = calls
        self._results = results
        self._engine = _Lazy(open_sandbox)
        self._inner = _Lazy(
            open_sandbox
        )  # for saved chains: a chain may wait for one, and must not starve it

    async def aclose(self) -> None:
        """End the engine."""
        await self._inner.aclose()
        await self._engine.aclose()

    async def cage(self) -> str:
        """Why chains run outside of bubblewrap; empty if they run inside. Makes the engine."""
        return await self._engine.why_not()

    def modules(self) -> ModuleIndex:
        """The modules that a program may import, one for each server whose tools may be shown."""
        snapshot = self._context.snapshot
        return self._menu.kept("modules", lambda: ModuleIndex(snapshot, self._context.visible_tools()))

    def path(self, tool: Tool) -> str:
        """How a program names a tool: `module.function`."""
        return self.modules().path(tool)

    def guide(self) -> str:
        """How to write a chain, for agents, with the modules that there are now."""
        settings = self._context.settings.chain
        return chain_guide(
            self.modules().servers,
            calls=settings.max_calls,
            in_flight=settings.max_in_flight,
            cpu_s=settings.cpu_s,
            budget_tokens=self._context.budget(GUIDE_TOKENS),
        )

    async def run(
        self,
        code: str,
        *,
        principal: str,
        timeout_ms: int = DEFAULT_MS,
        max_output_size: int = MAX_OUTPUT_SIZE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ChainAnswer:
        """Run a program, or calls in a short form; with `dry_run` say what is wrong, and call nothing.

        Only a bug of ours raises: whatever is wrong with a chain, the answer says it.
        """
        modules = self.modules().used(code)
        form = read_form(code, modules)
        tell = partial(checked, code=code, estimate=estimate, max_output_size=max_output_size)
        if isinstance(form, ChainFault):
            return tell([form])
        program = form or ChainProgram(code=code, modules=modules)
        runner = self._runner(principal)
        if dry_run:
            faults = self._faults(form) if form else await runner.check(program)
            return tell(faults)
        wait_s = min(max(timeout_ms, 1), LONGEST_MS) / 1_000
        run = await runner.run(program, timeout_s=wait_s, progress=progress)
        return answer(
            run,
            code,
            keep=lambda whole: self._results.keep(principal, whole),
            estimate=estimate,
            max_output_size=max_output_size,
        )

    async def run_saved(
        self, name: str, call: ToolCall, *, principal: str, progress: Progress | None
    ) -> dict[str, Any]:
        """Run a saved chain; the result is that of a tool. One that only reads may only call what does.

        Raises:
            ToolWithheldError: It is not what was reviewed.
            ArgumentsError: The arguments do not fit its parameters.
        """
        spec = self._context.spec(SAVED)
        async with self._context.pool.connection(SAVED):  # so that the list is looked at again
            try:
                chain = await anyio.to_thread.run_sync(read_saved, spec, name)
            except ToolWithheldError:
                self._context.keeper.tools_changed(SAVED)
                raise
            program = chain.program(call.arguments, self.modules().used(chain.code))
            wait_s = min(spec.timeouts.call_s, LONGEST_MS / 1_000)
            runner = self._runner(principal, saved=chain)
            run = await runner.run(program, timeout_s=wait_s, progress=progress)
        made = answer(
            run, chain.code, keep=lambda whole: self._results.keep(principal, whole), estimate=estimate
        )
        return made.to_result()

    def _runner(self, principal: str, saved: SavedChain | None = None) -> ChainRunner:
        settings = self._context.settings.chain
        limits = ChainLimits(
            cpu_s=settings.cpu_s,
            memory_bytes=settings.memory_bytes,
            calls=settings.max_calls,
            in_flight=settings.max_in_flight,
        )

        async def call(name: str, arguments: Mapping[str, Any], _chain: str) -> dict[str, Any]:
            found = ToolCall(name=self._named(name), arguments=arguments)
            reads = saved is not None and saved.read_only
            in_saved = saved is not None
            return await self._calls.call(found, principal=principal, read_only=reads, in_saved=in_saved)

        return ChainRunner(self._inner if saved else self._engine, call, limits=limits, estimate=estimate)

    def _named(self, name: str) -> str:
        """The published name of a tool that may be written as `server.tool`."""
        server, dot, function = name.partition(".")
        index = self.modules()
        if dot and name not in self._context.snapshot.by_name and server in index.servers:
            for one in index.module(server).functions:
                if one.name == function:
                    return one.tool
        return name

    def _faults(self, form: DirectCalls) -> Sequence[ChainFault]:
        """What is wrong with calls that are written down: names, and arguments by the tools' schemas."""
        faults = []
        for call in form.calls:
            try:
                tool = self._menu.find(self._named(call.tool))
                self._calls.check(tool, call.arguments)
            except MaitredError as error:
                kind: FaultKind = "type" if isinstance(error, ArgumentsError) else "runtime"
                faults.append(ChainFault(kind=kind, message=str(error)))
        return faults


class _Lazy:
    """An engine that is made when it is first needed."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._stack = AsyncExitStack()
        self._opened: CagedSandbox | None = None
        self._lock = anyio.Lock()

    async def _open(self) -> CagedSandbox:
        async with self._lock:
            if self._opened is None:
                made = await anyio.to_thread.run_sync(self._make)
                opened: CagedSandbox = await self._stack.enter_async_context(made)
                self._opened = opened
            return self._opened

    async def run(self, program: ChainProgram, call_tool: Any, limits: ChainLimits) -> ChainOutcome:
        return await (await self._open()).run(program, call_tool, limits)

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        return await (await self._open()).check(program)

    async def why_not(self) -> str:
        engine = await self._open()
        return "" if engine.jailed else engine.why_not

    async def aclose(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def closing(chains: Chains) -> AsyncIterator[Chains]:
    """End the engine of chains when the context is left."""
    try:
        yield chains
    finally:
        with anyio.CancelScope(shield=True):
            await chains.aclose()
