"""Design document 000: a client of each SDK, in each era, opens and collapses the categories of a real page.

The page has 50 tools in 3 categories (`tests/data/pages/console.html`). Source: issue 19, "Done when".
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from tests.support.chromium import Running, browser
from tests.support.gateway_http import in_process, over_http
from tests.support.pages import House, house, tool_script
from tests.support.sdk_clients import NO, YES, Era, Sdk, SdkClient, each_sdk, own_client, sdk_client
from tests.support.web_site import Site, serve_site

from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio
ANY = '{allow: ["http://127.0.0.1:*"]}'
LISTED = "disclosure: {mode: all}\n"
GROUPED = "disclosure: {mode: categories, break_even_tokens: 0}\n"
ADMIN = {
    f"{verb}_{noun}"
    for verb in ("create", "list", "update", "archive", "restore")
    for noun in ("user", "role", "team")
}
CATEGORIES = {"admin_tools", "content_tools", "analytics_tools"}
SHOP = 6
CONSEQUENTIAL = tool_script("other", more="annotations: {consequentialHint: true},")


@pytest.fixture(scope="module", params=["injected", "native"])
def either(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A browser without WebMCP, and one with it."""
    flags = ["--enable-features=WebMCP"] if request.param == "native" else []
    with browser(*flags) as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site("pages") as made:
        yield made


class Visit(NamedTuple):
    """A gateway, a client of it that has opened a page, and the gateway's address."""

    one: House
    client: SdkClient
    url: str


@asynccontextmanager
async def visiting(
    folder: Path, running: Running, web: Site, sdk: Sdk, page: str, more: str
) -> AsyncIterator[Visit]:
    """A client that has opened a page through a gateway; its `prefix` is that of the page's tools."""
    async with house(folder, running, ANY, more, connect=False) as one, over_http(one.gateway) as url:
        prefix = f"web__http_127_0_0_1_{web.port}_"
        async with sdk_client(sdk, {"url": url}, prefix) as client:
            await open_page(client, running, f"{web.origin}/{page}")
            yield Visit(one, client, url)


async def open_page(client: SdkClient, running: Running, url: str) -> None:
    """Connect a client to a browser, and open a page in a tab of its own."""
    for name, arguments in (
        ("chrome_connect", {"port": running.port}),
        ("navigate", {"url": url, "include_context": False}),
    ):
        result = await client.result(f"chrome__{name}", arguments)
        assert not result.get("isError"), result


async def of_page(client: SdkClient) -> set[str]:
    """The tools in a client's list that are of the page."""
    return {
        tool["name"].removeprefix(client.prefix)
        for tool in await client.definitions()
        if tool["name"].startswith(client.prefix)
    }


@each_sdk
async def test_a_page_with_the_module_is_collapsed_expanded_executed_and_collapsed(
    tmp_path: Path, either: Running, web: Site, sdk: Sdk
) -> None:
    """3, 18 and 3 tools: the page itself changes, so lists do in both eras."""
    async with visiting(tmp_path, either, web, sdk, "console.html?module", LISTED) as (one, client, _):
        await one.approve_all(3)
        assert await of_page(client) == CATEGORIES
        told = client.told
        answer = await client.call("admin_tools")
        assert all(f"- {name}: " in answer for name in ADMIN)
        await one.approve_all(18)
        if client.era == "handshake":
            await client.until(lambda: client.told > told)
        assert await of_page(client) == CATEGORIES | ADMIN
        assert (await client.call("update_role", name="editor")).endswith("\nupdate role editor")
        told = client.told
        assert "are gone until it is called again" in await client.call("admin_tools", collapse=True)
        await one.until(lambda: len(one.names()) == 3)
        if client.era == "handshake":
            await client.until(lambda: client.told > told)
        assert await of_page(client) == CATEGORIES
        late = await client.call("update_role", name="editor")
        assert late.startswith("error")
        assert "its page does not offer it any more" in late


