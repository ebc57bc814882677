"""Calls that are parked while a client of the stateless era answers: whose they are, and for how long."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from tests.support.viewers import agent

from maitred.errors import CallerRefusedError
from maitred.model.asking import ELICIT, SAMPLE
from maitred.surfaces.mcp.caller import StatelessCaller
from maitred.surfaces.mcp.parked_calls import MOST_PARKED, PREFIX, ParkableRequest, ParkedCalls

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
FORM = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object"}}
ANN = {"action": "accept", "content": {"name": "Ann"}}
META: Json = {CLIENT_CAPABILITIES_META_KEY: {"elicitation": {}, "sampling": {}}}
ASKED = ParkableRequest(
    principal="ann",
    method="tools/call",
    name="s__ask",
    arguments={"b": 1, "a": [2]},
    request_state=None,
    input_responses=None,
)


class Link:
    """The way back to a client during one request."""

    can_send_request = False

    def __init__(self) -> None:
        self.reports: list[float] = []

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> Json:
        raise AssertionError(method)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        """Nobody reads it."""

    async def progress(self, progress: float, total: Any = None, message: Any = None) -> None:
        self.reports.append(progress)


class Rig:
    """A surface's parked calls, and a server that asks during the calls."""

    def __init__(self, park_s: float) -> None:
        self.parked = ParkedCalls(lambda: park_s)
        self.cancelled = anyio.Event()

    def caller(self) -> StatelessCaller:
        return StatelessCaller(Link(), {"_meta": META}, agent("ann"))

    async def begin(self, *methods: str, caller: StatelessCaller | None = None) -> Json:
        """The answer to a call during which the server asks all this, one after the other."""
        caller = caller or self.caller()

        async def work() -> Json:
            try:
                answers = [await caller.ask(method, FORM) for method in methods]
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise
            return {"answers": answers}

        return await self.parked.answer(ASKED, caller, work)

    async def go_on(self, asked: Mapping[str, Any], answer: Any = ANN, **other: Any) -> Json:
        """The answer to the same request with an answer to each question."""
        given = dict.fromkeys(asked["inputRequests"], answer) if answer else {}
        request = replace(ASKED, request_state=asked["requestState"], input_responses=given)
        return await self.parked.answer(replace(request, **other), self.caller(), self._unused)

    async def _unused(self) -> Json:
        raise AssertionError("the call was made again")


@asynccontextmanager
async def rig(park_s: float = 600) -> AsyncIterator[Rig]:
    made = Rig(park_s)
    with anyio.fail_after(60):
        async with made.parked.serving():
            yield made


async def test_each_question_ends_a_request_and_the_next_goes_on_with_the_answer() -> None:
    """The same call answers at last. Source: specification 2026-07-28, multi round-trip requests."""
    async with rig() as here:
        first = await here.begin(ELICIT, SAMPLE)
        second = await here.go_on(first)
        last = await here.go_on(second, {"role": "assistant"})

    assert first["resultType"] == second["resultType"] == "input_required"
    assert list(first["inputRequests"].values()) == [{"method": ELICIT, "params": FORM}]
    assert [one["method"] for one in second["inputRequests"].values()] == [SAMPLE]
    assert last == {"answers": [ANN, {"role": "assistant"}]}


@pytest.mark.parametrize(
    "other",
    [
        {"principal": "bob"},
        {"name": "s__other"},
        {"arguments": {"b": 2, "a": [2]}},
        {"method": "prompts/get"},
    ],
    ids=str,
)
async def test_a_state_fits_its_principal_its_tool_and_its_arguments_alone(other: Json) -> None:
    """And the call goes on for whom it is. Source: issue 17."""
    async with rig() as here:
        asked = await here.begin(ELICIT)
        with pytest.raises(MCPError, match="not one that the gateway made for this principal") as caught:
            await here.go_on(asked, **other)
        assert caught.value.code == -32602
        assert await here.go_on(asked, arguments={"a": [2], "b": 1}) == {"answers": [ANN]}


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state + "0",
        lambda state: state.replace(".1.", ".2."),
        lambda _: PREFIX,
        lambda _: f"{PREFIX}a.1.\u00e9",
    ],
)
async def test_a_state_that_was_changed_is_refused(change: Any) -> None:
    async with rig() as here:
        asked = await here.begin(ELICIT)
        with pytest.raises(MCPError, match="not one that the gateway made"):
            await here.go_on({**asked, "requestState": change(asked["requestState"])})


