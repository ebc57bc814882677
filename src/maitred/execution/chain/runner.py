"""Run a chain: hand its program to an engine, and carry out the calls that it makes, within bounds.

What the engine is given is one function. Behind it every call takes the gateway's ordinary path; here stand
the bounds that hold for a chain as a whole, and the receipts. Calls run in a task group of ours, not in the
tasks of the engine, so that none of them outlives the chain, however it ends. An engine may hold to the same
bounds by itself, and then tells the line; these hold whatever it does, and for chains that need no engine.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from maitred.backends.base import Progress
from maitred.backends.definitions import clean
from maitred.errors import MaitredError
from maitred.execution.chain.base import (
    ChainFault,
    ChainLimits,
    ChainOutcome,
    ChainProgram,
    ChainSandbox,
    FaultKind,
)
from maitred.execution.chain.bounds import TooBigError, bounded
from maitred.execution.chain.forms import DirectCalls
from maitred.execution.chain.plain import FailedError, is_cached, plain, reason
from maitred.execution.outline import Estimate, compact

Call = Callable[[str, Mapping[str, Any], str], Awaitable[dict[str, Any]]]
"""Calls a tool by its name with arguments, for the chain of an id: the ordinary path of a call."""

_NAME_CHARS = 200
_SHORT_ERROR_CHARS = 200  # in a receipt; there may be many
_COUNTED_CHARS = 20_000  # of a text whose tokens are estimated; a longer one is like its beginning
_NAMED = 3
_STOPPED = "stopped when the chain ended; it may have taken effect"
_OVER = "The chain is over."


@dataclass(frozen=True, kw_only=True)
class CallReceipt:
    """A call that was started, `started_ms` after the chain; the size is that of the result as JSON."""

    tool: str
    started_ms: float
    ms: float
    ok: bool
    cached: bool = False
    bytes: int = 0
    tokens: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """What an answer says of it."""
        told = {
            "tool": self.tool,
            "ms": round(self.ms),
            "cached": self.cached,
            "bytes": self.bytes,
            "ok": self.ok,
        }
        return {**told, "error": self.error[:_SHORT_ERROR_CHARS]} if self.error else told


@dataclass(frozen=True, kw_only=True)
class ChainRun:
    """What became of a chain; `calls` are in the order in which they were started.

    The outcome of a list of calls that failed has both a fault and a value: the results before it.
    """

    chain_id: str
    outcome: ChainOutcome
    calls: Sequence[CallReceipt] = ()
    ms: float = 0.0


@dataclass(kw_only=True)
class _Pending:
    """A call on its way."""

    tool: str
    arguments: Mapping[str, Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    started: float = 0.0
    receipt: CallReceipt | None = None
    value: Any = None
    error: str = _STOPPED


class ChainRunner:
    """Runs chains, any number at once. `estimate` gives the tokens of a text."""

    def __init__(
        self,
        sandbox: ChainSandbox,
        call: Call,
        *,
        limits: ChainLimits,
        estimate: Estimate,
        grace_s: float = 1.5,
        clock: Callable[[], float] = time.perf_counter,
        new_id: Callable[[], str] = lambda: secrets.token_hex(4),
    ) -> None:
        self._sandbox = sandbox
        self._call = call
        self._limits = limits
        self._estimate = estimate
        self._grace_s = grace_s
        self._clock = clock
        self._new_id = new_id

    async def run(
        self, program: ChainProgram | DirectCalls, *, timeout_s: float, progress: Progress | None = None
    ) -> ChainRun:
        """Run a program, or calls one after the other, and tell what came of it; only a bug raises.

        An engine has the time given to end by itself, and `grace_s` more to do so; then it is cancelled. When
        this returns, or is cancelled, no call of the chain runs any more.
        """
        limits = replace(self._limits, wall_s=timeout_s)
        session = _Session(self._call, limits, self._estimate, self._clock, progress, self._new_id())
        if isinstance(program, DirectCalls):
            outcome = await session.over(lambda: _one_by_one(program, session.call), timeout_s)
        elif len(program.code.encode("utf-8", "surrogatepass")) > limits.source_bytes:
            outcome = _fault("size", f"The program is longer than {limits.source_bytes:,} bytes.")
        else:
            run = partial(self._sandbox.run, program, session.call, limits)
            outcome = await session.over(run, timeout_s + self._grace_s)
        return session.told(outcome or _fault("timeout", f"The chain took longer than {timeout_s:g} s."))

    async def check(self, program: ChainProgram | DirectCalls) -> Sequence[ChainFault]:
        """Every fault that can be seen without a call; of direct calls, none."""
        return [] if isinstance(program, DirectCalls) else await self._sandbox.check(program)


class _Session:
    """One run: what it has used up of its limits, and its calls."""

    def __init__(
        self,
        call: Call,
        limits: ChainLimits,
        estimate: Estimate,
        clock: Callable[[], float],
        progress: Progress | None,
        chain_id: str,
    ) -> None:
        self._call = call
        self._limits = limits
        self._estimate = estimate
        self._clock = clock
        self._progress = progress
        self._id = chain_id
        self._turn = anyio.Semaphore(limits.in_flight)
        self._begun = clock()
        self._asked = self._bytes = 0
        self._started: list[_Pending] = []
        self._fault: ChainFault | None = None
        self._tasks: TaskGroup | None = None
        self._scope = anyio.CancelScope()

    async def over(self, run: Callable[[], Awaitable[ChainOutcome]], most_s: float) -> ChainOutcome | None:
        """Run it with this session open for calls; `None` if it was stopped. No call is left after this."""
        outcome = None
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                with anyio.move_on_after(most_s) as self._scope:
                    outcome = await run()
                self._tasks = None
                tasks.cancel_scope.cancel()
        except ExceptionGroup as bugs:
            raise bugs.exceptions[0] from bugs
        finally:
            self._tasks = None
        return outcome

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the engine calls: the result as a plain value, or a `RuntimeError` for the program to see."""
        if self._tasks is None or self._fault:
            raise RuntimeError(self._fault.message if self._fault else _OVER)
        self._asked += 1
        if self._asked > self._limits.calls:
            raise self._stop("calls", f"A chain may make {self._limits.calls:,} calls; this one wanted more.")
        pending = _Pending(tool=clean(tool)[:_NAME_CHARS], arguments=self._checked(tool, arguments))
        self._tasks.start_soon(self._carry_out, pending)
        try:
            await pending.done.wait()
        finally:
            pending.scope.cancel()
        if pending.error:
            raise RuntimeError(pending.error)
        return pending.value

    def told(self, outcome: ChainOutcome) -> ChainRun:
        """The run as it ended; what ended it here counts more than what the engine made of that."""
        fault = self._fault or outcome.fault
        left = list(dict.fromkeys(p.tool for p in self._started if p.error == _STOPPED))
        if fault and fault.kind == "timeout" and left:
            named = ", ".join([*left[:_NAMED], *(["others"] if len(left) > _NAMED else [])])
            fault = replace(fault, message=f"{fault.message} It was waiting for {named}.")
        return ChainRun(
            chain_id=self._id,
            outcome=replace(outcome, fault=fault),
            calls=[p.receipt for p in self._started if p.receipt],
            ms=self._since(self._begun),
        )

    def _checked(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return bounded(dict(arguments), self._limits)  # type: ignore[no-any-return]
        except TooBigError as error:
            what = clean(tool)[:_NAME_CHARS]
            raise RuntimeError(f"The arguments of {what} cannot be sent: {error}.") from None

    async def _carry_out(self, pending: _Pending) -> None:
        with pending.scope:
            try:
                async with self._turn:
                    await self._make(pending)
            finally:
                pending.done.set()

    async def _make(self, pending: _Pending) -> None:
        pending.started = self._clock()
        self._started.append(pending)
        try:
            if self._progress:
                number = len(self._started)
                await self._progress(number, None, f"call {number}: {pending.tool}")
            result = await self._call(pending.tool, pending.arguments, self._id)
            pending.value, pending.error = self._value(pending, result), ""
        except MaitredError as error:
            pending.error = reason(error, pending.tool)
        except FailedError as error:
            pending.error = f"{pending.tool} failed: {error}"
        except TooBigError as error:
            pending.error = f"The result of {pending.tool} cannot be given to a chain: {error}."
        finally:
            pending.receipt = pending.receipt or self._receipt(pending, error=pending.error)

    def _value(self, pending: _Pending, result: Mapping[str, Any]) -> Any:
        """What the program is given; counts it against the total, of which all that came is a part."""
        value = bounded(plain(result, self._limits.call_bytes), self._limits)
        text = compact(value)
        taken = len(text.encode())
        self._bytes += taken
        if self._bytes > self._limits.total_bytes:
            most = f"{self._limits.total_bytes:,} bytes"
            self._stop("size", f"All results of a chain together may have {most}; these have more.")
        tokens = _tokens(text, self._estimate)
        pending.receipt = self._receipt(pending, cached=is_cached(result), bytes=taken, tokens=tokens)
        return value

    def _stop(self, kind: FaultKind, message: str) -> RuntimeError:
        """End the chain, which may not go on by catching an error."""
        self._fault = self._fault or ChainFault(kind=kind, message=message)
        self._scope.cancel()
        return RuntimeError(self._fault.message)

    def _receipt(self, pending: _Pending, **known: Any) -> CallReceipt:
        return CallReceipt(
            tool=pending.tool,
            started_ms=(pending.started - self._begun) * 1_000,
            ms=self._since(pending.started),
            ok=not known.get("error"),
            **known,
        )

    def _since(self, moment: float) -> float:
        return (self._clock() - moment) * 1_000


async def _one_by_one(
    written: DirectCalls, call: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
) -> ChainOutcome:
    """Make calls without an engine; the first that fails is the last."""
    values: list[Any] = []
    for place, one in enumerate(written.calls, 1):
        try:
            values.append(await call(one.tool, one.arguments))
        except RuntimeError as error:
            which = f"Call {place} of {len(written.calls)}: " if written.many else ""
            return replace(_fault("runtime", f"{which}{error}"), value=values or None)
    return ChainOutcome(value=values if written.many else values[0])


def _fault(kind: FaultKind, message: str) -> ChainOutcome:
    return ChainOutcome(fault=ChainFault(kind=kind, message=message))


def _tokens(text: str, estimate: Estimate) -> int:
    """About the tokens of a text; of a long one, by its beginning."""
    counted = text[:_COUNTED_CHARS]
    return round(estimate(counted) * len(text) / max(len(counted), 1))
