"""Tools of pages are tools as any: options A, B and C of design document 000, the hook, and mediation.

Source: issue 19, point 3. Option B, categories of the page, is played in `test_page_session.py`.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.chromium import Running, browser
from tests.support.gateway_http import in_process
from tests.support.pages import House, house, tool_script
from tests.support.sdk_clients import SdkClient, own_client, text_of
from tests.support.web_site import Site, serve_site

from maitred.mediation import SourceTool
from maitred.model.access import LOCAL_USER
from maitred.model.tools import Tool

pytestmark = pytest.mark.anyio
ANY = '{allow: ["http://127.0.0.1:*"]}'
BRINGING = f"{ANY}, result_tools: true"
LISTED = "disclosure: {mode: all}\n"
GROUPED = "disclosure: {mode: categories, break_even_tokens: 0}\n"
TOOLS = "maitred/tools"
GUIDE = "## Admin Tools\\n\\n- **create_user**(name: string): Create new user\\n\\nCall them directly."
CATEGORY = (
    "await document.modelContext.registerTool({name: 'admin_tools', description: 'User management.',"
    f" execute: () => ({{content: [{{type: 'text', text: '{GUIDE}'}}]}})}});"
)
CREATE = tool_script(
    "create_user",
    "`created ${input.name}`",
    more="inputSchema: {type: 'object', properties: {name: {type: 'string'}}},",
)


@pytest.fixture(scope="module", params=["injected", "native"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A browser without WebMCP, and one with it: answers and definitions come in different ways."""
    flags = ["--enable-features=WebMCP"] if request.param == "native" else []
    with browser(*flags) as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site("pages") as made:
        yield made


@asynccontextmanager
async def visiting(
    folder: Path,
    running: Running,
    web: Site,
    url: str,
    *,
    pages: str = ANY,
    more: str = LISTED,
    **options: Any,
) -> AsyncIterator[tuple[House, SdkClient]]:
    """A client of the handshake era, and a gateway whose browser has opened a page."""
    prefix = f"web__http_127_0_0_1_{web.port}_"
    async with (
        house(folder, running, pages, more, share="all", **options) as one,
        in_process(one.gateway) as server,
        own_client(server, "handshake", prefix) as client,
    ):
        await one.open(url)
        yield one, client


def only(one: House) -> Tool:
    """The only tool of a page that there is."""
    [tool] = [tool for tool in one.gateway.visible_tools(LOCAL_USER) if tool.server == "web"]
    return tool


async def test_option_a_a_tool_whose_text_names_others(tmp_path: Path, running: Running, web: Site) -> None:
    """The text reaches the agent as the page wrote it, and the names in it can be called as they are."""
    async with visiting(tmp_path, running, web, web.page("a", CATEGORY, CREATE)) as (one, client):
        await one.approve_all(2)
        answer = await client.call("admin_tools")
        assert answer == f"[page-supplied, untrusted · {web.origin}]\n" + GUIDE.replace("\\n", "\n")
        called = await client.result("call_tool", {"name": "create_user", "arguments": {"name": "ann"}})
        assert text_of(called).endswith("\ncreated ann")


