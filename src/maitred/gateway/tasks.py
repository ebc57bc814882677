"""Tasks of callers: calls that go on at their server after it has answered.

Only the principal that started a task may ask about it, as long as this principal may call the tool.
The result of a task goes through the same steps as the answer of a call.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
import structlog
from pydantic_core import from_json, to_json

from maitred.audit.service import AuditService, Entry, RequestContext, known_id
from maitred.backends.base import Caller
from maitred.background import Background
from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed, compose
from maitred.calls.rounds import RecordedCaller
from maitred.calls.screening import AnswerScreen
from maitred.calls.server_tasks import ServerTasks, outcome_of
from maitred.calls.steps.audit_call import AuditCall
from maitred.calls.steps.audit_outcome import AuditOutcome
from maitred.calls.steps.authorize import Authorize
from maitred.calls.steps.clean_answer import CleanAnswer
from maitred.calls.steps.screen_answer import ScreenAnswer
from maitred.calls.steps.take_result_tools import ResultToolSource, TakeResultTools
from maitred.calls.task_callers import QuestionKeeper, RelatedCaller
from maitred.calls.task_ids import TaskAddress, TaskIds
from maitred.calls.task_ledger import TaskLedger
from maitred.errors import MaitredError, ProtocolError, ServerError, StoreError, TaskNotFoundError
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.sharing import Sharer, sharer_of
from maitred.model.tasks import ENDED, RELATED_KEY, from_handshake
from maitred.model.tools import Tool, ToolCall
from maitred.storage.shared_state import SharedState

log = structlog.get_logger(__name__)

Json = dict[str, Any]
TaskHeard = Callable[[frozenset[tuple[str, str]], str, Json], None]
"""Receives `(scopes, id, state)` of a task that changed; `scopes` are those of viewers who asked about it."""

INVALID_PARAMS: Final = -32602
_RESULT: Final = "task.result"
_CANCEL: Final = "task.cancel"
_UPDATE: Final = "task.update"
_HELD_MS: Final = 3_600_000
_PAGE: Final = 20
_AT_ONCE: Final = 8
_CHECK_S: Final = 1.0
_QUESTION_S: Final = 1.0
_MOST_ASKING: Final = 256


@dataclass(kw_only=True, slots=True, eq=False)
class OutcomeCall(Call):
    """The result of a task on its way to the caller; `fetch` gets it from the server."""

    fetch: Callable[[], Awaitable[Json]]


class _FetchOutcome:
    async def __call__(self, call: Call, proceed: Proceed) -> Answer:  # nothing comes after it
        if not isinstance(call, OutcomeCall):
            raise TypeError("only the result of a task goes this way")
        return Answer(wire=await call.fetch())


class TaskService:
    """Gives tasks to callers, and finds them again.

    `key` returns the secret key of this catalog; `state` has the held tasks of other gateways.
    """

    def __init__(
        self,
        context: GatewayState,
        lookup: ToolLookup,
        *,
        auditing: AuditService,
        screen: AnswerScreen,
        result_tools: ResultToolSource,
        key: Callable[[], bytes],
        state: SharedState,
    ) -> None:
        self._state = state
        self._unshared: list[TaskAddress] = []
        self.context, self.lookup, self.auditing, self.screen = context, lookup, auditing, screen
        self.ids = TaskIds(key)
        self.ledger = TaskLedger()
        self._on_change: list[TaskHeard] = []
        self._news = anyio.Event()
        self._announced: list[tuple[str, str, Json]] = []
        self._asking: dict[tuple[str, TaskAddress], QuestionKeeper] = {}
        self._background: Background | None = None
        self._open: set[tuple[str, str]] = set()
        self._sharers: dict[tuple[str, str], Sharer] = {}
        self.outcome = compose(
            [
                AuditCall(self._entry),
                Authorize(lookup.authorize),
                ScreenAnswer(screen),
                TakeResultTools(result_tools),
                AuditOutcome(),
                CleanAnswer(lambda server: context.spec(server).allowed_origins),
                _FetchOutcome(),
            ]
        )

    def _entry(self, request: ToolCall, viewer: Viewer, chain_id: str) -> Entry:
        about = RequestContext(viewer=viewer, request_id=known_id(), chain_id=chain_id)
        return self.auditing.entry(about, _RESULT, request.name)

    def of(self, viewer: Viewer, caller: Caller) -> "ViewerTasks":
        """The tasks of a viewer, for a request of this client."""
        return ViewerTasks(self, viewer, caller)

    def listen(self, heard: TaskHeard) -> None:
        """Register a function to call when a server says that a task changed; it must not block."""
        self._on_change.append(heard)

    def changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        """A server of the handshake era says that a task changed."""
        self._announced.append((server, key, from_handshake(task)))
        self._news.set()

    async def _pass_on(self, server: str, instance: str, state: Json) -> None:
        """Pass on what a server says of a task, as a model may see it."""
        askers = self.ledger.askers(server, instance, state["taskId"])
        shown = await self.screen.screened(state, server, kind="task") if askers else state
        for principal, address, connections in askers:
            task_id = self.ids.write(address, principal)
            self.ledger.note(address, principal, state)
            scopes = frozenset((principal, connection) for connection in connections)
            for heard in self._on_change:
                heard(scopes, task_id, shown | {"taskId": task_id})

    # --- for the steps of a call --------------------------------------------------------------------------

    def is_stateless(self, server: str) -> bool:
        """Whether a server is of the stateless era, by its last session."""
        record = self.context.snapshot.servers.get(server)
        return record is not None and record.facts.era == "stateless"

    def started(self, call: Call, state: Mapping[str, Any]) -> Json:
        """The answer that announces a task of the server to the caller."""
        instance = self.instance_of(call.tool.server, call.viewer)
        address = TaskAddress(tool=call.tool.key, id=state["taskId"], instance=instance)
        return self._announcing(address, call.viewer, state)

    def held(self, call: Call, result: Mapping[str, Any]) -> Json:
        """The answer that announces a task which has this result already."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        times = {"createdAt": now, "lastUpdatedAt": now, "ttlMs": _HELD_MS}
        address = TaskAddress(tool=call.tool.key, id=secrets.token_urlsafe(12), held=True)
        self.ledger.hold(address, {"status": "completed", **times, "result": result})
        if self._state.is_shared:
            self._unshared.append(address)
        return self._announcing(address, call.viewer, {"status": "working", **times})

    async def share(self) -> None:
        """Let other gateways know the results of held tasks, if the store is there."""
        unshared, self._unshared = self._unshared, []
        for address in unshared:
            state = self.ledger.held(address)
            try:
                if state is not None:
                    data = to_json(state, serialize_unknown=True)
                    await self._state.put(_place(address), data, _HELD_MS / 1_000)
            except (StoreError, ValueError) as error:
                log.warning("other gateways do not know a task", tool=address.tool, reason=str(error))

    async def fetch(self, address: TaskAddress) -> None:
        """Have a held task here that another gateway holds."""
        if not self._state.is_shared or self.ledger.held(address) is not None:
            return
        try:
            data = await self._state.get(_place(address))
        except StoreError as error:
            log.warning("a task of another gateway was not read", reason=error.reason)
            return
        if data is not None:
            self.ledger.hold(address, from_json(data))

    def _announcing(self, address: TaskAddress, viewer: Viewer, state: Mapping[str, Any]) -> Json:
        self.ledger.note(address, viewer.principal, state, viewer.connection)
        if not address.held:
            self._sharers[address.tool.server, address.instance] = sharer_of(viewer)
            self._news.set()
        return {**state, "resultType": "task", "taskId": self.ids.write(address, viewer.principal)}

    def instance_of(self, server: str, viewer: Viewer) -> str:
        """The share key of the instance of a server that serves a viewer."""
        return self.context.keeper.connections.key(server, sharer_of(viewer))

    async def finish(self, call: Call, state: Mapping[str, Any]) -> Json:
        """The result of a task of the server, as soon as it has ended."""
        server = call.tool.server
        async with self.context.keeper.connections.connection(server, sharer_of(call.viewer)) as connection:
            caller = RelatedCaller(RecordedCaller(call.caller, call.note_question))
            tasks = ServerTasks(connection, server, caller, timeout_s=self.timeout_s(server))
            longest_s = self.context.spec(server).timeouts.longest_call_s
            return await tasks.finish(state["taskId"], lambda: caller.is_asking, longest_s=longest_s)

    def timeout_s(self, server: str) -> float:
        """How long a server may take for an answer."""
        return self.context.spec(server).timeouts.call_s

    # --- questions to clients of the stateless era --------------------------------------------------------

    async def questions(self, address: TaskAddress, viewer: Viewer, caller: Caller) -> Json:
        """What a server of the handshake era asks about a task; the gateway waits in the client's place."""
        known = self._asking.get((viewer.principal, address))
        if known is None:
            if self._background is None or len(self._asking) >= _MOST_ASKING:
                return {}
            known = QuestionKeeper(
                f"{viewer.principal} task {address.id}", viewer.principal, caller.capabilities
            )
            self._asking[viewer.principal, address] = known
            self._background.start(self._wait_for_questions, address, viewer, known)
        await known.asked(_QUESTION_S)
        return known.questions

    def answer(self, address: TaskAddress, viewer: Viewer, responses: Mapping[str, Any]) -> bool:
        """Answer what a server of the handshake era asks; returns whether it is one of that era."""
        if (known := self._asking.get((viewer.principal, address))) is not None:
            known.answer(responses)
        return not self.is_stateless(address.tool.server)

    async def _wait_for_questions(self, address: TaskAddress, viewer: Viewer, keeper: QuestionKeeper) -> None:
        server = address.tool.server
        try:
            async with self.context.keeper.connections.connection(server, sharer_of(viewer)) as connection:
                tasks = ServerTasks(connection, server, keeper, timeout_s=self.timeout_s(server))
                await tasks.result(address.id)
        except MaitredError as error:
            log.debug("a task ended without a result", server=server, reason=str(error))
        finally:
            del self._asking[viewer.principal, address]

    # --- servers with tasks stay open ---------------------------------------------------------------------

    async def keep_up(self) -> None:
        """Keep servers open while a task runs there, and pass on what they announce; never returns."""
        async with Background() as background:
            self._background = background
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                announced, self._announced = self._announced, []
                for server, key, state in announced:
                    await self._pass_on(server, key, state)
                for instance, sharer in list(self._sharers.items()):
                    if instance not in self._open and self.ledger.runs(*instance):
                        self._open.add(instance)
                        background.start(self._keep_open, instance, sharer)

    async def _keep_open(self, instance: tuple[str, str], sharer: Sharer) -> None:
        server, _ = instance
        try:
            async with self.context.keeper.connections.connection(server, sharer) as connection:
                while connection.alive and self.ledger.runs(*instance):
                    with anyio.move_on_after(_CHECK_S):
                        await connection.closed()
        except ServerError as error:
            log.info("a server with tasks went away", server=server, reason=str(error))
        finally:
            self._open.discard(instance)
            self._sharers.pop(instance, None)


