"""A caller's text in an error is short, however long the text is: over MCP, HTTP, the pages and the CLI."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from tests.surfaces.cli.rig import runner, write
from tests.surfaces.web.rig import House, opened, tool

from maitred.backends.base import NOT_ASKED
from maitred.errors import MaitredError
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.resources import OwnResources
from maitred.surfaces.mcp.server import McpSurface
from maitred.wording import as_code, near_names, quote_input

pytestmark = pytest.mark.anyio

LONG = "x" * 120_000
IN_ADDRESS = "y" * 12_000
"""As long as an address may be."""
MOST = 6_000
"""Most characters of an error; some list what there is, such as all dimensions of tags."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("long")
    async with opened(folder, {"shop": [tool("look", "Looks.", item={"type": "integer"})]}) as made:
        yield made


ASKED: list[tuple[str, Mapping[str, Any]]] = [
    ("search_tools", {"phrases": ["x"], "server": LONG}),
    ("search_tools", {"phrases": ["x"], "category": LONG}),
    ("search_tools", {"phrases": ["x"], "tag": LONG}),
    ("search_tools", {"phrases": ["x"], "tag": [f"{n}{LONG[:300]}" for n in range(400)]}),
    ("search_tools", {"phrases": ["x"], "detail": LONG}),
    ("search_tools", {"phrases": ["x"], "used_within": LONG}),
    ("search_tools", {"phrases": ["x"], "limit": LONG}),
    ("search_tools", {"phrases": ["x"], "max_latency_ms": LONG}),
    ("search_tools", {"phrases": ["x"], "read_only": LONG}),
    ("search_tools", {"phrases": ["x"], LONG: 1}),
    ("search_tools", {"phrases": [LONG] * 20}),
    ("list_tools_meta", {"path": LONG}),
    ("list_tools_meta", {"path": f"category/{LONG}"}),
    ("list_tools_meta", {"server": LONG}),
    ("list_tools_meta", {"path": "tools", "cursor": LONG}),
    ("list_tools_meta", {"page_size": LONG}),
    ("list_tools_meta", {LONG: ""}),
    ("tool_info", {"names": [LONG]}),
    ("tool_info", {"names": ["shop__look", *(f"{n}{LONG}" for n in range(9))]}),
    ("tool_info", {"names": [f"{n}{LONG[:900]}" for n in range(2_000)]}),
    ("tool_info", {"names": ["shop__look", *(f"{n}{LONG[:900]}" for n in range(2_000))]}),
    ("tool_info", {"names": ["shop__look"], "detail": LONG}),
    ("call_tool", {"name": LONG, "arguments": {}}),
    ("call_tool", {"name": "shop__look", "arguments": LONG}),
    ("call_tool", {"name": "shop__look", "arguments": {"item": LONG}}),
    ("call_tool", {"name": "shop__look", "arguments": {"item": 1}, LONG: 1}),
    ("call_tool", {"name": "shop__look", **{f"{n}{LONG[:200]}": 1 for n in range(2_000)}}),
    ("call_read_only_tool", {"name": LONG, "arguments": {}}),
    ("call_tool_chain", {"code": LONG}),
    ("call_tool_chain", {"code": f"{LONG}()"}),
    ("call_tool_chain", {"code": f"shop.{LONG}(item=1)"}),
    ("call_tool_chain", {"code": "1", "timeout_ms": LONG}),
    ("call_tool_chain", {"code": json.dumps([{"tool": LONG, "arguments": {}}])}),
    (LONG, {}),
]


@pytest.mark.parametrize(("name", "arguments"), ASKED, ids=range(len(ASKED)))
async def test_no_error_of_a_meta_tool_repeats_a_long_text(
    house: House, name: str, arguments: Mapping[str, Any]
) -> None:
    """Each pays tokens of the agent: `tool_info` and `list_tools_meta` answered with 120,000 characters."""
    surface = McpSurface(house.gateway)
    try:
        asked = {"name": name, "arguments": arguments}
        result = await surface.call_tool(asked, "2025-11-25", NOT_ASKED, LOCAL_USER)
        said = json.dumps(result["content"])
    except MCPError as error:
        said = f"{error.error.message}{error.error.data}"
    assert len(said) < MOST


@pytest.mark.parametrize(
    "uri",
    [
        LONG,
        f"maitred://tool/{LONG}",
        f"maitred://server/{LONG}",
        f"maitred://category/{LONG}",
        f"maitred://tools?cursor={LONG}",
        f"maitred://result/{LONG}",
        f"maitred://{LONG}",
        f"maitred://tools?{LONG}=1",
    ],
    ids=lambda uri: uri[:24],
)
async def test_no_error_about_a_resource_repeats_a_long_address(house: House, uri: str) -> None:
    own, gateway = OwnResources(house.gateway), house.gateway

    async def read() -> None:
        if await own.read(uri, LOCAL_USER) is None:  # it is for the servers
            await gateway.offers(LOCAL_USER).read(uri, viewer=LOCAL_USER)

    with pytest.raises(MaitredError) as caught:
        await read()
    assert len(str(caught.value)) < MOST


