"""The page of a tool: switched off and on, pinned, moved; by whom, in the file, and what agents get of it."""

import html
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from tests.support.viewers import agent
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, form_token, opened, send, tool
from tests.surfaces.web.test_attacks import ATTACKS, Elements, hidden

from maitred.browser.cdp import CdpConnection
from maitred.config.load import load
from maitred.config.settings import Disclosure, MediationSettings, Mode
from maitred.errors import ToolWithheldError
from maitred.gateway import TrialText
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolCall, ToolKey

pytestmark = pytest.mark.anyio

SHOP = [
    tool("refund", "Pays money back to a customer."),
    tool("invoice", "Writes an invoice."),
    tool("a/b c", "Has a name with a slash."),
]
BANK = [tool("pay", "Pays an amount."), tool("balance", "Says how much is there.")]
REFUND = ToolKey(server="shop", name="refund")


def configuration(folder: Path, *names: str) -> Path:
    """The file of the gateway that `opened` makes, with remarks."""
    script = Path(__file__).with_name("scripted_server.py")
    lines = ["# my tools", "servers:"]
    for name in names:
        args = json.dumps(["-I", "-S", str(script), str(folder / f"{name}.json")])
        lines += [f"  {name}:  # {name}", f"    command: {json.dumps(sys.executable)}", f"    args: {args}"]
    lines += ["catalog:", f"  path: {json.dumps(str(folder / 'c.db'))}"]
    lines += ["admission:", "  pinning: quarantine", ""]
    file = folder / "maitred.yaml"
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("tools")
    configuration(folder, "shop", "bank")
    async with opened(folder, {"shop": SHOP, "bank": BANK}) as made:
        yield made


@pytest.fixture(autouse=True)
async def undone(house: House) -> None:
    """Each test begins with a file in which nothing is decided."""
    configuration(house.folder, "shop", "bank")
    await house.gateway.configure(load(house.folder / "maitred.yaml"), viewer=LOCAL_USER)


