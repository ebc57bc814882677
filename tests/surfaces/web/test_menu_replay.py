"""Replay of a real session: what an agent asked the menu, what it was shown, and what it read."""

import base64
import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import Implementation, TextContent
from tests.surfaces.web.held import HOLDS_BUYING, holding
from tests.surfaces.web.rig import SOON_S, House, opened, tool
from tests.surfaces.web.test_call import words_of

from maitred.config.settings import Audit
from maitred.errors import ToolWithheldError
from maitred.model.access import LOCAL_USER
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolCall, ToolKey
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.web.durations import duration_text

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
PROJECT = "/home/ann/shop site"
TOOLS = {"shop": [tool("look", "Look at the goods of the shop."), tool("fail", "Fail at once.")]}
EDITOR = Implementation(name="editor", version="1.2.3")
ALL = Audit(arguments="full", answers="all")


@dataclass(kw_only=True)
class Step:
    """One call of an agent, as its client saw the answer."""

    tool: str
    text: str
    meta: dict[str, Any]


@dataclass(kw_only=True)
class Agent:
    """An agent with the menu."""

    client: Client
    steps: list[Step] = field(default_factory=list)

    async def call(self, name: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(name, arguments)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        self.steps.append(Step(tool=name, text="\n\n".join(texts), meta=dict(result.meta or {})))
        return self.steps[-1].text


async def work(house: House, mode: str = "legacy") -> list[Step]:
    """What an agent does in one session."""
    server = McpSurface(house.gateway, viewer=replace(LOCAL_USER, folder=PROJECT)).server
    async with Client(server, mode=mode, client_info=EDITOR) as client:
        agent = Agent(client=client)
        await agent.call("search_tools", phrases=["look at the goods", SECRET])
        await agent.call("search_tools", phrases=["zebra quantum xylophone"])
        await agent.call("tool_info", names=["shop__look"])
        await agent.call("list_tools_meta", path="server/shop")
        await agent.call("call_tool", name="shop__look", arguments={"q": f"<b>\u202e {SECRET}"})
        await agent.call("call_read_only_tool", name="shop__fail")
        await agent.call("call_tool", arguments={})
        await agent.call("call_tool_chain", code='return await call_tool("shop__look", {"q": 1})')
    await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)  # writes the rest
    return agent.steps


@dataclass(kw_only=True)
class Worked:
    house: House
    steps: list[Step]
    page: str


@pytest.fixture(scope="module")
async def worked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worked]:
    folder: Path = tmp_path_factory.mktemp("house")
    async with opened(folder, TOOLS, audit=ALL) as house:
        steps = await work(house)
        yield Worked(house=house, steps=steps, page=await replay(house))


async def replay(house: House, client: str = EDITOR.name) -> str:
    """The page of the newest session of a client."""
    [newest] = (await house.gateway.audit_lines(LOCAL_USER, client=client, limit=1)).lines
    return await load(house, "/ui/replay", of=str(newest["seq"]))


async def load(house: House, path: str, **fields: str) -> str:
    person = await house.person()
    answer: httpx2.Response = await person.get(path, params=fields or None)
    assert answer.status_code == 200
    return answer.text


def rows(page: str) -> list[str]:
    return re.findall(r'<tr id="act-[^>]*>\s*<td[^>]*class="number">.*?</tr>', page, re.DOTALL)


def texts_of(page: str) -> list[str]:
    """The texts that a page says the agent read."""
    found = re.findall(r"<summary>what it read</summary><pre class=\"wrote\">(.*?)</pre>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", one)) for one in found]


def acts_of(page: str) -> list[str]:
    """The word and the name of each act."""
    heads = [re.findall(r'<th scope="row">(.*?)<(?:span|/th)', row, re.DOTALL)[0] for row in rows(page)]
    return [words_of(head) for head in heads]


async def test_every_step_of_an_agent_is_on_the_time_line_in_its_order(worked: Worked) -> None:
    """The call within the chain follows the chain, which began before. Source: the issue, Replay."""
    assert acts_of(worked.page) == [
        "search search_tools",
        "search search_tools",
        "read definitions tool_info",
        "list tools list_tools_meta",
        "call shop__look",
        "call shop__fail",
        "call call_tool",
        "run a chain",
        "call shop__look",
    ]
    words = [words_of(row) for row in rows(worked.page)]
    assert "by call_tool" in words[4]
    assert "by call_read_only_tool" in words[5]


