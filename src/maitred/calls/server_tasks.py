"""The requests about tasks that the gateway sends to one server, in the form of its era.

In the handshake era, `tasks/result` waits for the end of a task, and a server asks its questions meanwhile.
A stateless server is polled, and its questions are in the state of the task.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Final

import anyio

from maitred.backends.base import Caller, Connection
from maitred.backends.call_clock import CallClock
from maitred.background import Background
from maitred.errors import CallTimeoutError, MaitredError, ProtocolError, ServerError
from maitred.model.tasks import ENDED, detailed_state, from_handshake

Json = dict[str, Any]
CANCELLED: Final = -32800
_INTERNAL_ERROR: Final = -32603
_LONGEST_S: Final = 24 * 3_600.0
_POLL_S: Final = 1.0
_SHORTEST_POLL_S: Final = 0.02
_LONGEST_POLL_S: Final = 5.0
_LEAVE_S: Final = 2.0
_STOPPING_S: Final = 2.0
_STOPPING_CHECK_S: Final = 0.05


class ServerTasks:
    """Tasks over one connection, for a caller whom the server may ask about them."""

    def __init__(self, connection: Connection, server: str, caller: Caller, *, timeout_s: float) -> None:
        self._connection = connection
        self._server = server
        self._caller = caller
        self._timeout_s = timeout_s

    @property
    def is_polled(self) -> bool:
        """Whether the server speaks the extension."""
        return self._connection.facts.era == "stateless"

    async def state(self, task_id: str) -> Json:
        """The present state of a task; a stateless server adds the result, the error or its questions.

        Raises:
            ServerError: The server does not know the task, or cannot be asked.
        """
        return self._read(await self._ask("tasks/get", {"taskId": task_id}), task_id)

    def _read(self, answer: Json, task_id: str) -> Json:
        state = detailed_state(answer) if self.is_polled else from_handshake(answer)
        if not isinstance(answer.get("status"), str):
            raise ProtocolError(self._server, _INTERNAL_ERROR, "its answer to tasks/get is no task")
        return state | {"taskId": task_id}

    async def cancel(self, task_id: str) -> None:
        """Cancel a task; a task that has ended stays as it is.

        Raises:
            ServerError: The server does not know the task, or cannot be asked.
        """
        try:
            await self._ask("tasks/cancel", {"taskId": task_id})
        except ProtocolError:
            if (await self.state(task_id))["status"] not in ENDED:
                raise

    async def stopped(self, task_id: str) -> Json:
        """The state of a task that was cancelled, which a server may show a moment later."""
        state = await self.state(task_id)
        with anyio.move_on_after(_STOPPING_S):
            while state["status"] not in ENDED:
                await anyio.sleep(_STOPPING_CHECK_S)
                state = await self.state(task_id)
        return state

    async def update(self, task_id: str, responses: Mapping[str, Any]) -> None:
        """Give a stateless server answers to its questions.

        Raises:
            ServerError: The server does not know the task, or cannot be asked.
        """
        await self._ask("tasks/update", {"taskId": task_id, "inputResponses": dict(responses)})

    async def result(self, task_id: str) -> Json:
        """The result of a task, as soon as it has one.

        Raises:
            ProtocolError: The task ended with this error.
            CallerRefusedError: The caller did not answer a question of a stateless server.
            ServerError: The server does not know the task, or cannot be asked.
        """
        if not self.is_polled:
            return await self._awaited(task_id)
        return await outcome_of(self._server, await self._polled(task_id))

    async def finish(self, task_id: str, is_asking: Callable[[], bool], *, longest_s: float) -> Json:
        """The result of a task that the gateway started for a caller who waits; cancels a task left behind.

        The time in which the caller is asked a question does not count.

        Raises:
            CallTimeoutError: The task showed no change for as long as a call may take, or took longer than
                `longest_s` in all.
            ServerError: As `result`.
        """
        clock = CallClock(self._timeout_s, longest_s)
        outcome: Json | Exception | None = None  # as a value, since a task group would wrap an error
        ended = False
        try:
            async with Background() as background:
                with clock.running():
                    background.start(self._follow, task_id, clock, is_asking)
                    try:
                        outcome = await self.result(task_id)
                    except MaitredError as error:
                        outcome = error
            ended = isinstance(outcome, dict | ProtocolError)
        finally:
            if not ended and self._connection.alive:
                with anyio.move_on_after(_LEAVE_S, shield=True), suppress(ServerError):
                    await self.cancel(task_id)
        if isinstance(outcome, dict):
            return outcome
        raise outcome or CallTimeoutError(self._server, "tools/call", clock.limit_s, in_all=clock.is_over)

    async def _follow(self, task_id: str, clock: CallClock, is_asking: Callable[[], bool]) -> None:
        """Report what a task says of itself; each change gives it the time of a call again."""
        seen: object = None
        for step in range(1_000_000):
            try:
                answer = await self._ask("tasks/get", {"taskId": task_id})
                state = self._read(answer, task_id)
            except ServerError:  # the caller who waits for the result hears of it
                return
            now = (state["status"], state.get("statusMessage"), answer.get("lastUpdatedAt"))
            if seen not in (None, now):
                clock.extend()
            if self._caller.wants_progress and seen != now:
                await self._caller.progress(step, None, state.get("statusMessage") or state["status"])
            seen = now
            with clock.stopped() if is_asking() else nullcontext():
                await anyio.sleep(_interval(state))

    async def _awaited(self, task_id: str) -> Json:
        """`tasks/result` waits by the protocol; a server that refuses before the end is polled."""
        retried = False
        while True:
            try:
                return await self._ask("tasks/result", {"taskId": task_id}, timeout_s=_LONGEST_S)
            except ProtocolError:
                state = await self.state(task_id)
                if state["status"] not in ENDED:
                    await anyio.sleep(_interval(state))
                elif retried:
                    raise
                else:
                    retried = True

    async def _polled(self, task_id: str) -> Json:
        answered: set[str] = set()
        while True:
            state = await self.state(task_id)
            if state["status"] in ENDED:
                return state
            asked = state.get("inputRequests") or {}
            for key in [key for key in asked if key not in answered]:
                await self.update(task_id, {key: await self._answer(asked[key])})
                answered.add(key)
            await anyio.sleep(_interval(state))

    async def _answer(self, asked: Any) -> Json:
        """Ask the caller a question of a stateless server."""
        method = asked.get("method") if isinstance(asked, Mapping) else None
        params = asked.get("params") or {} if isinstance(asked, Mapping) else None
        if not isinstance(method, str) or not isinstance(params, Mapping):
            raise ProtocolError(self._server, _INTERNAL_ERROR, "it asked for input in a form that is not MCP")
        return await self._caller.ask(method, params)

    async def _ask(self, method: str, params: Json, *, timeout_s: float | None = None) -> Json:
        return await self._connection.ask_about_task(
            method, params, timeout_s=timeout_s or self._timeout_s, caller=self._caller
        )


async def outcome_of(server: str, state: Mapping[str, Any]) -> Json:
    """The result in the state of a task that has ended at a stateless server.

    Raises:
        ProtocolError: The task ended with this error, or was cancelled.
    """
    if isinstance(result := state.get("result"), dict):
        return result
    said = state.get("error") or {}
    code, text = said.get("code"), said.get("message")
    if state["status"] == "cancelled":
        code, text = CANCELLED, state.get("statusMessage") or "the task was cancelled"
    raise ProtocolError(
        server,
        code if isinstance(code, int) else _INTERNAL_ERROR,
        text if isinstance(text, str) else state.get("statusMessage") or "the task failed",
        said.get("data"),
    )


def _interval(state: Mapping[str, Any]) -> float:
    """After how many seconds to ask for a state again."""
    wished = state.get("pollIntervalMs")
    return min(max(wished / 1_000 if wished else _POLL_S, _SHORTEST_POLL_S), _LONGEST_POLL_S)
