"""Which transformer a tool's answer comes from, and that no tool is ever lost on the way."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

import maitred.mediation
from maitred.mediation import (
    EnhancedTool,
    Mediator,
    OverrideTransformer,
    RuleTransformer,
    SourceTool,
    ToolContext,
    load_overrides,
    middleware,
)

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext(source="example.com", source_type="web", time=datetime(2026, 5, 1, tzinfo=UTC))
A, B, C = SourceTool(name="a"), SourceTool(name="b"), SourceTool(name="c")

Answers = Sequence[EnhancedTool | None] | None


@dataclass
class Fake:
    """A transformer that answers with what a function makes of the tools, and remembers what it was asked."""

    answer: Callable[[Sequence[SourceTool]], Any]
    name: str = "fake"
    priority: int = 50

    def __post_init__(self) -> None:
        self.asked: list[list[str]] = []

    async def transform(self, tools: Sequence[SourceTool], context: ToolContext) -> Answers:
        self.asked.append([tool.name for tool in tools])
        found: Answers = self.answer(tools)
        return found


def better(tool: SourceTool, **fields: Any) -> EnhancedTool:
    return EnhancedTool(**{"name": tool.name, "description": "Better.", "confidence": 0.9, **fields})


def only(*names: str, **more: Any) -> Fake:
    """Answers for the named tools."""
    return Fake(lambda tools: [better(tool) if tool.name in names else None for tool in tools], **more)


def mediator_of(*transformers: Any) -> Mediator:
    mediator = Mediator()
    for one in transformers:
        mediator.use(one)
    return mediator


async def by(mediator: Mediator, *tools: SourceTool) -> list[str]:
    """Who enhanced each tool."""
    enhanced = await mediator.enhance(tools, CONTEXT)
    assert [tool.original_name for tool in enhanced] == [tool.name for tool in tools]
    return [tool.enhanced_by for tool in enhanced]


class Remembered:
    """Wraps another transformer with a cache, as the design document does."""

    def __init__(self, inner: Fake) -> None:
        self._inner = inner
        self._answers: dict[str, Answers] = {}
        self.name = f"cached-{inner.name}"
        self.priority = inner.priority + 10

    async def transform(self, tools: Sequence[SourceTool], context: ToolContext) -> Answers:
        key = json.dumps([context.source, *(tool.name for tool in tools)])
        if key not in self._answers:
            self._answers[key] = await self._inner.transform(tools, context)
        return self._answers[key]


async def test_the_example_of_the_design_document_works(tmp_path: Path) -> None:
    """Overrides, rules and a cached model, in any order of use. Source: design document 000, part 3."""
    file = tmp_path / "tool-overrides.json"
    file.write_text(
        json.dumps(
            {
                "overrides": {
                    "example.com": {
                        "gt_usr": {
                            "rename": "get_user",
                            "description": "Retrieve a user by ID or email address.",
                            "category": "users",
                            "parameters": {"userId": {"type": "number"}, "email": {"type": "string"}},
                        }
                    }
                }
            }
        )
    )
    model = only("zzz", name="llm")
    mediator = mediator_of(OverrideTransformer(load_overrides(file)), Remembered(model), RuleTransformer())
    raw = [
        SourceTool(name="gt_usr", description="gets user", input_schema={"type": "object"}),
        SourceTool(name="upd_prf", description="update profile"),
        SourceTool(name="zzz"),
        SourceTool(name="yyy"),
    ]

    enhanced = await mediator.enhance(raw, CONTEXT)
    await mediator.enhance(raw, CONTEXT)
    filtered = mediator.filter(enhanced, min_confidence=0.5)
    grouped = mediator.categorize(filtered)

    assert [(tool.name, tool.enhanced_by) for tool in enhanced] == [
        ("get_user", "overrides"), ("upd_prf", "rules"), ("zzz", "cached-llm"), ("yyy", "none"),
    ]  # fmt: skip
    assert enhanced[0].input_schema == {
        "type": "object",
        "properties": {"userId": {"type": "number"}, "email": {"type": "string"}},
    }
    assert enhanced[1].title == "Update profile"
    assert model.asked == [["zzz", "yyy"]]
    assert {name: [tool.name for tool in tools] for name, tools in grouped.items()} == {
        "users": ["get_user"], "uncategorized": ["upd_prf", "zzz"],
    }  # fmt: skip


async def test_an_override_of_one_tool_leaves_the_others_to_the_next() -> None:
    """Of each tool the first that answers wins. Source: DESIGN 2, known faults."""
    high, low = only("b", name="high", priority=200), only("a", "b", name="low", priority=1)

    assert await by(mediator_of(low, high), A, B, C) == ["low", "high", "none"]
    assert low.asked == [["a", "c"]]


async def test_transformers_of_one_priority_are_asked_in_the_order_of_use() -> None:
    assert await by(mediator_of(only("a", name="x"), only("a", name="y")), A) == ["x"]


async def test_a_transformer_is_not_asked_about_nothing() -> None:
    """A model costs money even for an empty question."""
    late = only(name="late", priority=1)

    await by(mediator_of(only("a", "b"), late), A, B)

    assert late.asked == []


async def test_what_nobody_can_help_with_stays_as_it_is() -> None:
    tool = SourceTool(
        name="a", title="T", description="D", input_schema={}, annotations={"x": 1}, metadata={"y": 2}
    )

    [found] = await mediator_of(Fake(lambda _: None)).enhance([tool], CONTEXT)

    assert found == EnhancedTool(
        **vars(tool), original_name="a", enhanced_by="none", confidence=0.0,
    )  # fmt: skip


def _raise(tools: Sequence[SourceTool]) -> Answers:
    raise RuntimeError("no model today")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (_raise, "a transformer failed"),
        (lambda tools: [], "it has 0 tools instead of 2"),
        (lambda tools: [*map(better, tools), None], "it has 3 tools instead of 2"),
        (lambda tools: [*map(better, reversed(tools))], "it has 'b' in the place of 'a'"),
        (lambda tools: [better(tools[0], name="x"), None], "it has 'x' in the place of 'a'"),
        (lambda tools: [better(tools[0], name="", original_name="a"), None], "it takes the name of 'a'"),
        (lambda tools: [{"name": "a"}, None], "it has a dict in the place of 'a'"),
        (lambda tools: [better(tool, confidence=2) for tool in tools], "a transformer failed"),
        (lambda tools: 5, "a transformer failed"),
    ],
)
async def test_an_answer_that_cannot_be_trusted_is_logged_and_the_next_is_asked(
    answer: Callable[[Sequence[SourceTool]], Answers], told: str
) -> None:
    """One bad plug-in does not cost the tools of a server."""
    bad = Fake(answer, name="bad", priority=200)

    with capture_logs() as logs:
        assert await by(mediator_of(bad, only("a", name="good")), A, B) == ["good", "none"]

    assert [(log["transformer"], log["source"]) for log in logs] == [("bad", "example.com")]
    assert told in logs[0]["event"] + logs[0].get("why", "")


async def test_a_cancelled_transformer_ends_the_work() -> None:
    """A timeout of the caller is no failure of a transformer."""

    class Endless(Fake):
        async def transform(self, tools: Sequence[SourceTool], context: ToolContext) -> Answers:
            await anyio.sleep_forever()
            return None

    with anyio.move_on_after(0.01) as scope:
        await mediator_of(Endless(lambda _: None)).enhance([A], CONTEXT)

    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"a": "x", "b": "y"}, ["x", "y", "c"]),
        ({"a": "c"}, ["a", "b", "c"]),
        ({"a": "x", "b": "x"}, ["a", "b", "c"]),
    ],
)
async def test_a_new_name_that_is_not_unique_is_taken_back(
    names: dict[str, str], expected: list[str]
) -> None:
    """A name always means one tool."""
    rename = Fake(
        lambda tools: [better(t, name=names.get(t.name, t.name), original_name=t.name) for t in tools]
    )

    enhanced = await mediator_of(rename).enhance([A, B, C], CONTEXT)

    assert [tool.name for tool in enhanced] == expected
    assert {tool.description for tool in enhanced} == {"Better."}


tools_ = st.lists(st.sampled_from("abcdefgh"), unique=True).map(lambda ns: [SourceTool(name=n) for n in ns])
doings = st.sampled_from(["one", "all", "none", "drop", "reverse", "double", "raise", "rename"])


def _doing(doing: str) -> Callable[[Sequence[SourceTool]], Answers]:
    answers: dict[str, Callable[[Sequence[SourceTool]], Answers]] = {
        "one": lambda tools: [better(tools[0]), *[None] * (len(tools) - 1)],
        "all": lambda tools: [better(tool) for tool in tools],
        "none": lambda tools: None,
        "drop": lambda tools: [better(tool) for tool in tools[1:]],
        "reverse": lambda tools: [better(tool) for tool in reversed(tools)],
        "double": lambda tools: [better(tool) for tool in tools] * 2,
        "raise": _raise,
        "rename": lambda tools: [
            better(t, name="abcdefgh"[len(tools) - 1], original_name=t.name) for t in tools
        ],
    }
    return answers[doing]


@given(tools_, st.lists(st.tuples(doings, st.integers(0, 3)), max_size=5))
def test_tools_are_never_dropped_doubled_or_put_in_another_order(
    tools: list[SourceTool], transformers: list[tuple[str, int]]
) -> None:
    """Whatever transformers do. Source: issue "Mediation and visibility"."""
    mediator = mediator_of(*(Fake(_doing(doing), priority=priority) for doing, priority in transformers))

    with capture_logs():
        enhanced = anyio.run(mediator.enhance, tools, CONTEXT)

    assert [tool.original_name for tool in enhanced] == [tool.name for tool in tools]
    assert len({tool.name for tool in enhanced}) == len(tools)


TOOLS = [
    EnhancedTool(name="get_user", original_name="gt_usr", category="users", confidence=0.9),
    EnhancedTool(name="del_user", category="users", confidence=0.4),
    EnhancedTool(name="ping", confidence=0.6),
]


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({}, ["get_user", "del_user", "ping"]),
        ({"categories": ["users"]}, ["get_user", "del_user"]),
        ({"categories": ["uncategorized"]}, ["ping"]),
        ({"categories": []}, []),
        ({"min_confidence": 0.6}, ["get_user", "ping"]),
        ({"name_pattern": "_user$"}, ["get_user", "del_user"]),
        ({"name_pattern": re.compile("PING", re.IGNORECASE)}, ["ping"]),
        ({"exclude": ["gt_usr", "ping"]}, ["del_user"]),
        ({"categories": ["users"], "min_confidence": 0.5, "name_pattern": "user"}, ["get_user"]),
    ],
)
def test_a_filter_keeps_what_fits_all_criteria(criteria: dict[str, Any], expected: list[str]) -> None:
    """A tool without category is one of "uncategorized", and not of every category."""
    assert [tool.name for tool in Mediator().filter(TOOLS, **criteria)] == expected


def test_categories_hold_all_tools_in_order() -> None:
    grouped = Mediator().categorize([TOOLS[2], *TOOLS[:2], replace(TOOLS[2], name="pong")])

    assert [(name, [tool.name for tool in tools]) for name, tools in grouped.items()] == [
        ("uncategorized", ["ping", "pong"]), ("users", ["get_user", "del_user"]),
    ]  # fmt: skip


async def test_a_hook_needs_to_know_nothing_of_mediators() -> None:
    """Tools in, tools out. Source: design document 000, layer 1."""
    hook = middleware(mediator_of(RuleTransformer()), CONTEXT)

    assert [tool.title for tool in await hook([SourceTool(name="lst_ords")])] == ["List orders"]


def test_the_public_names_are_these() -> None:
    """Programs that embed the mediator rely on them."""
    assert sorted(maitred.mediation.__all__) == sorted([
        "EnhancedTool", "Estimate", "LlmTransformer", "Mediator", "Memo", "MemoEntry", "MemoStore",
        "MemoryStore", "Middleware", "ModelSpending", "OverrideTransformer", "Overrides", "ProofVerdict",
        "Ranker", "RuleTransformer", "SourceTool", "ToolContext", "ToolGroup", "ToolOverride", "Transformer",
        "UNCATEGORIZED", "expand_abbreviations", "fetch_overrides", "load_overrides", "middleware",
        "misreadings", "propose_groups", "prove",
    ])  # fmt: skip


async def test_what_another_mediator_made_of_a_tool_stays_where_nothing_is_said_of_it() -> None:
    """So that a mediator may be the hook behind another one."""
    tool = EnhancedTool(
        name="get_user", hidden=True, category="data", confidence=1.0, enhanced_by="overrides"
    )
    context = ToolContext(source="shop", source_type="api")
    [found] = await Mediator().enhance([tool], context)
    assert found == replace(tool, original_name="get_user")
