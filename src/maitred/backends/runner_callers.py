"""Callers whose server runs on another replica: questions, progress and log messages go back to them.

`CallersHere` are those of this replica, with calls elsewhere. `ForwardedCaller` is, on the replica of the
server, the caller of a request that came from another one.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import anyio
import structlog
from cachetools import LRUCache

from maitred.backends.base import Caller
from maitred.backends.forwarding_caller import client_of
from maitred.backends.runner_forms import sharer_of
from maitred.background import Background
from maitred.errors import CallerRefusedError, MaitredError, ReplicaError
from maitred.model.held_calls import HeldCall
from maitred.replicas.forwarding import ReplicaRequest, Replicas

log = structlog.get_logger(__name__)

_MOST_REMEMBERED: Final = 1_024
_MOST_QUEUED: Final = 10_000
_MOST_AT_ONCE: Final = 100
_MOST_WAITING: Final = 1_000
"""Messages for one caller that does not read them; more are dropped."""
_STUCK_S: Final = 60.0
_CATCH_UP_S: Final = 5.0
_INTERNAL_ERROR: Final = -32603


class CallersHere:
    """The callers of this replica whose calls are forwarded, and the answers to what servers ask them."""

    def __init__(self, replicas: Replicas) -> None:
        self._numbers = count(1)
        self._replicas = replicas
        self._calls: dict[str, tuple[str, Caller]] = {}
        self._clients: LRUCache[tuple[str, str], Caller] = LRUCache(_MOST_REMEMBERED)
        self._inboxes: dict[tuple[str, str], _Inbox] = {}
        replicas.register("caller.ask", self._ask)
        replicas.register("caller.hear", self._hear)

    @contextmanager
    def calling(self, caller: Caller, owner: str) -> Iterator[str]:
        """Name a call while it is forwarded to a replica, which alone may speak to its caller."""
        call = str(next(self._numbers))
        self._calls[call] = (owner, caller)
        if not caller.takes_rounds:
            self._clients[owner, caller.key] = client_of(caller)
        try:
            yield call
        finally:
            del self._calls[call]
            if (inbox := self._inboxes.pop((owner, call), None)) is not None:
                inbox.scope.cancel()

    async def caught_up(self, call: str, owner: str) -> None:
        """Wait a while until the caller has got the messages that came before the answer."""
        if (inbox := self._inboxes.get((owner, call))) is not None:
            with anyio.move_on_after(_CATCH_UP_S):
                await inbox.is_empty.wait()

    def forget(self, key: str) -> None:
        """Forget a client that has gone."""
        for place in [place for place in self._clients if place[1] == key]:
            self._clients.pop(place, None)

    def _caller(self, body: Mapping[str, Any], owner: str) -> Caller | None:
        running = self._calls.get(body["call"])
        if running is not None and running[0] == owner:
            return running[1]
        return self._clients.get((owner, body["key"]))

    async def _ask(self, request: ReplicaRequest) -> Mapping[str, Any]:
        body = request.body
        caller = self._caller(body, request.sender)
        if caller is None:
            raise CallerRefusedError(_INTERNAL_ERROR, "the request has ended, and its client is gone")
        return {"result": await caller.ask(body["method"], body["params"])}

    async def _hear(self, request: ReplicaRequest) -> Mapping[str, Any]:
        """Queue messages for each caller, so that a client that does not read keeps up no other."""
        for message in request.body["messages"]:
            caller = self._caller(message, request.sender)
            if caller is None:
                continue
            of_call = message["call"] in self._calls
            place = request.sender, message["call"] if of_call else f"client {message['key']}"
            if (inbox := self._inboxes.get(place)) is None:
                inbox = self._inboxes[place] = _Inbox()
                self._replicas.start(self._pass_on, place, inbox)
            if len(inbox.messages) < _MOST_WAITING:
                inbox.messages.append((caller, message))
        return {}

    async def _pass_on(self, place: tuple[str, str], inbox: "_Inbox") -> None:
        with inbox.scope:
            while inbox.messages:
                caller, message = inbox.messages.popleft()
                try:
                    with anyio.fail_after(_STUCK_S):
                        await _say(caller, message)
                except TimeoutError:
                    log.info("a client does not read what a server sends it")
                    break
                except Exception:  # of one client, or of another version; the next message goes on
                    log.exception("a message of a server did not reach its client")
        inbox.is_empty.set()
        if self._inboxes.get(place) is inbox:
            del self._inboxes[place]


class _Inbox:
    """Messages for one caller; `is_empty` is set when all have reached it, and `scope` ends that."""

    def __init__(self) -> None:
        self.messages: deque[tuple[Caller, Mapping[str, Any]]] = deque()
        self.scope = anyio.CancelScope()
        self.is_empty = anyio.Event()


async def _say(caller: Caller, message: Mapping[str, Any]) -> None:
    match message["what"]:
        case "progress":
            await caller.progress(*message["values"])
        case "log":
            await caller.log(message["params"], late=message["late"])
        case "notify":
            await caller.notify(message["method"], message["params"])


class CallerMessages:
    """Messages to callers of other replicas, in their order for each replica."""

    def __init__(self, replicas: Replicas, background: Background) -> None:
        self._replicas = replicas
        self._background = background
        self._queues: dict[str, deque[dict[str, Any] | anyio.Event]] = {}

    @property
    def replicas(self) -> Replicas:
        """By which they are sent."""
        return self._replicas

    def send(self, replica: str, message: dict[str, Any] | anyio.Event) -> None:
        """Queue a message; an event is set when those before it have been sent."""
        queue = self._queues.get(replica)
        if queue is None:
            if not self._background.is_open:
                return
            queue = self._queues[replica] = deque()
            self._background.start(self._work, replica, queue)
        if len(queue) < _MOST_QUEUED or isinstance(message, anyio.Event):
            queue.append(message)

    async def delivered(self, replica: str) -> None:
        """Wait until all messages so far have been sent."""
        if replica in self._queues:
            sent = anyio.Event()
            self.send(replica, sent)
            await sent.wait()

    async def _work(self, replica: str, queue: deque[dict[str, Any] | anyio.Event]) -> None:
        try:
            while queue:
                batch, marks = _next_batch(queue)
                if batch:
                    await self._deliver(replica, batch)
                for mark in marks:
                    mark.set()
        finally:
            self._queues.pop(replica, None)
            for one in queue:
                if isinstance(one, anyio.Event):
                    one.set()

    async def _deliver(self, replica: str, batch: list[dict[str, Any]]) -> None:
        try:
            await self._replicas.forward(replica, "caller.hear", {"messages": batch})
        except MaitredError as error:
            log.info("messages of a server did not reach its clients", replica=replica, reason=str(error))


def _next_batch(
    queue: deque[dict[str, Any] | anyio.Event],
) -> tuple[list[dict[str, Any]], list[anyio.Event]]:
    batch: list[dict[str, Any]] = []
    marks: list[anyio.Event] = []
    while queue and len(batch) < _MOST_AT_ONCE:
        one = queue.popleft()
        if isinstance(one, anyio.Event):
            marks.append(one)
        else:
            batch.append(one)
    return batch, marks


class ForwardedCaller:
    """A caller that is connected to another replica; see `Caller`."""

    def __init__(self, sender: str, form: Mapping[str, Any], messages: CallerMessages) -> None:
        self._sender = sender
        self._messages = messages
        self._who = {"call": form["call"], "key": form["key"]}
        self.key = f"{sender} {form['key']}"
        self.principal: str = form["principal"]
        self.sharer = sharer_of(form["sharer"])
        self.capabilities: Mapping[str, Any] = form["capabilities"]
        self.log_level: str = form["log_level"]
        self.takes_rounds: bool = form["takes_rounds"]
        self.wants_progress: bool = form["wants_progress"]

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client by way of its replica; see `Caller`."""
        body = {**self._who, "method": method, "params": dict(params)}
        try:
            answer = await self._messages.replicas.forward(self._sender, "caller.ask", body)
        except ReplicaError as error:
            raise CallerRefusedError(_INTERNAL_ERROR, str(error)) from error
        return dict(answer["result"])

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        if self.wants_progress:
            self._send(what="progress", values=[progress, total, message])

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send a log message; see `Caller`."""
        self._send(what="log", params=dict(params), late=late)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; see `Caller`."""
        self._send(what="notify", method=method, params=dict(params))

    def note_held(self, call: HeldCall) -> None:
        """Do nothing: calls wait for a person on the replica of their caller."""

    def _send(self, **message: Any) -> None:
        self._messages.send(self._sender, {**self._who, **message})
