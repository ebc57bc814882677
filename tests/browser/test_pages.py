"""Tools of web pages behind the gateway: listed by origin, approved, pinned, called and taken away."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from tests.support.chromium import Running, browser
from tests.support.pages import NO, YES, house, person, tool_script
from tests.support.web_site import Site, serve_site

from maitred.errors import ArgumentsError, ToolNotFoundError, ToolWithheldError
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.server import McpSurface

pytestmark = pytest.mark.anyio
SHOP = {"add_to_cart", "read_cart", "pay", "fail", "close_shop", "sale"}
HOSTS = ("127.0.0.1", "localhost")
ANY = '{allow: ["http://127.0.0.1:*"]}'


@pytest.fixture(scope="module", params=["injected", "native"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A browser without WebMCP, and one with it: everything is the same in both."""
    flags = ["--enable-features=WebMCP"] if request.param == "native" else []
    with browser(*flags) as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site("pages") as made:
        yield made


@pytest.fixture(scope="module")
def other() -> Iterator[Site]:
    with serve_site("pages") as made:
        yield made


async def test_tools_of_a_page_wait_for_a_person_then_are_listed_and_called(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """A page is data: nothing of it is shown before a person approved it. Source: issue 19, point 3."""
    async with house(tmp_path, running, ANY) as one:
        await one.open(f"{web.origin}/shop.html")
        await one.until(lambda: len(one.known) == len(SHOP))
        assert all("waits for a person" in why for why in one.known.values())
        assert one.names() == set()
        await one.approve()
        await one.until(lambda: one.names() == SHOP)
        [tool] = [t for t in one.gateway.visible_tools(LOCAL_USER) if t.key.name.endswith("#add_to_cart")]
        assert tool.name == f"web__http_127_0_0_1_{web.port}_add_to_cart"
        assert tool.description.startswith(f"[page-supplied, untrusted · {web.origin}] Add an article")
        answer = await one.call("add_to_cart", article="tea", count=2)
        assert answer == f'[page-supplied, untrusted · {web.origin}]\n{{"articles": 1, "article": "tea"}}'
        assert (await one.call("read_cart")).endswith("\n2 x tea")
        assert (await one.call("sale")).endswith('["tea", "é", "😀"]')
        assert "the tool failed in the page: Error: out of stock" in await one.call("fail")
        await one.call("close_shop")
        await one.until(lambda: one.names() == SHOP - {"sale"})


async def test_arguments_are_checked_before_the_page_sees_them(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Browsers run a tool with any arguments. Source: notes, what the browser does not enforce."""
    async with house(tmp_path, running, ANY) as one:
        await one.open(f"{web.origin}/shop.html")
        await one.until(lambda: len(one.known) == len(SHOP))
        await one.approve()
        await one.until(lambda: one.names() == SHOP)
        for wrong in (
            {},
            {"article": 7},
            {"article": "x" * 41},
            {"article": "x", "count": 100},
            {"artikel": ""},
        ):
            with pytest.raises(ArgumentsError, match="add_to_cart"):
                await one.call("add_to_cart", **wrong)
        assert (await one.call("read_cart")).endswith("\nempty")


async def test_what_a_page_offers_is_there_as_soon_as_an_agent_has_opened_it(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """For a call by any of its names, for a search and for its details: no agent has to try again."""
    shop, prefix = f"{web.origin}/shop.html", f"web__http_127_0_0_1_{web.port}"
    async with house(tmp_path, running, ANY) as one:
        await one.open(shop)
        await one.approve_all(len(SHOP))

        async def leave_and_come_back() -> None:
            await one.open(web.page("blank"))
            await one.until(lambda: not one.known)
            await one.open(shop)

        for name in (f"{prefix}_read_cart", "read_cart"):
            await leave_and_come_back()
            answer = await one.gateway.call(ToolCall(name=name, arguments={}), viewer=LOCAL_USER)
            assert not answer["isError"]
        await one.open(shop)  # the same page once more: its tools go, and come again
        answer = await one.gateway.call(ToolCall(name=f"{prefix}_read_cart", arguments={}), viewer=LOCAL_USER)
        assert not answer["isError"], answer
        await leave_and_come_back()
        found = await one.gateway.search(["add an article to the cart"], viewer=LOCAL_USER)
        assert f"{prefix}_add_to_cart" in [result.tool.name for result in found.results]
        await leave_and_come_back()
        await one.gateway.warm()
        assert (
            "article" in (await one.gateway.info([f"{prefix}_add_to_cart"], "full", viewer=LOCAL_USER)).text
        )


async def test_a_name_that_no_page_has_is_refused_soon(tmp_path: Path, running: Running, web: Site) -> None:
    """Also right after a page without any tool was opened."""
    async with house(tmp_path, running, ANY) as one:
        await one.open(web.page("none"))
        started = time.monotonic()
        with pytest.raises(ToolNotFoundError):
            await one.gateway.call(ToolCall(name="web__nothing", arguments={}), viewer=LOCAL_USER)
        assert time.monotonic() - started < 10


async def test_a_page_of_another_origin_is_not_even_listed(
    tmp_path: Path, running: Running, web: Site, other: Site
) -> None:
    """It cannot see that it is watched, either. Source: notes, default-deny."""
    look = "document.title = String('modelContext' in navigator) + Object.getOwnPropertyNames(window)"
    spied = other.page("spy", f"{look}.filter((name) => name.includes('maitred'))")
    async with house(tmp_path, running, f'{{allow: ["{web.origin}"]}}') as one:
        await one.open(f"{other.origin}/shop.html")
        await one.open(spied)
        assert "'false'" in await one.do("list_targets")
        await one.open(web.page("own", tool_script("mine")))
        await one.until(lambda: bool(one.known))
        assert set(one.known) == {f"{web.origin}#mine"}


async def test_the_notes_name_open_pages_whose_origin_no_list_has_once_each(
    tmp_path: Path, running: Running, web: Site, other: Site
) -> None:
    """So the operator knows what to add to `allow`; agents do not get that."""
    pages = f'{{allow: ["{web.origin}"], deny: ["http://127.0.0.1:1"]}}'
    hidden = other.page("hidden", tool_script("secret"))
    async with house(tmp_path, running, pages) as one:
        for url in (hidden, web.page("blank"), hidden):
            await one.open(url)
        await one.gateway.sync(["web"], viewer=LOCAL_USER)
        [note] = [note for note in one.gateway.snapshot.servers["web"].notes if other.origin in note]
        assert note.startswith("pages were open that are not in `pages.allow`")
        assert note.count(other.origin) == 1
        async with Client(McpSurface(one.gateway).server) as client:
            [read] = (await client.read_resource("maitred://server/web")).contents
        assert other.origin not in str(read)


async def test_a_change_of_a_tool_needs_approval_again_and_others_stay(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Pinned by origin, over restarts and while the page is away. Source: notes, security."""
    url = web.page("pinned", tool_script("calm"), tool_script("changing"))
    blank = web.page("blank")
    async with house(tmp_path, running, ANY) as one:
        await one.open(url)
        await one.until(lambda: len(one.known) == 2)
        await one.approve()
        await one.until(lambda: one.names() == {"calm", "changing"})
        await one.open(blank)
        await one.until(lambda: not one.known)
        await one.open(web.page("late", tool_script("new_here")))
        await one.until(lambda: len(one.known) == 1)
        assert one.names() == set()
        await one.open(url)
        await one.until(lambda: one.names() == {"calm", "changing"})
    web.page("pinned", tool_script("calm"), tool_script("changing", description="Does something else now."))
    async with house(tmp_path, running, ANY) as one:
        await one.open(url)
        await one.until(lambda: len(one.known) == 2)
        assert one.names() == {"calm"}
        assert "has changed since it was approved" in one.known[f"{web.origin}#changing"]


async def test_a_consequential_tool_asks_before_each_call(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """And is refused where no person can be asked; `ask` does the same for all tools of an origin."""
    async with house(tmp_path, running, ANY) as one:
        await one.open(f"{web.origin}/shop.html")
        await one.until(lambda: len(one.known) == len(SHOP))
        await one.approve()
        await one.until(lambda: one.names() == SHOP)
        yes, no = person(YES), person(NO)
        assert (await one.call("pay", caller=yes)).endswith("paid for 0")
        assert (await one.call("pay", caller=yes)).endswith("paid for 0")
        assert [params["message"] for _, params in yes.asked] == [
            f"May the page {web.origin} run its tool 'pay' with {{}}?"
        ] * 2
        assert "the user did not agree" in await one.call("pay", caller=no)
        assert "this client cannot ask one" in await one.call("pay")
        await one.call("read_cart", caller=no)
        assert len(no.asked) == 1


async def test_every_call_of_an_origin_asks_where_the_operator_wants_it(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Its tools are listed as those of other allowed origins."""
    async with house(tmp_path, running, '{ask: ["http://127.0.0.1:*"]}') as one:
        await one.open(web.page("own", tool_script("mine")))
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"mine"})
        assert "the user did not agree" in await one.call("mine", caller=person(NO))
        assert (await one.call("mine", caller=person(YES))).endswith("done")


async def test_what_has_gone_says_why_for_a_while(tmp_path: Path, running: Running, web: Site) -> None:
    """A late call hears that the page navigated away. Source: notes, tombstones."""
    async with house(tmp_path, running, ANY) as one:
        await one.open(web.page("own", tool_script("mine")))
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"mine"})
        [name] = [t.name for t in one.gateway.visible_tools(LOCAL_USER) if t.server == "web"]
        await one.open(web.page("blank"))
        await one.until(lambda: not one.known)
        with pytest.raises(ToolWithheldError, match=f"page {web.origin}: it navigated away; open the"):
            await one.gateway.call(ToolCall(name=name, arguments={}), viewer=LOCAL_USER)


async def test_one_origin_in_two_tabs_is_one_tool(tmp_path: Path, running: Running, web: Site) -> None:
    """`tab` chooses; without it the tab used last."""
    button = "<button onclick=\"window.open('?second')\">more</button>"
    url = web.page("tabs", tool_script("where", "{here: location.search}"), body=button)
    async with house(tmp_path, running, ANY) as one:
        await one.open(f"{url}?first")
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"where"})

        def tabs() -> list[str]:
            [tool] = [t for t in one.gateway.visible_tools(LOCAL_USER) if t.server == "web"]
            schema = one.gateway.schema_of(tool.name, LOCAL_USER) or {}
            return list(schema["properties"].get("tab", {}).get("enum", ()))

        assert tabs() == []
        await one.do("click_element", selector="button")
        await one.until(lambda: len(tabs()) == 2)
        places = {tab: (await one.call("where", tab=tab)).partition("\n")[2] for tab in tabs()}
        assert sorted(places.values()) == ['{"here": "?first"}', '{"here": "?second"}']
        for tab in reversed(tabs()):
            await one.call("where", tab=tab)
            assert (await one.call("where")).endswith(places[tab])


async def test_a_frame_has_tools_if_all_origins_around_it_are_allowed(
    tmp_path: Path, running: Running, web: Site, other: Site
) -> None:
    """Frames in the process of their page, and in one of their own. Source: notes, security."""
    other.page("inner", tool_script("within"))
    frames = "".join(
        f'<iframe allow=tools src="http://{host}:{other.port}/inner"></iframe>' for host in HOSTS
    )
    framed = web.page("framed", tool_script("around"), body=frames)
    inner = {f"http://{host}:{other.port}#within" for host in HOSTS}
    async with house(tmp_path, running, '{allow: ["http://127.0.0.1:*", "http://localhost:*"]}') as one:
        await one.open(framed)
        await one.until(lambda: set(one.known) == inner | {f"{web.origin}#around"})
        await one.approve()
        await one.until(lambda: one.names() == {"around", "within"})
        for key in inner:
            assert "done" in await one.call(key)
    rules = f'{{allow: ["{other.origin}", "http://localhost:{other.port}"]}}'
    async with house(tmp_path, running, rules) as one:
        await one.open(framed)
        await one.open(other.page("alone", tool_script("alone")))
        await one.until(lambda: bool(one.known))
        assert set(one.known) == {f"{other.origin}#alone"}


async def test_a_form_with_a_tool_name_is_a_tool(tmp_path: Path, running: Running, web: Site) -> None:
    """Its fields are the parameters, and the page answers the submission. Source: WebMCP, declarative."""
    form = (
        '<form id=f toolname="subscribe" tooldescription="Subscribe to the letter." toolautosubmit>'
        '<input name="mail" required toolparamdescription="The address."><button>go</button></form>'
    )
    answer = (
        "f.onsubmit = (event) => { event.preventDefault();"
        " event.respondWith(Promise.resolve({sent: f.mail.value, by: event.agentInvoked})); };"
    )
    async with house(tmp_path, running, ANY) as one:
        await one.open(web.page("form", answer, body=form))
        await one.until(lambda: len(one.known) == 1)
        await one.approve()
        await one.until(lambda: one.names() == {"subscribe"})
        assert (await one.call("subscribe", mail="ann@b.example")).endswith(
            '{"sent": "ann@b.example", "by": true}'
        )
        with pytest.raises(ArgumentsError, match="mail"):
            await one.call("subscribe")
