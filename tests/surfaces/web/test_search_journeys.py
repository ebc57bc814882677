"""Journeys through search, calls and replay in a real Chromium, and the attacks of servers on those pages."""

import html
import json
import re
import shlex
from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode, urlsplit

import pytest
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_attacks import ATTACKS, Elements, evil, hidden
from tests.surfaces.web.test_search import configuration

from maitred.browser.cdp import CdpConnection
from maitred.model.access import LOCAL_GRANT, LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

_CODE = [
    tool("find_commits", "Lists the commits of a repository."),
    tool("blame", "Annotates revision metadata."),
    tool("diff", "Shows what differs between two revisions.", count={"type": "integer"}),
]
_MAIL = [tool("send_mail", "Sends a message to an address."), tool("find_mail", "Finds messages.")]


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("journeys")
    configuration(folder)
    async with opened(folder, {"code": _CODE, "mail": _MAIL}) as made:
        await made.gateway.warm(wholly=True)
        yield made


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[CdpConnection]:
    async with chromium() as connection:
        yield connection


@pytest.fixture(params=[True, False], ids=["javascript", "none"])
async def me(house: House, browser: CdpConnection, request: pytest.FixtureRequest) -> AsyncIterator[Person]:
    made = await person(browser)
    await made.resize(1_200)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    await made.with_javascript(on=request.param)
    yield made
    await made.open("about:blank")
    assert made.violations == []


async def test_find_out_why_the_agent_did_not_find_a_tool(house: House, me: Person) -> None:
    """A phrase and the name of the tool; one look says why, and other texts bring the tool to the top."""
    await me.open(f"{house.url}/ui/search")
    await me.fill(q="who wrote this line of code", expected="code__blame")
    await me.follow("main form button.main")
    text = await me.text("main .notice")
    assert "code__blame" in text
    assert "weak" in text or "no candidate" in text or "behind" in text
    address = {"q": "who wrote this line of code", "expected": "code__blame", "edit": "code__blame"}
    await me.open(f"{house.url}/ui/search?{urlencode(address)}")
    await me.fill(
        description="Says who wrote each line of code.", use_cases="I want to know who wrote this line"
    )
    await me.follow("#edit button.main")
    assert "strong" in await me.text("#edit table")
    assert "No tool beside it loses a place" in await me.text("#edit")


async def test_undo_a_text_that_made_search_worse(house: House, me: Person) -> None:
    asked = {"q": "what differs between two versions", "edit": "mail__find_mail"}
    await me.open(f"{house.url}/ui/search?{urlencode(asked)}")
    await me.fill(description="Shows what differs between two versions.")
    await me.follow("#edit button.main")
    await me.follow("form[action='/ui/search/keep'] button")
    assert "Agents find mail__find_mail by these texts now" in await me.text("main .notice")
    [first, *_] = (await house.gateway.search([asked["q"]], viewer=LOCAL_USER)).results
    assert first.tool.name == "mail__find_mail"
    await me.follow("form[action='/ui/search/drop'] button")
    assert "has the texts of its server again" in await me.text("main .notice")
    [first, *_] = (await house.gateway.search([asked["q"]], viewer=LOCAL_USER)).results
    assert first.tool.name == "code__diff"


async def test_call_a_tool_by_hand_and_copy_its_curl_line(house: House, me: Person) -> None:
    """A fault is beside its field; with the value mended there is an answer. The line makes the same call."""
    await me.open(f"{house.url}/ui/call/code/diff")
    await me.fill(**{"arg:count": "many"})
    await me.follow("main form button.main")
    assert "is not of type" in await me.text(".field-fault")
    await me.fill(**{"arg:count": "3"})
    await me.follow("main form button.main")
    assert "ok" in await me.text("#outcome")
    assert '"count": 3' in await me.text("#outcome pre")
    await me.run("void getSelection().selectAllChildren(document.querySelectorAll('code.copy')[1])")
    program, address, *options = shlex.split(await me.run("String(getSelection())"))
    assert program == "curl"
    given = dict(zip(options[::2], options[1::2], strict=True))
    name, value = given["-H"].split(": ")
    here = house.url + urlsplit(address).path
    answer = await house.stranger().post(here, content=given["-d"], headers={name: value})
    assert json.loads(answer.json()["content"][0]["text"]) == {"count": 3}


async def test_a_dropped_file_is_the_labelled_set(house: House, browser: CdpConnection) -> None:
    made = await person(browser)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    await made.open(f"{house.url}/ui/search/set")
    line = json.dumps({"query": "list commits", "relevant": ["code__find_commits"]})
    await made.run(
        "void (() => { const data = new DataTransfer();"
        f" data.items.add(new File([{json.dumps(line)}], 'set.jsonl'));"
        " document.querySelector('[data-drop]').dispatchEvent(new DragEvent('drop',"
        " {dataTransfer: data, bubbles: true, cancelable: true})); })()"
    )
    await made.sees("document.querySelector('[data-drop]').value.length > 0")
    await made.follow("main form button.main")
    assert "R@5\n1.000" in await made.text(".figures")
    assert made.violations == []


async def test_what_a_server_wrote_is_inert_on_these_pages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Approved by a person who did not look: it is text all the same."""
    tools = [evil(name, text) for name, text in ATTACKS.items()]
    async with opened(tmp_path_factory.mktemp("evil"), {"evil": [tool(name) for name in ATTACKS]}) as house:
        await house.change("evil", *tools)
        case = await house.gateway.case("evil", viewer=LOCAL_USER)
        await house.gateway.decide("evil", "approve", viewer=LOCAL_USER, seen=case.digest)
        await house.gateway.sync(["evil"], viewer=LOCAL_USER)
        name = next(iter(ATTACKS))
        await house.gateway.call(
            ToolCall(name=f"evil__{name}", arguments={"a": ATTACKS[name]}), viewer=LOCAL_USER
        )
        client = await house.person()
        paths = [
            "ledger",
            "replay",
            "call",
            "search",
            "search/set",
            *(f"call/evil/{quote(one, safe='')}" for one in ATTACKS),
        ]
        paths += [
            f"search?{urlencode({'q': text[:300], 'expected': text[:100]})}" for text in ATTACKS.values()
        ]
        paths += [f"search?{urlencode({'q': 'script', 'edit': f'evil__{one}'})}" for one in list(ATTACKS)[:8]]
        for path in paths:
            answer = await client.get(f"/ui/{path}")
            assert answer.status_code in (200, 404, 409), path
            assert Elements(answer.text).faults == [], path
            assert hidden(answer.text) == set(), path
        found = re.search(r'href="(/ui/replay\?of=\d+)"', (await client.get("/ui/replay")).text)
        assert found
        page = (await client.get(html.unescape(found[1]))).text
        faults = [one for one in Elements(page).faults if "data:text/html;base64," not in one]
        assert faults == []
        assert hidden(page) == set()
