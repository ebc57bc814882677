"""The seam to the engine that runs a chain: what goes in, what comes out, and which bounds hold.

An engine runs untrusted source. It reaches the world through the functions that it is given, and through
nothing else. It keeps no state between two runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool by its name with plain JSON arguments and returns plain JSON, both bounded.

It raises a `RuntimeError` for the program to see, or an `OverError`, upon which the engine ends the run.
"""

FaultKind = Literal["syntax", "type", "runtime", "timeout", "memory", "calls", "size", "crashed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class ChainLimits:
    """What one chain may take; `call_*` bound values that cross the border, in either direction."""

    source_bytes: int = 64_000
    cpu_s: float = 10.0
    wall_s: float = 30.0
    memory_bytes: int = 64_000_000
    calls: int = 100
    in_flight: int = 8
    call_bytes: int = 1_000_000
    total_bytes: int = 10_000_000
    depth: int = 64
    nodes: int = 200_000
    log_bytes: int = 4_000


@dataclass(frozen=True, kw_only=True)
class ChainFault:
    """Why a chain has no value. `line` and `column` count from 1 in the source, 0 where nothing is known."""

    kind: FaultKind
    message: str
    line: int = 0
    column: int = 0


class OverError(RuntimeError):
    """The chain is over, since it has passed a limit; `fault` says which."""

    def __init__(self, fault: ChainFault) -> None:
        self.fault = fault
        super().__init__(fault.message)


@dataclass(frozen=True, kw_only=True)
class ChainOutcome:
    """What a run came to: a plain JSON value, or a fault; and what it printed, capped, last lines kept.

    `bytes` is about the size of the value as JSON; `computed_s` are the seconds in which the engine worked,
    without those in which it waited for calls.
    """

    value: Any = None
    fault: ChainFault | None = None
    logs: str = ""
    bytes: int = 0
    computed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ChainFunction:
    """A function of a module of the chain: its Python name, the tool behind it, and its typed signature.

    `parameters` are pairs, in the order of positional arguments: the Python name, the name that the tool has.
    `more` says whether it takes others too, by the name that the tool has; `required` are the Python names of
    those that it cannot do without.
    `stub` is the line of a stub file, such as `async def search(query: str, limit: int = ...) -> Any: ...`.
    """

    name: str
    tool: str
    parameters: Sequence[tuple[str, str]] = ()
    more: bool = False
    required: Sequence[str] = ()
    stub: str = ""


@dataclass(frozen=True, kw_only=True)
class ChainModule:
    """A module that a chain may import: one server. `stub` holds the types that its functions share."""

    name: str
    server: str
    functions: Sequence[ChainFunction] = ()
    stub: str = ""


@dataclass(frozen=True, kw_only=True)
class ChainProgram:
    """What is to be run: the source, the modules it may import, and values under names of its own.

    `inputs` are plain JSON values that stand as variables before the first line. `known` has the functions by
    module of all that could be imported, to say which was meant; by default they are those of `modules`.
    `failing` says of servers without tools why they have none, by the name that their module would have.
    """

    code: str
    modules: Sequence[ChainModule] = ()
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)


class ChainSandbox(Protocol):
    """An engine. Enter it before use; it keeps a warm pool, and leaving ends all that it started."""

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        """Run a program; `call_tool` may be awaited from several tasks at once, bounded by the caller.

        Cancelling the awaiting task ends the run. Whatever the program does, this returns within the limits
        plus one second, and the next run finds the engine in order.
        """
        ...

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        """Every fault of names and types that can be seen without running, by line; calls nothing."""
        ...


class IsolatedSandbox(ChainSandbox, Protocol):
    """An engine in processes of its own, which the operating system may cut off from the machine too."""

    @property
    def jailed(self) -> bool:
        """Whether its processes are cut off from the machine by the operating system too."""
        ...

    @property
    def why_not(self) -> str:
        """Why they are not; empty if they are."""
        ...
