"""The interface to the engine that runs a chain: its input, its output, and its bounds.

An engine runs untrusted source. The source reaches the world only through the functions that it is given.
The engine keeps no state between two runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from maitred.chains.pauses import Pauses

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool by its name with plain JSON arguments and returns plain JSON, both bounded.

It raises a `RuntimeError` for the program to see, or an `OverError`, after which the engine ends the run.
"""

FaultKind = Literal["syntax", "type", "runtime", "timeout", "memory", "calls", "size", "crashed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class ChainLimits:
    """What one chain may use; `call_*` bound values that cross the border, in either direction.

    In the `pauses` of a chain, no time of `wall_s` passes.
    """

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
    pauses: Pauses = field(default_factory=Pauses, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ChainFault:
    """Why a chain has no value. `line` and `column` count from 1 in the source; 0 means unknown."""

    kind: FaultKind
    message: str
    line: int = 0
    column: int = 0


class OverError(RuntimeError):
    """The chain has ended, since it exceeded a limit; `fault` says which."""

    def __init__(self, fault: ChainFault) -> None:
        self.fault = fault
        super().__init__(fault.message)


@dataclass(frozen=True, kw_only=True)
class ChainOutcome:
    """The result of a run: a plain JSON value, or a fault; and the last lines that it printed, bounded.

    `bytes` is the approximate size of the value as JSON. `computed_s` are the seconds in which the engine
    worked, without those in which it waited for calls.
    """

    value: Any = None
    fault: ChainFault | None = None
    logs: str = ""
    bytes: int = 0
    computed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ChainFunction:
    """A function of a module of the chain: its Python name, the tool behind it, and its typed signature.

    `parameters` are pairs in the order of positional arguments: the Python name, and the tool's name for it.
    `more` says whether it takes other arguments too, under the tool's names. `required` are the Python
    names of the required parameters.
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
    """What is to run: the source, the modules that it may import, and its input values.

    `inputs` are plain JSON values, which are variables before the first line. `known` lists the functions
    of every importable module, for suggestions; its default are those of `modules`.
    `failing` says why a server has no tools, by the name that its module would have.
    """

    code: str
    modules: Sequence[ChainModule] = ()
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)


class ChainSandbox(Protocol):
    """An engine. Enter it before use; it holds a warm pool, and leaving it ends all that it started."""

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        """Run a program; `call_tool` may be awaited from several tasks at once, bounded by the caller.

        Cancelling the awaiting task ends the run. Whatever the program does, this returns within the
        limits plus one second, and the next run finds the engine in order.
        """
        ...

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        """Every fault of names and types that is visible without running, by line; calls nothing."""
        ...


class IsolatedSandbox(ChainSandbox, Protocol):
    """An engine in its own processes, which the operating system may isolate from the machine too."""

    @property
    def jailed(self) -> bool:
        """Whether the operating system isolates its processes from the machine too."""
        ...

    @property
    def why_not(self) -> str:
        """Why it does not; empty if it does."""
        ...
