"""Let a call become a task where its server can do that, and wait for the task if the caller cannot."""

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import ProtocolError
from maitred.model.tasks import created_task, declares_extension
from maitred.model.tools import Tool, ToolCall

METHOD_NOT_FOUND: Final = -32601
_KEPT_MS: Final = 24 * 3_600_000
"""How long a server should keep the result of a task for which no caller said a time."""


class TaskRunner(Protocol):
    """Gives tasks to callers, and waits for the tasks of those who take none."""

    def is_stateless(self, server: str) -> bool:
        """Whether a server decides itself which calls become tasks."""
        ...

    def started(self, call: Call, state: Mapping[str, Any]) -> dict[str, Any]:
        """The answer that announces a task of the server to the caller."""
        ...

    def held(self, call: Call, result: Mapping[str, Any]) -> dict[str, Any]:
        """The answer that announces a task which has this result already."""
        ...

    async def finish(self, call: Call, state: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a task of the server, as soon as it has ended."""
        ...


class RunAsTask:
    """Sets the `task` of the request on its way to the server.

    A caller takes a task if its request has the field `task` (handshake era), or declares the extension
    (2026-07-28). For all others, the answer is the result of the task.
    """

    def __init__(self, tasks: TaskRunner) -> None:
        self._tasks = tasks

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            ProtocolError: The caller wants a task of a tool that runs none.
        """
        request = call.request
        declared = declares_extension(request.client_capabilities)
        if self._tasks.is_stateless(call.tool.server):
            # a caller with capabilities of its own decides by these; for all others, the gateway can wait
            task = {} if request.task is None and request.client_capabilities is None else request.task
        else:
            task = _task_for_handshake(call.tool, request, declared=declared)
            if task is None:
                return proceed(call)
        return self._run(call, proceed, task, takes=declared or request.task is not None)

    async def _run(
        self, call: Call, proceed: Proceed, task: Mapping[str, Any] | None, *, takes: bool
    ) -> Answer:
        request = call.request
        call.request = replace(request, task=task)
        try:
            answer = await proceed(call)
        finally:
            call.request = request
        state = created_task(answer.wire)
        if state is not None:
            given = self._tasks.started(call, state) if takes else await self._tasks.finish(call, state)
            return answer.with_wire(given)
        if request.task is not None and answer.wire.get("resultType", "complete") == "complete":
            return answer.with_wire(self._tasks.held(call, answer.wire))
        return answer


def task_support(tool: Tool) -> str:
    """What the server of the handshake era declared of tasks of a tool: `optional`, `required` or nothing."""
    execution = tool.extra.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, Mapping) else None
    return support if support in ("optional", "required") else ""


def _task_for_handshake(tool: Tool, request: ToolCall, *, declared: bool) -> Mapping[str, Any] | None:
    support = task_support(tool)
    if request.task is not None:
        if support:
            return request.task
        why = f"{tool.name} runs no tasks; call it without the field `task`"
        raise ProtocolError(tool.server, METHOD_NOT_FOUND, why)
    return {"ttl": _KEPT_MS} if support == "required" or (declared and support) else None
