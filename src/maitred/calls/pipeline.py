"""The way of a call: a list of steps, each of which passes the call on or answers it.

A step sees the call on its way in and the answer on its way out, and nothing of the other steps. The list
is in `maitred.wiring.call_steps`; it is composed once for a gateway. A step that looks at the call alone is
no coroutine: it returns what `proceed` returns, and so costs nothing while the call waits for its answer.
To add a step, write one class in `maitred.calls.steps` and one line in that list.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from maitred.audit.service import Entry
from maitred.backends.base import NOT_ASKED, Caller
from maitred.calls.answer import Answer
from maitred.model.access import Viewer
from maitred.model.held_calls import CallBinding
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

    def paused(self) -> AbstractContextManager[object]:
        """Let no time of the chain pass until the context is left."""
        ...


@dataclass(kw_only=True, slots=True, eq=False)
class Call:
    """A call on its way, with the results of the steps so far.

    `read_only` refuses a tool that may change something. `shorten` is for callers who pass the answer to a
    model: it is cut to the budget of tokens and says whose data it is. `caller` is whom the
    server may ask meanwhile. `chain` is the chain that calls, if one does. `FindTool` sets `tool`, and
    `AuditCall` sets `entry`; a step that reads them earlier gets a `StepOrderError`. `RunAsTask` sets
    `request.task`, `HoldCall` sets `approval`, `rules_version` and `waited_s`, and `Relay` sets `server_s`.
    No step changes anything else, and none copies a call: `dataclasses.replace` drops what steps set.
    """

    request: ToolCall
    viewer: Viewer
    read_only: bool = False
    shorten: bool = False
    caller: Caller = NOT_ASKED
    chain: CallingChain | None = None
    tool: Tool = field(init=False, repr=False)
    entry: Entry = field(init=False, repr=False)
    asked: bool = field(init=False, default=False)
    """Whether the server asked its caller, so that the answer depends on more than the arguments."""

    approval: CallBinding | None = field(init=False, default=None)
    """What a person approved, if the call waited for one."""

    rules_version: str = field(init=False, default="")
    """The version of the rules by which it was judged whether the call waits for a person."""

    server_s: float = field(init=False, default=0.0)
    """How long its server took, with its start."""

    waited_s: float = field(init=False, default=0.0)
    """How long it waited for a person."""

    def note_question(self, method: str) -> None:
        """Record that the server asks its caller."""
        self.asked = True
        self.entry.note_question(method)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the call."""
        return self.request.arguments

    @property
    def to_person(self) -> bool:
        """Whether a person, not a model, reads the answer."""
        return self.viewer.surface == "cli"

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Explain an attribute that is not set; Python asks for no other."""
            if name in _SET_BY:
                step = _SET_BY[name]
                raise StepOrderError(
                    f"the {name} of a call is known after `{step}` only; put the step after it"
                )
            raise AttributeError(name)


_SET_BY: Final = {"tool": "FindTool", "entry": "AuditCall"}

Proceed = Callable[[Call], Awaitable[Answer]]
"""Passes a call to the next step, and returns its answer."""


class Step(Protocol):
    """One thing that happens to a call on its way. Call `proceed` once to go on, or answer, or raise."""

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Handle the call; `async def`, or a function that returns what `proceed` returns."""
        ...


class StepOrderError(Exception):
    """A list of steps that cannot work: a fault of the program, not of a caller."""


def compose(steps: Sequence[Step]) -> Proceed:
    """Make one function of steps. The first step sees the call first, and its answer last.

    Raises:
        TypeError: An object is not a step. The text says which.
    """
    for number, step in enumerate(steps, 1):
        if why := _why_no_step(step):
            raise TypeError(
                f"step {number} of {len(steps)} of a call is {step!r}, which {why};"
                " a step is an object with `async def __call__(self, call, proceed)`"
            )
    proceed: Proceed = _unanswered
    for step in reversed(steps):
        proceed = _link(step, proceed)
    return proceed


def _link(step: Step, proceed: Proceed) -> Proceed:
    handle = step.__call__  # Python calls a method faster than the object that has it

    def pass_to_step(call: Call) -> Awaitable[Answer]:
        return handle(call, proceed)

    return pass_to_step


async def _unanswered(call: Call) -> Answer:
    raise StepOrderError(f"no step answered the call of {call.request.name!r}; the last one has to")


def _why_no_step(step: object) -> str:
    """Why an object is not a step, in words that continue after "which"; empty if it is one."""
    if isinstance(step, type):
        return "is a class; make an object of it"
    if not callable(step):
        return "cannot be called"
    if inspect.isfunction(step) or inspect.ismethod(step):
        return _why_no_handler(step, is_bound=True)
    return _why_no_call(type(step).__call__)


@lru_cache(maxsize=256)
def _why_no_call(call: Callable[..., Any]) -> str:
    """The same of the `__call__` of a class; each gateway of a process has the same classes."""
    return _why_no_handler(call, is_bound=False)


def _why_no_handler(handler: Callable[..., Any], *, is_bound: bool) -> str:
    if (
        not inspect.iscoroutinefunction(handler)
        and handler.__annotations__.get("return") != Awaitable[Answer]
    ):
        return "is neither async nor declared to return an `Awaitable[Answer]`"
    try:
        inspect.signature(handler).bind(*[None] * (2 if is_bound else 3))
    except TypeError:
        return "does not take a call and `proceed`"
    return ""
