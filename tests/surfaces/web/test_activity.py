"""Activity and the list of Replay: work sessions of the audit trail, chosen by their parts, in pages."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.errors import ToolNotFoundError
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant, Viewer
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

PRINCIPALS = tuple(f"person{number}" for number in range(45))
EDITOR = replace(LOCAL_USER, client='editor "one" 100%')
OTHER = replace(LOCAL_USER, client="terminal")
LOOK = ToolCall(name="shop__look", arguments={})


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Sessions of many principals, then one of an editor with two chains, then one of a terminal."""
    folder: Path = tmp_path_factory.mktemp("house")
    async with opened(folder, {"shop": [tool("look"), tool("buy")]}) as made:
        for name in PRINCIPALS:
            viewer = Viewer(grant=Grant(principal=name, role="agent"), surface="mcp", client="many")
            await made.gateway.call(LOOK, viewer=viewer)
        for number in range(2):
            code = f'return await call_tool("shop__{("look", "buy")[number]}", {{}})'
            await made.gateway.run_chain(code, viewer=EDITOR)
        await made.gateway.call(LOOK, viewer=OTHER)  # writes all that still waits to be written
        yield made


async def chains(house: House) -> list[str]:
    """The ids of all chains, the newest first."""
    found = await house.gateway.audit_lines(LOCAL_USER)
    return [str(line["chain_id"]) for line in found.lines if line["action"] == "chain"]


async def page(house: House, path: str, **fields: str) -> str:
    client = await house.person(LOCAL_GRANT)
    answer: httpx2.Response = await client.get(path, params=fields or None)
    assert answer.status_code == 200
    return answer.text


def heads(text: str) -> list[str]:
    """Who each session on a page is of."""
    return [words_of(one) for one in re.findall(r'<h2 id="session-\d+">(.*?)</h2>', text, re.DOTALL)]


async def test_sessions_are_chosen_by_the_name_of_a_client(house: House) -> None:
    """Source: the issue of the web interface, Activity."""
    text = await page(house, "/ui/activity", client=EDITOR.client)
    [head] = heads(text)
    assert 'editor "one" 100%' in head.replace("&#34;", '"')
    assert heads(await page(house, "/ui/activity", client="editor")) == []


async def test_a_chain_leads_to_its_own_acts(house: House) -> None:
    """Its mark is a link; the short form that pages show is enough to type."""
    [second, first] = await chains(house)
    whole = await page(house, "/ui/activity", client=EDITOR.client)
    assert f'href="/ui/activity?chain={first}"' in whole

    for asked in (first, first[:6]):
        read = words_of(await page(house, "/ui/activity", chain=asked))
        assert "shop look" in read
        assert "shop buy" not in read
        assert "terminal" not in read
    assert "shop buy" in words_of(await page(house, "/ui/activity", chain=second))


async def test_the_command_below_prints_what_was_chosen(house: House) -> None:
    text = await page(house, "/ui/activity", tool="shop", who="person1", span="24h")
    assert "maitred audit list --limit 200 --tool shop --principal person1 --since 24h" in words_of(text)


async def test_replay_lists_every_session_in_pages(house: House) -> None:
    """Older ones follow on further pages, and none is on two."""
    address, listed = "/ui/replay", list[str]()
    while address:
        text = await page(house, address)
        listed += re.findall(r"replay the session of (?:<bdi>)?(person\d+)", text)
        older = re.search(r'href="([^"]+)" rel="next"', text)
        address = older[1].replace("&amp;", "&") if older else ""
    assert sorted(listed) == sorted(PRINCIPALS)


async def test_a_call_of_a_tool_that_there_is_not_is_named_as_the_agent_called_it(tmp_path: Path) -> None:
    """Its line has no tool and no server; so has that of one that is switched off."""
    async with opened(tmp_path, {"shop": [tool("look")]}) as house:
        with pytest.raises(ToolNotFoundError):
            await house.gateway.call(ToolCall(name="shop__gone", arguments={}), viewer=OTHER)
        await house.gateway.call(LOOK, viewer=OTHER)
        [newest] = (await house.gateway.audit_lines(LOCAL_USER, limit=1)).lines
        assert "shop__gone" in words_of(await page(house, "/ui/activity"))
        assert "shop__gone" in words_of(await page(house, "/ui/replay", of=str(newest["seq"])))
