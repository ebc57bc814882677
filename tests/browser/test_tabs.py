"""Tabs belong to the client that opened or took them: several clients in one browser do not meet."""

import threading
from functools import partial

import anyio
import pytest
from tests.support.chromium import SOON_S, Client, Hub, Running
from tests.support.waiting import eventually
from tests.support.web_site import serve_site

from maitred.browser.cdp import connect

pytestmark = pytest.mark.anyio

AGENTS = 4
ROUNDS = 25


async def work(client: Client, name: str, shop: str) -> None:
    """Each step says whose page it met; a mix-up would show another name."""
    for number in range(ROUNDS):
        mine = f"{name}-{number}"
        await client.do("fill_element", selector="[name=q]", text=mine, include_context=False)
        assert f'value="{mine}"' in await client.do("query_elements", selector="[name=q]")


async def test_four_agents_in_one_browser_do_not_mix_up(clients: Hub, running: Running, shop: str) -> None:
    """Each has its own tab and its own debugger, over one connection. Source: issue 19, point 4."""
    agents = [clients.client() for _ in range(AGENTS)]
    for agent in agents:
        await agent.do("chrome_connect", port=running.port)
        await agent.do("navigate", url=f"{shop}/index.html")
    assert len({id(agent.toolbox._workspace.find().browser) for agent in agents}) == 1  # type: ignore[union-attr]
    await agents[0].do("debugger_enable")
    assert [len(agent.seen) for agent in agents] == [15, 12, 12, 12]
    async with anyio.create_task_group() as tasks:
        for number, agent in enumerate(agents):
            tasks.start_soon(work, agent, f"agent{number}", shop)


async def test_a_tab_of_another_client_is_refused_by_its_owners_name(
    clients: Hub, running: Running, shop: str
) -> None:
    ann, bob = clients.client(), clients.client()
    await ann.do("chrome_connect", port=running.port)
    await ann.do("navigate", url=f"{shop}/index.html")
    await bob.do("chrome_connect", port=running.port)
    owner = ann.toolbox._workspace.owner.name  # type: ignore[union-attr]
    assert f"'Shop' {shop}/index.html (belongs to {owner})" in await bob.do("list_targets")
    assert f"belongs to {owner}; choose another tab" in await bob.refused("switch_target", title="shop")
    assert "`index`, `title` or `url`" in await bob.refused("switch_target")
    assert "there is no tab 99" in await bob.refused("switch_target", index=99)


async def test_a_tab_that_the_user_has_open_is_taken_only_by_its_name(
    clients: Hub, running: Running, shop: str
) -> None:
    """A client that connects gets a new tab, so it replaces nothing; it may choose the user's tab."""
    ann, bob = clients.client(), clients.client()
    async with connect(running.address) as user:
        opened = {"url": f"{shop}/index.html"}
        tab = (await user.send("Target.createTarget", opened))["targetId"]
        before = [one["targetId"] for one in (await user.send("Target.getTargets"))["targetInfos"]]
        await ann.do("chrome_connect", port=running.port)
        assert ann.toolbox._workspace.find().page.tab.target_id not in before  # type: ignore[union-attr]
        await ann.do("navigate", url=f"{shop}/found.html")
        targets = (await user.send("Target.getTargets"))["targetInfos"]
        assert [one["url"] for one in targets if one["targetId"] == tab] == [f"{shop}/index.html"]
        assert "Works with 'Shop'" in await ann.do("switch_target", title="shop")
        await bob.do("chrome_connect", port=running.port)
        await bob.refused("switch_target", title="shop")
        await ann.do("chrome_disconnect", connection_id="default")
        assert "Works with 'Shop'" in await bob.do("switch_target", title="shop")
        await bob.do("chrome_disconnect", connection_id="default")
        targets = (await user.send("Target.getTargets"))["targetInfos"]
        assert tab in [one["targetId"] for one in targets], "it stays open"
        await user.send("Target.closeTarget", {"targetId": tab})


