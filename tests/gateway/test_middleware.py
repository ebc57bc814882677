"""The hook of a program that embeds maitred: it has the last word on tools, and can lose or swap none."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.gateway.mediator import POOR, by, described, poor
from tests.gateway.rig import SOON_S, Upstream, call

from maitred.mediation import EnhancedTool, Mediator, RuleTransformer, SourceTool, ToolContext, middleware
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

Hook = Callable[[Sequence[SourceTool]], Awaitable[Sequence[SourceTool]]]
PLAIN = {f"poor__{name}": text for name, text in POOR.items()}


@asynccontextmanager
async def hooked(folder: Path, hook: Hook | None, **mediation: Any) -> Any:
    """A gateway over the poor server whose tools pass through a hook."""
    servers = {"poor": Upstream("poor", POOR).sdk()}
    settings = poor(folder, **mediation)
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(settings, in_process=servers, tool_middleware=hook) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def loud(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    """Every description in capitals."""
    return [replace(tool, description=tool.description.upper()) for tool in tools]


async def test_a_hook_changes_what_is_published(tmp_path: Path) -> None:
    """With no mediator at work, and calls go where they went; without the hook it is as before."""
    async with hooked(tmp_path, loud) as gateway:
        assert described(gateway) == {name: text.upper() for name, text in PLAIN.items()}
        assert by(gateway) == {"gt_usr": "middleware", "del_ord": "", "weather": "middleware"}
        answer = await call(gateway, "poor__gt_usr")
        assert answer["content"][0]["text"] == "poor/gt_usr"
    async with hooked(tmp_path, None) as gateway:
        assert described(gateway) == PLAIN


async def test_a_hook_comes_after_overrides_and_rules(tmp_path: Path) -> None:
    """It is given tools as they would be published."""
    (tmp_path / "o.yaml").write_text(
        "overrides: {poor: {gt_usr: {rename: get_user, description: Get one.}}}\n"
    )
    async with hooked(tmp_path, loud, overrides="o.yaml", auto_enhance=True) as gateway:
        shown = described(gateway)
    assert shown["poor__get_user"] == "GET ONE."
    assert shown["poor__del_ord"].isupper()
    assert "ORDER" in shown["poor__del_ord"]


async def test_a_mediator_is_such_a_hook(tmp_path: Path) -> None:
    """As document 000 has it: the mediator of a program, set as middleware."""
    own = Mediator()
    own.use(RuleTransformer(rename=True))
    hook = middleware(own, ToolContext(source="mine", source_type="manual"))
    async with hooked(tmp_path, hook) as gateway:
        assert set(described(gateway)) == {"poor__get_user", "poor__delete_order", "poor__weather"}
        assert (await call(gateway, "poor__get_user"))["content"][0]["text"] == "poor/gt_usr"


async def fewer(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    return list(tools)[1:]


async def reordered(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    return list(tools)[::-1]


async def renamed(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    return [SourceTool(name=f"{tool.name}_2") for tool in tools]


async def strange(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    return [{"name": tool.name} for tool in tools]  # type: ignore[misc]  # as a program without types might


async def failing(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
    raise RuntimeError(f"no idea about {len(tools)} tools")


@pytest.mark.parametrize("hook", [fewer, reordered, renamed, strange, failing])
async def test_a_hook_that_cannot_be_trusted_changes_nothing(tmp_path: Path, hook: Hook) -> None:
    """Tools are there, in their places, under their names; why is logged."""
    async with hooked(tmp_path, hook) as gateway:
        assert described(gateway) == PLAIN


async def test_a_hook_may_answer_in_plain_tools(tmp_path: Path) -> None:
    """What a mediator knows beyond them stays, such as a category."""

    async def plain(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
        return [
            SourceTool(name=tool.name, description="Short.", input_schema=tool.input_schema) for tool in tools
        ]

    (tmp_path / "o.yaml").write_text("overrides: {poor: {gt_usr: {category: security}}}\n")
    async with hooked(tmp_path, plain, overrides="o.yaml") as gateway:
        assert set(described(gateway).values()) == {"Short."}
        assert gateway.find("gt_usr", LOCAL_USER).placement.category == "security"


async def test_two_tools_do_not_get_one_name(tmp_path: Path) -> None:
    """The names that they had stay."""

    async def same(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
        return [EnhancedTool(name="same", original_name=tool.name) for tool in tools]

    async with hooked(tmp_path, same) as gateway:
        assert set(described(gateway)) == set(PLAIN)
