"""The list of steps that a call goes through: what a step sees, in which order, and what is no step."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.gateway.desk import Desk, keeping
from tests.gateway.rig import SOON_S
from tests.support.viewers import agent

from maitred.calls.answer import Answer, text_block
from maitred.calls.pipeline import Call, Proceed, Step, StepOrderError, compose
from maitred.errors import ArgumentsError
from maitred.gateway import Gateway
from maitred.gateway.calls import CallServices, MakeCallSteps
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway
from maitred.wiring.call_steps import make_call_steps

pytestmark = pytest.mark.anyio

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
READ = ToolCall(name="desk__read", arguments={"path": "/"})
ANN = agent("ann")


class Sign:
    """A step that nothing in maitred knows: writes down what passes, and signs every answer."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answers: list[dict[str, Any]] = []

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        self.calls.append(call)
        answer = await proceed(call)
        self.answers.append(answer.wire)
        return answer.with_last(text_block("signed"))


class Named:
    """Adds its name to the list on the way in, and again on the way out."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        self._seen.append(f"{self._name} in")
        answer = await proceed(call)
        self._seen.append(f"{self._name} out")
        return answer


class Echo:
    """Answers with the name of the tool."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        return Answer(wire={"content": [text_block(call.request.name)]})


@asynccontextmanager
async def desk_with(steps: MakeCallSteps, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway of two desks whose calls go through other steps."""
    servers = {"desk": Desk().sdk(), "other": Desk("other").sdk()}
    with anyio.fail_after(SOON_S):
        async with open_gateway(keeping(folder), in_process=servers, call_steps=steps) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


def texts(answer: dict[str, Any]) -> list[str]:
    return [block["text"] for block in answer["content"]]


async def test_a_made_up_step_sees_the_call_and_its_answer_and_nothing_else_has_to_know(
    tmp_path: Path,
) -> None:
    """One object in front of the list; what it adds to the answer reaches the caller."""
    sign = Sign()
    async with desk_with(lambda given: (sign, *make_call_steps(given)), tmp_path) as gateway:
        answer = await gateway.call(READ, viewer=ANN)

    assert [(call.request, call.viewer) for call in sign.calls] == [(READ, ANN)]
    assert [texts(one) for one in sign.answers] == [["read / 1"]]
    assert texts(answer) == ["read / 1", "signed"]


async def test_a_made_up_step_in_the_middle_knows_the_tool_and_does_not_see_what_was_refused(
    tmp_path: Path,
) -> None:
    """Just before the server it sees the tool that was found, and no call whose arguments do not fit."""
    sign = Sign()

    def steps(given: CallServices) -> tuple[Step, ...]:
        *before, relay = make_call_steps(given)
        return (*before, sign, relay)

    async with desk_with(steps, tmp_path) as gateway:
        with pytest.raises(ArgumentsError):
            await gateway.call(ToolCall(name="desk__read", arguments={}), viewer=ANN)
        await gateway.call(READ, viewer=ANN)

    assert [call.tool.key.name for call in sign.calls] == ["read"]


async def test_the_calls_of_a_chain_go_through_the_same_steps(tmp_path: Path) -> None:
    """Each with the id of the chain; the list of steps was made once for all calls."""
    sign, made = Sign(), list[CallServices]()

    def steps(given: CallServices) -> tuple[Step, ...]:
        made.append(given)
        return (sign, *make_call_steps(given))

    code = json.dumps([{"tool": "desk__read", "arguments": {"path": f"/{n}"}} for n in range(2)])
    async with desk_with(steps, tmp_path) as gateway:
        chain = await gateway.run_chain(code, viewer=ANN)
        await gateway.call(READ, viewer=ANN)

    assert chain.ok, chain.text
    assert [call.arguments["path"] for call in sign.calls] == ["/0", "/1", "/"]
    assert [call.chain.id if call.chain else "" for call in sign.calls] == [chain.chain_id] * 2 + [""]
    assert len(made) == 1


async def test_the_order_of_the_steps_is_the_one_that_is_documented(tmp_path: Path) -> None:
    """ARCHITECTURE.md lists them from the first to the last."""
    names: list[str] = []

    def steps(given: CallServices) -> tuple[Step, ...]:
        made = make_call_steps(given)
        names.extend(type(step).__name__ for step in made)
        return made

    async with desk_with(steps, tmp_path):
        pass

    assert names == re.findall(r"^\d+\. `(\w+)`", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)


async def test_the_first_step_sees_the_call_first_and_the_answer_last() -> None:
    """Like layers around the server."""
    seen: list[str] = []
    proceed = compose((Named("a", seen), Named("b", seen), Echo()))

    answer = await proceed(Call(request=READ, viewer=ANN))

    assert texts(answer.wire) == ["desk__read"]
    assert seen == ["a in", "b in", "b out", "a out"]


async def _takes_one(_: Call) -> Answer:
    raise AssertionError


def _waits_for_nothing(_: Call, __: Proceed) -> Answer:
    raise AssertionError


@pytest.mark.parametrize(
    ("no_step", "why"),
    [
        (object(), "cannot be called"),
        ("relay", "cannot be called"),
        (Sign, "is a class"),
        (_waits_for_nothing, "is neither async nor declared to return an `Awaitable"),
        (_takes_one, "does not take a call and `proceed`"),
    ],
    ids=["object", "text", "class", "not async", "one argument"],
)
def test_what_is_no_step_is_refused_when_the_list_is_composed(no_step: Any, why: str) -> None:
    """The text says which it is, and what a step has to be."""
    with pytest.raises(TypeError, match=why) as caught:
        compose((Echo(), no_step))

    assert "step 2 of 2" in str(caught.value)
    assert "async def __call__(self, call, proceed)" in str(caught.value)


async def test_a_gateway_with_something_that_is_no_step_does_not_open(tmp_path: Path) -> None:
    """The mistake is seen at the start, and not with the first call."""
    wrong: Any = lambda given: (*make_call_steps(given), "cache")  # noqa: E731  # of no type that would do
    with pytest.raises(TypeError, match="'cache', which cannot be called"):
        async with desk_with(wrong, tmp_path):
            raise AssertionError


@pytest.mark.parametrize("steps", [(), (Sign(),)], ids=["no step", "none that answers"])
async def test_steps_of_which_none_answers_are_a_fault_that_names_the_call(steps: tuple[Step, ...]) -> None:
    """Instead of an answer with nothing in it."""
    with pytest.raises(StepOrderError, match="no step answered the call of 'desk__read'"):
        await compose(steps)(Call(request=READ, viewer=ANN))


@pytest.mark.parametrize(("what", "after"), [("tool", "FindTool"), ("entry", "AuditCall")])
async def test_a_step_that_comes_too_early_is_a_fault_that_says_where_it_belongs(
    what: str, after: str
) -> None:
    """What an earlier step finds out is not there yet."""

    class Early:
        async def __call__(self, call: Call, proceed: Proceed) -> Answer:
            getattr(call, what)
            return await proceed(call)

    with pytest.raises(StepOrderError, match=after):
        await compose((Early(), Echo()))(Call(request=READ, viewer=ANN))
