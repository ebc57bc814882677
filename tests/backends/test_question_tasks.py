"""Questions that a server asks as tasks: taken at once, answered by the caller, fetched later."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from maitred.backends.question_tasks import QuestionTasks
from maitred.background import Background
from maitred.model.asking import ELICIT

pytestmark = pytest.mark.anyio

ASKED: Mapping[str, Any] = {"message": "Who?", "task": {"ttl": 1_000}}
SOON_S = 60.0


class Person:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.may_answer = anyio.Event()
        self.error: MCPError | None = None

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert method == ELICIT
        self.asked.append(params)
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return {"action": "accept"}


@asynccontextmanager
async def asking(person: Person) -> AsyncIterator[QuestionTasks]:
    with anyio.fail_after(SOON_S):
        async with Background() as background:
            yield QuestionTasks(person.answer, background)


async def test_a_question_is_taken_at_once_and_its_answer_fetched_later() -> None:
    person = Person()
    async with asking(person) as questions:
        assert questions.takes(ELICIT, ASKED)
        task = (await questions.handle(ELICIT, ASKED))["task"]
        assert (task["status"], task["ttl"]) == ("working", 1_000)
        about = {"taskId": task["taskId"]}
        assert (await questions.handle("tasks/get", about))["status"] == "working"
        person.may_answer.set()
        result = await questions.handle("tasks/result", about)
        assert (await questions.handle("tasks/get", about))["status"] == "completed"
        assert [one["taskId"] for one in (await questions.handle("tasks/list", {}))["tasks"]] == [
            task["taskId"]
        ]
    assert result["action"] == "accept"
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == about
    assert person.asked == [{"message": "Who?"}]


async def test_a_refusal_of_the_client_is_the_error_of_the_task() -> None:
    person = Person()
    person.error = MCPError(-1, "not today")
    person.may_answer.set()
    async with asking(person) as questions:
        about = {"taskId": (await questions.handle(ELICIT, ASKED))["task"]["taskId"]}
        with pytest.raises(MCPError, match="not today"):
            await questions.handle("tasks/result", about)
        state = await questions.handle("tasks/get", about)
    assert (state["status"], state["statusMessage"]) == ("failed", "not today")


async def test_a_cancelled_question_is_withdrawn_and_has_no_result() -> None:
    person = Person()
    async with asking(person) as questions:
        about = {"taskId": (await questions.handle(ELICIT, ASKED))["task"]["taskId"]}
        assert (await questions.handle("tasks/cancel", about))["status"] == "cancelled"
        with pytest.raises(MCPError, match="cancelled"):
            await questions.handle("tasks/result", about)
        with pytest.raises(MCPError, match="is over: cancelled"):
            await questions.handle("tasks/cancel", about)


async def test_what_is_no_question_as_a_task_is_left_to_others_and_an_unknown_id_is_refused() -> None:
    async with asking(Person()) as questions:
        assert not questions.takes(ELICIT, {"message": "Who?"})
        assert not questions.takes("ping", {"task": {}})
        with pytest.raises(MCPError, match="no such task"):
            await questions.handle("tasks/get", {"taskId": "unknown"})


async def test_a_server_cannot_open_questions_without_end() -> None:
    async with asking(Person()) as questions:
        for _ in range(64):
            await questions.handle(ELICIT, ASKED)
        with pytest.raises(MCPError, match="ask again later"):
            await questions.handle(ELICIT, ASKED)
