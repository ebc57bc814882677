"""One transformer over another: nothing that either knows of a tool is lost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from maitred.mediation import EnhancedTool, RuleTransformer, SourceTool, ToolContext
from maitred.mediation.mediator import LayeredTransformer

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext(source="shop", source_type="api")
TOOLS = [SourceTool(name="upd_prf", description="upd"), SourceTool(name="lst_ord"), SourceTool(name="xq7")]


class Says:
    """Answers as it was told, for the tools that it knows."""

    name = "model"
    priority = 50

    def __init__(self, answers: Mapping[str, EnhancedTool] | None) -> None:
        self._answers = answers

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        return None if self._answers is None else [self._answers.get(tool.name) for tool in tools]


def grouped(tool: SourceTool, **more: str) -> EnhancedTool:
    described = more.get("description", tool.description)
    return EnhancedTool(
        name=tool.name, description=described, original_name=tool.name, category="profile", confidence=0.8
    )


async def layered(answers: Mapping[str, EnhancedTool] | None) -> Sequence[EnhancedTool | None] | None:
    return await LayeredTransformer(Says(answers), RuleTransformer()).transform(TOOLS, CONTEXT)


async def test_an_answer_with_a_group_alone_leaves_the_texts_to_the_rules() -> None:
    """The group is the model's, the description what the rules write out."""
    rules = await RuleTransformer().transform(TOOLS, CONTEXT)
    found = await layered({"upd_prf": grouped(TOOLS[0])})

    assert rules is not None
    assert found is not None
    assert rules[0] is not None
    assert found[0] == replace(
        grouped(TOOLS[0]),
        name=rules[0].name,
        title=rules[0].title,
        description=rules[0].description,
        input_schema=rules[0].input_schema,
    )
    assert found[1:] == [None, None], "what the upper one does not answer goes to the next"


async def test_what_the_upper_one_says_stays_as_it_said_it() -> None:
    found = await layered({"upd_prf": grouped(TOOLS[0], description="Change the profile of the user.")})

    assert found is not None
    assert found[0] is not None
    assert found[0].description == "Change the profile of the user."
    assert found[0].title == "", "a title of the rules may not fit it"


@pytest.mark.parametrize("answers", [None, {}])
async def test_without_an_answer_above_there_is_none(answers: Mapping[str, EnhancedTool] | None) -> None:
    found = await layered(answers)

    assert found is None or not any(found)
