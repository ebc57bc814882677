"""Whose question it is: the requests under way on one connection, and the clients that made them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND
from tests.backends.rig import SOON_S
from tests.support.callers import Answering, Reporting

from maitred.backends.base import NOT_ASKED, Caller
from maitred.backends.call_clock import CallClock
from maitred.backends.callers import CallersUnderWay
from maitred.backends.notices import ProgressNotices
from maitred.errors import CallerRefusedError, ServerUnavailableError
from maitred.model.asking import ELICIT, LIST_ROOTS, SAMPLE

pytestmark = pytest.mark.anyio

FORM = {"message": "Who?"}
ANN = {"action": "accept", "content": {"name": "Ann"}}
ROOTS: dict[str, Any] = {"roots": []}


class Waiting(Answering):
    """A caller whose user takes time."""

    def __init__(self, key: str) -> None:
        super().__init__({ELICIT: ANN}, key=key)
        self.is_asked = anyio.Event()
        self.may_answer = anyio.Event()
        self.withdrawn = False

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.is_asked.set()
        try:
            await self.may_answer.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn = True
            raise
        return await super().ask(method, params)


def under_way(*, asks: bool = False, wait_s: float = 60) -> CallersUnderWay:
    return CallersUnderWay("s", asks=asks, on_ask=lambda: None, wait_s=wait_s)


@asynccontextmanager
async def request(callers: CallersUnderWay, caller: Caller, **options: Any) -> AsyncIterator[CallClock]:
    clock = CallClock(60, 60)
    async with callers.request(caller, clock, **options):
        yield clock


Said = tuple[str, Any, list[Any], anyio.Event]


class Asking:
    """Passes on what a server says, in a task that no request started, as the reader of its lines is."""

    def __init__(self, callers: CallersUnderWay) -> None:
        self._callers = callers
        self._send, self._receive = anyio.create_memory_object_stream[
            tuple[str, Any, list[Any], anyio.Event]
        ](9)

    async def __call__(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        outcome: list[Any] = []
        over = anyio.Event()
        await self._send.send((method, params, outcome, over))
        await over.wait()
        if isinstance(outcome[0], MCPError):
            raise outcome[0]
        answer: dict[str, Any] = outcome[0]
        return answer

    async def read(self) -> None:
        async with self._send, self._receive, anyio.create_task_group() as tasks:
            async for asked in self._receive:
                tasks.start_soon(self._answer, *asked)

    async def _answer(self, method: str, params: Any, outcome: list[Any], over: anyio.Event) -> None:
        try:
            outcome.append(await self._callers.answer(method, params))
        except MCPError as error:
            outcome.append(error)
        over.set()


@asynccontextmanager
async def asking(callers: CallersUnderWay) -> AsyncIterator[Asking]:
    """A server that asks, for a while."""
    server = Asking(callers)
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.read)
            yield server
            tasks.cancel_scope.cancel()


async def test_the_client_of_all_requests_under_way_is_asked() -> None:
    """A client may make several at once; a tool call of it is asked rather than its other requests."""
    ann, side = Answering({ELICIT: ANN}, key="ann"), Answering(key="ann")
    callers = under_way()
    async with asking(callers) as ask, request(callers, ann), request(callers, side, minor=True):
        assert await ask(ELICIT, FORM) == ANN
    assert ann.asked == [(ELICIT, FORM)]
    assert side.asked == []


async def test_a_question_while_several_clients_wait_goes_to_none_and_from_then_on_they_take_turns() -> None:
    """The gateway never guesses; the requests of one client still run together. Source: issue 17."""
    ann, bob = Answering({ELICIT: ANN}, key="ann"), Answering({ELICIT: ANN}, key="bob")
    noted: list[bool] = []
    callers = CallersUnderWay("s", asks=False, on_ask=lambda: noted.append(True), wait_s=60)
    begun: list[str] = []

    async def wait(caller: Answering, leave: anyio.Event) -> None:
        async with request(callers, caller):
            begun.append(caller.key)
            await leave.wait()

    leave_ann, leave_bob = anyio.Event(), anyio.Event()
    async with asking(callers) as ask, anyio.create_task_group() as tasks:
        tasks.start_soon(wait, ann, leave_ann)
        tasks.start_soon(wait, bob, leave_bob)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(MCPError, match="requests of 2 clients are under way") as caught:
            await ask(ELICIT, FORM)
        assert caught.value.code == INTERNAL_ERROR
        assert (ann.asked, bob.asked, noted) == ([], [], [True])

        tasks.start_soon(wait, ann, leave_ann)
        await anyio.wait_all_tasks_blocked()
        assert begun == ["ann", "bob"]
        leave_bob.set()
        await anyio.wait_all_tasks_blocked()
        assert begun == ["ann", "bob", "ann"]
        tasks.start_soon(wait, bob, leave_bob)
        await anyio.wait_all_tasks_blocked()
        assert await ask(ELICIT, FORM) == ANN
        assert (len(ann.asked), begun) == (1, ["ann", "bob", "ann"])
        leave_ann.set()
    assert begun == ["ann", "bob", "ann", "bob"]


async def test_a_client_that_is_asked_may_call_meanwhile_though_others_wait() -> None:
    """Its model may need a tool to answer; behind the others it would wait for itself."""
    ann = Waiting("ann")
    callers = under_way(asks=True)
    done: list[str] = []

    async def call(caller: Caller, name: str) -> None:
        async with request(callers, caller):
            done.append(name)

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks, request(callers, ann):
            tasks.start_soon(callers.answer, ELICIT, FORM)
            await ann.is_asked.wait()
            tasks.start_soon(call, Answering(key="bob"), "bob")
            await anyio.wait_all_tasks_blocked()
            await call(ann, "ann")
            assert done == ["ann"]
            ann.may_answer.set()
            await anyio.wait_all_tasks_blocked()
    assert done == ["ann", "bob"]


async def test_who_waits_too_long_for_another_client_hears_why() -> None:
    callers = under_way(asks=True, wait_s=0.01)
    async with request(callers, Answering(key="ann")):
        with pytest.raises(ServerUnavailableError, match="it serves one client at a time"):
            async with request(callers, Answering(key="bob")):
                pytest.fail("it began")
        async with request(callers, Answering(key="ann")):
            pass
    async with request(callers, Answering(key="bob")):
        pass


async def test_a_question_ends_with_the_request_it_was_for() -> None:
    """The client is not asked for nothing; its server gets an error."""
    ann = Waiting("ann")
    callers = under_way()
    async with asking(callers) as ask, anyio.create_task_group() as tasks:

        async def fail() -> None:
            with pytest.raises(MCPError, match="has ended"):
                await ask(ELICIT, FORM)

        async with request(callers, ann):
            tasks.start_soon(fail)
            await ann.is_asked.wait()
            assert callers.is_asking
    assert ann.withdrawn
    assert not callers.is_asking


async def test_the_time_of_a_call_stands_still_while_its_caller_is_asked() -> None:
    """A user may take longer than a call; afterwards the call has the time that was left."""
    ann = Waiting("ann")
    callers = under_way()
    clock = CallClock(0.05, 0.05)
    async with asking(callers) as ask, anyio.create_task_group() as tasks, callers.request(ann, clock):
        with clock.running():
            tasks.start_soon(ask, ELICIT, FORM)
            await ann.is_asked.wait()
            await anyio.sleep(0.2)
            ann.may_answer.set()
            await anyio.sleep_forever()
    assert clock.expired
    assert ann.asked


async def test_a_client_that_refuses_or_cannot_answer_gives_the_server_its_error() -> None:
    refusing = Answering({ELICIT: CallerRefusedError(-1, "not today", {"why": "tired"})}, key="ann")
    callers = under_way()
    async with asking(callers) as ask, request(callers, refusing):
        with pytest.raises(MCPError, match="not today") as caught:
            await ask(ELICIT, FORM)
    assert (caught.value.code, caught.value.error.data) == (-1, {"why": "tired"})
    async with asking(callers) as ask, request(callers, NOT_ASKED):
        with pytest.raises(MCPError, match="did not declare 'sampling'") as caught:
            await ask(SAMPLE, {})
    assert caught.value.code == METHOD_NOT_FOUND


async def test_outside_of_requests_only_the_one_client_whose_roots_changed_is_asked_for_them() -> None:
    """A server asks again after a change of roots; after those of two clients it cannot mean one of them."""
    ann, bob = Answering({LIST_ROOTS: ROOTS}, key="ann"), Answering({LIST_ROOTS: ROOTS}, key="bob")
    callers = under_way()
    for caller in (ann, bob):
        async with request(callers, caller):
            await callers.answer(LIST_ROOTS, {})
    assert [callers.announce_roots(key) for key in ("ann", "other")] == [True, False]
    assert await callers.answer(LIST_ROOTS, {}) == ROOTS
    assert (len(ann.asked), len(bob.asked)) == (2, 1)
    for announced in ((), ("ann", "bob")):
        for key in announced:
            callers.announce_roots(key)
        with pytest.raises(MCPError, match="no request is under way"):
            await callers.answer(LIST_ROOTS, {})
    with pytest.raises(MCPError, match="no request is under way"):
        await callers.answer(ELICIT, FORM)


async def test_a_request_cancelled_while_it_waits_for_roots_leaves_no_trace() -> None:
    """Else every later question would be refused, as one of two clients."""
    ann, bob = Waiting("ann"), Answering({ELICIT: ANN}, key="bob")
    ann.answers = {LIST_ROOTS: ROOTS}
    callers = under_way()

    async def call() -> None:
        async with request(callers, ann):
            pytest.fail("the call must wait for the answer")

    async with asking(callers) as ask, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(callers.answer, LIST_ROOTS, {}, waits=True))
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await ann.is_asked.wait()
            calls.cancel_scope.cancel()
        ann.may_answer.set()
        async with request(callers, bob):
            assert await ask(ELICIT, FORM) == ANN


async def test_a_client_that_has_gone_is_asked_and_told_nothing() -> None:
    asked = {LIST_ROOTS: ROOTS, ELICIT: {"action": "accept"}}
    ann = Answering(asked, key="ann", log_level="info")
    callers = under_way()
    async with asking(callers) as ask, request(callers, ann):
        await ask(LIST_ROOTS, {})
        await ask(ELICIT, {"mode": "url", "url": "https://example.org", "elicitationId": "e-1"})
    assert callers.concerned() == ([ann], True)
    callers.forget("ann")
    await callers.done_at_url("e-1")
    assert not callers.announce_roots("ann")
    assert callers.concerned() == ([], True)
    assert [method for method, _ in ann.asked] == [LIST_ROOTS, ELICIT]


@pytest.mark.parametrize("method", ["tools/call", "nonsense"])
async def test_what_no_client_answers_is_no_method(method: str) -> None:
    callers = under_way()
    async with request(callers, Answering()):
        with pytest.raises(MCPError) as caught:
            await callers.answer(method, {})
    assert caught.value.code == METHOD_NOT_FOUND


async def test_the_end_of_an_elicitation_by_url_is_announced_to_the_client_that_was_sent_there() -> None:
    """Also after the request, once, and to no other client. Source: specification 2025-11-25, Elicitation."""
    ann, bob = Answering({ELICIT: {"action": "accept"}}, key="ann"), Answering(key="bob")
    callers = under_way()
    async with asking(callers) as ask, request(callers, ann):
        await ask(ELICIT, {"mode": "url", "url": "https://example.org", "elicitationId": "e-1"})
    async with request(callers, bob):
        for name in ("e-1", "e-1", "other"):
            await callers.done_at_url(name)
    assert ann.asked[1:] == [("notifications/elicitation/complete", {"elicitationId": "e-1"})]
    assert bob.asked == []


async def test_what_comes_late_on_the_stream_of_a_request_goes_to_no_other_client() -> None:
    """The transport says whose request it was, though another client's is the only one under way."""
    ann = Answering({ELICIT: ANN}, key="ann", log_level="info")
    bob = Answering({ELICIT: ANN}, key="bob", log_level="info")
    callers, go_on = under_way(), anyio.Event()
    caught: list[Exception] = []
    concerned: list[Any] = []

    async def stream_of_ann() -> None:
        await go_on.wait()
        concerned.append(callers.concerned())
        try:
            await callers.answer(ELICIT, FORM)
        except MCPError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        async with request(callers, ann):
            tasks.start_soon(stream_of_ann)
            await anyio.wait_all_tasks_blocked()
        async with request(callers, bob):
            go_on.set()
            await anyio.wait_all_tasks_blocked()

    assert bob.asked == ann.asked == []
    assert "the request has ended" in str(caught[0])
    assert concerned == [([ann], True)]


async def test_a_server_that_floods_progress_is_not_kept_for_a_client_that_does_not_read() -> None:
    read, passed = anyio.Event(), []

    async def report(*_: object) -> None:
        passed.append(1)
        await read.wait()

    notices = ProgressNotices(Reporting(report), lambda: None)
    async with anyio.create_task_group() as tasks:
        for number in range(1_000):
            tasks.start_soon(notices.report, number, None, None)
        await anyio.wait_all_tasks_blocked()
        assert len(passed) < 100
        read.set()
