"""Drives one program through the engine: answers its requests, and owns its calls.

The engine stops whenever the program wants something from outside, and waits for the answer. A call
starts when the program awaits it, in a task group that ends with the run. A call that is never awaited is
never made, as in Python.
This module bounds what the program sends; `call_tool` bounds what the program gets.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncMontySession,
    AsyncNameLookupSnapshot,
    ExternalModule,
    ExternalSettledResult,
    MontyComplete,
    MontyError,
    SourceRange,
)

from maitred.background import Background
from maitred.chains.base import (
    CallTool,
    ChainFault,
    ChainFunction,
    ChainLimits,
    ChainOutcome,
    ChainProgram,
    FaultKind,
    OverError,
)
from maitred.chains.faults import fault_of, tidy
from maitred.chains.stubs import stub_text
from maitred.chains.values import NotPlainError, TooBigError, UnawaitedError, crossing, replace_surrogates

CALL_TOOL = "call_tool"
_Snapshot = AsyncFunctionSnapshot | AsyncNameLookupSnapshot | AsyncFutureSnapshot | MontyComplete
_SLEEP, _ASYNC_SLEEP = "system.sleep", "system.async_sleep"
_SERVED = frozenset({"import", "import_stubs"})
_UNAWAITED = ("<coroutine external_future(", "<coroutine object ", "<gather(")
_FORGOTTEN = "The value is or holds a call that was not awaited. Write `await` before it."
_USAGE = 'write `await call_tool("server__tool", {"name": value})`'
_NAMES_TOLD = 20
_NAME_CHARS = 300


@dataclass(frozen=True, kw_only=True)
class _ToolRequest:
    """A call that the program has made and that is not yet started."""

    tool: str
    arguments: Mapping[str, Any]
    at: SourceRange | None


class _EndError(Exception):
    """The run has ended; the program cannot catch it."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        self.kind = kind
        self.message = message
        super().__init__(message)


def modules_of(program: ChainProgram, *, stubs: bool = False) -> dict[str, ExternalModule]:
    """The modules of a program in the engine's form; with their types for a check."""
    made = {}
    for module in program.modules:
        text = stub_text(module) if stubs else None
        made[module.name] = ExternalModule({f.name: placeholder for f in module.functions}, stubs=text)
    return made


async def placeholder(*_args: object, **_more: object) -> None:
    """A placeholder for a gateway function; the engine sends calls of it to the driver instead."""


