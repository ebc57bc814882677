"""The engine of chains as a gateway holds it: made when it is first needed, ended with the gateway.

Its own task makes it. So a caller who cannot wait that long may leave, and the next one finds it ready.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
import structlog
from anyio import to_thread

from maitred.chains.base import CallTool, ChainFault, ChainLimits, ChainOutcome, ChainProgram, IsolatedSandbox
from maitred.chains.plain import without_paths

log = structlog.get_logger(__name__)

Open = Callable[[], AbstractAsyncContextManager[IsolatedSandbox]]
_REASON_CHARS = 300
_STOPPING = "the gateway is being stopped"


class LazyEngine:
    """Runs and checks programs while `keep` runs, which makes the engine by `make` and ends it."""

    def __init__(self, make: Open) -> None:
        self._make = make
        self._demand = anyio.Event()
        self._known = anyio.Event()
        self._engine: IsolatedSandbox | None = None
        self._why_none = ""

    async def keep(self) -> None:
        """Make the engine once it is needed, and hold it until this is cancelled; retry after a failure."""
        try:
            while True:
                await self._demand.wait()
                try:
                    made = await to_thread.run_sync(self._make)
                    async with made as self._engine:
                        self._known.set()
                        await anyio.sleep_forever()
                except Exception as error:  # noqa: BLE001 - whatever it is, all but chains go on without it
                    log.warning("the engine of chains cannot be started", reason=str(error)[:_REASON_CHARS])
                    self._why_none = str(error)[:_REASON_CHARS]
                    self._demand, known, self._known = anyio.Event(), self._known, anyio.Event()
                    known.set()
                finally:
                    self._engine = None
        finally:
            self._why_none = _STOPPING
            self._known.set()

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        """See `ChainSandbox`."""
        engine = await self._opened()
        if engine is None:
            return ChainOutcome(fault=self._fault())
        return await engine.run(program, call_tool, limits)

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        """See `ChainSandbox`."""
        engine = await self._opened()
        return [self._fault()] if engine is None else await engine.check(program)

    async def why_not_caged(self) -> str:
        """Why its processes are not isolated from the machine; empty if they are."""
        engine = await self._opened()
        if engine is None:
            return self._why_none
        return "" if engine.jailed else engine.why_not

    async def _opened(self) -> IsolatedSandbox | None:
        if self._engine is None:
            known = self._known
            self._demand.set()
            await known.wait()
        return self._engine

    def _fault(self) -> ChainFault:
        if self._why_none == _STOPPING:
            return ChainFault(kind="cancelled", message="The gateway is being stopped.")
        message = f"No process for the chain could be started: {without_paths(self._why_none)}"
        return ChainFault(kind="crashed", message=message)
