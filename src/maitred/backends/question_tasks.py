"""Questions that a server of revision 2025-11-25 asks as tasks: the server polls for the answer.

The gateway takes such a question at once, asks the caller meanwhile as it does with every question, and holds
the answer until the server fetches it. So clients need not know tasks.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from cachetools import TTLCache
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from maitred.background import Background
from maitred.model.asking import ASKING

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
METHODS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
"""What a server asks about its questions."""

_MOST: Final = 64
_KEPT_S: Final = 600.0
_POLL_MS: Final = 500

Answer = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class _QuestionTask:
    def __init__(self, ttl: object) -> None:
        self.id = secrets.token_hex(16)
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.result: dict[str, Any] = {}
        self.error: MCPError | None = None
        self._ttl = ttl if isinstance(ttl, int) else None
        self._created = self._updated = _now()
        self._status = "working"

    @property
    def state(self) -> dict[str, Any]:
        """The task, as on the wire."""
        return {
            "taskId": self.id,
            "status": self._status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttl": self._ttl,
            "pollInterval": _POLL_MS,
        } | ({"statusMessage": self.error.message} if self.error else {})

    @property
    def is_over(self) -> bool:
        """Whether its state changes no more."""
        return self._status != "working"

    def end(self, status: str) -> None:
        """Set the last state; only the first one counts."""
        if not self.is_over:
            self._status, self._updated = status, _now()
        self.ended.set()


class QuestionTasks:
    """The questions of one connection. `answer` asks the caller; `background` is open with the session."""

    def __init__(self, answer: Answer, background: Background) -> None:
        self._answer = answer
        self._background = background
        self._tasks: TTLCache[str, _QuestionTask] = TTLCache(4 * _MOST, _KEPT_S)

    @staticmethod
    def takes(method: str, params: Mapping[str, Any]) -> bool:
        """Whether a request of the server is a question as a task, or about one."""
        return method in METHODS or (method in ASKING and isinstance(params.get("task"), Mapping))

    async def handle(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request that `takes` accepts.

        Raises:
            MCPError: There is no such question, or what came of it is an error.
        """
        if method in ASKING:
            return self._begin(method, params)
        if method == "tasks/list":
            return {"tasks": [one.state for one in self._tasks.values()]}
        task = self._tasks.get(str(params.get("taskId")))
        if task is None:
            raise MCPError(INVALID_PARAMS, "there is no such task, or it is over for too long")
        if method == "tasks/cancel":
            return self._cancel(task)
        return task.state if method == "tasks/get" else await self._result(task)

    def _begin(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self._background.is_open:
            raise MCPError(INVALID_REQUEST, "the session is not open yet; ask during a call")
        if sum(not one.is_over for one in self._tasks.values()) >= _MOST:
            raise MCPError(INVALID_REQUEST, f"{_MOST} questions wait for answers; ask again later")
        task = _QuestionTask(params["task"].get("ttl"))
        self._tasks[task.id] = task
        question = {key: value for key, value in params.items() if key != "task"}
        self._background.start(self._ask, task, method, question)
        return {"task": task.state}

    async def _ask(self, task: _QuestionTask, method: str, question: Mapping[str, Any]) -> None:
        try:
            with task.scope:
                task.result = await self._answer(method, question)
                task.end("completed")
        except MCPError as error:
            task.error = error
            task.end("failed")
        finally:
            task.end("cancelled")

    def _cancel(self, task: _QuestionTask) -> dict[str, Any]:
        if task.is_over:
            raise MCPError(INVALID_PARAMS, f"this task is over: {task.state['status']}")
        task.end("cancelled")
        task.scope.cancel()
        return task.state

    async def _result(self, task: _QuestionTask) -> dict[str, Any]:
        await task.ended.wait()
        if task.error is not None:
            raise task.error
        if not task.result:
            raise MCPError(INVALID_REQUEST, "this task was cancelled, so it has no result")
        related = {RELATED_TASK: {"taskId": task.id}}
        return {**task.result, "_meta": {**(task.result.get("_meta") or {}), **related}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
