"""The ledger: what finding costs against raw lists, the break-even, and what was ever opened."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.model.access import LOCAL_USER, Grant
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    tools = [tool(f"look_{n}", "Looks at one thing among many. " * 5) for n in range(5)]
    async with opened(folder, {"shop": [*tools, tool("p\u200bay")], "bank": [tool("pay")]}) as made:
        yield made


async def ledger(house: House, client: httpx2.AsyncClient, days: int = 7) -> str:
    answer = await client.get("/ui/ledger", params={"days": days})
    assert answer.status_code == 200
    return answer.text


async def test_the_figures_are_those_of_the_gateway(house: House) -> None:
    """Raw lists, finding and answers are beside each other, and the page says what is left to break-even."""
    gateway, client = house.gateway, await house.person()
    gateway.count_menu([{"name": "search_tools"}], LOCAL_USER)
    gateway.count_answer("a short answer", LOCAL_USER)
    gateway.count_result({"content": [{"type": "text", "text": "x" * 400}]}, LOCAL_USER)
    [row] = (await gateway.stats(7, viewer=LOCAL_USER)).spending
    read = words_of(await ledger(house, client))
    assert f"raw lists would have cost {row.raw_tokens:,} finding cost {row.spent:,} saved" in read
    assert f"answers of tools cost {row.result_tokens:,}" in read
    assert "below break-even" in read
    assert f"{row.raw_tokens - row.spent:,} tokens are left" in read
    assert f"{row.day} {row.raw_tokens:,} {row.list_tokens:,} {row.answer_tokens:,}" in read
    assert "maitred stats --days 7" in read


async def test_the_page_says_since_when_the_gateway_is_a_loss(house: House) -> None:
    gateway, client = house.gateway, await house.person()
    gateway.count_menu([{"name": "search_tools"}], LOCAL_USER)
    gateway.count_answer("many words " * 5_000, LOCAL_USER)
    [row] = (await gateway.stats(7, viewer=LOCAL_USER)).spending
    read = words_of(await ledger(house, client))
    assert f"a loss since {row.day}" in read
    assert f"lost {row.spent - row.raw_tokens:,}" in read


async def test_what_was_called_has_colour_and_is_in_the_table(house: House) -> None:
    await house.gateway.call(ToolCall(name="bank__pay", arguments={}), viewer=LOCAL_USER)
    page = await ledger(house, await house.person())
    assert re.search(r"\b1 of \d tools was called in 90 days", page)
    cells = re.findall(r'<rect class="cell s(\d)"[^>]*><title>([^<:]+)', page)
    assert ("1", "bank__pay") in cells
    assert ("0", "shop__look_1") in cells
    assert re.search(
        r"bank</bdi></a></th><td[^>]*>1</td><td[^>]*>\d+</td><td[^>]*>1<",
        page,
    )
    assert "\u200b" not in page


async def test_an_empty_ledger_says_what_to_do(house: House) -> None:
    read = words_of(await ledger(house, await house.person()))
    assert "No client has listed or searched tools in these days." in read
    assert "maitred entry" in read


async def test_who_may_not_watch_sees_no_figures(house: House) -> None:
    client = await house.person(Grant(principal="x", role="agent"))
    assert (await client.get("/ui/ledger")).status_code == 403


async def test_a_page_follows_the_catalog_and_what_is_called(house: House) -> None:
    """The picture is kept from page to page, but no longer than it is right; every person has the same."""
    client = await house.person()

    async def picture() -> str:
        one, other = [(await ledger(house, client)).partition('id="catalog"')[2] for _ in range(2)]
        assert one == other
        return one

    first = await picture()
    await house.change("bank", tool("pay"), tool("pay_again", "Pays once more. " * 9))
    with_another = await picture()
    assert "pay_again" not in first
    assert "bank__pay_again" in with_another
    await house.gateway.call(ToolCall(name="shop__look_0", arguments={}), viewer=LOCAL_USER)
    assert await picture() != with_another


async def test_a_catalog_that_is_listed_whole_is_neither_a_saving_nor_a_loss(house: House) -> None:
    """As one with few tools, which agents get without a search."""
    gateway, client = house.gateway, await house.person()
    gateway.count_tools(gateway.visible_tools(LOCAL_USER), LOCAL_USER)
    read = words_of((await client.get("/ui/")).text)
    assert "at break-even: raw lists would have cost the same" in read
    assert "saved, tokens 0" in read
