"""Whom a server asks: the requests under way on one connection, with their callers.

Over HTTP a server asks on the stream of the request that it works on, so the transport says whose request it
is. Over other transports nothing says it. Then the question goes to the client of all requests under way. If
they have several clients, the gateway refuses the question and does not guess. From the first such question
on, requests of different clients to this server wait for each other, while those of one client run together.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar, Token
from typing import Any, Final

import anyio
from cachetools import LRUCache
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND

from maitred.backends.base import Caller
from maitred.backends.call_clock import CallClock
from maitred.backends.forwarding_caller import client_of
from maitred.errors import CallerRefusedError, ServerUnavailableError
from maitred.model.asking import ASKING, ELICITED, LIST_ROOTS

_MOST_OPEN: Final = 64
_MOST_REMEMBERED: Final = 256
_JUST_S: Final = 10.0
_START_S: Final = 5.0

_of_this_stream: ContextVar["RequestUnderWay | None"] = ContextVar("request_under_way", default=None)
"""The request on whose stream a message of a server came; the SDK's HTTP transports keep the context."""


class RequestUnderWay:
    """A request with its caller, while the server works on it: an async context."""

    __slots__ = ("_callers", "_token", "caller", "clock", "minor")

    def __init__(self, callers: "CallersUnderWay", caller: Caller, clock: CallClock, *, minor: bool) -> None:
        self._callers = callers
        self._token: Token[RequestUnderWay | None] | None = None
        self.caller = caller
        self.clock = clock
        self.minor = minor

    def is_of(self, callers: "CallersUnderWay") -> bool:
        """Whether it was made on this connection."""
        return self._callers is callers

    async def __aenter__(self) -> None:
        await self._callers.enter(self)
        self._token = _of_this_stream.set(self)

    async def __aexit__(self, *_: object) -> None:
        if self._token is not None:
            _of_this_stream.reset(self._token)
        self._callers.leave(self)


class _OpenQuestion:
    """A question under way, with the requests that it may belong to; withdrawn when all have ended."""

    def __init__(self, requests: list[RequestUnderWay]) -> None:
        self.requests = requests
        self.scope = anyio.CancelScope()


class _Waiter:
    def __init__(self, request: RequestUnderWay) -> None:
        self.request = request
        self.admitted = anyio.Event()


