"""Pages that crash, ask for ever, or redefine what scripts use: the tools of a client go on."""

from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.chromium import SOON_S, Client, Running
from tests.support.pages import house, tool_script
from tests.support.web_site import serve_site

from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError, connect
from maitred.browser.page import BrowserPage

pytestmark = pytest.mark.anyio


async def page_of(client: Client) -> BrowserPage:
    return await client.toolbox._workspace.page()  # type: ignore[union-attr]


async def test_after_a_crash_the_client_works_in_another_tab(client: Client, shop: str) -> None:
    """Every tab that has crashed would let each call wait, and fail."""
    await client.do("navigate", url=f"{shop}/index.html")
    page = await page_of(client)
    with suppress(CdpError, CdpTimeoutError, CdpClosedError):
        await page.send("Page.navigate", {"url": "chrome://crash"})
    assert await page.until(lambda: page.gone == "the page crashed", SOON_S)
    assert "1 of 1" in await client.do("query_elements", selector="body", include_hidden=True)
    assert (await page_of(client)).tab is not page.tab
    assert "'Shop'" in await client.do("list_targets")
    assert "(crashed) (yours)" in await client.do("list_targets")
    assert "has crashed" in await client.refused("switch_target", title="shop")
    assert "Opened" in await client.do("navigate", url=f"{shop}/index.html")


async def test_what_a_page_redefines_does_not_reach_the_tools(client: Client, shop: str) -> None:
    """The functions of the tools run beside the page's scripts, in a world of their own."""
    await client.do("navigate", url=f"{shop}/index.html")
    page = await page_of(client)
    lies = """
        Array.prototype.slice = Array.prototype.filter = Array.prototype.map = () => 7;
        String.prototype.trim = () => { throw new Error('no') };
        JSON.stringify = () => 'lie'; Element.prototype.hasAttribute = () => { throw 1 };
        Document.prototype.querySelectorAll = () => []; window.getComputedStyle = null;
        Object.defineProperty(document, 'title', {get: () => 'another title'});
    """
    await page.send("Runtime.evaluate", {"expression": lies})
    assert "1 of 1 elements" in await client.do("query_elements", selector="#add")
    assert "Page: 'Shop'" in await client.do("fill_element", selector="[name=q]", text="tea")
    assert 'value="tea"' in await client.do("query_elements", selector="[name=q]")
    assert "Clicked" in await client.do("click_element", selector="#add")
    assert "Opened" in await client.do("navigate", url=f"{shop}/found.html")


async def test_a_page_with_endless_dialogs_and_messages_says_how_many(client: Client, shop: str) -> None:
    """Only the newest are kept; an error after a thousand messages is reported, too."""
    await client.do("navigate", url=f"{shop}/index.html")
    page = await page_of(client)
    noise = "for (let i = 0; i < 1500; i++) console.log(i); for (let i = 0; i < 15; i++) alert(i);"
    last = "console.error('at last')"
    button = f"document.querySelector('#add').onclick = () => {{ {noise} {last} }}"
    await page.send("Runtime.evaluate", {"expression": button})
    answer = await client.do("click_element", selector="#add")
    assert "Error in the console: at last" in answer
    assert "5 more were answered before" in answer
    assert "accepted the alert dialog '14'" in answer
    assert answer.count("The page's dialog") == 11
    scripts = "for (let i = 0; i < 2500; i++) eval(`1 //# sourceURL=made${i}.js`)"
    await client.do("debugger_enable")
    await page.send("Runtime.evaluate", {"expression": scripts}, timeout_s=SOON_S)
    assert len(page.debugger._scripts) <= 2_000


async def test_a_dialog_in_a_tab_of_no_client_is_answered(tmp_path: Path, running: Running) -> None:
    """The gateway watches the tab for tools, and no client or person would answer there."""
    with serve_site() as web:
        address = web.page("asks", "alert('one'); confirm('two')", tool_script("after_the_dialogs"))
        async with (
            house(tmp_path, running, '{allow: ["http://127.0.0.1:*"]}') as one,
            connect(running.address) as user,
        ):
            await one.open(web.page("own", tool_script("mine")))
            await one.until(lambda: f"{web.origin}#mine" in one.known)  # the browser is watched now
            tab = (await user.send("Target.createTarget", {"url": "about:blank"}))["targetId"]
            attaching = {"targetId": tab, "flatten": True}
            session = (await user.send("Target.attachToTarget", attaching))["sessionId"]
            await user.send("Page.navigate", {"url": address}, session)
            await one.until(lambda: f"{web.origin}#after_the_dialogs" in one.known)
            await user.send("Target.closeTarget", {"targetId": tab})
