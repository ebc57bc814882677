"""What people come for, played in a real Chromium; each name is what a person would say."""

from collections.abc import AsyncIterator

import pytest
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, opened, send, tool

from maitred.browser.cdp import CdpConnection
from maitred.model.access import LOCAL_GRANT, LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

LONG = "\n".join(f"Line {number} of a long description." for number in range(80))


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    servers = {name: [tool("look"), tool("pay")] for name in ("shop", "bank", "desk", "yard")}
    async with opened(tmp_path_factory.mktemp("journeys"), servers) as made:
        yield made


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[CdpConnection]:
    async with chromium() as connection:
        yield connection


@pytest.fixture
async def me(house: House, browser: CdpConnection) -> AsyncIterator[Person]:
    """A person who typed `maitred ui`; the pages break none of their own rules meanwhile."""
    made = await person(browser)
    await made.resize(1_200)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    yield made
    assert made.violations == []


async def test_approve_a_changed_definition_by_keyboard(house: House, me: Person) -> None:
    """Approve does nothing until the last changed part was on screen."""
    await house.change("shop", tool("look", LONG), tool("pay", "Pay another way."))
    await me.open(f"{house.url}/ui/approvals")
    await me.press("j")
    await me.press("Enter")
    await me.sees("document.querySelector('h1')?.innerText === 'shop'")
    await me.sees("document.querySelector('[data-approve]')?.getAttribute('aria-disabled') === 'true'")
    await me.press("a")
    assert (await house.gateway.case("shop", viewer=LOCAL_USER)).awaits
    await me.press("?")
    assert await me.run("document.getElementById('keys').open")
    await me.press("?")
    for _ in range(await me.run("document.querySelectorAll('.part').length")):
        await me.press("j")
        await me.run("void document.activeElement.scrollIntoView({block: 'start'})")
        await me.run("new Promise(r => setTimeout(r, 350))")
        await me.run("void document.activeElement.scrollIntoView({block: 'end'})")
        await me.run("void scrollBy(0, document.querySelector('.decide').offsetHeight)")
        await me.sees("document.activeElement.querySelector('input[name=read]').checked")
    await me.press("a")
    await me.sees("document.querySelector('.notice')?.innerText.includes('shop is approved')")
    assert not (await house.gateway.case("shop", viewer=LOCAL_USER)).awaits


async def test_see_a_change_that_waits_without_loading_the_page_again(house: House, me: Person) -> None:
    await me.open(f"{house.url}/ui/approvals")
    await me.sees("document.documentElement.dataset.stream === 'open'")
    assert "bank" not in await me.text("#waiting")
    await house.change("bank", tool("look", "Look elsewhere."), tool("pay"))
    await me.sees("document.querySelector('#waiting').innerText.includes('bank')")
    case = await house.gateway.case("bank", viewer=LOCAL_USER)
    await send(await house.person(), "/ui/approvals/bank/reject", digest=case.digest)
    await me.sees("!document.querySelector('#waiting').innerText.includes('bank')")


async def test_keep_my_place_while_the_page_changes(house: House, me: Person) -> None:
    """Focus, scrolling and what is open stay; a form in use is not taken away."""
    await me.resize(700, height=300)
    await me.open(f"{house.url}/ui/")
    await me.sees("document.documentElement.dataset.stream === 'open'")
    house.gateway.count_menu([{"name": "search_tools", "description": "Find."}], LOCAL_USER)
    await me.open(f"{house.url}/ui/servers/desk")
    await me.sees("document.documentElement.dataset.stream === 'open'")
    await me.run("void document.querySelector('#server a').focus()")
    await me.run("void scrollTo(0, 120)")
    old = await me.run("void (globalThis.old = document.querySelector('#server'))")
    assert old is None
    await house.gateway.call(ToolCall(name="desk__look", arguments={}), viewer=LOCAL_USER)
    await me.sees("document.querySelector('#server') !== globalThis.old")
    assert await me.run("document.querySelector('#server').contains(document.activeElement)")
    assert await me.run("scrollY") == 120


async def test_find_out_why_a_server_does_not_run(house: House, me: Person) -> None:
    """From the first page: one sentence, the reason, and the one thing that helps."""
    settings = house.gateway.settings
    broken = ServerSpec(name="weather", command="no-such-program")
    servers = {**settings.servers, "weather": broken}
    await house.gateway.configure(type(settings)(**{**vars(settings), "servers": servers}), viewer=LOCAL_USER)
    await house.gateway.sync(["weather"], viewer=LOCAL_USER)
    await me.open(f"{house.url}/ui/")
    assert "need" in await me.text("h1")
    assert "no-such-program" in await me.text("#today")
    await me.follow("a[href='/ui/servers/weather']")
    text = await me.text("main")
    assert "is not on PATH" in text
    assert "Install the program" in text
    assert "maitred doctor weather" in text


async def test_stop_a_server_that_misbehaves_and_start_it_again(house: House, me: Person) -> None:
    await me.open(f"{house.url}/ui/servers/yard")
    await me.follow("form[action$='/suspend'] button")
    assert "yard is suspended" in await me.text(".notice")
    assert house.gateway.settings.servers["yard"].suspended
    await me.open(f"{house.url}/ui/")
    assert "yard" in await me.text("#today")
    await me.follow("form[action='/ui/servers/yard/resume'] button")
    assert "yard is resumed" in await me.text(".notice")
    assert not house.gateway.settings.servers["yard"].suspended


async def test_see_what_an_agent_reads_of_a_tool_and_what_it_costs(house: House, me: Person) -> None:
    await me.open(f"{house.url}/ui/tools?q=pay&server=yard")
    await me.follow("tbody a")
    text = await me.text("main")
    assert "What an agent reads first" in text
    assert "yard__pay" in text
    assert "tokens" in text


async def test_make_a_token_and_see_the_catalog_as_its_bearer(house: House, me: Person) -> None:
    """It is shown once; afterwards it is nowhere."""
    await me.open(f"{house.url}/ui/access")
    await me.run("void (document.querySelector('#f-name').value = 'ci')")
    await me.run("void document.querySelector('#limits').toggleAttribute('open')")
    await me.run("void document.querySelector('input[name=server][value=desk]').click()")
    await me.follow("form[action='/ui/access/create'] button")
    shown = await me.text(".notice")
    assert "maitred_" in shown
    await me.open(f"{house.url}/ui/access")
    assert shown.rpartition(" ")[2] not in await me.run("document.documentElement.outerHTML")
    await me.follow("tbody a")
    text = await me.text("main")
    assert "The catalog as ci sees it" in text
    assert "desk__look" in text
    assert "yard__look" not in text


async def test_who_did_what_and_what_failed(house: House, me: Person) -> None:
    for name, arguments in (("desk__look", {}), ("desk__look", {"a": 1})):
        await house.gateway.call(ToolCall(name=name, arguments=arguments), viewer=LOCAL_USER)
    await me.open(f"{house.url}/ui/activity?outcome=failed&tool=desk")
    assert "Nothing matches" in await me.text("#activity")
    await me.open(f"{house.url}/ui/activity?tool=desk")
    await me.sees("document.querySelectorAll('#activity tbody tr').length >= 2")


async def test_leave_on_a_machine_that_i_share(house: House, me: Person) -> None:
    await me.open(f"{house.url}/ui/")
    await me.follow("form[action='/ui/leave'] button")
    assert await me.run("location.pathname") == "/ui/enter"
    await me.open(f"{house.url}/ui/servers")
    assert await me.run("location.pathname") == "/ui/enter"
    assert await me.run("localStorage.length + sessionStorage.length") == 0
    assert await me.run("document.cookie") == ""
