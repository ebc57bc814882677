"""Rules for answers: a browser server's long answers become short for agents, and the whole can be read.

The server is a program of ours that answers as `@playwright/mcp` does (`tests/support/page_server.py`).
"""

import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.page_server import Page
from tests.support.viewers import agent

from maitred.config.settings import Catalog, Disclosure, ResultDrop, ResultRule, Results, Settings
from maitred.disclosure.budget import estimate
from maitred.errors import ResultNotFoundError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL, LOCAL_USER, Viewer
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parents[1] / "support" / "page_server.py"
SOON_S = 120.0
ANN = agent(LOCAL, era="handshake", connection="1")
BOB = agent(LOCAL, era="handshake", connection="2")


@asynccontextmanager
async def opened(
    folder: Path, *, name: str = "Playwright", inline: bool = False, **results: Any
) -> AsyncIterator[Gateway]:
    args = ["-I", "-S", str(PROGRAM), name, *(["inline"] if inline else [])]
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"web": ServerSpec(name="web", transport="stdio", command=sys.executable, args=tuple(args))},
        disclosure=Disclosure(mode="menu"),
        catalog=Catalog(path=str(folder / "c.db")),
        results=Results(**results),
    )
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(settings) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(
    gateway: Gateway, tool: str, viewer: Viewer = ANN, *, shorten: bool = True, **arguments: Any
) -> Mapping[str, Any]:
    wanted = ToolCall(name=f"web__{tool}", arguments=arguments)
    return await gateway.call(wanted, viewer=viewer, shorten=shorten)


async def say(gateway: Gateway, tool: str, viewer: Viewer = ANN, **options: Any) -> str:
    """The text of an answer."""
    blocks: Sequence[Mapping[str, Any]] = (await call(gateway, tool, viewer, **options))["content"]
    (block,) = blocks
    return str(block["text"])


def stored(text: str) -> str:
    """The id of the stored answer that a text names."""
    return str(re.findall(r"maitred://result/([\w-]+)", text)[0])


async def test_a_known_server_answers_within_a_budget_and_the_whole_can_be_read(tmp_path: Path) -> None:
    """The page's structure stays, with the names of what is left out. Source: issue 19, point 5."""
    async with opened(tmp_path) as gateway:
        text = await say(gateway, "browser_snapshot")
        whole = gateway.result(stored(text), viewer=ANN).text

    assert estimate(text) < 650
    assert whole.endswith(Page().snapshot())
    assert '- article "Kettle 0" [ref=f0e25]:' in text
    assert re.search(r"…\+\d+ lines: .*Kettle 5", text)
    assert "Department 3" in text
    assert '- link "Department 3"' not in text  # folded: the names alone
    assert "cursor=pointer" not in text


async def test_after_that_an_agent_gets_only_what_changed(tmp_path: Path) -> None:
    """The changed lines, the lines that they are in, and what is gone. Source: issue 19, point 5."""
    async with opened(tmp_path) as gateway:
        await say(gateway, "browser_snapshot")
        await say(gateway, "browser_click", accept=True)
        text = await say(gateway, "browser_snapshot")
        again = await say(gateway, "browser_snapshot")
        whole = gateway.result(stored(again), viewer=ANN).text

    lines = text.splitlines()
    assert lines[:5] == [
        "### Page (as before)",
        "### Snapshot",
        "- generic [ref=f0e1]:",
        '  - link "Cart (1)" [ref=f0e23]',
        '  gone: - dialog "Cookies" [ref=f0e205] (and 1 line more)',
    ]
    assert lines[5:] == [f"[Only what changed; whole: maitred://result/{stored(text)}]"]
    assert again.splitlines()[:2] == ["### Page (as before)", "### Snapshot (as before)"]
    assert '- button "Buy kettle 59"' in whole


async def test_after_a_load_lines_that_only_got_other_ids_are_counted(tmp_path: Path) -> None:
    """An agent knows that it has to ask for their ids, and finds them. Source: issue 19, point 5."""
    async with opened(tmp_path) as gateway:
        await say(gateway, "browser_snapshot")
        await say(gateway, "browser_navigate")
        text = await say(gateway, "browser_snapshot")
        found = gateway.result(stored(text), viewer=ANN, find="buy kettle 41").text

    assert re.search(r"…\d+ lines as before, with new ids: Main, Department 0", text)
    assert '- button "Buy kettle 41" [ref=f1e150]' in found
    assert found.splitlines()[0] == '    - article "Kettle 41" [ref=f1e148]:'


