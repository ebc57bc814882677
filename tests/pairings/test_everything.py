"""`server-everything` behind the gateway: it shows all its tools, and each answers, in either era."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
import pytest
from mcp import Client
from pydantic import FileUrl
from tests.interaction.harness import Mode, over_stdio, text_of
from tests.support.real_servers import NPM

pytestmark = pytest.mark.anyio

LIMIT_S: Final = 120.0
SAYS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "echo": ({"message": "well"}, "well"),
    "get-annotated-message": ({"messageType": "error"}, "Error"),
    "get-env": ({}, "PATH"),
    "get-resource-links": ({"count": 1}, "1"),
    "get-resource-reference": ({"resourceType": "Text", "resourceId": 1}, "resource"),
    "get-roots-list": ({}, "file:///house"),
    "get-structured-content": ({"location": "New York"}, "Cloudy"),
    "get-sum": ({"a": 2, "b": 40}, "42"),
    "get-tiny-image": ({}, "image"),
    "gzip-file-as-resource": ({"data": "data:text/plain,well", "outputType": "resource"}, ""),
    "simulate-research-query": ({"topic": "kettles"}, "kettles"),
    "toggle-simulated-logging": ({}, "logging"),
    "toggle-subscriber-updates": ({}, "resource"),
    "trigger-elicitation-request": ({}, "Ann"),
    "trigger-elicitation-request-async": ({}, "Ann"),
    "trigger-long-running-operation": ({"duration": 0.2, "steps": 2}, "completed"),
    "trigger-sampling-request": ({"prompt": "Hello."}, "as sampled"),
    "trigger-sampling-request-async": ({"prompt": "Hello."}, "as sampled"),
    "trigger-url-elicitation": ({"url": "https://example.com/in"}, "https://example.com/in"),
}
"""Each tool, a call of it, and a part of what it answers."""


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    content: dict[str, Any] | None = {"name": "Ann"}
    if isinstance(params, types.ElicitRequestURLParams):
        content = None
    return types.ElicitResult(action="accept", content=content)


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = types.TextContent(text="as sampled")
    return types.CreateMessageResult(role="assistant", model="m", content=said)


async def roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///house"))])


@asynccontextmanager
async def house(folder: Path, mode: Mode) -> AsyncIterator[Client]:
    """A client that answers everything, and a gateway with this server."""
    document = {
        "servers": {"every": {"command": str(NPM / "mcp-server-everything")}},
        "catalog": {"path": "catalog.db"},
        "disclosure": {"mode": "all"},
    }
    config = folder / "maitred.yaml"
    config.write_text(json.dumps(document), encoding="utf-8")
    answers: dict[str, Any] = {
        "elicitation_callback": elicited,
        "sampling_callback": sampled,
        "list_roots_callback": roots,
    }
    async with over_stdio(config, mode, **answers) as client:
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_shows_all_its_tools_and_each_answers(tmp_path: Path, mode: Mode) -> None:
    """It registers some only for clients that can be asked. Source: notes on first contact, B4."""
    if not (NPM / "mcp-server-everything").exists():
        pytest.skip("the servers that `make servers` installs are not here")
    wrong: dict[str, str] = {}
    with anyio.fail_after(LIMIT_S):
        async with house(tmp_path, mode) as client:
            tools = {tool.name.removeprefix("every__") for tool in (await client.list_tools()).tools}
            assert tools == SAYS.keys()
            for name, (arguments, says) in SAYS.items():
                result = await client.call_tool(f"every__{name}", arguments)
                if result.is_error or says not in text_of(result):
                    wrong[name] = text_of(result)
    assert not wrong
