"""The way of a call: a list of steps, each of which passes the call on or answers it.

A step sees the call on its way in and the answer on its way out, and nothing of the other steps. The list
is in `maitred.wiring.call_steps`; it is composed once for a gateway, so a call pays one coroutine a step.
To add a step, write one class in `maitred.calls.steps` and one line in that list.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from maitred.audit.service import Entry
from maitred.backends.base import Progress
from maitred.calls.answer import Answer
from maitred.model.access import Viewer
from maitred.model.tools import Tool, ToolCall


class CallingChain(Protocol):
    """The chain that makes a call."""

    @property
    def id(self) -> str:
        """The id by which the audit trail knows the chain."""
        ...

    @property
    def saved(self) -> bool:
        """Whether it is a saved chain."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call on its way, and what the steps so far have found out about it.

    `read_only` refuses a tool that may change something. `shorten` is for callers who pass the answer to a
    model: it is cut to the budget of tokens and says whose data it is. `chain` is the chain that calls, if
    one does. `found` and `audited` are empty before `FindTool` and `AuditCall`; read `tool` and `entry`.
    """

    request: ToolCall
    viewer: Viewer
    read_only: bool = False
    shorten: bool = False
    progress: Progress | None = None
    chain: CallingChain | None = None
    found: Tool | None = None
    audited: Entry | None = None

    def with_entry(self, entry: Entry) -> "Call":
        """The call with its audit entry."""
        return self._with(self.found, entry)

    def with_tool(self, tool: Tool) -> "Call":
        """The call with the tool that its name means."""
        return self._with(tool, self.audited)

    def _with(self, found: Tool | None, audited: Entry | None) -> "Call":
        return Call(  # `replace` takes twice as long
            request=self.request,
            viewer=self.viewer,
            read_only=self.read_only,
            shorten=self.shorten,
            progress=self.progress,
            chain=self.chain,
            found=found,
            audited=audited,
        )

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the tool is called with."""
        return self.request.arguments

    @property
    def to_person(self) -> bool:
        """Whether a person reads the answer, and no model."""
        return self.viewer.surface == "cli"

    @property
    def tool(self) -> Tool:
        """The tool that is called.

        Raises:
            StepOrderError: The step that asks comes before `FindTool`.
        """
        if self.found is None:
            raise StepOrderError("the tool of a call is known after `FindTool` only; put the step after it")
        return self.found

    @property
    def entry(self) -> Entry:
        """Where the audit trail gets to know of the call.

        Raises:
            StepOrderError: The step that asks comes before `AuditCall`.
        """
        if self.audited is None:
            raise StepOrderError("a call has an audit entry after `AuditCall` only; put the step after it")
        return self.audited


Proceed = Callable[[Call], Awaitable[Answer]]
"""Passes a call to the next step, and gives its answer."""


class Step(Protocol):
    """One thing that happens to a call on its way. Await `proceed` once to go on, or answer, or raise."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Handle the call."""
        ...


class StepOrderError(Exception):
    """A list of steps that cannot work: a fault of the program, and none of a caller."""


def compose(steps: Sequence[Step]) -> Proceed:
    """Make one function of steps; the first sees the call first, and its answer last.

    Raises:
        TypeError: One of them is no step; the text says which.
    """
    for number, step in enumerate(steps, 1):
        if why := _why_no_step(step):
            raise TypeError(
                f"step {number} of {len(steps)} of a call is {step!r}, which {why};"
                " a step is an object with `async def __call__(self, call, proceed)`"
            )
    proceed: Proceed = _unanswered
    for step in reversed(steps):
        proceed = _linked(step, proceed)
    return proceed


def _linked(step: Step, proceed: Proceed) -> Proceed:
    def handle(call: Call) -> Awaitable[Answer]:
        return step(call, proceed)

    return handle


async def _unanswered(call: Call) -> Answer:
    raise StepOrderError(f"no step answered the call of {call.request.name!r}; the last one has to")


def _why_no_step(step: object) -> str:
    """Why an object is no step, in words that go on from "which"; empty if it is one."""
    if isinstance(step, type):
        return "is a class; make an object of it"
    if not callable(step):
        return "cannot be called"
    handler = step if inspect.isfunction(step) or inspect.ismethod(step) else type(step).__call__
    if not inspect.iscoroutinefunction(handler):
        return "is not async"
    try:
        inspect.signature(step).bind(None, None)
    except TypeError:
        return "does not take a call and `proceed`"
    return ""