def words_of(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def page(client: httpx2.AsyncClient, path: str = "/ui/tools", **query: str | int) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200
    return answer.text


async def change(client: httpx2.AsyncClient, name: str, server: str = "shop", **fields: str) -> str:
    """Press a button of a tool's page; the text of the page that follows."""
    path = f"/ui/tools/{server}/{quote(name, safe='')}"
    token = await form_token(client)
    answer = await send(client, f"{path}/change", form_token=token, back=path, **fields)
    assert answer.status_code == 200
    return answer.text


def rows_of(text: str) -> Sequence[str]:
    return [words_of(row) for row in re.findall(r"<tr>\n(.*?)</tr>", text, re.DOTALL)]


async def test_a_tool_is_switched_off_and_on_again(house: House) -> None:
    """The page says so, and agents neither find nor call it meanwhile; the remarks of the file stay."""
    me, file = await house.person(), house.folder / "maitred.yaml"
    before = file.read_text()
    said = words_of(await change(me, "refund", what="off"))
    assert f"shop__refund is switched off: no agent finds or calls it. This is in {file}." in said
    assert "Agents cannot use it now: it is switched off by the operator in the configuration" in said
    assert file.read_text().startswith(before)
    assert load(file).tools == {REFUND: ToolChoice(enabled=False)}
    only_off = words_of(await page(me, only="off"))
    cost = house.gateway.tool("shop", "refund", LOCAL_USER).cost_tokens
    assert cost > 0
    assert f"1 tool of 5; its definition would have {cost} tokens, if it was on" in only_off
    with pytest.raises(ToolWithheldError, match="switched off"):
        await house.gateway.call(ToolCall(name="shop__refund", arguments={}), viewer=agent("ann"))
    found = await house.gateway.search(["pays money back"], viewer=agent("ann"))
    assert REFUND not in {one.tool.key for one in found.results}

    assert "shop__refund is switched on again" in words_of(await change(me, "refund", what="on"))
    assert file.read_text() == before
    answer = await house.gateway.call(ToolCall(name="shop__refund", arguments={}), viewer=agent("ann"))
    assert not answer.get("isError")


async def test_the_api_has_no_page_left_with_a_tool_that_is_switched_off(house: House) -> None:
    """Pages that it sent before are made again; a call is refused with the reason."""
    me, program = await house.person(), house.stranger()
    category = house.gateway.tool("shop", "refund", LOCAL_USER).placement.category
    paths = [f"/api/v1/tools/{rest}" for rest in ("hot", f"category/{category}", "search?q=pays+money+back")]
    for path in paths:
        assert "shop__refund" in (await program.get(path)).text, path
    await change(me, "refund", what="off")
    for path in paths:
        assert "shop__refund" not in (await program.get(path)).text, path
    known = (await program.get("/api/v1/tools/shop/refund")).json()
    assert known["withheld"] == "is switched off by the operator in the configuration"
    called = await program.post("/api/v1/tools/shop/refund/call", json={"arguments": {}})
    assert called.status_code == 409
    assert "switched off" in called.text
    await change(me, "refund", what="on")
    for path in paths:
        assert "shop__refund" in (await program.get(path)).text, path


async def test_the_list_shows_what_is_decided_and_can_be_limited_to_it(house: House) -> None:
    """Tools that are switched off are in it for who may change them; the others see what agents see."""
    me = await house.person()
    await change(me, "refund", what="off")
    await change(me, "invoice", what="pin")
    await change(me, "pay", server="bank", what="move", category="security")
    rows = {row.split()[0]: row for row in rows_of(await page(me))}
    assert set(rows) == {one.name for one in house.gateway.catalog(LOCAL_USER).tools}
    assert rows["shop__refund"].startswith("shop__refund off ")
    assert rows["shop__invoice"].startswith("shop__invoice pinned ")
    assert "security moved" in rows["bank__pay"]
    for only, name in (("off", "shop__refund"), ("pinned", "shop__invoice"), ("moved", "bank__pay")):
        [row] = rows_of(await page(me, only=only))
        assert row.startswith(name)
    assert "No tool matches" in words_of(await page(me, only="off", server="bank"))

    other = await house.person(Grant(principal="ann", role="operator"))
    seen = await page(other)
    assert "shop__refund" not in seen
    assert "switched off" not in seen
    assert "security moved" in words_of(seen)
    assert len(rows_of(await page(other, only="off"))) == len(SHOP + BANK) - 1


async def test_without_a_decision_the_filter_says_what_to_do(house: House) -> None:
    said = words_of(await page(await house.person(), only="off"))
    assert "No tool is switched off. The page of a tool has the buttons for that. maitred tools" in said


async def test_a_tool_is_pinned_and_moved_and_back(house: House) -> None:
    me, gateway = await house.person(), house.gateway
    automatic = gateway.tool("shop", "refund", LOCAL_USER).placement
    assert "shop__refund is pinned to the top of the hot list" in words_of(
        await change(me, "refund", what="pin")
    )
    assert gateway.hot(LOCAL_USER).pinned == 1
    moved = await change(me, "refund", what="move", category="security")
    assert "shop__refund is in security now" in words_of(moved)
    assert '<option value="security" selected>' in moved
    assert gateway.tool("shop", "refund", LOCAL_USER).placement.category == "security"
    assert load(house.folder / "maitred.yaml").tools == {REFUND: ToolChoice(pinned=True, category="security")}

    back = await change(me, "refund", what="move", category="")
    assert "is in the category that the gateway finds" in words_of(back)
    assert '<option value="">automatic</option>' in back
    assert gateway.tool("shop", "refund", LOCAL_USER).placement == automatic
    assert "shop__refund is no longer pinned" in words_of(await change(me, "refund", what="unpin"))
    assert gateway.hot(LOCAL_USER).pinned == 0
    assert load(house.folder / "maitred.yaml").tools == {}


async def test_the_page_leads_to_the_text_that_agents_read(house: House) -> None:
    me = await house.person()
    read = await page(me, "/ui/tools/shop/refund")
    assert 'href="/ui/search?edit=shop__refund#edit"' in read
    edited = await page(me, "/ui/search", edit="shop__refund")
    assert "Other texts for shop__refund" in words_of(edited)
    assert "What an agent reads now" in words_of(edited)
    assert "Pays money back to a customer." in edited


async def test_a_name_with_a_slash_is_decided_about_too(house: House) -> None:
    me = await house.person()
    await change(me, "a/b c", what="off")
    key = ToolKey(server="shop", name="a/b c")
    assert load(house.folder / "maitred.yaml").tools == {key: ToolChoice(enabled=False)}
    await change(me, "a/b c", what="on")
    assert load(house.folder / "maitred.yaml").tools == {}


@pytest.mark.parametrize("role", ["viewer", "agent", "operator"])
async def test_who_may_not_configure_has_no_buttons_and_is_refused(house: House, role: Any) -> None:
    other, file = await house.person(Grant(principal="ann", role=role)), house.folder / "maitred.yaml"
    before = file.read_bytes()
    assert "/change" not in await page(other, "/ui/tools/shop/refund")
    for fields in ({"what": "off"}, {"what": "pin"}, {"what": "move", "category": "ai"}):
        assert "this needs the role 'admin'" in words_of(await change(other, "refund", **fields))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"what": "move", "category": "nowhere"}, "'nowhere' is no category"),
        ({"what": "explode"}, "says nothing that can be changed"),
        ({}, "says nothing that can be changed"),
    ],
)
async def test_a_form_that_cannot_be_is_refused(house: House, fields: dict[str, str], says: str) -> None:
    """With the reason, and the file stays as it was."""
    file = house.folder / "maitred.yaml"
    before = file.read_bytes()
    assert says in words_of(await change(await house.person(), "refund", **fields))
    assert file.read_bytes() == before