PATHS = [
    f"tools/category/{IN_ADDRESS}",
    f"tools/search?q=x&category={IN_ADDRESS}",
    f"tools/search?q=x&server={IN_ADDRESS}",
    f"tools/search?q=x&tag={IN_ADDRESS}",
    f"tools/search?q=x&detail={IN_ADDRESS}",
    f"tools/search?q=x&limit={IN_ADDRESS}",
    f"tools/search?q=x&max_latency_ms={IN_ADDRESS}",
    f"tools/search?q=x&used_within={IN_ADDRESS}",
    f"tools/search?q=x&{IN_ADDRESS}=1",
    f"tools/shop/{IN_ADDRESS}",
    f"tools/{IN_ADDRESS}/look",
    f"servers/{IN_ADDRESS}",
    f"servers/{IN_ADDRESS}/approval",
    f"tokens?x={IN_ADDRESS}",
    f"calls/{IN_ADDRESS}",
    f"audit?since={IN_ADDRESS}",
    f"audit?action={IN_ADDRESS}",
    f"audit?cursor={IN_ADDRESS}",
    f"audit/answers/{IN_ADDRESS}",
    f"stats?days={IN_ADDRESS}",
    IN_ADDRESS,
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:32])
async def test_no_error_of_the_api_repeats_a_long_text(house: House, path: str) -> None:
    answer = await house.stranger().get(f"/api/v1/{path}")
    assert answer.status_code >= 400 or "action=" in path
    assert len(answer.text) < MOST


BODIES: list[tuple[str, str, Mapping[str, Any]]] = [
    ("POST", "tools/shop/look/call", {"arguments": {"item": LONG}}),
    ("POST", "tools/shop/look/call", {"arguments": {}, LONG: 1}),
    ("POST", "tools/shop/look/call", {"arguments": LONG}),
    ("POST", "tools/shop/look/call", {f"{n}{LONG[:300]}": 1 for n in range(400)}),
    ("POST", "tokens", {"name": LONG, "role": "agent"}),
    ("POST", "tokens", {"name": "ci", "role": LONG}),
    ("POST", "tokens", {"name": "ci", "role": "agent", "servers": [LONG]}),
    ("POST", "tokens", {"name": "ci", "role": "agent", "expires": LONG}),
    ("DELETE", f"tokens/{IN_ADDRESS}", {}),
    ("POST", "allow", {"kind": LONG, "pattern": "x"}),
    ("POST", "allow", {"kind": "images", "pattern": LONG}),
    ("POST", "allow", {"kind": "images", "pattern": "x", "why": LONG}),
    ("DELETE", f"allow/images/{IN_ADDRESS}", {}),
    ("DELETE", f"allow/{IN_ADDRESS}/x", {}),
    ("POST", f"calls/{IN_ADDRESS}/decision", {"decision": "refuse"}),
    ("POST", "calls/x/decision", {"decision": LONG}),
    ("POST", f"servers/{IN_ADDRESS}/approval", {"decision": "approve"}),
    ("POST", "servers/shop/approval", {"decision": LONG}),
    ("DELETE", f"servers/{IN_ADDRESS}", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES, ids=range(len(BODIES)))
async def test_no_refusal_of_a_body_repeats_a_long_text(
    house: House, method: str, path: str, body: Mapping[str, Any]
) -> None:
    answer: httpx2.Response = await house.stranger().request(method, f"/api/v1/{path}", json=body)
    assert answer.status_code >= 400, answer.text[:300]
    assert len(answer.text) < MOST


COMMANDS = [
    ["search", "x", "--tag", LONG],
    ["search", "x", "--category", LONG],
    ["search", "x", "--server", LONG],
    ["search", "x", "--detail", LONG],
    ["search", "x", "--used-within", LONG],
    ["info", LONG],
    ["info", "shop__look", "--detail", LONG],
    ["call", LONG],
    ["call", "shop__look", LONG],
    ["call", "shop__look", "--args", LONG],
    ["call", "shop__look", f"item={LONG}"],
    ["menu", LONG],
    ["menu", f"category/{LONG}"],
    ["menu", "tools", "--cursor", LONG],
    ["tools", "--off", LONG],
    ["categories", "--of", LONG],
    ["categories", "--set", LONG],
    ["categories", "--set", f"shop__look={LONG}"],
    ["allow", "add", LONG, "x"],
    ["allow", "add", "images", LONG],
    ["allow", "remove", "images", LONG],
    ["tokens", "create", "ci", "--expires", LONG],
    ["tokens", "create", LONG],
    ["tokens", "revoke", LONG],
    ["approve", LONG],
    ["suspend", LONG],
    ["doctor", LONG],
    ["remove", LONG],
    ["calls", "show", LONG],
    ["calls", "approve", LONG],
    ["audit", "list", "--since", LONG],
    ["login", LONG],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:40])
async def test_no_error_of_a_command_repeats_a_long_text(
    house: House, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = house.gateway.settings.servers["shop"]
    servers = {"shop": {"command": shop.command, "args": list(shop.args)}}
    settings = {"servers": servers, "catalog": {"path": str(house.folder / "c.db")}}
    write(house.folder, {"maitred.yaml": json.dumps(settings)})
    maitred = runner(house.folder, monkeypatch, capsys)

    said = await anyio.to_thread.run_sync(lambda: maitred(*command))

    assert said.code != 0
    assert len(said.out) + len(said.err) < MOST


def test_the_beginning_and_the_end_of_a_long_text_stay() -> None:
    said = quote_input(f"begins{LONG}ends")
    assert said.startswith("'begins")
    assert said.endswith("ends'")
    assert "characters left out" in said
    assert quote_input("short") == "'short'"
    assert len(as_code(LONG)) < 130
    assert near_names(LONG, ["shop"]) == []
