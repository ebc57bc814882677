"""A language model with a memo over it: no answer that was paid for is lost."""

import json

import pytest
from tests.support.extras import need
from tests.support.openai_server import Request, openai_server

from maitred.llm import Endpoint, LanguageModel
from maitred.mediation import LlmTransformer, Memo, MemoryStore, SourceTool, ToolContext
from maitred.mediation.base import PartlyAnsweredError

need("openai")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("llm_packages")]

CONTEXT = ToolContext(source="shop", source_type="api")
TOOLS = [SourceTool(name=f"tool_{number}") for number in range(3)]


def answer(request: Request) -> str:
    """A title for the tool of a question."""
    line = request.body["messages"][-1]["content"].splitlines()[2]
    name = json.loads(line)["tool"]
    return json.dumps({"tools": {"1": {"tool": name, "title": name.upper()}}})


async def test_a_question_that_fails_does_not_lose_the_answers_before_it() -> None:
    """Only the rest is asked for again."""
    with openai_server() as server:
        server.reply = lambda request: "no" if len(server.requests) == 2 else answer(request)
        model = LanguageModel("local", Endpoint(url=server.url, model="some-model"), patience_s=25)
        memo = Memo(LlmTransformer(model, max_tools=1), MemoryStore())

        with pytest.raises(PartlyAnsweredError, match="without a list of tools"):
            await memo.fill(TOOLS, CONTEXT)
        found = await memo.transform(TOOLS, CONTEXT)

        assert [one and one.title for one in found or ()] == ["TOOL_0", "TOOL_1", "TOOL_2"]
        assert len(server.requests) == 4
        await model.aclose()
