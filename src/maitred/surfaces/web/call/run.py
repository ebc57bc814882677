"""One call from a page: it goes on after its form is answered, and notes what becomes of it.

The page of the run shows that the call waits for a person or runs, and the answer after that. So a page that
is loaded again, or closed, makes no second call.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import anyio

from maitred.errors import ArgumentsError, MaitredError
from maitred.gateway import UnaskedCaller
from maitred.model.held_calls import HeldCall
from maitred.surfaces.web.call.schema_form import ArgumentsTextError

BROKEN: Final = (
    "The call ended without an answer: maitred ends, or has a fault that is in its log."
    " The tool may have been called."
)


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """What became of a call: the answer (`is_cut`: a part of it), or why there is none."""

    answer: Mapping[str, Any] | None = None
    is_cut: bool = False
    fault: str = ""
    faults: Sequence[str] = ()
    ms: float = 0.0


class CallRun(UnaskedCaller):
    """A call by a person, with what was typed; `changed` is called when there is something else to show."""

    def __init__(
        self, server: str, tool: str, *, typed: Mapping[str, str], whole: str, changed: Callable[[], None]
    ) -> None:
        self.server = server
        self.tool = tool
        self.typed = typed
        self.whole = whole
        self.arguments: Mapping[str, Any] = {}
        self.began = datetime.now(UTC).isoformat()
        self.outcome: CallOutcome | None = None
        self._held: dict[str, HeldCall] = {}
        self._changed = changed
        self._news = anyio.Event()

    @property
    def held(self) -> Sequence[HeldCall]:
        """What waits for a person now: the call, or calls of the chain that it runs."""
        return list(self._held.values())

    def goes_on(self) -> bool:
        """Whether there is no outcome yet."""
        return self.outcome is None

    def note_held(self, call: HeldCall) -> None:
        """Note that the call waits for a person, or waits no more; see `Caller`."""
        if call.state == "waiting":
            self._held[call.id] = call
        else:
            self._held.pop(call.id, None)
        self._report()

    async def carry_out(self, make: Callable[["CallRun"], Awaitable[tuple[Mapping[str, Any], bool]]]) -> None:
        """Make the call, and note its answer or why there is none."""
        started, outcome = time.perf_counter(), CallOutcome(fault=BROKEN)
        try:
            outcome = await self._outcome(make, started)
        finally:
            self.outcome = outcome
            self._report()

    async def _outcome(
        self,
        make: Callable[["CallRun"], Awaitable[tuple[Mapping[str, Any], bool]]],
        started: float,
    ) -> CallOutcome:
        about: dict[str, Any] = {}
        try:
            about["answer"], about["is_cut"] = await make(self)
        except ArgumentsError as error:
            text = "The arguments do not fit, so the tool was not called."
            about |= {"faults": error.faults, "fault": text}
        except ArgumentsTextError as error:
            about |= {"faults": error.faults, "fault": str(error)}
        except MaitredError as error:
            about["fault"] = str(error)
        return CallOutcome(ms=(time.perf_counter() - started) * 1e3, **about)

    async def news(self, within_s: float) -> None:
        """Wait until there is an outcome, or the call waits for a person, for some seconds at most."""
        with anyio.move_on_after(within_s):
            await self._news.wait()

    def _report(self) -> None:
        self._news.set()
        self._changed()
