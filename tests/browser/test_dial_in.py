"""Pages that dial in: a real browser that no gateway drives, with the module that authors load.

Source: issue 19, point 3, the third way; notes, 5.4.
"""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.browser.dialing import ANY, DIAL, ORIGIN, dialed_house, file_of, played_page
from tests.support.chromium import Client, Running, browser
from tests.support.pages import NO, YES, House, person, tool_script
from tests.support.web_site import Site, serve_site

from maitred.errors import ArgumentsError, ToolWithheldError
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio
SHOP = {"add_to_cart", "read_cart", "pay", "fail", "close_shop", "sale"}


@pytest.fixture(scope="module", params=["polyfill", "native"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A browser without WebMCP, and one with it: everything is the same in both."""
    flags = ["--enable-features=WebMCP"] if request.param == "native" else []
    with browser(*flags) as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site("pages") as made:
        made.page("blank")
        made.pages["/dial-shop.html"] = f"<script type=module>{DIAL}</script>{made.pages['/shop.html']}"
        yield made


async def show(client: Client, url: str) -> None:
    """Open a page in the tab of a person, of whose browser the gateway knows nothing."""
    await client.do("navigate", url=url, include_context=False)


async def approve(one: House, *names: str) -> None:
    """Approve the tools of a page as soon as they are there, and no others are."""
    await one.until(lambda: {key.partition("#")[2] for key in one.known} == set(names))
    await one.approve()
    await one.until(lambda: one.names() == set(names))


async def test_a_page_that_dials_in_has_tools_as_any_other(tmp_path: Path, client: Client, web: Site) -> None:
    """Withheld, approved, named by origin, checked, called, asked for, and taken away."""
    async with dialed_house(tmp_path, web) as one:
        await show(client, f"{web.origin}/dial-shop.html")
        await one.until(lambda: len(one.known) == len(SHOP))
        assert all("waits for a person" in why for why in one.known.values())
        assert one.names() == set()
        await approve(one, *SHOP)
        [found] = [t for t in one.gateway.visible_tools(LOCAL_USER) if t.key.name.endswith("#add_to_cart")]
        assert found.name == f"web__http_127_0_0_1_{web.port}_add_to_cart"
        assert found.description.startswith(f"[page-supplied, untrusted · {web.origin}] Add an article")
        answer = await one.call("add_to_cart", article="tea", count=2)
        assert answer == f'[page-supplied, untrusted · {web.origin}]\n{{"articles": 1, "article": "tea"}}'
        assert (await one.call("sale")).endswith('["tea", "é", "😀"]')
        assert "the tool failed in the page: " in await one.call("fail")  # browsers themselves keep why
        with pytest.raises(ArgumentsError, match="add_to_cart"):
            await one.call("add_to_cart", article=7)
        yes = person(YES)
        assert (await one.call("pay", caller=yes)).endswith("paid for 1")
        assert len(yes.asked) == 1
        assert "the user did not agree" in await one.call("pay", caller=person(NO))
        await one.call("close_shop")
        await one.until(lambda: one.names() == SHOP - {"sale"})


async def test_a_call_ends_at_once_when_its_page_is_left(tmp_path: Path, client: Client, web: Site) -> None:
    """And a late one hears why, long before the 300 seconds that a call may take."""
    leave = tool_script("leave", "await new Promise(() => { location = '/blank' })")
    async with dialed_house(tmp_path, web) as one:
        await show(client, web.page("leaving", DIAL, leave))
        await approve(one, "leave")
        [name] = [t.name for t in one.gateway.visible_tools(LOCAL_USER) if t.server == "web"]
        assert "gone during the call: it navigated away or was closed" in await one.call("leave")
        await one.until(lambda: not one.known)
        with pytest.raises(ToolWithheldError, match=f"page {web.origin}: it navigated away or was closed"):
            await one.gateway.call(ToolCall(name=name, arguments={}), viewer=LOCAL_USER)


async def test_a_page_in_the_cache_for_going_back_has_no_tools_until_it_is_shown(
    tmp_path: Path, client: Client, web: Site
) -> None:
    """It is the same document that comes back, with its variables. Source: notes, 5.4, the first trap."""
    count = "globalThis.times = 0; addEventListener('pageshow', (event) => { times += event.persisted; });"
    first = web.page("first", DIAL, count, tool_script("times", "{shown: times}"))
    second = web.page("second", body="<button onclick='history.back()'>back</button>")
    async with dialed_house(tmp_path, web) as one:
        await show(client, first)
        await approve(one, "times")
        for times in (1, 2):
            await show(client, second)
            await one.until(lambda: not one.known)
            await client.do("click_element", selector="button")
            await one.until(lambda: one.names() == {"times"})
            assert (await one.call("times")).endswith(f'{{"shown": {times}}}')


async def test_one_origin_in_two_tabs_is_one_tool_and_a_tab_keeps_its_name(
    tmp_path: Path, client: Client, web: Site
) -> None:
    """Also a tab that a page opened, which gets a copy of the storage of its session."""
    button = "<button onclick=\"window.open('?second')\">more</button>"
    url = web.page("tabs", DIAL, tool_script("where", "{here: location.search}"), body=button)
    third = web.page("third", DIAL, tool_script("where", "{here: 'third'}"), tool_script("third"))

    def tabs() -> list[str]:
        [found] = [t for t in one.gateway.visible_tools(LOCAL_USER) if t.key.name.endswith("#where")]
        schema = one.gateway.schema_of(found.name, LOCAL_USER) or {}
        return sorted(schema["properties"].get("tab", {}).get("enum", ()))

    async with dialed_house(tmp_path, web) as one:
        await show(client, f"{url}?first")
        await approve(one, "where")
        assert tabs() == []
        await client.do("click_element", selector="button")
        await one.until(lambda: len(tabs()) == 2)
        both = tabs()
        places = {tab: (await one.call("where", tab=tab)).partition("\n")[2] for tab in both}
        assert sorted(places.values()) == ['{"here": "?first"}', '{"here": "?second"}']
        for tab in reversed(both):
            await one.call("where", tab=tab)
            assert (await one.call("where")).endswith(places[tab])
        await show(client, third)
        await one.until(lambda: len(one.known) == 2)
        assert tabs() == both
        [first] = [tab for tab, place in places.items() if "first" in place]
        assert (await one.call("where", tab=first)).endswith('{"here": "third"}')


async def test_labels_and_the_end_of_the_line_by_the_page(tmp_path: Path, client: Client, web: Site) -> None:
    """Tools with a label are a category, and a page that hangs up has none."""
    label = "inputSchema: {type: 'object', properties: {}, 'x-category': 'admin'},"
    labelled = [tool_script(name, more=label) for name in ("ban", "pardon")]
    hang = tool_script("hang_up", "(line.close(), 'bye')")
    more = "disclosure: {mode: categories, break_even_tokens: 0}\n"
    async with dialed_house(tmp_path, web, more=more) as one:
        await show(client, web.page("labels", DIAL, *labelled, hang))
        await approve(one, "ban", "pardon", "hang_up")
        groups = {group["name"] for group in one.gateway.category_definitions(LOCAL_USER)}
        assert f"web__http_127_0_0_1_{web.port}_admin_tools" in groups
        assert "gone during the call" in await one.call("hang_up")
        await one.until(lambda: not one.known)


async def test_a_flood_of_registrations_disturbs_no_other_page(
    tmp_path: Path, client: Client, web: Site
) -> None:
    """Their changes are taken together, or the page has no tools; another page is there as ever."""
    storm = (
        "for (let i = 0; i < 10; i++) { for (let j = 0; j < 300; j++) { const stop = new AbortController();"
        " try { await document.modelContext.registerTool({name: `s${i}_${j}`, description: 'x',"
        " execute: () => 1}, {signal: stop.signal}); } catch {} stop.abort(); }"
        " await new Promise((go) => setTimeout(go, 1)); }"
    )
    async with dialed_house(tmp_path, web) as one:
        await show(client, web.page("storm", DIAL, tool_script("fence"), storm))
        await one.until(lambda: bool(one.known))
        async with played_page(file_of(tmp_path), offers=["calm"]) as calm:
            await one.until(lambda: f"{ORIGIN}#calm" in one.known)
            await one.approve()
            await one.until(lambda: "calm" in one.names())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(calm.answer, "calm")
                assert (await one.call("calm")).endswith("calm")
            await show(client, f"{web.origin}/blank")
            await one.until(lambda: set(one.known) == {f"{ORIGIN}#calm"})


async def test_a_page_dials_again_after_a_restart_of_the_gateway(
    tmp_path: Path, client: Client, web: Site
) -> None:
    """Its approval stays; the address and the token are others."""
    async with dialed_house(tmp_path, web) as one:
        await show(
            client, web.page("steady", DIAL, tool_script("steady", "input.n ?? performance.timeOrigin"))
        )
        await approve(one, "steady")
        before = await one.call("steady")
        first = file_of(tmp_path).read_text()
    del web.pages["/maitred.json"]
    async with dialed_house(tmp_path) as one:
        await one.until(lambda: not one.known)  # the catalog knew it from the run before
        web.pages["/maitred.json"] = file_of(tmp_path).read_text()
        assert web.pages["/maitred.json"] != first
        await one.until(lambda: one.names() == {"steady"})
        assert await one.call("steady") == before


async def test_answers_are_cut_and_many_tools_are_one_fault(
    tmp_path: Path, client: Client, web: Site
) -> None:
    """What the module sends fits into a message, whatever its characters are."""
    fat = (
        "globalThis.grow = async () => { for (let i = 0; i < 40; i++)"
        " await document.modelContext.registerTool({name: `fat_${i}`, description: 'é'.repeat(900),"
        " inputSchema: {type: 'object', properties: {}, description: '€'.repeat(4000)},"
        " execute: () => 1}); };"
    )
    tools = tool_script("long", "'€'.repeat(1e6)"), tool_script("grow", "(await grow(), 'grown')")
    async with dialed_house(tmp_path, web) as one:
        await show(client, web.page("long", DIAL, fat, *tools))
        await approve(one, "long", "grow")
        answer = await one.call("long")
        assert "characters, too many to show; this is its beginning." in answer
        assert len(answer.encode()) < 70_000
        assert (await one.call("grow")).endswith("grown")
        note = f"{web.origin}: its tools were left out, since they are too large together"
        await one.until(lambda: note in one.gateway.snapshot.servers["web"].notes)
        assert not one.known


async def test_a_page_in_a_frame_does_not_dial_in(tmp_path: Path, client: Client, web: Site) -> None:
    """The gateway could not know which pages are around it."""
    web.page("inner", DIAL, tool_script("inner"))
    wait = "await new Promise((go) => { addEventListener('load', go) });"
    async with dialed_house(tmp_path, web) as one:
        await show(
            client, web.page("outer", DIAL, wait + tool_script("outer"), body="<iframe src=/inner></iframe>")
        )
        await one.until(lambda: bool(one.known))
        assert set(one.known) == {f"{web.origin}#outer"}


async def test_a_page_of_another_origin_gets_no_connection(tmp_path: Path, client: Client, web: Site) -> None:
    """Though it has the token, since it loaded it from the other site."""
    spied = web.page("spy", DIAL, tool_script("spy")).replace("127.0.0.1", "localhost")
    async with dialed_house(tmp_path, web, ANY.replace("127.0.0.1:*", f"127.0.0.1:{web.port}")) as one:
        await show(client, spied)
        await show(client, web.page("own", DIAL, tool_script("own")))
        await one.until(lambda: bool(one.known))
        assert set(one.known) == {f"{web.origin}#own"}
