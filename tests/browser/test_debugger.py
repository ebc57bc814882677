"""The debugger of a page in a real browser, in every state, and what happens to it from outside.

The counts are those of the states. Source: issue 19, design document 002.
"""

import os
import re
import signal
from dataclasses import replace

import anyio
import pytest
from tests.disclosure.test_visibility import expected_in
from tests.support.chromium import OPTIONS, Client, Hub, Running
from tests.support.web_site import DATA

from maitred.browser.cdp import connect

pytestmark = pytest.mark.anyio


def sees(client: Client) -> int:
    """How many tools a client sees, which are those of the state that it is really in."""
    state = client.toolbox.state
    assert client.seen == expected_in(
        state.connections, active=state.active, enabled=state.enabled, paused=state.paused
    )
    return len(client.seen)


async def stopped(client: Client, shop: str) -> str:
    """Where the page stops, at a breakpoint in the function that its button calls."""
    await client.do("navigate", url=f"{shop}/index.html")
    await client.do("debugger_enable")
    await client.do("debugger_set_breakpoint", url="app.js", line_number=2)
    return await client.do("click_element", selector="#add")


async def test_a_session_shows_the_tools_of_each_state(clients: Hub, running: Running, shop: str) -> None:
    """Connect, breakpoint, pause, inspect, step, resume, disconnect: 3, 12, 15, 17, 15, 3."""
    client = clients.client()
    assert sees(client) == 3
    await client.do("chrome_connect", port=running.port)
    assert sees(client) == 12
    await client.do("navigate", url=f"{shop}/index.html")
    assert "debugger_pause" in await client.do("debugger_enable")
    assert sees(client) == 15
    assert "app.js:2" in await client.do("debugger_set_breakpoint", url="app.js", line_number=2)
    answer = await client.do("click_element", selector="#add")
    assert "Paused: breakpoint b1" in answer
    assert "#0 add" in answer
    assert "> 2:   const sum = a + b;" in answer
    assert "a = 2, b = 3" in answer
    assert "Now available: debugger_evaluate_on_call_frame" in answer
    assert sees(client) == 17
    evaluate = "debugger_evaluate_on_call_frame"
    assert await client.do(evaluate, call_frame_id="0", expression="a * 10 + b") == "23"
    assert await client.do(evaluate, call_frame_id="0", expression="({a, list: [1, 2]})") == (
        "{a: 2, list: Array(2)}"
    )
    assert "out of reach" in await client.refused(
        evaluate, call_frame_id="0", expression="(() => { throw new Error('out of reach') })()"
    )
    assert "which has 2" in await client.refused(evaluate, call_frame_id="9", expression="1")
    assert "app.js:3" in await client.do("debugger_step_over")
    into = await client.do("debugger_step_into")
    assert "#0 note" in into
    assert "value = 5" in into
    assert "#1 add" in await client.do("debugger_get_call_stack")
    assert "#0 add" in await client.do("debugger_step_out")
    assert sees(client) == 17
    assert "The page runs." in await client.do("debugger_resume")
    assert sees(client) == 15
    await client.do("chrome_disconnect", connection_id="default")
    assert sees(client) == 3


async def test_a_step_past_the_last_statement_lets_the_page_run(client: Client, shop: str) -> None:
    """The answer says so, and the next call is not stopped in the scripts of maitred."""
    await stopped(client, shop)
    await client.do("debugger_step_out")
    assert "The page runs." in await client.do("debugger_step_out")
    assert sees(client) == 15
    assert "Filled" in await client.do("fill_element", selector="[name=q]", text="hat")


async def test_what_waits_for_the_page_is_refused_while_it_is_paused(client: Client, shop: str) -> None:
    """A click would hang until the page runs; the refusal says what to do. Source: notes, 5.3."""
    await stopped(client, shop)
    for name, more in (
        ("click_element", {"selector": "#add"}),
        ("fill_element", {"selector": "[name=q]", "text": "x"}),
        ("navigate", {"url": shop}),
    ):
        why = await client.refused(name, **more)
        assert "not paused; call debugger_resume" in why
    assert '0: <button id="add"> "Add to the cart"' in await client.do("query_elements", selector="#add")


