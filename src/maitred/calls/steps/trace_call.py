"""Trace a call, and report how it ended and what the gateway itself added to it."""

import time
from collections.abc import Awaitable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed, StepOrderError
from maitred.errors import MaitredError
from maitred.model.tools import Tool
from maitred.telemetry.activity import Activity
from maitred.tracing import Span, root_span

_ATTRIBUTES = {"gen_ai.operation.name": "execute_tool"}


class TraceCall:
    """The first step, so that refused calls count too. Without a collector or a reader it costs nothing."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on."""
        return self._watched(call, proceed) if self._activity.is_observed else proceed(call)

    async def _watched(self, call: Call, proceed: Proceed) -> Answer:
        started, outcome = time.perf_counter(), "cancelled"
        self._activity.open_calls += 1
        with root_span(self._activity.tracer, "execute_tool", "internal", _ATTRIBUTES) as span:
            try:
                answer = await proceed(call)
                outcome = _outcome_of(answer)
            except Exception as error:
                outcome = error.code if isinstance(error, MaitredError) else "internal"
                raise
            finally:
                self._activity.open_calls -= 1
                elapsed_s = time.perf_counter() - started
                overhead_s = max(0.0, elapsed_s - call.server_s - call.waited_s)
                server = _describe(call, span, outcome)
                self._activity.call_ended(server, outcome, overhead_s)
        return answer


def _outcome_of(answer: Answer) -> str:
    if answer.is_error:
        return "tool_error"
    return "input_required" if answer.wire.get("resultType") == "input_required" else "ok"


def _describe(call: Call, span: Span, outcome: str) -> str:
    """Say in a span which tool it was, and how it ended; returns the server."""
    tool = _tool_of(call)
    span.note(maitred__outcome=outcome)
    if outcome == "tool_error":
        span.fail(outcome)
    if tool is None:
        return ""
    span.rename(f"execute_tool {tool.name}")
    span.note(gen_ai__tool__name=tool.name, gen_ai__tool__type="extension", maitred__server=tool.server)
    return tool.server


def _tool_of(call: Call) -> Tool | None:
    try:
        return call.tool
    except StepOrderError:  # it was refused before its tool was found
        return None