async def test_each_step_has_the_tokens_that_its_client_was_answered_with(worked: Worked) -> None:
    """The ledger's entry in the answer says them."""
    tokens = [f"{step.meta['maitred/tokens']['answer']:,}" for step in worked.steps]
    shown = [
        re.findall(r'<td(?: data-label="Tokens")? class="number">([\d,]*)</td>', row)[-1]
        for row in rows(worked.page)
    ]
    assert shown[: len(tokens)] == tokens
    assert shown[len(tokens)] == ""


async def test_the_page_has_exactly_what_the_agent_read_but_for_secrets(worked: Worked) -> None:
    """Hidden characters are marks there, as everywhere."""
    expected = [step.text.replace(SECRET, "***").replace("\u202e", "U+202E") for step in worked.steps]
    assert texts_of(worked.page) == expected
    assert SECRET not in worked.page
    assert "\u202e" not in worked.page


async def test_the_names_of_shown_tools_are_in_the_order_of_the_answer(worked: Worked) -> None:
    search, nothing, info, browse = (words_of(row) for row in rows(worked.page)[:4])
    names = re.findall(r"^(shop__\w+)", worked.steps[0].text, re.MULTILINE)
    assert names
    assert f"showed {' , '.join(names)}" in search
    assert "asked “look at the goods”" in search
    assert "asked shop__look" in info
    assert "nothing found" in nothing
    assert "showed shop__look" in info
    assert {"shop__look", "shop__fail"} <= set(re.findall(r"shop__\w+", browse))


async def test_the_client_its_version_and_its_project_are_named(worked: Worked) -> None:
    listed = words_of(await load(worked.house, "/ui/replay"))
    assert f"editor 1.2.3 {PROJECT} mcp" in listed
    activity = words_of(await load(worked.house, "/ui/activity"))
    assert "with editor 1.2.3 by mcp" in activity
    assert f"in {PROJECT} :" in activity
    assert f"with editor 1.2.3 by mcp in {PROJECT}" in words_of(worked.page)
    assert "editor 1.2.3" in words_of(await load(worked.house, "/ui/clients"))


async def test_the_file_has_the_same_and_loads_nothing(worked: Worked) -> None:
    found = re.search(r'href="data:text/html;base64,([^"]+)" download="work-session.html"', worked.page)
    assert found
    file = base64.b64decode(found[1]).decode()
    assert texts_of(file) == texts_of(worked.page)
    assert f"editor 1.2.3 by mcp in {PROJECT}" in words_of(file)
    assert SECRET not in file
    assert "<script" not in file
    assert not re.search(r"(?:src|href)=", file)


async def test_the_trail_is_whole_with_all_of_it(worked: Worked) -> None:
    assert (await worked.house.gateway.verify_audit(LOCAL_USER)).faults == ()


@pytest.mark.parametrize("asked", [PROJECT, "shop site"])
async def test_sessions_are_chosen_by_their_project(worked: Worked, asked: str) -> None:
    """By its path or its name; sessions of others are not there. Source: the issue, Activity."""
    read = words_of(await load(worked.house, "/ui/activity", project=asked))
    assert "editor 1.2.3 by mcp" in read
    assert read.count("Acts of") == 1
    assert "Nothing matches" in words_of(await load(worked.house, "/ui/activity", project="shop"))


async def test_searches_without_a_result_are_found(worked: Worked) -> None:
    read = words_of(await load(worked.house, "/ui/activity", outcome="nothing_found"))
    assert "1 act," in read
    assert "nothing found search search_tools" in read
    assert re.search(r"asked “[^”]+” nothing relevant", read)


async def test_a_client_of_the_stateless_era_is_recorded_as_well(tmp_path: Path) -> None:
    async with opened(tmp_path, TOOLS) as house:
        await work(house, mode="auto")
        page = await replay(house)
    assert "editor 1.2.3" in words_of(page)
    assert "search search_tools" in words_of(page)