class ViewerTasks:
    """What a viewer can do with its tasks, by their ids; `caller` is the client of the present request."""

    def __init__(self, service: TaskService, viewer: Viewer, caller: Caller) -> None:
        self._service = service
        self._viewer = viewer
        self._caller = caller

    def has(self, task_id: str) -> bool:
        """Whether an id is of a task of the viewer, who may still call its tool."""
        try:
            _, tool = self._find(task_id)
            self._service.lookup.authorize(tool, self._viewer)
        except MaitredError:
            return False
        return True

    async def get(self, task_id: str, *, whole: bool) -> Json:
        """The present state of a task; with `whole`, also the result or the error of one that has ended.

        Raises:
            TaskNotFoundError: The viewer has no such task.
            NotAllowedError: The viewer may not call its tool any more.
            ServerError: The server does not know the task, or cannot be asked.
        """
        async with self._asked(_RESULT, task_id) as (address, tool, _):
            if address.held:
                state = await self._held(address, task_id)
                fetch: Callable[[], Awaitable[Json]] = _given(state["result"])
            else:
                async with self._at(address) as tasks:
                    state = await tasks.state(address.id)
                    fetch = await self._fetched(tasks, address, state) if whole else _given({})
                if whole and state["status"] == "input_required" and "inputRequests" not in state:
                    state["inputRequests"] = await self._service.questions(
                        address, self._viewer, self._caller
                    )
            self._service.ledger.note(address, self._viewer.principal, state, self._viewer.connection)
        if whole and state["status"] in ("completed", "failed"):
            state = await self._with_outcome(state, tool, fetch)
        elif state.get("inputRequests") or state.get("statusMessage"):
            state = await self._service.screen.screened(state, tool.server, kind="task")
        return state | {"taskId": task_id}

    async def _fetched(
        self, tasks: ServerTasks, address: TaskAddress, state: Mapping[str, Any]
    ) -> Callable[[], Awaitable[Json]]:
        """The result of a task that has ended, as a function that returns or raises it."""
        if tasks.is_polled or state["status"] not in ("completed", "failed"):
            return partial(outcome_of, address.tool.server, state)
        try:
            return _given(await tasks.result(address.id))
        except ProtocolError as error:
            return _raising(error)

    async def _with_outcome(self, state: Json, tool: Tool, fetch: Callable[[], Awaitable[Json]]) -> Json:
        known = {key: value for key, value in state.items() if key not in ("result", "error")}
        known = await self._service.screen.screened(known, tool.server, kind="task")
        try:
            result = await self._outcome(tool, fetch)
        except ProtocolError as error:
            data = {} if error.data is None else {"data": error.data}
            said = {"code": error.rpc_code, "message": error.message, **data}
            return known | {"status": "failed", "error": said}
        return known | {"status": "completed", "result": result}

    async def result(self, task_id: str) -> Json:
        """The result of a task, as soon as it has ended.

        Raises:
            TaskNotFoundError: The viewer has no such task.
            NotAllowedError: The viewer may not call its tool any more.
            ProtocolError: The task ended with this error, or the server does not know it.
            ServerError: The server cannot be asked.
        """
        address, tool = self._find(task_id)

        async def fetch() -> Json:
            if address.held:
                return dict((await self._held(address, task_id))["result"])
            async with self._at(address, task_id) as tasks:
                return await tasks.result(address.id)

        answer = Answer(wire=await self._outcome(tool, fetch))
        return answer.with_meta({RELATED_KEY: {"taskId": task_id}}).wire

    async def _outcome(self, tool: Tool, fetch: Callable[[], Awaitable[Json]]) -> Json:
        """The result that `fetch` returns, after the steps that the answer of a call goes through."""
        request = ToolCall(name=tool.name, arguments={})
        call = OutcomeCall(request=request, viewer=self._viewer, fetch=fetch)
        call.tool = tool
        answer = await self._service.outcome(call)
        answer = answer.without_meta(lambda key: key == RELATED_KEY)
        return answer.wire if answer.meta else answer.without_field("_meta").wire

    async def cancel(self, task_id: str, *, again: bool) -> Json:
        """Cancel a task, and return its state afterwards. With `again`, a task may have ended before.

        Raises:
            TaskNotFoundError: The viewer has no such task.
            NotAllowedError: The viewer may not call its tool any more.
            ProtocolError: The server refuses that, or the task has ended.
            ServerError: The server cannot be asked.
        """
        async with self._asked(_CANCEL, task_id) as (address, tool, entry):
            if address.held:
                state = await self._held(address, task_id)
                self._check_runs(state, tool, again=again)
            else:
                async with self._at(address) as tasks:
                    if not again:
                        self._check_runs(await tasks.state(address.id), tool, again=False)
                    await entry.begin()
                    await tasks.cancel(address.id)
                    state = await tasks.stopped(address.id)
            self._service.ledger.note(address, self._viewer.principal, state, self._viewer.connection)
            await entry.ended({})
        return (await self._service.screen.screened(state, tool.server, kind="task")) | {"taskId": task_id}

    @staticmethod
    def _check_runs(state: Mapping[str, Any], tool: Tool, *, again: bool) -> None:
        if state["status"] in ENDED and not again:
            raise ProtocolError(tool.server, INVALID_PARAMS, f"the task has ended: it is {state['status']}")

    async def update(self, task_id: str, responses: Mapping[str, Any]) -> None:
        """Give a task the answers to questions of its server; answers to other questions are ignored.

        Raises:
            TaskNotFoundError: The viewer has no such task.
            NotAllowedError: The viewer may not call its tool any more.
            ServerError: The server does not know the task, or cannot be asked.
        """
        async with self._asked(_UPDATE, task_id) as (address, _, entry):
            if not address.held:
                await entry.begin()
                if not self._service.answer(address, self._viewer, responses):
                    async with self._at(address) as tasks:
                        await tasks.update(address.id, responses)
            await entry.ended({})

    async def list(self, after: int = 0) -> tuple[list[Json], int]:
        """A page of the viewer's tasks, the oldest first, and the number of its last task if there are more.

        Those are the tasks that this process knows: started through it, or asked about.
        """
        ledger, principal = self._service.ledger, self._viewer.principal
        known = ledger.tasks(principal, serves=self._is_served, after=after, most=_PAGE + 1)
        page = known[:_PAGE]
        states: dict[int, Json] = {}
        turns = anyio.CapacityLimiter(_AT_ONCE)

        async def look(number: int, address: TaskAddress) -> None:
            task_id = self._service.ids.write(address, self._viewer.principal)
            async with turns:
                try:
                    states[number] = await self.get(task_id, whole=False)
                except ProtocolError as error:
                    if error.rpc_code == INVALID_PARAMS:
                        self._service.ledger.forget(address, self._viewer.principal)
                except MaitredError as error:
                    log.info("a task is left out of a list", tool=address.tool, reason=str(error))

        async with anyio.create_task_group() as group:
            for number, address in page:
                group.start_soon(look, number, address)
        return [states[number] for number in sorted(states)], page[-1][0] if len(known) > _PAGE else 0

    # --- where a task is ----------------------------------------------------------------------------------

    def _find(self, task_id: str) -> tuple[TaskAddress, Tool]:
        address = self._service.ids.read(task_id, self._viewer.principal)
        tool = self._service.context.snapshot.by_key.get(address.tool)
        if tool is None:
            raise TaskNotFoundError(task_id, hint="Its tool is not offered any more.")
        if not address.held:
            instance = self._service.instance_of(tool.server, self._viewer)
            address = replace(address, instance=instance)
        return address, tool

    def _is_served(self, address: TaskAddress) -> bool:
        """Whether the instance of a task is the one that serves the viewer."""
        return address.held or address.instance == self._service.instance_of(
            address.tool.server, self._viewer
        )

    @asynccontextmanager
    async def _asked(self, action: str, task_id: str) -> AsyncIterator[tuple[TaskAddress, Tool, Entry]]:
        """The task of an id, for a request that is recorded if it fails or changes something."""
        address, tool = self._find(task_id)
        async with self._service.auditing.request(action, tool.name, self._viewer) as entry:
            entry.means(tool.server, tool.key.name)
            self._service.lookup.authorize(tool, self._viewer)
            async with self._service.screen.errors():
                yield address, tool, entry

    @asynccontextmanager
    async def _at(self, address: TaskAddress, task_id: str = "") -> AsyncIterator[ServerTasks]:
        """The server of a task, which may ask the caller about it if the id is given."""
        server = address.tool.server
        caller = RelatedCaller(self._caller, task_id) if task_id else self._caller
        connections = self._service.context.keeper.connections
        async with connections.connection(server, sharer_of(self._viewer)) as connection:
            yield ServerTasks(connection, server, caller, timeout_s=self._service.timeout_s(server))

    async def _held(self, address: TaskAddress, task_id: str) -> Json:
        await self._service.fetch(address)
        state = self._service.ledger.held(address)
        if state is None:
            raise TaskNotFoundError(task_id)
        return dict(state)


def _place(address: TaskAddress) -> str:
    return f"task:{address.tool.server}:{address.tool.name}:{address.id}"


def _given(result: Mapping[str, Any]) -> Callable[[], Awaitable[Json]]:
    async def fetch() -> Json:
        return dict(result)

    return fetch


def _raising(error: ProtocolError) -> Callable[[], Awaitable[Json]]:
    async def fetch() -> Json:
        raise error

    return fetch
