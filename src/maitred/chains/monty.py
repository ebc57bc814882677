"""The engine that chains run on: an interpreter of a part of Python, in its own worker processes.

The interpreter offers no files, network or processes, and limits time, memory and depth itself. This
module and the driver limit the rest: the wall clock, values that cross the border, calls, and output.
A worker that was stopped is never used again; the pool replaces it.
"""

import shutil
import sysconfig
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncMonty,
    AsyncMontySession,
    MontyError,
    MontyTypingError,
    ResourceLimits,
)

from maitred.chains.base import CallTool, ChainFault, ChainLimits, ChainOutcome, ChainProgram, FaultKind
from maitred.chains.drive import Drive, modules_of
from maitred.chains.faults import fault_of, faults_of, tidy
from maitred.chains.jail import EngineJail, make_jail
from maitred.chains.plain import without_paths
from maitred.chains.syntax import RewrittenProgram, usual
from maitred.chains.undefined_names import unknown_names
from maitred.chains.values import replace_surrogates
from maitred.errors import ConfigError

_KILL_GRACE_S = 0.5
_KILLED = ("timeout", "crashed")
_NOT_CHECKED = ("memory", "timeout", "crashed")
_LEAVE_S = 5.0
MOST_LENT = 8
"""So many chains may wait for a person while others take their place."""
_RUNS_PER_WORKER = 200
_RECURSION = 200
_SUSPENSIONS_PER_CALL = 3  # the call, its result, and the lookup of its names or module
_SUSPENSIONS = 200
_CHECK_LIMITS = ChainLimits(cpu_s=1.0, wall_s=15.0)
_NOT_RUN = "_checked_only_\n"
"""The first line of a program that is checked: the name is unknown, so the check fails and nothing runs."""

_RETURN = "return\n"
"""The first line of a program that is compiled: it ends before the program's own first line."""

_CALL_STUB = """
from typing import Any
async def call_tool(name: str, arguments: dict[str, Any] | None = ...) -> Any: ...
"""


