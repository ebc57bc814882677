"""Background tasks that end with their owner.

A task group of anyio waits for its tasks to end by themselves. `Background` cancels them when it is left,
which is what the owner of a loop needs.
"""

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVarTuple

import anyio
import anyio.abc

Args = TypeVarTuple("Args")


class Background:
    """A task group: entering opens it, leaving it cancels its tasks and waits until they have ended.

    As in every task group, an error of one task cancels the other tasks and the owner. It can be entered
    again after it was left. For one event loop.
    """

    def __init__(self) -> None:
        self._tasks: anyio.abc.TaskGroup | None = None
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether tasks can be started."""
        return self._is_open

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        self._is_open = False
        if tasks is None:
            return None
        tasks.cancel_scope.cancel()
        return await tasks.__aexit__(kind, error, trace)

    def start(self, function: Callable[[*Args], Coroutine[Any, Any, object]], *args: *Args) -> None:
        """Run a coroutine function in a task of its own.

        Raises:
            RuntimeError: It is not open.
        """
        if self._tasks is None or not self._is_open:
            raise RuntimeError("a background task can only be started while its owner is open")
        self._tasks.start_soon(function, *args)

    def close(self) -> None:
        """Start no more tasks; those that run go on until `cancel`, or until the context is left."""
        self._is_open = False

    def cancel(self) -> None:
        """Cancel all tasks, and start no more; leaving the context waits for their end."""
        self._is_open = False
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