async def test_the_page_goes_to_another_address_while_it_is_paused(
    client: Client, running: Running, shop: str
) -> None:
    """Another client of the browser navigates: the page runs, and the debugger stays on."""
    await stopped(client, shop)
    assert sees(client) == 17
    page = client.toolbox._workspace.attachments["default"].page  # type: ignore[union-attr]
    assert page is not None
    async with connect(running.address) as other:
        attaching = {"targetId": page.tab.target_id, "flatten": True}
        session = (await other.send("Target.attachToTarget", attaching))["sessionId"]
        await other.send("Page.navigate", {"url": f"{shop}/found.html"}, session)
    await client.until(lambda: not client.toolbox.state.paused)
    assert sees(client) == 15
    assert "Two things" in await client.do("query_elements", selector="p")
    assert "needs a paused debugger" in await client.refused("debugger_step_over")


async def test_a_tab_that_is_closed_while_it_is_paused_leaves_the_connection(
    client: Client, running: Running, shop: str
) -> None:
    """The debugger is gone with it; the next call works with another tab."""
    await stopped(client, shop)
    page = client.toolbox._workspace.attachments["default"].page  # type: ignore[union-attr]
    assert page is not None
    async with connect(running.address) as other:
        await other.send("Target.createTarget", {"url": "about:blank"})
        await other.send("Target.closeTarget", {"targetId": page.tab.target_id})
    await client.until(lambda: not client.toolbox.state.paused)
    assert sees(client) == 12
    assert "Opened" in await client.do("navigate", url=f"{shop}/index.html")


async def test_pause_stops_a_page_that_runs_and_waits_for_one_that_does_not(
    client: Client, shop: str
) -> None:
    """A page without running JavaScript pauses as soon as it runs some; the list changes then."""
    await client.do("navigate", url=f"{shop}/ticking.html")
    await client.do("debugger_enable")
    assert "#0 tick" in await client.do("debugger_pause")
    assert sees(client) == 17
    await client.do("debugger_resume")
    await client.do("navigate", url=f"{shop}/index.html")
    assert "as soon as it does" in await client.do("debugger_pause")
    assert sees(client) == 15
    assert "Paused" in await client.do("click_element", selector="#add")
    assert sees(client) == 17


async def test_exceptions_pause_the_page_as_chosen(client: Client, shop: str) -> None:
    await client.do("navigate", url=f"{shop}/index.html")
    await client.do("debugger_enable")
    await client.do("debugger_set_pause_on_exceptions", state="uncaught")
    assert "TypeError: out of stock" in await client.do("click_element", selector="#fail")
    assert sees(client) == 17
    await client.do("debugger_resume")
    await client.do("debugger_set_pause_on_exceptions", state="none")
    assert "Clicked" in await client.do("click_element", selector="#fail")


async def test_a_breakpoint_is_pending_until_its_script_is_loaded(client: Client, shop: str) -> None:
    """It holds at the next load, with its condition; removed, it does not. Source: notes, 5.3."""
    await client.do("navigate", url=f"{shop}/found.html")
    await client.do("debugger_enable")
    unmet = await client.do("debugger_set_breakpoint", url="app.js", line_number=3, condition="sum > 100")
    assert "b1 is set (pending" in unmet
    assert "pending" in await client.do("debugger_set_breakpoint", url="/app.js", line_number=8)
    await client.do("navigate", url=f"{shop}/index.html")
    assert "breakpoint b2" in await client.do("click_element", selector="#add")
    await client.do("debugger_resume")
    assert "there are b1, b2" in await client.refused("debugger_remove_breakpoint", breakpoint_id="x")
    await client.do("debugger_remove_breakpoint", breakpoint_id="b2")
    assert "Clicked" in await client.do("click_element", selector="#add")


async def test_a_breakpoint_after_the_end_of_a_script_says_that_it_stops_nowhere(
    client: Client, shop: str
) -> None:
    """With the last line, so that an agent need not wait for a stop that never comes."""
    await client.do("navigate", url=f"{shop}/index.html")
    await client.do("debugger_enable")
    answer = await client.do("debugger_set_breakpoint", url="app.js", line_number=9_000)
    last = re.search(r"stops nowhere: line 9000 is after the last line of .*/app\.js, which is (\d+)", answer)
    assert last, answer
    lines = (DATA / "site" / "app.js").read_text().count("\n")
    assert int(last[1]) in (lines, lines + 1)
    assert "app.js:" in await client.do("debugger_set_breakpoint", url="app.js", line_number=3)


