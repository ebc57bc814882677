"""The clients screen: who was here by the audit trail, and what to paste into the file of each client."""

import html
import json
import re
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import Implementation
from ruamel.yaml import YAML
from tests.support.waiting import eventually
from tests.surfaces.web.rig import SOON_S, House, opened, tool

from maitred.config.clients.table import known_clients
from maitred.config.settings import Audit, Http
from maitred.errors import ToolNotFoundError
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant, Scope, Viewer
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.web.mount import WebInterface

pytestmark = pytest.mark.anyio

_EVIL = "\u202e<script>alert(1)</script>"
_TOKEN = "a-token-that-is-in-no-page"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, {"shop": [tool("look")]}) as made:
        yield made


async def call(house: House, client: str, principal: str = "ann", name: str = "shop__look") -> None:
    """A call of a client over MCP."""
    viewer = Viewer(grant=Grant(principal=principal, role="agent"), client=client, surface="mcp")
    with suppress(ToolNotFoundError):
        await house.gateway.call(ToolCall(name=name, arguments={}), viewer=viewer)


async def page(client: httpx2.AsyncClient, path: str = "/ui/clients") -> str:
    answer = await client.get(path)
    assert answer.status_code == 200
    return answer.text


def words_of(text: str) -> str:
    """What a person reads of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def blocks(text: str) -> list[str]:
    """What a person copies."""
    found = re.findall(r'<pre class="wrote whole paste"[^>]*>(.*?)</pre>', text, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", one)) for one in found]


def entries(text: str) -> list[Any]:
    """The blocks as programs read them, but for commands."""
    found: list[Any] = []
    for block in blocks(text):
        if block.startswith("["):
            found.append(tomllib.loads(block))
        elif not block.startswith(("{", "claude ")):
            found.append(YAML(typ="safe", pure=True).load(block))
        elif not block.startswith("claude "):
            found.append(json.loads(block))
    return found


async def test_who_was_here_is_shown_with_the_last_first(house: House) -> None:
    await call(house, "claude-code")
    await call(house, "claude-code")
    await call(house, "claude-code", name="nothing")
    await call(house, "my-own-agent", principal="bob")
    text = await page(await house.person())
    read = words_of(text)
    mine, code = read.index("my-own-agent"), read.index("claude-code Claude Code")
    assert mine < code
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    state = "not connected not recorded"
    assert re.search(rf"my-own-agent bob mcp {state} {time} {time} 1 0", read)
    assert re.search(rf"claude-code Claude Code ann mcp {state} {time} {time} 3 1", read)
    assert read.index("was here") < read.index(
        "Claude Desktop"
    )  # the guide of a client that was here is first
    assert read.count("was here") == 1


async def test_who_came_by_another_surface_is_no_client(house: House) -> None:
    await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
    assert "No client has been here." in words_of(await page(await house.person()))


async def test_without_an_audit_trail_the_page_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, audit=Audit(enabled=False)) as house:
        assert "the audit trail is off" in words_of(await page(await house.person()))


async def test_a_client_that_lists_tools_is_seen_with_its_era_while_it_is_connected(house: House) -> None:
    """A real client of each era, which calls nothing."""
    person, server = await house.person(), McpSurface(house.gateway).server
    with anyio.fail_after(SOON_S):
        async with Client(server, mode="legacy", client_info=Implementation(name="old", version="1")) as old:
            await old.list_tools()
            assert re.search(r" old 1 \S+ mcp connected handshake ", words_of(await page(person)))
        await eventually(lambda: not any(one.is_connected for one in house.gateway.seen_clients(LOCAL_USER)))
        assert re.search(r" old 1 \S+ mcp not connected handshake ", words_of(await page(person)))
        async with Client(server, client_info=Implementation(name="new", version="1")) as new:
            await new.list_tools()
        assert re.search(r" new 1 \S+ mcp stateless stateless ", words_of(await page(person)))


async def test_each_block_can_be_pasted_as_it_is(house: House) -> None:
    """It is JSON or TOML, and starts this installation for this file, or names this address."""
    text = await page(await house.person())
    whole = entries(text)
    over_http = sum(one.http is not None for one in known_clients())
    assert len(whole) == len(known_clients()) + over_http
    address, config = f"{house.url}/mcp", str(house.folder / "maitred.yaml")
    for one in whole:
        plain = json.dumps(one)
        assert (address in plain) != (config in plain)
        if config in plain:
            assert str(Path(sys.executable).with_name("maitred")) in plain or sys.executable in plain
    for client in known_clients():
        for file in client.files:
            assert file.path_text in html.unescape(text) or not file.is_written


async def test_no_block_and_no_page_has_a_token(tmp_path: Path) -> None:
    """Where one is needed, the page names the variable that has it, and where to make one."""
    async with opened(tmp_path, {}, http=Http(port=0, token=_TOKEN)) as house:
        text = await page(await house.person())
        assert _TOKEN not in text
        assert "Bearer ${MAITRED_TOKEN}" in html.unescape(text)
        assert "make one at Access" in words_of(text)


async def test_where_no_token_is_needed_none_is_named(house: House) -> None:
    """A variable that is not set would be sent as it is, and be refused."""
    assert "MAITRED_TOKEN" not in await page(await house.person())


async def test_a_gateway_that_serves_no_http_has_no_address_to_paste(house: House) -> None:
    """As the pages of a shared gateway."""
    web = WebInterface(house.gateway, house.gateway.grant_of)
    transport = httpx2.ASGITransport(app=web)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get(web.entry_path(LOCAL_GRANT))).status_code == 303
        text = await page(client)
    assert "This gateway serves no HTTP" in words_of(text)
    assert len(entries(text)) == len(known_clients())


async def test_a_hostile_name_of_a_client_is_inert(house: House) -> None:
    await call(house, _EVIL)
    text = await page(await house.person())
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "<script>alert(1)</script>" in words_of(text)


async def test_only_who_may_read_the_audit_trail_sees_clients(house: House) -> None:
    await call(house, "claude-code")
    for grant in (
        Grant(principal="v", role="viewer"),
        Grant(principal="a", role="agent"),
        Grant(principal="o", role="operator"),
        Grant(principal="p", role="admin", scope=Scope(servers=frozenset({"shop"}))),
    ):
        client = await house.person(grant)
        answer = await client.get("/ui/clients")
        assert answer.status_code == 403
        assert "claude-code" not in answer.text