class Drive:
    """One run of one program, in its own session; `write` receives its output."""

    def __init__(
        self,
        program: ChainProgram,
        call_tool: CallTool,
        limits: ChainLimits,
        write: Callable[[str, str], None],
    ) -> None:
        self._program = program
        self._code = replace_surrogates(program.code)
        self._call_tool = call_tool
        self._limits = limits
        self._write = write
        self._functions = {f"{m.name}.{f.name}": f for m in program.modules for f in m.functions}
        self._turn = anyio.CapacityLimiter(limits.in_flight)
        self._requests: dict[int, _ToolRequest | float] = {}
        self._running: set[int] = set()
        self._results: dict[int, ExternalSettledResult] = {}
        self._change = anyio.Event()
        self._bug: Exception | None = None
        self._over: ChainFault | None = None
        self._calls = 0
        self._at: SourceRange | None = None
        self.computed_s = 0.0
        """Seconds in which the engine was computing."""

    async def run(self, session: AsyncMontySession) -> ChainOutcome:
        """Run to the end. No call is in flight when this returns or is cancelled.

        Raises a bug of the gateway after all calls have ended.
        """
        outcome = self._failure("cancelled", "A call of the chain was cancelled.")
        try:
            async with Background() as calls:
                outcome = await self._to_the_end(session, calls)
        finally:
            self._requests.clear()
        if self._bug:
            raise self._bug
        return outcome

    @property
    def place(self) -> tuple[int, int]:
        """Where the program last made a request: line and column from 1; 0, 0 if it has not."""
        if self._at is None or not self._at.filename.startswith("<python-input"):
            return 0, 0
        before = self._code.encode()[: self._at.start].decode("utf-8", "ignore")
        return before.count("\n") + 1, len(before) - before.rfind("\n")

    async def _to_the_end(self, session: AsyncMontySession, calls: Background) -> ChainOutcome:
        try:
            inputs = await self._inputs()
            start = session.feed_start(
                self._code,
                inputs=inputs,
                external_lookup={CALL_TOOL: placeholder},
                print_callback=self._write,
            )
            snapshot: _Snapshot = await self._step(start)
            while not isinstance(snapshot, MontyComplete):
                self._at = snapshot.position
                snapshot = await self._answer(snapshot, calls)
            self._none_forgotten()
            value, size = await self._value(snapshot.output)
            return ChainOutcome(value=value, bytes=size)
        except MontyError as error:
            return ChainOutcome(fault=fault_of(error, self._limits, self._program))
        except UnawaitedError:
            return self._failure("runtime", _FORGOTTEN)
        except TooBigError as error:
            kind: FaultKind = "type" if isinstance(error, NotPlainError) else "size"
            return self._failure(kind, f"The value of the chain cannot be given back: {error}.")
        except _EndError as end:
            return self._failure(end.kind, end.message)

    def _failure(self, kind: FaultKind, message: str) -> ChainOutcome:
        line, column = self.place
        return ChainOutcome(fault=ChainFault(kind=kind, message=message, line=line, column=column))

    def _none_forgotten(self) -> None:
        """Fail if a call was not awaited and so never made, which its author did not intend."""
        asked = next((one for one in self._requests.values() if isinstance(one, _ToolRequest)), None)
        if asked:
            self._at = asked.at
            raise _EndError("runtime", f"{tidy(asked.tool, 100)} was not called: write `await` before it.")

    async def _inputs(self) -> dict[str, Any]:
        try:
            return {name: await self._plain(value) for name, value in self._program.inputs.items()}
        except TooBigError as error:
            raise _EndError("size", f"The arguments of the chain cannot be given to it: {error}.") from None

    async def _value(self, output: Any) -> tuple[Any, int]:
        self._at = None
        return await crossing(output, self._limits, refused=_UNAWAITED)

    async def _plain(self, value: Any) -> Any:
        return (await crossing(value, self._limits))[0]

    async def _step(self, turn: Awaitable[_Snapshot]) -> _Snapshot:
        """Let the engine continue until it stops again."""
        begun = time.perf_counter()
        try:
            return await turn
        finally:
            self.computed_s += time.perf_counter() - begun

    async def _answer(self, snapshot: _Snapshot, calls: Background) -> _Snapshot:
        if isinstance(snapshot, AsyncFutureSnapshot):
            return await self._step(snapshot.resume(await self._wait(snapshot.pending_call_ids, calls)))
        if isinstance(snapshot, AsyncNameLookupSnapshot):
            return await self._step(snapshot.resume_auto())
        if isinstance(snapshot, AsyncFunctionSnapshot):
            of = self._of_system if snapshot.is_os_function else self._of_program
            return await of(snapshot)
        return snapshot

    async def _of_program(self, snapshot: AsyncFunctionSnapshot) -> _Snapshot:
        """Note a call; its result comes when the program awaits it. The program can catch a refusal."""
        try:
            self._requests[snapshot.call_id] = await self._ask(snapshot)
        except (TypeError, NameError) as error:
            return await self._step(snapshot.resume({"exception": type(error)(tidy(str(error)))}))
        return await self._step(snapshot.resume({"future": ...}))

    async def _of_system(self, snapshot: AsyncFunctionSnapshot) -> _Snapshot:
        """Serve modules and sleep, and refuse all else. The engine counts sleep against its limit."""
        if snapshot.function_name in _SERVED:
            return await self._step(snapshot.resume_auto())
        if snapshot.function_name == _SLEEP:
            await anyio.sleep(self._seconds(snapshot.args))
            return await self._step(snapshot.resume({"return_value": None}))
        if snapshot.function_name == _ASYNC_SLEEP:
            self._requests[snapshot.call_id] = self._seconds(snapshot.args)
            return await self._step(snapshot.resume({"future": ...}))
        return await self._step(snapshot.resume_not_handled())

    def _seconds(self, args: Sequence[Any]) -> float:
        asked = args[0] if args else 0
        known = isinstance(asked, int | float) and math.isfinite(asked)
        return min(max(float(asked), 0.0), self._limits.wall_s) if known else 0.0

    async def _ask(self, snapshot: AsyncFunctionSnapshot) -> _ToolRequest:
        name = snapshot.function_name
        function = self._functions.get(name)
        if snapshot.object_id is not None or (function is None and name != CALL_TOOL):
            raise NameError(f"name {name[:100]!r} is not defined")
        self._calls += 1
        if self._calls > self._limits.calls:
            raise _EndError("calls", f"A chain may make {self._limits.calls:,} calls; this one wanted more.")
        args, more = snapshot.args, snapshot.kwargs
        tool, arguments = _mapped(function, args, more) if function else _call_tool_arguments(args, more)
        try:
            return _ToolRequest(tool=tool, arguments=await self._plain(arguments), at=self._at)
        except NotPlainError as error:
            raise TypeError(f"the arguments of {tidy(tool, 100)} cannot be sent: {error}") from None
        except TooBigError as error:
            raise _EndError("size", f"The arguments of {tidy(tool, 100)} cannot be sent: {error}.") from None

    async def _wait(self, ids: Sequence[int], calls: Background) -> dict[int, ExternalSettledResult]:
        """Start the calls that the program awaits, and return the results as soon as there are any."""
        for call in sorted(ids):  # in the order in which they were made
            if call not in self._running:
                self._running.add(call)
                calls.start(self._carry_out, call, self._requests.pop(call))
        while not self._bug and not self._over:
            ready = {call: self._results.pop(call) for call in ids if call in self._results}
            if ready:
                return ready
            self._change = anyio.Event()
            await self._change.wait()
        if self._over:
            raise _EndError(self._over.kind, self._over.message)
        raise _EndError("crashed", "A call failed for a fault of the gateway.")

    async def _carry_out(self, call: int, asked: _ToolRequest | float) -> None:
        lost: ExternalSettledResult = {"exc_type": "RuntimeError", "message": "The call was cancelled."}
        outcome = lost
        try:
            if isinstance(asked, float):
                await anyio.sleep(asked)
                outcome = {"return_value": None}
            else:
                async with self._turn:
                    outcome = await self._result(asked)
        except OverError as over:
            self._over = over.fault
        except Exception as bug:  # noqa: BLE001 - it is raised where the run ends, once all calls have ended
            self._bug = bug
        finally:
            self._results[call] = outcome
            self._change.set()

    async def _result(self, asked: _ToolRequest) -> ExternalSettledResult:
        try:
            return {"return_value": await self._call_tool(asked.tool, asked.arguments)}
        except OverError:
            raise
        except RuntimeError as error:
            return {"exc_type": "RuntimeError", "message": tidy(str(error))}