class PrintLog:
    """The end of a program's output, to about `most_bytes`; the engine writes from its own threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._tail = ""
        self._cut = False

    def write(self, _stream: str, text: str) -> None:
        """Add output, and drop what is far from the end."""
        with self._lock:
            tail = self._tail + text
            keep = 2 * self._most
            self._cut = self._cut or len(tail) > keep
            self._tail = tail[-keep:]

    def text(self) -> str:
        """The last whole lines, cleaned, in at most `most_bytes`, and a line that reports the cut."""
        with self._lock:
            tail, cut = self._tail, self._cut
        data = tidy(tail, 2 * self._most).encode()
        if len(data) > self._most:
            cut, data = True, data[-self._most :]
        if not cut:
            return data.decode()
        kept = data.decode("utf-8", "ignore")
        _, newline, rest = kept.partition("\n")
        return "[what was printed before is left out]\n" + (rest if newline else kept)


class _NoWorkerError(Exception):
    """No worker could be started; the text says why."""


class MontySandbox:
    """Runs chains on a warm pool of worker processes, each in bubblewrap where that works.

    Args:
        processes: How many chains may run at once; more wait, and the wait counts against their wall clock.
            A chain that waits for a person does not count, unless `MOST_LENT` others do so already.
        jail: Whether to try bubblewrap at all.
        bwrap: The program to use as bubblewrap, else the one on PATH.
    """

    def __init__(self, *, processes: int = 2, jail: bool = True, bwrap: str | None = None) -> None:
        self._processes = processes
        self._try_jail = jail
        self._bwrap = bwrap
        self._slots = anyio.CapacityLimiter(processes)
        self._renewing = anyio.Lock()
        self._lent = 0
        self._runs: set[anyio.CancelScope] = set()
        self._run_ended = anyio.Event()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._jail: EngineJail | None = None
        self._pool: AsyncMonty | None = None

    @property
    def jailed(self) -> bool:
        """Whether the workers run inside bubblewrap; known after entering."""
        return self._jail is not None and self._jail.jailed

    @property
    def why_not(self) -> str:
        """Why they do not; empty if they do."""
        return self._jail.why_not if self._jail else "the sandbox is not open"

    async def __aenter__(self) -> Self:
        self._slots = anyio.CapacityLimiter(self._processes)
        self._folder = tempfile.TemporaryDirectory(prefix="maitred-chain-")
        try:
            self._jail = await anyio.to_thread.run_sync(self._made_jail, Path(self._folder.name))
            self._pool = await self._new_pool()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, self._pool, jail, self._jail = self._pool, None, self._jail, None
        await self._end_runs()
        if pool is not None:
            await _close(pool)
        with anyio.CancelScope(shield=True):
            await _end_strays(jail)
        if self._folder is not None:
            self._folder.cleanup()

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        """See `ChainSandbox`. Raises what `call_tool` raises, other than a `RuntimeError`."""
        if len(program.code) > limits.source_bytes or _bytes(program.code) > limits.source_bytes:
            return _failed("size", f"The program is longer than {limits.source_bytes:,} bytes.")
        if self._pool is None:
            return _failed("cancelled", "The gateway is being stopped.")
        if faults := await anyio.to_thread.run_sync(unknown_names, program):
            return ChainOutcome(fault=_together(faults))
        made = await anyio.to_thread.run_sync(_usual, program)
        program = replace(program, code=made.code)
        log = PrintLog(limits.log_bytes)
        drive = Drive(program, call_tool, limits, log.write)
        outcome = None
        begun = False
        with (
            anyio.move_on_after(limits.wall_s) as scope,
            limits.pauses.moving(scope),
            self._counted(scope),
        ):
            try:
                async with self._worker(
                    limits=_engine_limits(limits), modules=modules_of(program)
                ) as session:
                    begun = True
                    with limits.pauses.entering(self._lending):
                        outcome = await drive.run(session)
            except _NoWorkerError as error:
                outcome = _failed("crashed", f"No process for the chain could be started: {error}")
        if outcome is None and self._pool is None:
            outcome = _failed("cancelled", "The gateway is being stopped.")
        if outcome is None or (outcome.fault and outcome.fault.kind in _KILLED):
            await _end_strays(self._jail)
        if outcome is None:
            line, column = drive.place
            what = "took longer than" if begun else "found no free process within"
            outcome = _failed("timeout", f"The chain {what} {limits.wall_s:g} s.", line, column)
        fault = _earlier(outcome.fault, made.lines_before) if outcome.fault else None
        return replace(outcome, fault=fault, logs=log.text(), computed_s=drive.computed_s)

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        """See `ChainSandbox`. Each fault has its place; a program too large or too odd to check has one."""
        if _bytes(program.code) > _CHECK_LIMITS.source_bytes:
            return [_fault("size", f"The program is longer than {_CHECK_LIMITS.source_bytes:,} bytes.")]
        unknown = await anyio.to_thread.run_sync(unknown_names, program)
        made = await anyio.to_thread.run_sync(_usual, program)
        with anyio.move_on_after(_CHECK_LIMITS.wall_s) as scope, self._counted(scope):
            try:
                faults = await self._checked(replace(program, code=made.code))
                own = [_earlier(fault, made.lines_before) for fault in faults]
                lines = {fault.line for fault in unknown}
                found = [*unknown, *(fault for fault in own if fault.line not in lines)]
                return sorted(found, key=lambda one: (one.line, one.column))
            except _NoWorkerError as error:
                return [_fault("crashed", f"No process for the check could be started: {error}")]
        return [_fault("timeout", f"The check took longer than {_CHECK_LIMITS.wall_s:g} s.")]

    async def _checked(self, program: ChainProgram) -> Sequence[ChainFault]:
        faults = await self._typed(program)
        if any(fault.kind in _NOT_CHECKED for fault in faults):
            return await self._parsed(program)  # the checker itself gave up; that is no fault
        if any(fault.kind != "type" for fault in faults):
            return faults
        return [*await self._parsed(program), *faults]

    @contextmanager
    def _counted(self, scope: anyio.CancelScope) -> Iterator[None]:
        self._runs.add(scope)
        try:
            yield
        finally:
            self._runs.discard(scope)
            self._run_ended.set()

    @contextmanager
    def _lending(self) -> Iterator[None]:
        """Let another chain run while one waits for a person; its own worker stays its own."""
        lends = self._lent < MOST_LENT
        self._lent += lends
        self._slots.total_tokens += lends
        try:
            yield
        finally:
            self._lent -= lends
            self._slots.total_tokens -= lends

    async def _end_runs(self) -> None:
        """Cancel all runs, and wait until all workers are returned, so that none is left behind."""
        for scope in self._runs:
            scope.cancel()
        with anyio.move_on_after(_LEAVE_S, shield=True):
            while self._runs:
                self._run_ended = anyio.Event()
                await self._run_ended.wait()

    async def _typed(self, program: ChainProgram) -> list[ChainFault]:
        stubs = "\n".join([_CALL_STUB, *(f"{name}: Any" for name in program.inputs)])
        options = {"type_check": True, "type_check_stubs": stubs, "type_check_format": "concise"}
        modules = modules_of(program, stubs=True)
        async with self._worker(limits=_engine_limits(_CHECK_LIMITS), modules=modules, **options) as session:
            try:
                snapshot = await session.feed_start(
                    _NOT_RUN + replace_surrogates(program.code), print_callback=_drop
                )
                while (
                    isinstance(snapshot, AsyncFunctionSnapshot) and snapshot.function_name == "import_stubs"
                ):
                    snapshot = await snapshot.resume_auto()
            except MontyTypingError as error:
                return faults_of(error, program, lines_before=1)
            except MontyError as error:
                return [_earlier(fault_of(error, _CHECK_LIMITS, program))]
        return []

    async def _parsed(self, program: ChainProgram) -> list[ChainFault]:
        """Syntax that the engine lacks: it reports that before the first line runs, one at a time."""
        async with self._worker(limits=_engine_limits(_CHECK_LIMITS), modules=modules_of(program)) as session:
            try:
                await session.feed_start(_RETURN + replace_surrogates(program.code), print_callback=_drop)
            except MontyError as error:
                return [_earlier(fault_of(error, _CHECK_LIMITS, program))]
        return []

    @asynccontextmanager
    async def _worker(
        self, *, limits: ResourceLimits, modules: Any, **options: Any
    ) -> AsyncIterator[AsyncMontySession]:
        """A new session in a worker, which is ended in every case."""
        async with self._slots:
            session = await self._session(limits=limits, external_modules=modules, **options)
            try:
                yield session
            finally:
                with anyio.move_on_after(_LEAVE_S, shield=True):
                    await session.__aexit__(None, None, None)

    async def _session(self, **options: Any) -> AsyncMontySession:
        """Enter a session; a pool that cannot give one is replaced, once."""
        pool = self._pool
        if pool is None:
            raise RuntimeError("the sandbox is not open")
        try:
            return await pool.checkout(**options).__aenter__()
        except (OSError, RuntimeError, TimeoutError, MontyError):
            try:
                return await (await self._renewed(pool)).checkout(**options).__aenter__()
            except (OSError, RuntimeError, TimeoutError, MontyError) as error:
                raise _NoWorkerError(without_paths(tidy(str(error), 300))) from error

    async def _renewed(self, broken: AsyncMonty) -> AsyncMonty:
        """The pool after `broken`, which another chain may have replaced already."""
        async with self._renewing:
            if self._pool is broken:
                fresh = await self._new_pool()
                if self._pool is not broken:  # the sandbox was left meanwhile
                    await _close(fresh)
                    raise RuntimeError("the sandbox is closed")
                self._pool = fresh
                await _close(broken)
            if self._pool is None:
                raise RuntimeError("the sandbox is closed")
            return self._pool

    async def _new_pool(self) -> AsyncMonty:
        pool = AsyncMonty(
            binary_path=self._jail.program if self._jail else None,
            min_processes=1,
            max_processes=self._processes + MOST_LENT,
            max_checkouts_per_worker=_RUNS_PER_WORKER,
            feed_duration_limit_grace=_KILL_GRACE_S,
            turn_duration_limit_grace=_KILL_GRACE_S,
        )
        return await pool.__aenter__()

    def _made_jail(self, folder: Path) -> EngineJail:
        worker = _found_worker()
        if not self._try_jail:
            return make_jail(worker, folder, why_not="it is switched off")
        return make_jail(worker, folder, bwrap=self._bwrap)


def _found_worker() -> Path:
    """The worker's program that was installed beside the engine; never one that the environment names."""
    beside = Path(sysconfig.get_path("scripts")) / "monty"
    found = str(beside) if beside.is_file() else shutil.which("monty")
    if found is None:
        raise ConfigError("chains", ["the worker of pydantic-monty is not installed; install maitred again"])
    return Path(found)


