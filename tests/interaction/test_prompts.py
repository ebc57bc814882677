"""Prompts of maitred and of the servers behind it: listed, got, completed, in both eras."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests.interaction.harness import ROOT, call, faulty, sdk_server, text_of, write_settings
from tests.interaction.requirements import requirement
from tests.support.real_servers import SERVERS, require

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("prompts")]

HONEST = ROOT / "tests" / "backends" / "honest_server.py"
OWN = ["discover", "find_tool", "server_status"]


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        everything = SERVERS["everything"]
        real = {"everything": everything.entry(folder)} if everything.is_installed else {}
        servers = {
            "notes": sdk_server(HONEST, "stdio") | {"era": "stateless"},
            "old": sdk_server(HONEST, "stdio") | {"era": "handshake"},
            "counter": faulty("count"),
            "away": {**faulty("count"), "disabled": True},
            **real,
        }
        return write_settings(folder, servers, disclosure={"mode": "menu"})

    return make


@requirement("prompt:own")
async def test_the_prompts_of_maitred_guide_to_the_tools_and_tell_of_the_servers(client: Client) -> None:
    """What there is with its counts, how to find and call it, and how each server is. Source: maitred."""
    listed = await client.list_prompts(cache_mode="refresh")
    assert text_of(await call(client, "counter__add", {"a": 2, "b": 40})) == "42"
    overview, categories, steps = (await client.get_prompt("discover")).messages
    [status] = (await client.get_prompt("server_status")).messages
    servers = json.loads(await read(client, "maitred://servers"))
    tools = sum(server["tools"] for server in servers if not server.get("withheld"))

    assert [prompt.name for prompt in listed.prompts][: len(OWN)] == OWN
    assert attached(overview)[0] == "maitred://overview"
    assert "category/utilities" in said(categories)
    assert f"{tools} tools" in said(steps)
    assert all(name in said(steps) for name in ("search_tools", "tool_info", "call_tool"))
    lines = {line.split(":")[0].strip("- "): line for line in said(status).splitlines()}
    assert "ready, 3 tools" in lines["counter"]
    assert "withheld: disabled in the configuration" in lines["away"]


@requirement("prompt:find")
async def test_find_tool_gives_the_answer_of_the_search_and_the_best_tool_whole(client: Client) -> None:
    """A conversation that starts with it can call at once. Source: maitred."""
    first, best = (await client.get_prompt("find_tool", {"task": "honest tool echo"})).messages
    [nothing] = (await client.get_prompt("find_tool", {"task": "xylophone zymurgy"})).messages

    uri, text = attached(best)
    tool = json.loads(text)
    assert "honest tool echo" in said(first)
    assert tool["name"] in said(first)
    assert uri == f"maitred://tool/{tool['name']}"
    assert tool["definition"]["inputSchema"]["properties"] == {"text": {"type": "string"}}
    assert "Nothing relevant" in said(nothing)


@requirement("prompt:unknown")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("find_tool", {}), ("find_tool", {"task": " "}), ("nobody__knows", {}), ("greet", {"who": "Ada"})],
)
async def test_a_prompt_that_cannot_be_given_is_a_wrong_parameter(
    client: Client, name: str, arguments: dict[str, str]
) -> None:
    """-32602 and what is missing, in both eras. Source: specification, prompts."""
    with pytest.raises(MCPError) as caught:
        await client.get_prompt(name, arguments)

    assert caught.value.code == -32602
    assert repr(name) in caught.value.error.message


@requirement("prompt:servers")
async def test_prompts_of_servers_are_known_by_names_that_tell_the_server(client: Client) -> None:
    """With their arguments as the server listed them; what it answers is passed on. Source: specification."""
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    [thanks] = (await client.get_prompt("notes__thank", {"who": "Ada"})).messages
    [parting] = (await client.get_prompt("old__part", {"who": "Alan"})).messages

    assert {f"{s}__{name}" for s in ("notes", "old") for name in ("greet", "part", "thank")} <= set(prompts)
    [argument] = prompts["old__part"].arguments or []
    assert (argument.name, argument.required) == ("who", True)
    assert (said(thanks), said(parting)) == ("thank Ada", "part Alan")


@requirement("complete:prompts")
async def test_the_arguments_of_prompts_are_completed(client: Client) -> None:
    """A task by categories and use cases, those of servers by the server. Source: specification."""

    async def completed(name: str, argument: str, typed: str) -> list[str]:
        ref = types.PromptReference(name=name)
        return (await client.complete(ref, {"name": argument, "value": typed})).completion.values

    assert await completed("find_tool", "task", "utili") == ["Utilities & helpers"]
    assert await completed("discover", "task", "") == []
    assert await completed("notes__greet", "who", "A") == ["Ada", "Alan"]
    assert await completed("old__greet", "who", "Al") == ["Alan"]
    with pytest.raises(MCPError, match="no prompt named") as caught:
        await completed("nobody__knows", "who", "")
    assert caught.value.code == -32602


@requirement("prompt:real")
@pytest.mark.real
async def test_the_prompts_of_the_reference_server_pass_through(client: Client) -> None:
    """Arguments, completions that depend on other arguments, embedded resources. Source: maitred."""
    require("everything")
    listed = {prompt.name for prompt in (await client.list_prompts()).prompts}
    [weather] = (await client.get_prompt("everything__args-prompt", {"city": "Ulm", "state": "BW"})).messages
    _, resource = (
        await client.get_prompt("everything__resource-prompt", {"resourceType": "Text", "resourceId": "1"})
    ).messages
    ref = types.PromptReference(name="everything__completable-prompt")
    team = await client.complete(
        ref, {"name": "name", "value": "D"}, context_arguments={"department": "Sales"}
    )
    with pytest.raises(MCPError) as caught:
        await client.get_prompt("everything__args-prompt", {})

    assert {f"everything__{name}-prompt" for name in ("simple", "args", "completable", "resource")} <= listed
    assert "Ulm, BW" in said(weather)
    assert attached(resource)[0] == "demo://resource/dynamic/text/1"
    assert team.completion.values == ["David"]
    assert caught.value.code == -32602
    [content] = (await client.read_resource(attached(resource)[0])).contents  # its own URI is understood
    assert "Resource 1" in getattr(content, "text", "")


def said(message: types.PromptMessage) -> str:
    assert isinstance(message.content, types.TextContent)
    return message.content.text


def attached(message: types.PromptMessage) -> tuple[str, str]:
    """URI and text of an embedded resource."""
    assert isinstance(message.content, types.EmbeddedResource)
    resource: Any = message.content.resource
    return str(resource.uri), resource.text


async def read(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri, cache_mode="refresh")).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text
