"""What a chain has used of its limits, and the calls that it made.

A saved chain that is called inside a chain is a part of it. Its calls, their bytes and its computing time
count there, and the same list holds its calls. If any limit is exceeded, the whole chain ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from maitred.chains.base import ChainFault, ChainLimits, ChainOutcome, FaultKind, OverError

STOPPED = "stopped when the chain ended; it may have taken effect"
_END_S = 1.0
_SHORT_ERROR_CHARS = 200  # in a receipt; there may be many


@dataclass(frozen=True, kw_only=True)
class CallReceipt:
    """A call that was started, `started_ms` after the chain; the size is that of the result as JSON.

    `made` is false if the gateway refused the call before it reached a server.
    """

    tool: str
    started_ms: float
    ms: float
    ok: bool
    made: bool = True
    cached: bool = False
    bytes: int = 0
    tokens: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The receipt as it appears in an answer."""
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
    """The result of a chain; `calls` are in the order in which they were started.

    If a list of calls failed, the outcome has both a fault and a value: the results before it.
    """

    chain_id: str
    outcome: ChainOutcome
    calls: Sequence[CallReceipt] = ()
    ms: float = 0.0


@dataclass(kw_only=True)
class Pending:
    """A call in flight."""

    tool: str
    arguments: Mapping[str, Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    started: float = 0.0
    receipt: CallReceipt | None = None
    made: bool = True
    value: Any = None
    error: str = STOPPED


class Account:
    """One chain: its limits, what is used up of them, and its calls in the order in which they started.

    `scope` is that of its run, which ends soon after a limit is exceeded. `clock` returns seconds.
    """

    def __init__(self, chain_id: str, limits: ChainLimits, clock: Callable[[], float]) -> None:
        self.id = chain_id
        self.limits = limits
        self.pauses = limits.pauses
        self.clock = clock
        self.begun = clock()
        self.turn = anyio.Semaphore(limits.in_flight)
        self.scope = anyio.CancelScope()
        self.fault: ChainFault | None = None
        self.started: list[Pending] = []
        self._calls = self._bytes = 0
        self._computed_s = 0.0

    @property
    def cpu_s(self) -> float:
        """Seconds of computing that are left to a saved chain; zero or less if there are none."""
        return self.limits.cpu_s - self._computed_s

    def computed(self, seconds: float) -> None:
        """Add the computing time of a saved chain."""
        self._computed_s += seconds

    def ask(self) -> None:
        """Count one more call.

        Raises:
            OverError: The chain has ended, or ends now, since this is one call too many.
        """
        self.check()
        self._calls += 1
        most = self.limits.calls
        if self._calls > most:
            raise self.stop("calls", f"A chain may make {most:,} calls; this one wanted more.")

    def weigh(self, size: int) -> None:
        """Count bytes that were sent or received.

        Raises:
            OverError: The total is over the limit, which ends the chain.
        """
        self._bytes += size
        if self._bytes > self.limits.total_bytes:
            most = f"{self.limits.total_bytes:,} bytes"
            raise self.stop("size", f"All that the calls of a chain send and give may have {most}.")

    def stop(self, kind: FaultKind, message: str) -> OverError:
        """End the chain, within a second even if its engine does not; catching the error does not help."""
        if self.fault is None:
            self.fault = ChainFault(kind=kind, message=message)
            self.scope.deadline = min(self.scope.deadline, anyio.current_time() + _END_S)
        return OverError(self.fault)

    def check(self) -> None:
        """Check that the chain may go on.

        Raises:
            OverError: It may not.
        """
        if self.fault:
            raise OverError(self.fault)

    def since(self, moment: float) -> float:
        """Milliseconds since a moment of the clock."""
        return (self.clock() - moment) * 1_000

    def receipts(self) -> Sequence[CallReceipt]:
        """The receipts of all calls that were started."""
        return [pending.receipt for pending in self.started if pending.receipt]