def _engine_limits(limits: ChainLimits) -> ResourceLimits:
    return {
        "max_feed_duration_secs": limits.cpu_s,
        "max_turn_duration_secs": limits.cpu_s,
        "max_memory": limits.memory_bytes,
        "max_recursion_depth": _RECURSION,
        "max_suspensions": _SUSPENSIONS + _SUSPENSIONS_PER_CALL * limits.calls,
        "max_total_sleep_secs": limits.wall_s,
    }


async def _close(pool: AsyncMonty) -> None:
    """End the workers of a pool, even if the task was cancelled."""
    with anyio.move_on_after(_LEAVE_S, shield=True):
        await pool.__aexit__(None, None, None)


async def _end_strays(jail: EngineJail | None) -> None:
    if jail is not None:
        await anyio.to_thread.run_sync(jail.end_strays)


def _bytes(code: str) -> int:
    return len(code.encode("utf-8", "surrogatepass"))


def _drop(_stream: str, _text: str) -> None:
    """Ignore the output of a check."""


def _earlier(fault: ChainFault, lines: int = 1) -> ChainFault:
    """The fault moved up by the lines that were put before the program."""
    return replace(fault, line=max(fault.line - lines, 0))


def _usual(program: ChainProgram) -> RewrittenProgram:
    return usual(program.code, [one.name for one in program.modules], program.inputs)


def _together(faults: Sequence[ChainFault]) -> ChainFault:
    """One fault that reports all, at the place of the first."""
    first, *others = faults
    if not others:
        return first
    lines = [first.message, *(f"Line {one.line}: {one.message}" for one in others)]
    return replace(first, message="\n".join(lines))


def _fault(kind: FaultKind, message: str, line: int = 0, column: int = 0) -> ChainFault:
    return ChainFault(kind=kind, message=message, line=line, column=column)


def _failed(kind: FaultKind, message: str, line: int = 0, column: int = 0) -> ChainOutcome:
    return ChainOutcome(fault=_fault(kind, message, line, column))
