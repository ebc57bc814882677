"""Run a chain: pass its program to an engine, and make the calls that it requests, within bounds.

The engine gets one function. Behind it every call takes the gateway's ordinary path. This module adds the
bounds of the chain as a whole, and the receipts.
Calls run in a task group of the runner, not in the engine's tasks. So no call outlives the chain, however
it ends. An engine may enforce the same bounds, and then reports the line. These bounds hold with any
engine, and without one.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from maitred.backends.base import Progress
from maitred.backends.listing import clean
from maitred.background import Background
from maitred.calls.outline import Estimate, compact
from maitred.calls.results import only_text
from maitred.chains.account import STOPPED, Account, CallReceipt, ChainRun, Pending
from maitred.chains.base import (
    ChainFault,
    ChainLimits,
    ChainOutcome,
    ChainProgram,
    ChainSandbox,
    FaultKind,
    OverError,
)
from maitred.chains.forms import DirectCalls
from maitred.chains.pauses import Pauses
from maitred.chains.plain import FailedError, is_cached, plain, reason
from maitred.chains.values import TooBigError, crossing
from maitred.errors import (
    ArgumentsError,
    CallNotApprovedError,
    MaitredError,
    NotFoundError,
    ToolWithheldError,
)


@dataclass(frozen=True, kw_only=True)
class ChainTarget:
    """A tool that a chain calls, under its full name.

    `call` makes a call for a chain by the ordinary path. `nested` is true for a saved chain: it takes no
    place among the calls in flight, since its own calls do. `parameters` describes the parameters, for
    the error of a failed call.
    """

    name: str
    call: Callable[[Mapping[str, Any], Account], Awaitable[dict[str, Any]]]
    nested: bool = False
    parameters: Callable[[], str] = lambda: ""


Find = Callable[[str], Awaitable[ChainTarget]]
"""Finds a tool by its name in a program, or raises a `MaitredError`."""

_NOT_MADE = (ArgumentsError, CallNotApprovedError, NotFoundError, ToolWithheldError)
_NAME_CHARS = 200
_COUNTED_CHARS = 20_000  # tokens of a longer text are extrapolated from its beginning
_NAMED = 3
_OVER = "The chain is over."


class ChainRunner:
    """Runs chains, any number at once.

    Args:
        sandbox: Runs the programs.
        find: Finds the tool of a call.
        limits: The limits of a chain.
        estimate: Returns the number of tokens of a text.
        grace_s: How many seconds an engine may take to end by itself after its time.
        clock: Returns seconds.
        new_id: Makes the identifier of a chain.
    """

    def __init__(
        self,
        sandbox: ChainSandbox,
        find: Find,
        *,
        limits: ChainLimits,
        estimate: Estimate,
        grace_s: float = 1.0,
        clock: Callable[[], float] = time.perf_counter,
        new_id: Callable[[], str] = lambda: secrets.token_hex(4),
    ) -> None:
        self._sandbox = sandbox
        self.find = find
        self._limits = limits
        self.estimate = estimate
        self._grace_s = grace_s
        self._clock = clock
        self._new_id = new_id

    async def run(
        self,
        program: ChainProgram | DirectCalls,
        *,
        timeout_s: float,
        progress: Progress | None = None,
        within: Account | None = None,
    ) -> ChainRun:
        """Run a program, or calls one after the other, and report the result; only a bug raises.

        An engine should end by itself within `timeout_s`; after `grace_s` more it is cancelled. When this
        returns, or is cancelled, no call of the chain is in flight. `within` is the chain that contains
        this one; its limits hold for both together.
        """
        pauses = within.pauses if within else Pauses()
        limits = replace(self._limits, wall_s=timeout_s, pauses=pauses)
        account = within or Account(self._new_id(), limits, self._clock)
        session = _ChainSession(self, account, progress, outermost=within is None)
        if isinstance(program, DirectCalls):
            outcome = await session.over(lambda: _one_by_one(program, session.call), timeout_s)
        elif len(program.code.encode("utf-8", "surrogatepass")) > limits.source_bytes:
            outcome = _fault("size", f"The program is longer than {limits.source_bytes:,} bytes.")
        elif account.cpu_s <= 0:
            outcome = _fault("timeout", f"All saved chains of a chain may compute for {limits.cpu_s:g} s.")
        else:
            run = partial(self._sandbox.run, program, session.call, replace(limits, cpu_s=account.cpu_s))
            outcome = await session.over(run, timeout_s + self._grace_s)
        if within and outcome:
            within.computed(outcome.computed_s)
        return session.told(outcome or _fault("timeout", f"The chain took longer than {timeout_s:g} s."))


class _ChainSession:
    """One run, and its calls."""

    def __init__(
        self, runner: ChainRunner, account: Account, progress: Progress | None, *, outermost: bool
    ) -> None:
        self._runner = runner
        self._account = account
        self._progress = progress
        self._outermost = outermost
        self._own: list[Pending] = []
        self._background = Background()

    async def over(self, run: Callable[[], Awaitable[ChainOutcome]], most_s: float) -> ChainOutcome | None:
        """Run with this session open for calls; `None` if it was stopped. No call is in flight after this."""
        outcome = None
        try:
            async with self._background:
                with anyio.move_on_after(most_s) as scope, self._account.pauses.moving(scope):
                    if self._outermost:
                        self._account.scope = scope
                    outcome = await run()
        except ExceptionGroup as bugs:
            raise bugs.exceptions[0] from bugs
        return outcome

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The function for the engine: returns a plain value, or raises a `RuntimeError` for the program."""
        name = clean(tool)[:_NAME_CHARS]
        self._account.ask()
        if name != tool[:_NAME_CHARS]:
            raise RuntimeError(
                f"There is no tool {tool[:_NAME_CHARS]!a}: it has characters that do not show."
            )
        try:
            sent, size = await crossing(dict(arguments), self._account.limits)
        except TooBigError as error:
            raise RuntimeError(f"The arguments of {name} cannot be sent: {error}.") from None
        self._account.weigh(size)
        if not self._background.is_open:
            raise RuntimeError(_OVER)
        pending = Pending(tool=name, arguments=sent)
        self._background.start(self._carry_out, pending)
        try:
            await pending.done.wait()
        finally:
            pending.scope.cancel()
        self._account.check()
        if pending.error:
            raise RuntimeError(pending.error)
        return pending.value

    def told(self, outcome: ChainOutcome) -> ChainRun:
        """The run as it ended; a fault of the account overrides the engine's fault."""
        account = self._account
        fault = outcome.fault
        if account.fault and (fault is None or fault.kind != account.fault.kind):
            fault = account.fault
        left = list(dict.fromkeys(p.tool for p in self._own if p.error == STOPPED))
        if fault and fault.kind == "timeout" and left:
            named = ", ".join([*left[:_NAMED], *(["others"] if len(left) > _NAMED else [])])
            fault = replace(fault, message=f"{fault.message} It was waiting for {named}.")
        return ChainRun(
            chain_id=account.id,
            outcome=replace(outcome, fault=fault),
            calls=account.receipts(),
            ms=account.since(account.begun),
        )

    async def _carry_out(self, pending: Pending) -> None:
        with pending.scope:
            try:
                try:
                    target = await self._runner.find(pending.tool)
                except MaitredError as error:
                    target = ChainTarget(name=pending.tool, call=partial(_refused, error))
                pending.tool = target.name
                if target.nested:
                    await self._make(pending, target)
                else:
                    async with self._account.turn:
                        await self._make(pending, target)
            finally:
                pending.done.set()

    async def _make(self, pending: Pending, target: ChainTarget) -> None:
        account = self._account
        pending.started = account.clock()
        account.started.append(pending)
        self._own.append(pending)
        try:
            if self._progress:
                number = len(account.started)
                await self._progress(number, None, f"call {number}: {pending.tool}")
            result = await target.call(pending.arguments, account)
            pending.value, pending.error = await self._value(pending, result), ""
        except MaitredError as error:
            pending.error = reason(error, pending.tool)
            pending.made = not isinstance(error, _NOT_MADE)
        except FailedError as error:
            takes = target.parameters()
            pending.error = f"{pending.tool} failed: {error}" + (f"\nIt takes: {takes}" if takes else "")
        except TooBigError as error:
            pending.error = f"The result of {pending.tool} cannot be given to a chain: {error}. Ask for less."
        except OverError as error:
            pending.error = str(error)
        finally:
            pending.receipt = pending.receipt or self._receipt(pending, error=pending.error)

    async def _value(self, pending: Pending, result: Mapping[str, Any]) -> Any:
        """The value for the program."""
        limits = self._account.limits
        try:
            value, size = await crossing(plain(result, limits), limits, lenient=True)
        except TooBigError:
            text = only_text(result)
            if text is None:
                raise
            value, size = await crossing(text, limits)  # JSON that is nested too deep is still a text
        text = compact(value)
        tokens = _tokens(text, self._runner.estimate)
        told = len(text.encode())
        pending.receipt = self._receipt(pending, cached=is_cached(result), bytes=told, tokens=tokens)
        self._account.weigh(size)
        return value

    def _receipt(self, pending: Pending, **known: Any) -> CallReceipt:
        account = self._account
        return CallReceipt(
            tool=pending.tool,
            started_ms=(pending.started - account.begun) * 1_000,
            ms=account.since(pending.started),
            ok=not known.get("error"),
            made=pending.made,
            **known,
        )


async def _refused(error: MaitredError, _arguments: Mapping[str, Any], _account: Account) -> dict[str, Any]:
    raise error


async def _one_by_one(
    written: DirectCalls, call: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
) -> ChainOutcome:
    """Make calls without an engine, until the first that fails."""
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
    """The approximate tokens of a text; a long text is judged by its beginning."""
    counted = text[:_COUNTED_CHARS]
    return round(estimate(counted) * len(text) / max(len(counted), 1))
