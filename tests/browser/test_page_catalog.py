"""Page tools in a catalog that several processes share: none takes those of another away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.chromium import Running, browser
from tests.support.pages import House, house, settings_of, tool_script
from tests.support.web_site import Site, serve_site

from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio
ANY = '{allow: ["http://127.0.0.1:*"]}'


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site() as made:
        yield made


async def offer(one: House, web: Site) -> None:
    await one.open(web.page("own", tool_script("mine")))
    await one.until(lambda: len(one.known) == 1)
    await one.approve()
    await one.until(lambda: one.names() == {"mine"})


async def test_a_process_that_only_looks_takes_no_page_tool_away(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Such as `maitred doctor`, which lists every server, beside a gateway that runs."""
    async with house(tmp_path, running, ANY) as one:
        await offer(one, web)
        async with open_gateway(settings_of(tmp_path, ANY), serves=False) as beside:
            [report] = await beside.sync(["web"], viewer=LOCAL_USER)
            assert (report.error, report.removed) == ("", 0)
            assert [tool.key.name for tool in beside.snapshot.by_server["web"]] == [f"{web.origin}#mine"]
        await one.open(web.page("blank"))
        await one.until(lambda: not one.known)


async def test_a_second_gateway_of_the_catalog_leaves_them_and_says_that_it_cannot_call_them(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """It watches other browsers. At its start it takes them for what a dead gateway left."""
    async with house(tmp_path, running, ANY) as one:
        await offer(one, web)
        async with house(tmp_path, None, ANY) as second:
            await second.gateway.sync(["web"], viewer=LOCAL_USER)
            await second.until(lambda: second.names() == {"mine"})
            refusal = await second.call("mine")
            assert "no page that this gateway watches has it" in refusal
        assert (await one.call("mine")).endswith("done")


async def test_what_a_gateway_left_is_gone_after_the_next_start(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Its pages may be closed meanwhile."""
    async with house(tmp_path, running, ANY) as one:
        await offer(one, web)
    async with house(tmp_path, None, ANY) as one:
        await one.until(lambda: not one.known)