async def test_a_fault_in_the_file_is_shown_and_nothing_is_written(house: House) -> None:
    file = house.folder / "maitred.yaml"
    file.write_text(file.read_text() + "limmits: {}\n")
    before = file.read_bytes()
    said = words_of(await change(await house.person(), "refund", what="off"))
    assert "limmits" in said
    assert file.read_bytes() == before
    assert house.gateway.switched_off_tools(LOCAL_USER) == []


async def test_a_file_of_a_client_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "client.json"
    source.write_text(json.dumps({"mcpServers": {"shop": {"command": sys.executable}}}))
    before = source.read_text()
    async with opened(tmp_path, {"shop": SHOP}, source=source) as made:
        said = words_of(await change(await made.person(), "refund", what="off"))
        assert "is a client's file, which cannot hold choices for tools" in said
        assert "`maitred import` makes a file that can" in said
        assert made.gateway.switched_off_tools(LOCAL_USER) == []
    assert source.read_text() == before


async def test_a_tool_with_texts_of_a_person_is_switched_off_all_the_same(house: House) -> None:
    """Overrides and decisions are in two files, and neither undoes the other."""
    trial = TrialText(tool="bank__pay", description="Sends an amount.")
    await house.gateway.keep_text(trial, LOCAL_USER)
    me = await house.person()
    said = await change(me, "pay", server="bank", what="off")
    assert "Agents cannot use it now" in words_of(said)
    assert "edit=bank__pay" not in said
    await change(me, "pay", server="bank", what="on")
    assert house.gateway.tool("bank", "pay", LOCAL_USER).description == "Sends an amount."
    await house.gateway.drop_text("bank__pay", LOCAL_USER)


async def test_what_a_server_wrote_is_inert_on_the_page_of_a_tool(tmp_path: Path) -> None:
    """Its name is in addresses and fields of forms; it stays text."""
    names = {f"t{at}": text for at, text in enumerate(ATTACKS.values())}
    evil = [tool(text[:100] or name, text) for name, text in names.items()]
    configuration(tmp_path, "evil")
    async with opened(tmp_path, {"evil": evil}) as made:
        me = await made.person()
        for one in made.gateway.catalog(LOCAL_USER).by_server["evil"][:8]:
            answer = await me.get(f"/ui/tools/evil/{quote(one.key.name, safe='')}")
            assert answer.status_code == 200
            assert Elements(answer.text).faults == []
            assert hidden(answer.text) == set()


# --- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[CdpConnection]:
    async with chromium() as connection:
        yield connection