async def test_a_state_works_once() -> None:
    """While its call asks the next question, and after its end."""
    async with rig() as here:
        first = await here.begin(ELICIT, ELICIT)
        second = await here.go_on(first)
        with pytest.raises(MCPError, match="was used already"):
            await here.go_on(first)
        assert await here.go_on(second) == {"answers": [ANN, ANN]}
        with pytest.raises(MCPError, match="was used already"):
            await here.go_on(second)


async def test_a_call_whose_client_does_not_come_back_is_cancelled() -> None:
    """Its server hears of it, and the state is refused with the setting that decides."""
    async with rig(0.01) as here:
        asked = await here.begin(ELICIT)
        await here.cancelled.wait()
        with pytest.raises(MCPError, match=r"limits.parked_call_s is 0.01 s"):
            await here.go_on(asked)


async def test_a_request_without_an_answer_gets_the_question_again() -> None:
    async with rig() as here:
        first = await here.begin(ELICIT)
        again = await here.go_on(first, None)
        assert again["inputRequests"] == first["inputRequests"]
        assert again["requestState"] != first["requestState"]
        assert await here.go_on(again) == {"answers": [ANN]}


async def test_a_client_that_repeats_its_request_gets_no_more_time() -> None:
    """Or it could hold a server for ever, for which other clients wait."""
    async with rig(0.2) as here:
        asked = await here.begin(ELICIT)
        while not here.cancelled.is_set():
            await anyio.sleep(0.01)
            with suppress(MCPError):  # the time is up
                asked = await here.go_on(asked, None)
        with pytest.raises(MCPError, match=r"limits.parked_call_s is 0.2 s"):
            await here.go_on(asked)


async def test_a_call_that_ends_while_it_is_parked_keeps_its_answer_for_the_client() -> None:
    """Its server did without the answer to its question."""
    async with rig() as here:
        caller = here.caller()

        async def work() -> Json:
            with anyio.move_on_after(0.01):
                await caller.ask(ELICIT, FORM)
            await caller.progress(1, None, None)
            return {"late": True}

        asked = await here.parked.answer(ASKED, caller, work)
        await anyio.wait_all_tasks_blocked()
        assert await here.go_on(asked) == {"late": True}


async def test_a_client_that_cancels_its_request_cancels_the_call() -> None:
    async with rig() as here:

        async def work() -> Json:
            try:
                await anyio.sleep_forever()
            finally:
                here.cancelled.set()
            return {}

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(here.parked.answer, ASKED, here.caller(), work)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await here.cancelled.wait()


async def test_a_principal_has_so_many_parked_calls_and_no_more() -> None:
    """Beyond that the server hears at once that the client cannot be asked now."""
    async with rig() as here:
        for _ in range(MOST_PARKED):
            await here.begin(ELICIT)
        with pytest.raises(CallerRefusedError, match=f"{MOST_PARKED} calls of 'ann' wait"):
            await here.begin(ELICIT)


async def test_an_error_of_the_call_is_the_error_of_the_request() -> None:
    async with rig() as here:
        caller = here.caller()

        async def work() -> Json:
            await caller.ask(ELICIT, FORM)
            raise MCPError(-32050, "teapot")

        asked = await here.parked.answer(ASKED, caller, work)
        with pytest.raises(MCPError, match="teapot"):
            await here.go_on(asked)
