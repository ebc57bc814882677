"""Notify clients of changes of their tasks.

A client of the handshake era gets what the server announces of the tasks that the client's connection asked
about. For a client of the stateless era that listens to tasks, the gateway asks for their states and sends
those that changed. So it is served whether or not the server announces anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import anyio
import mcp_types as types
import structlog
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import INVALID_PARAMS

from maitred.errors import MaitredError, NotFoundError, ProtocolError
from maitred.gateway import Gateway, ViewerTasks
from maitred.model.access import Viewer
from maitred.model.tasks import ENDED, for_handshake
from maitred.surfaces.mcp.caller import caller_of
from maitred.surfaces.mcp.task_support import capabilities_of, check_extension

log = structlog.get_logger(__name__)

Context = ServerRequestContext[Any, Any]

_TASK_IDS: Final = "taskIds"
_MOST_TASKS: Final = 100
_TELL_S: Final = 5.0
_RETRY_S: Final = 5.0
_POLL_MS: Final = 1_000
_SHORTEST_POLL_S: Final = 0.05


class _TaskChanged(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class TaskNotices:
    """Collects what servers announce of tasks; `run` must run beside the server."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._connections: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()
        self._announced: list[tuple[frozenset[tuple[str, str]], dict[str, Any]]] = []
        self._news = anyio.Event()
        self._waiting: dict[str, anyio.Event] = {}
        gateway.listen(lists=lambda: None, resource=lambda *_: None, task=self._heard)

    def connected(self, connection: Connection, viewer: Viewer) -> None:
        """Notify a client of the handshake era from now on."""
        self._connections[connection] = viewer

    def _heard(self, scopes: frozenset[tuple[str, str]], task_id: str, state: dict[str, Any]) -> None:
        self._announced.append((scopes, state))
        self._news.set()
        if task_id in self._waiting:
            self._waiting.pop(task_id).set()

    async def run(self) -> None:
        """Pass on what servers announce; runs until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            announced, self._announced = self._announced, []
            async with anyio.create_task_group() as group:
                for connection, viewer in [*self._connections.items()]:
                    own = [state for scopes, state in announced if viewer.scope in scopes]
                    if own:
                        group.start_soon(self._tell, connection, own)

    async def _tell(self, connection: Connection, states: Sequence[Mapping[str, Any]]) -> None:
        with anyio.move_on_after(_TELL_S):
            for state in states:
                await connection.notify("notifications/tasks/status", for_handshake(state))

    # --- clients that listen ------------------------------------------------------------------------------

    def listened(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams, viewer: Viewer
    ) -> "TaskStream | None":
        """The tasks that a client of the stateless era listens to; `None` if it listens to none.

        Raises:
            MCPError: The client did not declare the extension.
        """
        asked = (params.notifications.model_extra or {}).get(_TASK_IDS)
        if not isinstance(asked, list) or not asked:
            return None
        check_extension(capabilities_of(ctx))
        tasks = self._gateway.running_tasks(viewer, caller_of(ctx, viewer, self._gateway.answer_s))
        known = [one for one in dict.fromkeys(asked) if isinstance(one, str) and tasks.has(one)]
        return TaskStream(self, ctx, tasks, known[:_MOST_TASKS])

    async def changed(self, task_id: str, within_s: float) -> None:
        """Wait until a server announces a change of a task, but no longer than some seconds."""
        event = self._waiting.setdefault(task_id, anyio.Event())
        try:
            with anyio.move_on_after(max(within_s, _SHORTEST_POLL_S)):
                await event.wait()
        finally:
            if self._waiting.get(task_id) is event:
                del self._waiting[task_id]


class TaskStream:
    """The tasks of one stream. `context` is for the SDK, whose acknowledgment then names the tasks."""

    def __init__(
        self,
        notices: TaskNotices,
        ctx: Context,
        tasks: ViewerTasks,
        task_ids: Sequence[str],
    ) -> None:
        self._notices = notices
        self._session: ServerSession = ctx.session
        self._request_id = ctx.request_id
        self._tasks = tasks
        self._acknowledged = anyio.Event()
        self.task_ids = task_ids

    @property
    def session(self) -> Any:
        """The session for the SDK's handler of streams."""
        return _Acknowledging(self._session, self.task_ids, self._acknowledged)

    async def follow(self, task_id: str) -> None:
        """Send each state of a task that differs from the last one, until the task has ended."""
        await self._acknowledged.wait()
        last: dict[str, Any] = {}
        while True:
            try:
                state = await self._tasks.get(task_id, whole=True)
            except (ProtocolError, NotFoundError) as error:
                if not isinstance(error, ProtocolError) or error.rpc_code == INVALID_PARAMS:
                    return
                state = last
            except MaitredError as error:
                log.info("a task cannot be followed now", reason=str(error))
                state = last
            if state and state != last:
                await self._send(state)
                if state["status"] in ENDED:
                    return
            poll_s = state.get("pollIntervalMs", _POLL_MS) / 1_000 if state else _RETRY_S
            await self._notices.changed(task_id, poll_s)
            last = state

    async def _send(self, state: Mapping[str, Any]) -> None:
        meta = {**(state.get("_meta") or {}), SUBSCRIPTION_ID_META_KEY: self._request_id}
        notification: Any = _TaskChanged(params={**state, "_meta": meta})
        await self._session.send_notification(notification, related_request_id=self._request_id)


class _Acknowledging:
    """A session whose acknowledgment of a stream names the tasks that the stream reports."""

    def __init__(self, session: ServerSession, task_ids: Sequence[str], acknowledged: anyio.Event) -> None:
        self._session = session
        self._task_ids = task_ids
        self._acknowledged = acknowledged

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        if not isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            await self._session.send_notification(notification, related_request_id)
            return
        honored = notification.params.notifications.model_copy(update={_TASK_IDS: list(self._task_ids)})
        params = notification.params.model_copy(update={"notifications": honored})
        named = notification.model_copy(update={"params": params})
        await self._session.send_notification(named, related_request_id)
        self._acknowledged.set()
