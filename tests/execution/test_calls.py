"""One call on its way: refused before anything is sent, sent once, or sent again where that is safe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests.catalog.makers import FACTS, one
from tests.support.callers import Reporting

from maitred.backends.base import NOT_ASKED, Caller, Listing
from maitred.calls.arguments import ArgumentChecker
from maitred.calls.pipeline import Call, compose
from maitred.calls.steps.check_arguments import CheckArguments
from maitred.calls.steps.relay import Relay
from maitred.catalog.snapshot import Snapshot
from maitred.errors import (
    ArgumentsError,
    CallTimeoutError,
    ConnectionLostError,
    MaitredError,
    ProtocolError,
    ServerUnavailableError,
    ToolWithheldError,
)
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec, Timeouts
from maitred.model.sharing import NO_SHARER, Sharer
from maitred.model.tools import Tool, ToolCall

pytestmark = pytest.mark.anyio

RESULT = {"content": [], "novel": 1}
NEEDS_PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Server:
    """Stands at our own seam: lends itself as a connection for calls, and answers with what comes next."""

    facts = FACTS
    alive = True

    def __init__(self, *answers: dict[str, Any] | MaitredError) -> None:
        self._answers = list(answers)
        self.lent: list[str] = []
        self.sent: list[tuple[str, ToolCall, float, Caller]] = []
        self.unavailable: MaitredError | None = None

    def key(self, server: str, sharer: Sharer) -> str:
        return ""

    @asynccontextmanager
    async def connection(self, server: str, sharer: Sharer = NO_SHARER) -> AsyncIterator[Any]:
        self.lent.append(server)
        if self.unavailable:
            raise self.unavailable
        yield self

    async def list_tools(self) -> Listing:
        return Listing(tools=())

    async def closed(self) -> str:
        return "never opened"

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        self.sent.append((name, call, timeout_s, caller))
        answer = self._answers.pop(0)
        if isinstance(answer, MaitredError):
            raise answer
        return answer


def relay_to(server: Server, call_s: float = 7.0) -> Relay:
    spec = partial(ServerSpec, timeouts=Timeouts(call_s=call_s))

    async def recheck(_: Call) -> None:
        """No call of these tests is refused."""

    return Relay(server, lambda name: spec(name=name), recheck)


async def made(
    server: Server,
    snapshot: Snapshot,
    tool: Tool,
    call: ToolCall,
    *,
    read_only: bool = False,
    caller: Caller = NOT_ASKED,
) -> dict[str, Any]:
    """A call as the gateway makes it: checked, then relayed."""
    check = CheckArguments(partial(ArgumentChecker().check, snapshot))
    proceed = compose((check, relay_to(server)))
    made = Call(request=call, viewer=LOCAL_USER, read_only=read_only, caller=caller)
    made.tool = tool
    return (await proceed(made)).wire


def call_of(tool: Tool, **arguments: Any) -> ToolCall:
    return ToolCall(name=tool.name, arguments=arguments)


def marked(**hints: Any) -> tuple[Snapshot, Tool]:
    return one(annotations=hints)


async def test_a_call_reaches_the_server_by_its_raw_name_and_the_answer_comes_back_as_it_is() -> None:
    """Arguments, time limit and caller go along; the result is the very object that the server gave."""
    snapshot, tool = one(server="s", name="read file", input_schema=NEEDS_PATH)
    server = Server(RESULT)
    call = call_of(tool, path="/x")

    reported: list[object] = []

    async def progress(*steps: object) -> None:
        reported.extend(steps)

    caller = Reporting(progress)
    assert await made(server, snapshot, tool, call, caller=caller) is RESULT
    assert server.lent == ["s"]
    [(name, sent, limit_s, asked)] = server.sent
    assert (name, sent, limit_s) == ("read file", call, 7.0)
    await asked.progress(1, 2, "half")
    assert (asked.key, reported) == (caller.key, [1, 2, "half"])


@pytest.mark.parametrize(
    "hints", [{}, {"readOnlyHint": False}, {"readOnlyHint": "true"}, {"readOnlyHint": 1}], ids=str
)
async def test_a_read_only_call_refuses_a_tool_that_is_not_marked_so(hints: dict[str, Any]) -> None:
    """Only a plain `true` counts; no server is even started, and the text says what to use."""
    snapshot, tool = marked(**hints)
    server = Server(RESULT)

    with pytest.raises(ToolWithheldError, match="`call_tool`"):
        await made(server, snapshot, tool, call_of(tool), read_only=True)
    assert server.lent == []


async def test_a_read_only_call_reaches_a_tool_that_is_marked_so() -> None:
    """The same call that `call_tool` would make."""
    snapshot, tool = marked(readOnlyHint=True)

    assert await made(Server(RESULT), snapshot, tool, call_of(tool), read_only=True) is RESULT


async def test_a_tool_that_is_not_read_only_is_called_when_nobody_asked_for_that() -> None:
    """Hints are for the caller to weigh; without the wish for read-only they stop nothing."""
    snapshot, tool = marked(destructiveHint=True)

    assert await made(Server(RESULT), snapshot, tool, call_of(tool)) is RESULT


async def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    """The server is not even started; each fault is named."""
    snapshot, tool = one(input_schema=NEEDS_PATH)
    server = Server(RESULT)

    with pytest.raises(ArgumentsError, match="it was not called") as caught:
        await made(server, snapshot, tool, call_of(tool, pfad="/x"))
    assert server.lent == []
    assert "path" in caught.value.faults[0]


async def test_a_tool_without_a_usable_schema_gets_whatever_is_given() -> None:
    """Its server knows what it takes."""
    snapshot, tool = one(input_schema={"type": 5})

    assert await made(Server(RESULT), snapshot, tool, call_of(tool, a=1)) is RESULT


async def test_a_call_that_was_never_read_is_sent_again() -> None:
    """The server ended before it could have read it, so it can have had no effect; the connection is new."""
    snapshot, tool = one(server="s")
    server = Server(ConnectionLostError("s", "it ended", unread=True), RESULT)

    assert await made(server, snapshot, tool, call_of(tool)) is RESULT
    assert server.lent == ["s", "s"]


async def test_a_call_is_sent_again_only_once() -> None:
    """A server that ends every time is not started over and over by one call."""
    snapshot, tool = one()
    server = Server(*[ConnectionLostError("s", f"end {n}", unread=True) for n in range(3)])

    with pytest.raises(ConnectionLostError, match="end 1"):
        await made(server, snapshot, tool, call_of(tool))
    assert len(server.sent) == 2


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLostError("s", "it ended"),
        CallTimeoutError("s", "tools/call", 7),
        ProtocolError("s", -32000, "no"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_call_that_may_have_taken_effect_is_never_sent_again(error: MaitredError) -> None:
    """Whatever the reason, it is the caller who decides whether to try again."""
    snapshot, tool = one()
    server = Server(error, RESULT)

    with pytest.raises(type(error)) as caught:
        await made(server, snapshot, tool, call_of(tool))
    assert caught.value is error
    assert len(server.sent) == 1


async def test_a_server_that_is_not_available_is_asked_for_once() -> None:
    """The pool decides when to start it again."""
    snapshot, tool = one(server="s")
    server = Server()
    server.unavailable = ServerUnavailableError("s", "no such program")

    with pytest.raises(ServerUnavailableError):
        await made(server, snapshot, tool, call_of(tool))
    assert server.lent == ["s"]