@each_sdk
async def test_a_page_with_labels_is_collapsed_expanded_executed_and_collapsed(
    tmp_path: Path, running: Running, web: Site, sdk: Sdk
) -> None:
    """The gateway shows 3 categories; what is opened is in the list, or for stateless ones in the answer."""
    async with visiting(tmp_path, running, web, sdk, "console.html?labels", GROUPED) as (one, client, _):
        await one.approve_all(50)
        assert await of_page(client) == CATEGORIES
        before, told = await client.definitions(), client.told
        answer = await client.call("admin_tools")
        if client.era == "handshake":
            assert answer == f"Now in your list: {', '.join(sorted(ADMIN))}.\nMissing? Call again."
            await client.until(lambda: client.told > told)
            assert await of_page(client) == CATEGORIES | ADMIN
        else:
            assert all(f"{client.prefix}{name}(" in answer for name in ADMIN)
            assert await client.definitions() == before
        assert (await client.call("create_user", name="ann")).endswith("\ncreate user ann")
        told = client.told
        await client.call("admin_tools", collapse=True)
        if client.era == "handshake":
            await client.until(lambda: client.told > told)
        assert await client.definitions() == before


@each_sdk
async def test_a_consequential_tool_asks_the_user_of_each_client(
    tmp_path: Path, running: Running, web: Site, sdk: Sdk
) -> None:
    """Yes, no, and an answer that comes too late: then the page has not run it."""
    async with visiting(tmp_path, running, web, sdk, "shop.html", LISTED) as (one, client, url):
        await one.approve_all(SHOP)
        await client.call("add_to_cart", article="tea")
        await client.answer(NO)
        assert "the user did not agree" in await client.call("pay")
        assert (await client.call("read_cart")).endswith("\n1 x tea")
        await client.answer(YES)
        assert (await client.call("pay")).endswith("\npaid for 1")
        assert client.asked == [f"May the page {web.origin} run its tool 'pay' with {{}}?"] * 2
        await client.call("add_to_cart", article="cup")
        outcome, cart = await answered_too_late(one, client, url, running, web)
        assert outcome.startswith("error")
        assert cart.endswith("\n1 x cup")


async def answered_too_late(
    one: House, client: SdkClient, url: str, running: Running, web: Site
) -> tuple[str, str]:
    """What becomes of a payment whose user answers when the gateway waits no more, and the cart after it.

    Another client, which is asked later, sees that the time is over.
    """
    outcomes: list[str] = []

    async def pay() -> None:
        outcomes.append(await client.call("pay"))

    async with own_client(url, "handshake", client.prefix) as other, anyio.create_task_group() as tasks:
        await open_page(other, running, web.page("other", CONSEQUENTIAL))
        await one.approve_all(SHOP + 1)
        limits = replace(one.gateway.settings.limits, parked_call_s=1)
        await one.gateway.configure(replace(one.gateway.settings, limits=limits), viewer=LOCAL_USER)
        asked = len(client.asked)
        await client.answer(None)
        tasks.start_soon(pay)
        await client.until(lambda: len(client.asked) > asked)
        assert "the client did not answer elicitation/create within 1 s" in await other.call("other")
        await other.answer(NO)
        await client.answer(YES)
    return outcomes[0], await client.call("read_cart")


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_client_that_cannot_ask_its_user_gets_a_refusal(
    tmp_path: Path, running: Running, web: Site, era: Era
) -> None:
    """It says why, and the page has not run the tool."""
    async with (
        house(tmp_path, running, ANY, LISTED, connect=False) as one,
        in_process(one.gateway) as server,
        own_client(server, era, f"web__http_127_0_0_1_{web.port}_", can_ask=False) as client,
    ):
        await open_page(client, running, f"{web.origin}/shop.html")
        await one.approve_all(SHOP)
        await client.call("add_to_cart", article="tea")
        assert "a person has to agree to each call of it" in await client.call("pay")
        assert (await client.call("read_cart")).endswith("\n1 x tea")