async def test_by_default_no_text_is_kept_and_the_page_says_so(tmp_path: Path) -> None:
    """Nor what was asked, but for its hash: as of other arguments."""
    async with opened(tmp_path, TOOLS) as house:
        await work(house)
        page = await replay(house)
    assert texts_of(page) == []
    read = words_of(page)
    assert "the text it read was not kept" in read
    assert "The text of no answer is kept. With audit.answers: menu" in read
    assert "look at the goods" not in read
    assert "showed shop__look" in read


async def test_with_menu_the_texts_of_tools_are_not_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, TOOLS, audit=Audit(answers="menu")) as house:
        steps = await work(house)
        page = await replay(house)
    own = ("search_tools", "tool_info", "list_tools_meta")
    expected = [step.text.replace(SECRET, "***") for step in steps if step.tool in own]
    found = texts_of(page)
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + 1  # and the refusal of a call that named no tool
    assert "the text it read was not kept" in words_of(page)


async def test_a_text_that_went_is_said_not_to_be_there_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path, TOOLS, audit=ALL) as house:
        await work(house)
        trail = house.gateway._auditing.trail
        await trail.prune_answers(-1)
        page = await replay(house)
    assert texts_of(page) == []
    assert "the text it read is not kept any more" in words_of(page)


async def test_lines_of_older_gateways_still_show(tmp_path: Path) -> None:
    """They have no tokens, no version and no project."""
    async with opened(tmp_path, TOOLS) as house:
        viewer = replace(LOCAL_USER, client="old one", surface="http")
        await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=viewer)
        database = house.gateway._auditing.trail._database

        def strip(connection: Any) -> None:
            for name in ("tokens", "version", "project", "via"):
                connection.execute(f"UPDATE audit SET body = json_remove(body, '$.{name}')")

        await database.write_driver(strip)
        read = words_of(await replay(house, "old one"))
        assert "call shop__look shop" in read
        assert "tokens read" not in read
        assert "old one" in words_of(await load(house, "/ui/activity"))


async def test_a_held_call_that_was_approved_did_not_fail_and_the_wait_is_not_its_time(
    tmp_path: Path,
) -> None:
    """In Activity, in Replay and in Clients; the wait of the person is named."""
    viewer = replace(LOCAL_USER, client="buyer", surface="mcp")
    async with opened(tmp_path, {"shop": [tool("buy")]}, held_calls=HOLDS_BUYING) as house:
        async with holding(house, ToolCall(name="shop__buy", arguments={}), viewer) as held:
            await anyio.sleep(1.2)  # the subject: how long the person took
            await house.gateway.decide_call(held.id, "once", LOCAL_USER)
            await held.outcome()
        [call] = [
            line
            for line in (await house.gateway.audit_lines(LOCAL_USER, client="buyer")).lines
            if line["action"] == "call"
        ]
        assert 1_200 <= call["waited_ms"] <= call["ms"] <= SOON_S * 1_000
        page = await replay(house, "buyer")
        activity = words_of(await load(house, "/ui/activity", client="buyer"))
        clients = words_of(await load(house, "/ui/clients"))
    assert "failed" not in re.sub(r"<select.*?</select>", "", words_of(page))
    assert "for a person" in words_of(page)
    own = words_of(html.unescape(duration_text(call["ms"] - call["waited_ms"])))
    for read in (words_of(page), activity):
        assert f"2 acts, work time {own}, elapsed time " in html.unescape(read)
    assert re.search(r"buyer .* 2 0 These are", clients)


async def test_a_call_of_a_tool_that_is_switched_off_is_found_by_either_name(tmp_path: Path) -> None:
    off = {ToolKey(server="shop", name="look"): ToolChoice(enabled=False)}
    async with opened(tmp_path, TOOLS, tools=off) as house:
        with pytest.raises(ToolWithheldError):
            await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
        await house.recorded(1, tool="shop__look")
        for name in ("look", "shop__look", "shop"):
            assert "1 act, 1 failed" in words_of(await load(house, "/ui/activity", tool=name))