@pytest.fixture(params=[True, False], ids=["javascript", "none"])
async def reader(
    house: House, browser: CdpConnection, request: pytest.FixtureRequest
) -> AsyncIterator[Person]:
    made = await person(browser)
    await made.resize(1_200)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    await made.with_javascript(on=request.param)
    yield made
    assert made.violations == []


async def test_switch_a_tool_off_and_on_again(house: House, reader: Person) -> None:
    """From the list to the tool, off, found again by the filter, and on."""
    await reader.open(f"{house.url}/ui/tools?q=refund")
    await reader.follow("tbody a")
    await reader.follow("form[action$='/change'] button.danger")
    assert "shop__refund is switched off" in await reader.text("main .notice")
    with pytest.raises(ToolWithheldError, match="switched off"):
        await house.gateway.call(ToolCall(name="shop__refund", arguments={}), viewer=LOCAL_USER)

    for path in ("tools/shop/refund", "tools"):
        await reader.resize(360)
        await reader.open(f"{house.url}/ui/{path}")
        over = await reader.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, path
    await reader.resize(1_200)
    assert "off" in await reader.text("tbody tr:has(a[href$='/shop/refund']) th")
    await reader.run("void (document.querySelector('#f-only').value = 'off')")
    await reader.follow("form.filters button")
    assert "1 tool of" in await reader.text("#tools")
    await reader.follow("tbody a")
    await reader.follow("form[action$='/change'] button.main")
    assert "shop__refund is switched on again" in await reader.text("main .notice")
    answer = await house.gateway.call(ToolCall(name="shop__refund", arguments={}), viewer=LOCAL_USER)
    assert not answer.get("isError")


@pytest.mark.parametrize("mode", ["auto", "all", "menu", "categories"])
async def test_the_pages_say_what_agents_get_by_the_mode_of_the_list(house: House, mode: Mode) -> None:
    """A small catalog is listed whole, so agents do not search; the pages do not say that they do."""
    me, settings = await house.person(), load(house.folder / "maitred.yaml")
    few = 0 if mode == "categories" else 4_000
    changed = replace(settings, disclosure=Disclosure(mode=mode, break_even_tokens=few))
    await house.gateway.configure(changed, viewer=LOCAL_USER)
    tools, one, search = [
        words_of(await page(me, path)) for path in ("/ui/tools", "/ui/tools/shop/refund", "/ui/search")
    ]
    is_whole = mode in ("auto", "all")
    assert ("Agents do not get this list: they search it" in tools) == (mode == "menu")
    assert ("Agents get categories that they can open" in tools) == (mode == "categories")
    for text in (tools, one, search):
        assert ("Agents get all tools in their list now" in text) == is_whole
        assert ("as disclosure.mode says" in text) == (mode == "all")
        assert ("cost less than 4,000 tokens" in text) == (mode == "auto")
    assert ("what the agent finds" in search) == (not is_whole)
    assert ("What an agent reads first" in one) == (not is_whole)


async def test_a_group_is_shown_with_what_proposed_it(tmp_path: Path) -> None:
    """The list can be limited to it like to a category, and the page of a tool names it."""
    names = ("create_frobnitz", "get_frobnitz", "list_frobnitz")
    async with opened(tmp_path, {"works": [tool(name) for name in (*names, "run_query")]}) as house:
        client = await house.person()
        text = await page(client)
        assert '<optgroup label="Groups"><option value="frobnitz">frobnitz (3)</option>' in text
        rows = rows_of(await page(client, category="frobnitz"))
        assert len(rows) == 3
        assert all("frobnitz" in row for row in rows)
        one = words_of(await page(client, "/ui/tools/works/get_frobnitz"))
        assert "Group frobnitz proposed by rules" in one
        assert "frobnitz" not in await page(client, "/ui/access")


async def test_inferred_parameters_are_shown_as_such(tmp_path: Path) -> None:
    """On the page of the tool, with what inferred them."""
    silent = {"name": "find", "description": "`words` (string, required)", "inputSchema": {"type": "object"}}
    mediation = MediationSettings(auto_enhance=True, proof=False)
    async with opened(tmp_path, {"docs": [silent]}, mediation=mediation) as house:
        one = words_of(await page(await house.person(), "/ui/tools/docs/find"))
        assert "Parameters words inferred by rules: its server declares none" in one
