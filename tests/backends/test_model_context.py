"""A server made of a program's own functions: registered, listed collapsed, expanded and called."""

from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from maitred.backends.listing import TOOLS_KEY
from maitred.backends.model_context import ModelContext, ToolDefinition
from maitred.errors import ToolNotFoundError

pytestmark = pytest.mark.anyio

SOON_S = 120.0
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


async def greet(arguments: Mapping[str, Any]) -> Any:
    return f"hello {arguments.get('name', 'nobody')}"


def made(name: str, execute: Any = greet) -> ToolDefinition:
    return ToolDefinition(name=name, description=f"It is {name}.", execute=execute, input_schema=SCHEMA)


def context() -> ModelContext:
    found = ModelContext("page")
    found.register_category("admin_tools", "Users and roles", [made("create_user"), made("delete_user")])
    found.register_tool(made("hello"))
    return found


# --- as the design document has it ------------------------------------------------------------------------


def test_the_list_has_categories_collapsed_and_the_other_tools() -> None:
    """Source: design document 000, part 1, how list() changes."""
    assert context().list() == [
        {"name": "admin_tools", "description": "Users and roles", "isCategory": True, "toolCount": 2},
        {"name": "hello", "description": "It is hello.", "inputSchema": SCHEMA},
    ]


def test_a_category_expands_to_the_definitions_of_its_tools() -> None:
    """Source: design document 000, part 1, option B."""
    page = context()
    assert [tool["name"] for tool in page.expand_category("admin_tools")] == ["create_user", "delete_user"]
    with pytest.raises(ToolNotFoundError, match="Did you mean admin_tools"):
        page.expand_category("admin")


async def test_calling_a_category_answers_with_text_and_a_field_tools() -> None:
    """Source: design document 000, part 1, category expansion."""
    page = context()
    answer = await page.execute_tool("admin_tools")
    assert answer["content"][0]["text"].splitlines() == [
        "Tools of admin_tools:",
        "- create_user: It is create_user.",
        "- delete_user: It is delete_user.",
    ]
    assert answer["tools"] == page.expand_category("admin_tools")


async def test_a_tool_is_called_whether_its_category_is_expanded_or_not() -> None:
    """A text, a value or a whole result: each becomes a result. Source: design document 000, layer 0."""

    async def value(_: Mapping[str, Any]) -> Any:
        return {"count": 3}

    async def whole(_: Mapping[str, Any]) -> Any:
        return {"content": [], "structuredContent": 1}

    async def broken(_: Mapping[str, Any]) -> Any:
        raise KeyError("no such user")

    page = context()
    for name, function in (("value", value), ("whole", whole), ("broken", broken)):
        page.register_tool(made(name, function))

    text = await page.execute_tool("create_user", {"name": "ada"})
    assert text == {"content": [{"type": "text", "text": "hello ada"}], "isError": False}
    assert (await page.execute_tool("value"))["structuredContent"] == {"count": 3}
    assert await page.execute_tool("whole") == {"content": [], "structuredContent": 1, "isError": False}
    failed = await page.execute_tool("broken")
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "KeyError: 'no such user'")
    with pytest.raises(ToolNotFoundError):
        await page.execute_tool("nothing")


def test_a_tool_or_a_category_can_be_taken_out_and_a_category_that_is_empty_goes() -> None:
    """Source: design document 000, layer 0, and maitred."""
    page = context()
    page.unregister_tool("hello")
    page.unregister_tool("create_user")
    assert [(entry["name"], entry["toolCount"]) for entry in page.list()] == [("admin_tools", 1)]
    page.unregister_tool("delete_user")
    assert page.list() == []
    again = context()
    again.unregister_tool("admin_tools")
    assert [entry["name"] for entry in again.list()] == ["hello"]
    with pytest.raises(ToolNotFoundError):
        again.unregister_tool("create_user")


@pytest.mark.parametrize("name", ["hello", "admin_tools", "create_user"])
def test_a_name_is_given_once(name: str) -> None:
    """Categories and tools are called alike, so they share their names. Source: maitred."""
    page = context()
    with pytest.raises(ValueError, match="already; unregister it first"):
        page.register_tool(made(name))
    for category, tools in ((name, ["x"]), ("other", ["x", name]), ("other", ["x", "x"])):
        with pytest.raises(ValueError, match="already; unregister it first"):
            page.register_category(category, "", [made(tool) for tool in tools])
    with pytest.raises(ValueError, match="no tools"):
        page.register_category("empty", "", [])
    assert len(page.list()) == 2


# --- as a server ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_its_server_lists_every_tool_with_its_category(era: Any) -> None:
    """A gateway can only find and show what it knows. Source: maitred."""
    with anyio.fail_after(SOON_S):
        async with Client(context().server(), mode=era) as client:
            listed = (await client.list_tools()).tools
            called = await client.call_tool("create_user", {"name": "ada"})
            with pytest.raises(MCPError, match="There is no tool named"):
                await client.call_tool("create_usr", {})

    meta = {"category": {"name": "admin_tools", "description": "Users and roles"}}
    assert [(tool.name, tool.meta) for tool in listed] == [
        ("hello", None),
        ("create_user", meta),
        ("delete_user", meta),
    ]
    assert called.content == [types.TextContent(text="hello ada")]


async def test_its_server_tells_of_changes_and_repeats_the_field_tools_where_it_survives() -> None:
    """What is registered at any time reaches clients that listen. Source: maitred."""
    page = context()
    with anyio.fail_after(SOON_S):
        async with Client(page.server()) as client, client.listen(tools_list_changed=True) as stream:
            page.register_tool(made("late"))
            page.unregister_tool("hello")
            await anext(aiter(stream))
            names = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
            answer = await client.call_tool("admin_tools", {})

    assert names == ["late", "create_user", "delete_user"]
    assert answer.meta is not None
    assert [tool["name"] for tool in answer.meta[TOOLS_KEY]] == ["create_user", "delete_user"]