def _mapped(
    function: ChainFunction, args: Sequence[Any], more: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The arguments of a module's function under the tool's names."""
    known = dict(function.parameters)
    takes = ", ".join([*known][:_NAMES_TOLD]) or "no arguments"
    if len(args) > len(known):
        raise TypeError(f"{function.name}() was given {len(args)} positional arguments; it takes {takes}")
    given = dict(zip(known.values(), args, strict=False))
    for name, value in more.items():
        if name not in known and not function.more:
            raise TypeError(f"{function.name}() has no argument {name[:100]!r}; it takes {takes}")
        meant = known.get(name, name)
        if meant in given:
            raise TypeError(f"{function.name}() was given {name[:100]!r} twice")
        given[meant] = value
    return function.tool, given


def _call_tool_arguments(args: Sequence[Any], more: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a `call_tool`."""
    given = {**dict(zip(("name", "arguments"), args, strict=False)), **more}
    if len(args) + len(more) != len(given) or not given.keys() <= {"name", "arguments"}:
        raise TypeError(f"call_tool() takes a name and a dict of arguments: {_USAGE}")
    name, arguments = given.get("name"), given.get("arguments")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARS:
        raise TypeError(f"call_tool() needs the name of a tool: {_USAGE}")
    if arguments is not None and not isinstance(arguments, dict):
        raise TypeError(f"call_tool() needs a dict of arguments, not {type(arguments).__name__}: {_USAGE}")
    return name, arguments or {}