async def test_option_c_an_answer_with_tools_has_the_published_definitions(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Where the operator allows it: of approved tools, which its caller need not look for in a category."""
    url = f"{web.origin}/console.html?module"
    async with visiting(tmp_path, running, web, url, pages=BRINGING, more=GROUPED) as (one, client):
        await one.approve_all(3)
        before = await client.listed()
        answer = await client.result(f"{client.prefix}admin_tools", {})
        assert answer["_meta"].get(TOOLS) == []  # they wait for a person
        await one.approve_all(18)
        told = client.told
        answer = await client.result(f"{client.prefix}admin_tools", {})
        brought = {tool["name"].removeprefix(client.prefix): tool for tool in answer["_meta"][TOOLS]}
        assert len(brought) == 15
        marked = f"[page-supplied, untrusted · {web.origin}] Update a role of this site"
        assert brought["update_role"]["description"].startswith(marked)
        await client.until(lambda: client.told > told)
        assert brought.keys() <= await client.listed()
        assert (await client.call("update_role", name="editor")).endswith("\nupdate role editor")
        await client.call("admin_tools", collapse=True)
        await one.until(lambda: len(one.known) == 3)
        assert await client.listed() == before


async def test_without_leave_an_answer_brings_no_tools(tmp_path: Path, running: Running, web: Site) -> None:
    """The page lists what it registers, and the answer is its text alone."""
    async with visiting(tmp_path, running, web, f"{web.origin}/console.html?module") as (one, client):
        await one.approve_all(3)
        answer = await client.result(f"{client.prefix}admin_tools", {})
        assert "- create_user: " in text_of(answer)
        assert TOOLS not in answer["_meta"]


async def test_an_answer_brings_no_tool_that_its_page_has_not_registered(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Nor changes one: what a person approved is what the page registered, not what its answers say."""
    says = (
        "{content: [{type: 'text', text: 'x'}], tools: ['create_user', 'ghost'].map((name) => ({name,"
        " description: 'Harmless.', annotations: {readOnlyHint: true}}))}"
    )
    url = web.page("c", CREATE, tool_script("more", says))
    async with visiting(tmp_path, running, web, url, pages=BRINGING) as (one, client):
        await one.approve_all(2)
        before = await client.definitions()
        answer = await client.result(f"{client.prefix}more", {})
        [brought] = answer["_meta"][TOOLS]
        assert brought in before
        assert "The tool create_user of a test." in brought["description"]
        assert await client.definitions() == before
        assert set(one.known) == {f"{web.origin}#create_user", f"{web.origin}#more"}


async def test_the_hook_of_a_program_changes_tools_of_pages(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """It has the last word on what is published, and calls go where they went."""

    async def loud(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
        return [replace(tool, description=tool.description.upper()) for tool in tools]

    url = web.page("hook", CREATE)
    async with visiting(tmp_path, running, web, url, tool_middleware=loud) as (one, client):
        await one.approve_all(1)
        assert only(one).description.endswith("THE TOOL CREATE_USER OF A TEST.")
        assert (await client.call("create_user", name="ann")).endswith("\ncreated ann")


async def test_rules_mend_what_a_page_says_and_keep_its_mark(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """Words are written out; the text stays one of the page. Search finds it, a chain calls it."""
    script = tool_script("gt_ordr", "({orders: [3, 4]})", description="gets ordr")
    more = f"{LISTED}mediation: {{auto_enhance: true, proof: false}}\n"
    async with visiting(tmp_path, running, web, web.page("rules", script), more=more) as (one, client):
        await one.approve_all(1)
        tool = only(one)
        assert tool.description == f"[page-supplied, untrusted · {web.origin}] Get an order."
        assert tool.title == "Get order"
        found = await one.gateway.search(["get an order"], viewer=LOCAL_USER)
        assert found.results[0].tool.name == tool.name
        assert (await client.call("gt_ordr")).endswith('{"orders": [3, 4]}')


async def test_an_operators_override_is_found_and_chained(
    tmp_path: Path, running: Running, web: Site
) -> None:
    """A name and a description by a person, who answers for them: search and chains have these."""
    overrides = tmp_path / "overrides.yaml"
    overrides.write_text(
        f'overrides:\n  web:\n    "{web.origin}#lst_ordr":\n'
        "      rename: list_orders\n      description: Lists the orders of the shop.\n"
    )
    script = tool_script("lst_ordr", "({orders: [3, 4]})", description="lst ordr of usr")
    more = f"{LISTED}mediation: {{overrides: {overrides}}}\n"
    async with visiting(tmp_path, running, web, web.page("orders", script), more=more) as (one, _):
        await one.approve_all(1)
        assert only(one).name == "web__list_orders"
        assert only(one).description == "Lists the orders of the shop."
        found = await one.gateway.search(["orders of a shop"], viewer=LOCAL_USER)
        assert found.results[0].tool.name == "web__list_orders"
        ran = await one.gateway.run_chain('(await web.list_orders())["orders"][1]', viewer=LOCAL_USER)
        assert ran.result == 4, ran.text
