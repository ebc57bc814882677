"""Background tasks that end with their owner, and tasks that are used again.

A task group of anyio waits for its tasks to end by themselves. `Background` cancels them when it is left,
which is what the owner of a loop needs. For many short runs, such as one a request, a new task and a new
cancel scope cost more than most runs. So a task of a `TaskPool` that has finished its run waits for the next
one, inside the cancel scope that it has from its start.
"""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVarTuple

import anyio
import anyio.abc

Args = TypeVarTuple("Args")
_MOST_IDLE: Final = 64

Function = Callable[..., Coroutine[Any, Any, object]]


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


class PooledTask:
    """A task that carries out one run after the other. `cancel` ends the run that it is at."""

    __slots__ = ("_pool", "_run", "_scope", "_wake")

    def __init__(self, pool: "TaskPool", function: Function, args: tuple[Any, ...]) -> None:
        self._pool = pool
        self._run: tuple[Function, tuple[Any, ...]] = (function, args)
        self._scope = anyio.CancelScope()
        self._wake: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """Cancel the present run, as a cancel scope around it would. The task ends with it."""
        self._scope.cancel()

    def use(self, function: Function, args: tuple[Any, ...]) -> None:
        """Begin the next run; only while the task is idle."""
        self._run = (function, args)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def work(self) -> None:
        """Carry out runs until one is cancelled, or enough other tasks are idle."""
        loop = asyncio.get_running_loop()
        with self._scope:
            while True:
                function, args = self._run
                await function(*args)
                del function, args
                self._run = _NOTHING
                self._wake = loop.create_future()
                if self._scope.cancel_called or not self._pool.rest(self):
                    return
                await self._wake


class TaskPool:
    """Runs coroutine functions in tasks of a background, which has to be open.

    An error of a run is one of the background: it cancels the other tasks. A run must reset what it sets in
    context variables, since the next one in the same task would see it.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._idle: list[PooledTask] = []

    def start(self, function: Function, *args: Any) -> PooledTask:
        """Begin a run; the task that is returned can cancel it until it has finished."""
        if self._idle:
            task = self._idle.pop()
            task.use(function, args)
            return task
        task = PooledTask(self, function, args)
        self._background.start(task.work)
        return task

    def rest(self, task: PooledTask) -> bool:
        """Keep a task for the next run; false if there are enough already."""
        if len(self._idle) >= _MOST_IDLE or not self._background.is_open:
            return False
        self._idle.append(task)
        return True


async def _nothing() -> None:
    """What an idle task would run."""


_NOTHING: Final[tuple[Function, tuple[Any, ...]]] = (_nothing, ())
