"""Whose tab a page tool runs in: clients, principals and instances do not meet in a page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.chromium import Running, browser
from tests.support.pages import House, house, tool_script
from tests.support.web_site import Site, serve_site

from maitred.model.access import LOCAL_GRANT, Grant, Viewer

pytestmark = pytest.mark.anyio
ANY = '{allow: ["http://127.0.0.1:*"]}'
LEFT, RIGHT = (Viewer(grant=LOCAL_GRANT, connection=name) for name in ("left", "right"))
ANN, BOB = (Viewer(grant=Grant(principal=name, role="agent")) for name in ("ann", "bob"))
"""Clients of the HTTP API: nothing but their principal is known of them."""


@pytest.fixture(scope="module", params=["injected", "native"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    flags = ["--enable-features=WebMCP"] if request.param == "native" else []
    with browser(*flags) as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site() as made:
        yield made


async def offer(one: House, web: Site, viewer: Viewer) -> None:
    """Open a page with a tool in the tab of a client, and approve it."""
    await one.open(web.page("own", tool_script("mine")), viewer)
    await one.until(lambda: len(one.known) == 1)
    await one.approve()
    await one.until(lambda: one.names() == {"mine"})


async def launch(one: House, viewer: Viewer) -> int:
    """Start a browser for a client; returns its port."""
    answer = await one.do("chrome_launch", viewer=viewer, headless=True)
    found = re.search(r"port (\d+)|127\.0\.0\.1:(\d+)", answer)
    assert found, answer
    return int(found[1] or found[2])


async def test_a_tab_of_another_client_is_refused_by_name_and_a_paused_one_too(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Two clients in one browser do not meet in a page. Source: issue 19, point 4; notes, 2.3."""
    async with house(tmp_path, None, ANY) as one:
        await one.do("chrome_connect", viewer=LEFT, port=running.port)
        await offer(one, web, LEFT)
        assert (await one.call("mine", viewer=LEFT)).endswith("done")
        refusal = await one.call("mine", viewer=RIGHT)
        assert "its tab t1 belongs to client 1; open the page in a tab of your own" in refusal
        await one.do("debugger_enable", viewer=LEFT)
        await one.do("debugger_pause", viewer=LEFT)
        assert "paused by a debugger; call debugger_resume" in await one.call("mine", viewer=LEFT)
        await one.do("debugger_resume", viewer=LEFT)
        assert (await one.call("mine", viewer=LEFT)).endswith("done")


@pytest.mark.parametrize("share", ["principal", "all"])
async def test_the_clients_of_one_instance_have_their_tabs_in_common(
    tmp_path: Path, running: Running, web: Site, share: str
) -> None:
    """Whoever of them connected first. Source: docs/browser.md, whose tabs."""
    async with house(tmp_path, None, ANY, share=share) as one:
        await one.do("chrome_connect", viewer=LEFT, port=running.port)
        await offer(one, web, LEFT)
        assert (await one.call("mine", viewer=RIGHT)).endswith("done")
        refused = await one.call("mine", viewer=BOB)
        assert refused.endswith("done") == (share == "all"), refused


async def test_principals_without_connections_of_their_own_do_not_meet_either(
    tmp_path: Path, web: Site
) -> None:
    """Their calls come over the HTTP API, which can ask no client. Source: docs/browser.md, whose tabs."""
    async with house(tmp_path, None, ANY) as one:
        port = await launch(one, ANN)
        with pytest.raises(AssertionError, match="another principal started this browser"):
            await one.do("chrome_connect", viewer=BOB, port=port)
        await offer(one, web, ANN)
        assert "its tab t1 belongs to client 1 of ann" in await one.call("mine", viewer=BOB)
        assert (await one.call("mine", viewer=ANN)).endswith("done")


async def test_a_tab_that_no_client_uses_is_that_of_the_principal_whose_browser_it_is(
    tmp_path: Path, web: Site
) -> None:
    """A client has left; another one of its principal keeps the browser."""
    first, second = (Viewer(grant=ANN.grant, connection=name) for name in ("first", "second"))
    async with house(tmp_path, None, ANY) as one:
        port = await launch(one, first)
        await offer(one, web, first)
        await one.do("chrome_connect", viewer=second, port=port)
        [name] = re.findall(r"chrome-\d+", await one.do("chrome_list_connections", viewer=first))[:1]
        await one.do("chrome_disconnect", viewer=first, connection_id=name)
        assert "its tab t1 belongs to ann; open the page" in await one.call("mine", viewer=BOB)
        assert (await one.call("mine", viewer=second)).endswith("done")