async def test_another_tab_has_no_debugger_and_the_first_runs_on(client: Client, shop: str) -> None:
    await stopped(client, shop)
    page = client.toolbox._workspace.attachments["default"].page  # type: ignore[union-attr]
    assert page is not None
    first = page.tab
    made = await page.browser.connection.send("Target.createTarget", {"url": f"{shop}/found.html"})
    await client.do("switch_target", url="found.html")
    assert sees(client) == 12
    await client.do("switch_target", url="index.html")
    assert sees(client) == 12
    assert "Clicked" in await client.do("click_element", selector="#add")
    assert first.url.endswith("index.html")
    await page.browser.connection.send("Target.closeTarget", {"targetId": made["targetId"]})


async def test_an_operator_may_turn_expressions_off(clients: Hub, running: Running, shop: str) -> None:
    client = clients.client(replace(OPTIONS, evaluate=False))
    await client.do("chrome_connect", port=running.port)
    await stopped(client, shop)
    why = await client.refused("debugger_evaluate_on_call_frame", call_frame_id="0", expression="1")
    assert "`evaluate: false`" in why
    where = {"url": "app.js", "line_number": 3}
    why = await client.refused("debugger_set_breakpoint", **where, condition="document.title = 'set'")
    assert "leave out `condition`" in why
    assert "`evaluate: false`" in why
    assert "is set" in await client.do("debugger_set_breakpoint", **where)


async def test_a_second_browser_is_killed_while_the_first_is_paused(
    clients: Hub, running: Running, shop: str
) -> None:
    """Two browsers at once: 18 tools while one is paused; the killed one is gone with a reason."""
    client = clients.client()
    await client.do("chrome_connect", port=running.port)
    await stopped(client, shop)
    await client.do("chrome_launch", headless=True, connection_id="second")
    assert sees(client) == 13
    await client.do("navigate", url=f"{shop}/found.html")
    await client.do("chrome_switch_connection", connection_id="default")
    assert sees(client) == 18
    await client.do("chrome_switch_connection", connection_id="second")
    attachment = client.toolbox._workspace.attachments["second"]  # type: ignore[union-attr]
    os.killpg(attachment.browser.pid, signal.SIGKILL)
    await client.until(lambda: client.toolbox.state.connections == 1)
    assert sees(client) == 17
    assert "has ended: the browser closed the connection" in await client.refused(
        "list_targets", connection_id="second"
    )
    assert "#0 add" in await client.do("debugger_get_call_stack")


async def test_a_browser_that_is_killed_while_it_is_paused_ends_the_call(clients: Hub, shop: str) -> None:
    """A call in flight is answered, the state is the first one, and a new browser can be started."""
    client = clients.client()
    await client.do("chrome_launch", headless=True)
    await client.do("navigate", url=f"{shop}/ticking.html")
    await client.do("debugger_enable")
    await client.do("debugger_pause")
    pid = client.toolbox._workspace.attachments["chrome-1"].browser.pid  # type: ignore[union-attr]
    page = client.toolbox._workspace.attachments["chrome-1"].page  # type: ignore[union-attr]
    assert page is not None
    begun = anyio.Event()
    page.browser.connection.on(page.session, "Runtime.consoleAPICalled", lambda _: begun.set())
    async with anyio.create_task_group() as tasks:

        async def hang() -> None:
            endless = "console.log('begun'); while (true) {}"
            why = await client.refused(
                "debugger_evaluate_on_call_frame", call_frame_id="0", expression=endless
            )
            assert "gone during the call: the browser closed the connection" in why

        tasks.start_soon(hang)
        await begun.wait()
        os.killpg(pid, signal.SIGKILL)
    assert sees(client) == 3
    assert "call chrome_launch or chrome_connect" in await client.refused(
        "chrome_disconnect", connection_id="x"
    )
    assert [state.connections for state in client.states][-1] == 0