async def test_what_another_principal_has_open_cannot_be_read_or_guessed(
    clients: Hub, running: Running, shop: str
) -> None:
    """Neither the list nor a refusal has its title or address, and no guess of them is confirmed."""
    ann, bob = clients.client(), clients.client()
    await ann.toolbox.call("chrome_connect", {"port": running.port}, principal="ann")
    await ann.do("navigate", url=f"{shop}/index.html")
    await bob.toolbox.call("chrome_connect", {"port": running.port}, principal="bob")
    listed = await bob.do("list_targets")
    [number] = [line.partition(":")[0] for line in listed.splitlines() if "of ann" in line]
    answers = [
        listed,
        await bob.refused("switch_target", index=int(number)),
        await bob.refused("switch_target", index=int(number), title="Shop"),
        await bob.refused("switch_target", title="Shop"),
        await bob.refused("switch_target", url="index.html"),
    ]
    assert [one for one in answers if "Shop" in one or "index.html" in one] == []
    assert answers[1] == answers[2], "a title that fits is not confirmed"
    assert "belongs to client" in answers[1]
    assert answers[3] == await bob.refused("switch_target", title="no such title")


async def test_a_tab_that_a_page_opens_belongs_to_the_client_of_the_page(
    clients: Hub, running: Running, shop: str
) -> None:
    """No other client takes it, and it is closed when its client leaves."""
    ann, bob = clients.client(), clients.client()
    await ann.do("chrome_connect", port=running.port)
    await ann.do("navigate", url=f"{shop}/index.html")
    browser = ann.toolbox._workspace.find().browser  # type: ignore[union-attr]
    news = anyio.Event()
    browser.connection.on("", "Target.targetInfoChanged", lambda _: news.set())
    before = set(browser.tabs)
    await ann.do("click_element", selector="#tab")
    with anyio.fail_after(60):
        while not [tab for key, tab in browser.tabs.items() if key not in before and "found" in tab.url]:
            await news.wait()
            news = anyio.Event()
    assert "found.html (yours)" in await ann.do("list_targets")
    await bob.do("chrome_connect", port=running.port)
    assert "found.html (current)" not in await bob.do("list_targets")
    await ann.do("switch_target", url="found")
    await ann.do("chrome_disconnect", connection_id="default")
    assert "found.html" not in await bob.do("list_targets")


async def test_a_tab_that_is_loading_is_waited_for(client: Client) -> None:
    """What an agent asks for after the switch is there. Source: issue 19, "Done when"."""
    with serve_site() as web:
        web.page("first", body='<a id="more" href="second" target="_blank">More</a>')
        web.page("second", body="<h1>Second</h1>")
        web.held["/second"] = threading.Event()
        await client.do("navigate", url=f"{web.origin}/first")
        workspace = client.toolbox._workspace
        assert workspace is not None
        await client.do("click_element", selector="#more")
        await eventually(lambda: any("/second" in tab.url for tab in workspace.find().browser.tabs.values()))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.do, "switch_target", url="/second"))
            await eventually(lambda: "/second" in page.tab.url if (page := workspace.find().page) else False)
            web.held["/second"].set()
        assert "1 of 1 elements that fit" in await client.do("query_elements", selector="h1")


async def test_a_browser_of_one_principal_is_not_another_ones(clients: Hub) -> None:
    """Its cookies are the first principal's. A client of the same principal may share it."""
    ann, other, bob = clients.client(), clients.client(), clients.client()
    await ann.toolbox.call("chrome_launch", {"headless": True}, principal="ann")
    port = ann.toolbox._workspace.find().browser.port  # type: ignore[union-attr]
    shared = await other.toolbox.call("chrome_connect", {"port": port}, principal="ann")
    assert not shared["isError"]
    denied = await bob.toolbox.call("chrome_connect", {"port": port}, principal="bob")
    assert "another principal started this browser" in denied["content"][0]["text"]
    await ann.do("chrome_disconnect", connection_id="chrome-1")
    assert len(other.seen) == 12, "the browser ends with its last client"
    assert "Opened" in await other.do("navigate", url="about:blank")


async def test_no_client_reads_the_tabs_of_others_at_the_debugging_port(
    client: Client, running: Running, shop: str
) -> None:
    """Neither by its address nor by a link to it: the port lists the tabs of all, and closes them."""
    listing = f"http://127.0.0.1:{running.port}/json/list"
    assert "the debugging port of a browser" in await client.refused("navigate", url=listing)
    assert "the debugging port" in await client.refused(
        "navigate", url=listing.replace("127.0.0.1", "0.0.0.0")
    )
    await client.do("navigate", url=f"{shop}/index.html")
    page = await client.toolbox._workspace.page()  # type: ignore[union-attr]
    await page.send("Page.navigate", {"url": listing})
    assert await page.until(lambda: page.url == listing, SOON_S)
    assert "the debugging port" in await client.refused("query_elements", selector="pre")
    assert "Opened" in await client.do("navigate", url=f"{shop}/index.html")