async def test_snapshots_of_one_server_are_compared_whichever_tool_brought_them(tmp_path: Path) -> None:
    """A click that answers with the page shows what it changed since the last look."""
    async with opened(tmp_path, inline=True) as gateway:
        await say(gateway, "browser_snapshot")
        text = await say(gateway, "browser_click")

    assert '  - link "Cart (1)" [ref=f0e23]' in text
    assert "Kettle 0" not in text
    assert "Ran Playwright code" not in text


@pytest.mark.parametrize(
    "other",
    [BOB, agent("bob", era="handshake", connection="1"), agent(LOCAL)],
    ids=["client", "principal", "none"],
)
async def test_what_one_client_was_given_is_not_left_out_for_another(tmp_path: Path, other: Viewer) -> None:
    """Nor for a caller without a connection, behind which there may be several agents."""
    async with opened(tmp_path) as gateway:
        await say(gateway, "browser_snapshot")
        for _ in range(2 if not other.connection else 1):
            text = await say(gateway, "browser_snapshot", other)
            assert '- article "Kettle 0"' in text
        if not other.connection:
            assert text.endswith(" or call_read_only_tool with the URI as name.]")
        if other.principal != LOCAL:
            with pytest.raises(ResultNotFoundError):
                gateway.result(stored(text), viewer=ANN)


async def test_a_stored_answer_is_read_by_a_call_of_its_uri(tmp_path: Path) -> None:
    """For models whose client reads no resources. Source: maitred."""
    async with opened(tmp_path) as gateway:
        result_id = stored(await say(gateway, "browser_snapshot"))
        uri = f"maitred://result/{result_id}?find=Kettle%207%22|no+such"
        found = await gateway.call(ToolCall(name=uri, arguments={}), viewer=ANN)
        with pytest.raises(ResultNotFoundError):
            await gateway.call(ToolCall(name="maitred://result/none?find=x", arguments={}), viewer=ANN)

    text = found["content"][0]["text"]
    assert '- button "Buy kettle 7" [ref=' in text
    assert text.endswith("Nothing has 'no such'.")


async def test_a_program_a_person_and_a_chain_get_the_whole(tmp_path: Path) -> None:
    """Rules are for what goes into a model's context. Source: docs/answers.md."""
    whole = Page().snapshot()
    chain = 'return (await call_tool("web__browser_snapshot", {}))[-400:]'
    async with opened(tmp_path) as gateway:
        for surface in ("", "cli", "http"):
            viewer = agent(LOCAL, surface=surface, connection="1")
            assert (await say(gateway, "browser_snapshot", viewer, shorten=False)).endswith(whole)
        answer = await gateway.run_chain(chain, viewer=ANN)

    assert "Buy kettle 59" in str(answer.result)


async def test_errors_are_as_the_server_wrote_them(tmp_path: Path) -> None:
    """A model needs them whole to see what went wrong."""
    async with opened(tmp_path) as gateway:
        assert await say(gateway, "fail") == f"### Error\n{Page().snapshot()}"


async def test_an_operator_turns_presets_off(tmp_path: Path) -> None:
    """`results.preset: none`. Source: docs/answers.md."""
    async with opened(tmp_path, preset="none") as gateway:
        assert (await say(gateway, "browser_snapshot")).endswith(Page().snapshot())


async def test_an_operator_names_the_preset_of_a_server_with_another_name(tmp_path: Path) -> None:
    """A wrapper of a known server calls itself something else. Source: issue 19, point 5."""
    async with opened(tmp_path, name="our-browser") as gateway:
        assert (await say(gateway, "browser_snapshot")).endswith(Page().snapshot())
    async with opened(tmp_path, name="our-browser", preset="playwright") as gateway:
        assert estimate(await say(gateway, "browser_snapshot")) < 650


