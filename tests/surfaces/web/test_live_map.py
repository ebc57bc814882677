"""The map of clients, the gateway and servers: bounded, true to the audit trail, readable without colour."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import Markup
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.config.settings import Audit
from maitred.gateway import ServerStatus
from maitred.model.access import Grant, Viewer
from maitred.model.servers import Health, ServerFacts, ServerSpec, State
from maitred.model.tools import ToolCall
from maitred.surfaces.web.charts import Node, node_map
from maitred.surfaces.web.servers.live_map import MOST_CLIENTS, MOST_SERVERS, live_map
from maitred.surfaces.web.servers.recent_use import RecentUse, use_of

pytestmark = pytest.mark.anyio

HOSTILE = '"><script>\u202e&'


def server(name: str, **health: Any) -> ServerStatus:
    facts = ServerFacts(era="handshake")
    spec = ServerSpec(name=name, command="x")
    return ServerStatus(spec=spec, health=Health(**health), facts=facts, tools=1, cost_tokens=1)


def line(who: str, client: str, server: str, ms: float = 1.0) -> dict[str, Any]:
    about = {"who": who, "client": client, "server": server, "ms": ms, "surface": "mcp"}
    return {"action": "call", "outcome": "ok", **about}


def texts(picture: Markup) -> list[str]:
    root = ElementTree.fromstring(str(picture))  # our own
    return [one.text or "" for one in root.iter() if one.tag == "text"]


def boxes(picture: Markup) -> list[str]:
    root = ElementTree.fromstring(str(picture))
    return [one.findtext("title") or "" for one in root.iter() if one.tag in ("a", "g")]


def test_a_map_of_a_large_house_stays_readable() -> None:
    """The busiest clients; servers in trouble, then those in use. It says how many it leaves out."""
    servers = [server(f"s{number}") for number in range(39)] + [
        server("broken", state=State.FAILED, error="it ended", retry_in_s=3.0)
    ]
    calls = [line(f"p{number}", "cursor", "s38") for number in range(30) for _ in range(number + 1)]
    picture = live_map(servers, use_of(calls))
    names = boxes(picture)
    assert len(names) == MOST_CLIENTS + MOST_SERVERS
    assert any(one.startswith("broken: failed") for one in names)
    assert any(one.startswith("s38: ") for one in names)
    assert "cursor: p29, 30 calls" in names
    assert not any(one.startswith("cursor: p3,") for one in names)
    assert {"and 18 more", "and 16 more"} <= set(texts(picture))


def test_a_state_is_a_word_and_a_shape() -> None:
    """Who sees no colours reads the same."""
    servers = [
        server("runs", state=State.READY, in_flight=2),
        server("rests"),
        server("broken", state=State.FAILED, error="it ended", retry_in_s=3.0),
        server("held back", state=State.SUSPENDED),
    ]
    picture = live_map(servers, RecentUse())
    read = " ".join(boxes(picture))
    for words in (
        "runs: running, 2 now",
        "rests: starts when needed",
        "broken: failed",
        "held back: suspended",
    ):
        assert words in read
    shapes = re.findall(r'class="sign (\w+)" d="([^"]+)"', picture)
    assert [tone for tone, _ in shapes] == ["good", "quiet", "bad", "warn"]
    assert len({shape for _, shape in shapes}) == 4


def test_a_line_is_as_thick_as_its_use() -> None:
    nodes = [Node(name="much", weight=100), Node(name="little", weight=1), Node(name="none")]
    picture = node_map(nodes, "gateway", [], rest=("", ""), title="t", desc="d")
    links = re.findall(r'class="(link[^"]*)"[^>]*stroke-width="([\d.]+)"', picture)
    widths = [float(width) for _, width in links]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 2 * widths[2]
    assert [kind for kind, _ in links] == ["link", "link", "link idle"]


@pytest.mark.parametrize("name", [HOSTILE, "x" * 5_000, "", "\u200b", "ü" * 60])
def test_names_that_a_stranger_chose_stay_in_their_box(name: str) -> None:
    """Escaped, marked and cut: a map has no script, no style and no text that leaves it."""
    node = Node(name=name, note=name, tone="bad", weight=1, href=f"/ui/servers/{name}")
    picture = node_map([node], "gateway", [node], rest=("", ""), title=name, desc=name)
    root = ElementTree.fromstring(str(picture))
    assert "script" not in {element.tag for element in root.iter()}
    assert not {"\u202e", "\u200b"} & set(picture)
    for element in root.iter():
        assert not {one for one in element.attrib if one == "style" or one.startswith("on")}
    assert max(map(len, texts(picture))) < 40


def test_who_used_what_is_counted_by_principal_and_program() -> None:
    """What is no call, or of no server, is left out; times are in the order in which they were."""
    lines = [
        line("ann", "cursor", "shop", 3.0),
        line("ann", "cursor", "shop", 2.0),
        line("ann", "", "bank", 1.0),
        {"action": "approve", "who": "ann", "server": "shop"},
        {"action": "call", "who": "ann", "outcome": "tool_not_found"},
    ]
    use = use_of(lines)
    assert [(one.principal, one.client, one.total) for one in use.clients] == [
        ("ann", "cursor", 2),
        ("ann", "MCP", 1),
    ]
    assert use.latencies == {"shop": [2.0, 3.0], "bank": [1.0]}
    assert [(one.client, calls) for one, calls in use.of_server("shop")] == [("cursor", 2)]
    assert not use.of_server("desk")


def test_a_call_is_counted_once_and_only_if_it_reached_its_server() -> None:
    """As in the figures of 30 days beside it: that it begins is no call, nor is one that was refused."""
    lines = [
        line("ann", "cursor", "shop", 3.0),
        line("ann", "cursor", "shop") | {"outcome": "begun"},
        line("ann", "cursor", "shop") | {"outcome": "invalid_arguments"},
        line("ann", "cursor", "shop") | {"outcome": "not_approved"},
        line("ann", "cursor", "shop", 4.0) | {"outcome": "call_timeout"},
    ]
    use = use_of(lines)
    assert [one.total for one in use.clients] == [2]
    assert use.latencies == {"shop": [4.0, 3.0]}


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("map")
    servers = {"shop": [tool("look")], "bank": [tool("pay")], "desk": [tool("write")]}
    async with opened(folder, servers) as made:
        yield made


def client_of(principal: str, client: str) -> Viewer:
    return Viewer(grant=Grant(principal=principal, role="agent"), client=client, surface="mcp")


async def test_the_page_shows_who_uses_which_server(house: House) -> None:
    """The map and the table have the same facts; the map is for the eye and a pointer."""
    for viewer, name in (
        (client_of("ann", "claude-code"), "shop__look"),
        (client_of("ann", "claude-code"), "shop__look"),
        (client_of("bob", "cursor"), "shop__look"),
        (client_of("bob", "cursor"), "bank__pay"),
    ):
        await house.gateway.call(ToolCall(name=name, arguments={}), viewer=viewer)
    person = await house.person()
    await house.recorded(2, who="bob")
    page = (await person.get("/ui/servers")).text
    titles = [html.unescape(one) for one in re.findall(r"<title>([^<]*)</title>", page)]
    assert {"claude-code: ann, 2 calls", "cursor: bob, 2 calls"} <= set(titles)
    assert any(one.startswith("shop: ") for one in titles)
    assert re.search(r"milliseconds of the last 3 calls", page)
    rows = [words_of(one) for one in re.findall(r"<tr>.*?</tr>", page, re.DOTALL)]
    [shop] = [one for one in rows if one.startswith("shop ")]
    assert "claude-code ann , 2 calls ; cursor bob , 1 call" in shop
    [desk] = [one for one in rows if one.startswith("desk ")]
    assert "call" not in desk
    assert 'href="/ui/servers/shop" tabindex="-1"' in page


async def test_who_may_not_audit_sees_servers_and_why_there_are_no_clients(house: House) -> None:
    await house.gateway.call(
        ToolCall(name="shop__look", arguments={}), viewer=client_of("eve", "secret-tool")
    )
    operator = await house.person(Grant(principal="op", role="operator"))
    page = (await operator.get("/ui/servers")).text
    assert "secret-tool" not in page
    assert "which the role admin may read" in words_of(page)
    assert "Used by" not in page
    assert "<title>desk: " in page


async def test_without_an_audit_trail_the_page_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, {"shop": [tool("look")]}, audit=Audit(enabled=False)) as quiet:
        page = (await (await quiet.person()).get("/ui/servers")).text
        assert "is not recorded, since audit.enabled is off" in words_of(page)