class CallersUnderWay:
    """Finds the caller of a server's question.

    `asks` says that the server has asked before without naming the request; `on_ask` is called when it does.
    `wait_s` is how long a request waits for those of other clients.
    """

    def __init__(self, server: str, *, asks: bool, on_ask: Callable[[], None], wait_s: float) -> None:
        self._server = server
        self._asks = asks
        self._on_ask = on_ask
        self._wait_s = wait_s
        self._running: dict[str, list[RequestUnderWay]] = {}
        self._waiting: deque[_Waiter] = deque()
        self._questions: list[_OpenQuestion] = []
        self._roots: LRUCache[str, Caller] = LRUCache(_MOST_REMEMBERED)
        self._clients: LRUCache[str, Caller] = LRUCache(_MOST_REMEMBERED)
        self._begun = anyio.Event()
        self._first_answer = anyio.Event()
        self._first_answer.set()
        self._announced: dict[str, float] = {}
        self.of_tasks: dict[str, list[Caller]] = {}
        """The callers that ask about each task of the server now, by its id."""
        self._sent_to_url: LRUCache[str, Caller] = LRUCache(_MOST_REMEMBERED)

    @property
    def is_asking(self) -> bool:
        """Whether the server waits for the answer to a question."""
        return bool(self._questions)

    def request(self, caller: Caller, clock: CallClock, *, minor: bool = False) -> RequestUnderWay:
        """A request of a caller, as a context; of a `minor` one, others of its client are asked rather."""
        return RequestUnderWay(self, caller, clock, minor=minor)

    # --- requests -----------------------------------------------------------------------------------------

    async def enter(self, request: RequestUnderWay) -> None:
        """Begin a request, as soon as no question could be that of another client.

        Raises:
            ServerUnavailableError: Other clients' requests took too long.
        """
        if not self._asks or self._may_begin(request.caller.key):
            self._begin(request)
            await self._await_roots(request)
            return
        waiter = _Waiter(request)
        self._waiting.append(waiter)
        try:
            with anyio.move_on_after(self._wait_s):
                await waiter.admitted.wait()
        except BaseException:
            self._gave_up(waiter)
            raise
        if not waiter.admitted.is_set():
            self._gave_up(waiter)
            raise ServerUnavailableError(
                self._server,
                "it asks its callers questions, so it serves one client at a time, and a call of another"
                f" client took longer than {self._wait_s:g} s; try again, or give it `share: client`",
            )

    async def _await_roots(self, request: RequestUnderWay) -> None:
        """Let the answer to a question for roots come first, which waited for this request."""
        if self._first_answer.is_set():
            return
        try:
            with anyio.move_on_after(_START_S):
                await self._first_answer.wait()
        except BaseException:
            self.leave(request)
            raise

    def leave(self, request: RequestUnderWay) -> None:
        """End a request, and withdraw the questions that belonged to it alone."""
        key = request.caller.key
        running = self._running[key]
        running.remove(request)
        if not running:
            del self._running[key]
        for question in self._questions:
            if request in question.requests:
                question.requests.remove(request)
                if not question.requests:
                    question.scope.cancel()
        if self._waiting:
            self._admit()

    def _begin(self, request: RequestUnderWay) -> None:
        if not request.caller.takes_rounds:
            self._clients[request.caller.key] = client_of(request.caller)
        self._begun.set()
        running = self._running.setdefault(request.caller.key, [])
        running.insert(0 if request.minor else len(running), request)

    def _may_begin(self, key: str) -> bool:
        """Whether a request can begin now; one of a client that is being asked must never wait for others."""
        if any(one.caller.key == key for question in self._questions for one in question.requests):
            return True
        return not self._running or (set(self._running) == {key} and not self._waiting)

    def _admit(self) -> None:
        """Let the next client begin what waits, if no other client's request is under way."""
        while self._waiting:
            key = self._waiting[0].request.caller.key
            if self._running and set(self._running) != {key}:
                return
            waiter = self._waiting.popleft()
            self._begin(waiter.request)
            waiter.admitted.set()

    def _gave_up(self, waiter: _Waiter) -> None:
        if waiter.admitted.is_set():
            self.leave(waiter.request)
        else:
            self._waiting.remove(waiter)
            self._admit()

    # --- log messages -------------------------------------------------------------------------------------

    def concerned(self) -> tuple[Sequence[Caller], bool]:
        """Whom a log message concerns that comes now; see `maitred.backends.log_messages`."""
        exact = _of_this_stream.get()
        if exact is not None and exact in self._running.get(exact.caller.key, ()):
            return [exact.caller], False
        if exact is not None and exact.is_of(self):
            return [exact.caller] if exact.caller.key in self._clients else [], True
        waiting = {one.key: one for callers in self.of_tasks.values() for one in callers}
        waiting |= {key: requests[-1].caller for key, requests in self._running.items()}
        if waiting:
            return list(waiting.values()) if len(waiting) == 1 else [], False
        known = list(self._clients.values())
        return known if len({one.principal for one in known}) == 1 else [], True

    def forget(self, key: str) -> None:
        """Forget a client that has gone."""
        self._announced.pop(key, None)
        for remembered in (self._clients, self._roots):
            remembered.pop(key, None)
        for name in [name for name, one in self._sent_to_url.items() if one.key == key]:
            del self._sent_to_url[name]

    # --- questions ----------------------------------------------------------------------------------------

    async def answer(self, method: str, params: Mapping[str, Any], *, waits: bool = False) -> dict[str, Any]:
        """Answer a request of the server by asking the caller that it belongs to.

        With `waits`, a question for roots that comes before the first request waits for it.

        Raises:
            MCPError: The caller refused, or the request cannot be attributed to one caller.
        """
        if method not in ASKING:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        if len(self._questions) >= _MOST_OPEN:
            raise MCPError(INTERNAL_ERROR, f"{_MOST_OPEN} questions wait for answers; ask again later")
        if waits and method == LIST_ROOTS and not self._roots and not self._running:
            return await self._answer_first(params)
        caller, requests = self._attributed(method)
        question = _OpenQuestion(requests)
        self._questions.append(question)
        try:
            with question.scope, ExitStack() as stopped:
                for request in requests:
                    stopped.enter_context(request.clock.stopped())
                self.sent_to_url(params, caller)
                result = await caller.ask(method, params)
                if method == LIST_ROOTS:
                    self._roots[caller.key] = client_of(caller)
                    self._announced.pop(caller.key, None)
                return result
        except CallerRefusedError as error:
            raise MCPError(error.rpc_code, error.message, error.data) from error
        finally:
            self._questions.remove(question)
        raise MCPError(INVALID_REQUEST, f"the request has ended for which {method} was sent")

    def _attributed(self, method: str) -> tuple[Caller, list[RequestUnderWay]]:
        """The client that a question is for, and its requests that the question may belong to."""
        exact = _of_this_stream.get()
        if exact is not None and exact in self._running.get(exact.caller.key, ()):
            return exact.caller, [exact]
        if exact is not None and exact.is_of(self):
            raise MCPError(INVALID_REQUEST, f"the request has ended for which {method} was sent")
        if self._running and (method != LIST_ROOTS or len(self._running) > 1):
            self._asks = True
            self._on_ask()
        announcer = self._announcer() if method == LIST_ROOTS else None
        waiting = {one.key for callers in self.of_tasks.values() for one in callers}
        clients = self._running.keys() | waiting | ({announcer.key} if announcer else set())
        if len(clients) > 1:
            raise MCPError(
                INTERNAL_ERROR,
                f"requests of {len(clients)} clients are under way, and nothing says for which of them"
                f" {method} was sent; from now on they are made one after the other",
            )
        requests = [one for running in self._running.values() for one in running]
        if announcer is not None:
            return announcer, []  # not for a request, which may end before the answer
        if requests and method == LIST_ROOTS:
            return requests[-1].caller, []
        if not requests:
            raise MCPError(INTERNAL_ERROR, f"no request is under way, so no caller can answer {method}")
        return requests[-1].caller, requests

    async def _answer_first(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the first caller for roots: a server that starts for a call asks before the call is made.

        The call waits for the answer, since the server may need the roots for it.
        """
        self._begun = anyio.Event()
        self._first_answer = anyio.Event()
        try:
            with anyio.move_on_after(_START_S):
                await self._begun.wait()
            return await self.answer(LIST_ROOTS, params)
        finally:
            self._first_answer.set()

    def _announcer(self) -> Caller | None:
        """The only client whose roots have just changed; a server then asks for them, at any time."""
        since = anyio.current_time() - _JUST_S
        self._announced = {key: at for key, at in self._announced.items() if at > since}
        known = [self._roots[key] for key in self._announced if key in self._roots]
        if len(known) != 1:
            return None
        self._announced.clear()
        return known[0]

    def sent_to_url(self, params: Mapping[str, Any], caller: Caller) -> None:
        """Remember whom a server sent to a URL, since it announces that the person is done there."""
        if isinstance(name := params.get("elicitationId"), str):
            self._sent_to_url[name] = client_of(caller)

    async def done_at_url(self, name: str) -> None:
        """Announce to the client of an elicitation that the person is done at its URL."""
        if caller := self._sent_to_url.pop(name, None):
            await caller.notify(ELICITED, {"elicitationId": name})

    def announce_roots(self, key: str) -> bool:
        """Whether the server has asked a client for its roots; it then hears of a change, and asks again."""
        if key not in self._roots:
            return False
        self._announced[key] = anyio.current_time()
        return True