async def test_a_rule_of_the_operator_goes_before_the_preset(tmp_path: Path) -> None:
    """What it does not say is as in the preset. Source: docs/answers.md."""
    rule = ResultRule(tools=("web/browser_snap*",), budget=2_000, changes_only=False)
    async with opened(tmp_path, rules=(rule,)) as gateway:
        first, second = [await say(gateway, "browser_snapshot") for _ in range(2)]

    assert 1_000 < estimate(first) < 2_200
    assert second.splitlines()[:-1] == first.splitlines()[:-1]
    assert "cursor=pointer" not in first


async def test_fields_of_structured_answers_are_left_out_by_their_path(tmp_path: Path) -> None:
    """Also where the text repeats them; the whole has them. Source: issue 19, point 5."""
    rule = ResultRule(tools=("web/orders",), drop=ResultDrop(fields=("orders.html",)))
    async with opened(tmp_path, rules=(rule,)) as gateway:
        result = await call(gateway, "orders")
        text = result["content"][0]["text"]
        whole = gateway.result(stored(text), viewer=ANN).text

    assert "structuredContent" not in result
    assert text.startswith('{"orders":[{"id":0,"total":0},{"id":1,"total":10},')
    assert "<b>4</b>" in whole


async def test_a_direct_call_keeps_structured_content_for_the_check_of_the_client(tmp_path: Path) -> None:
    """Else it would not fit the schema of the tool; a text alone becomes shorter. Source: docs/answers.md."""
    viewer = agent(LOCAL, surface="mcp", era="handshake", connection="1")
    rule = ResultRule(tools=("web/orders",), drop=ResultDrop(fields=("orders.html",)))
    async with opened(tmp_path, rules=(rule,)) as gateway:
        orders = await call(gateway, "orders", viewer, shorten=False)
        text = await say(gateway, "browser_snapshot", viewer, shorten=False)

    assert orders["structuredContent"]["orders"][4]["html"]
    assert estimate(text) < 650


async def test_without_memory_for_the_whole_an_answer_stays_whole(tmp_path: Path) -> None:
    """What could not be read again is not left out. Source: docs/answers.md."""
    async with opened(tmp_path, keep_bytes=100) as gateway:
        assert (await say(gateway, "browser_snapshot")).endswith(Page().snapshot())


async def test_new_rules_apply_without_a_restart(tmp_path: Path) -> None:
    """From the first call after the configuration was read again. Source: docs/answers.md."""
    async with opened(tmp_path, preset="none") as gateway:
        before = await say(gateway, "browser_snapshot")
        changed = replace(gateway.settings, results=Results())
        await gateway.configure(changed, viewer=LOCAL_USER)
        after = await say(gateway, "browser_snapshot")

    assert before.endswith(Page().snapshot())
    assert estimate(after) < 650


async def test_a_rule_that_takes_nothing_away_leaves_an_answer_as_it_is(tmp_path: Path) -> None:
    """Not a blank of its JSON differs."""
    rule = ResultRule(tools=("web/orders",), drop=ResultDrop(fields=("none.such",)), budget=5_000)
    async with opened(tmp_path, rules=(rule,)) as gateway:
        ruled = await call(gateway, "orders")
    async with opened(tmp_path) as gateway:
        assert ruled["content"] == (await call(gateway, "orders"))["content"]


async def test_json_is_cut_to_the_budget_and_compared_line_by_line(tmp_path: Path) -> None:
    """Structured answers follow the same rules as texts. Source: docs/answers.md."""
    rule = ResultRule(tools=("web/orders",), budget=150, changes_only=True)
    async with opened(tmp_path, rules=(rule,)) as gateway:
        first, second = [await say(gateway, "orders") for _ in range(2)]

    assert first.startswith('{"orders":[{"id":0,"html":"<b>0</b>')
    assert "…+" in first
    assert second.startswith("(as before)\n[Only what changed; whole: maitred://result/")


async def test_a_text_without_headings_is_compared_with_the_answer_to_the_same_call(tmp_path: Path) -> None:
    """Other arguments ask for something else, which the agent has not read. Source: docs/answers.md."""
    rule = ResultRule(tools=("web/orders",), changes_only=True)
    async with opened(tmp_path, rules=(rule,)) as gateway:
        first, other, again = [await say(gateway, "orders", page=page) for page in (1, 2, 1)]

    assert first == other
    assert again.startswith("(as before)\n")
