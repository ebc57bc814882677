"""What people come for, played in a real Chromium; each name is what a person would say.

Journeys of search and calls are in `test_search_journeys.py`, those of held calls in `test_held_calls.py`.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.surfaces.web.held import HOLDS_BUYING, holding
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, opened, send, settings_of, tool

from maitred.access.tokens import TokenRequest
from maitred.browser.cdp import CdpConnection
from maitred.config.settings import Audit, Http
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant, Scope, Viewer
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

NAME = "tools.example"
"""The name of the gateway in a network; the browser finds this machine by it."""
LONG = "\n".join(f"Line {number} of a long description." for number in range(80))


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    names = ("shop", "bank", "desk", "yard", "fair")
    servers = {name: [tool("look"), tool("pay")] for name in names}
    servers["mall"] = [tool("buy", item={"type": "string"})]
    http = Http(port=0, allowed_hosts=(NAME,), allowed_origins=(f"http://{NAME}",))
    folder = tmp_path_factory.mktemp("journeys")
    audit = Audit(arguments="full")
    async with opened(folder, servers, http=http, audit=audit, held_calls=HOLDS_BUYING) as made:
        yield made


@pytest.fixture(scope="module")
async def browser(house: House) -> AsyncIterator[CdpConnection]:
    address = house.url.removeprefix("http://")
    async with chromium(f"--host-resolver-rules=MAP {NAME} {address}") as connection:
        yield connection


@pytest.fixture
async def me(house: House, browser: CdpConnection) -> AsyncIterator[Person]:
    """A person who typed `maitred ui`; the pages break none of their own rules meanwhile."""
    made = await person(browser)
    await made.resize(1_200)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    yield made
    await made.open("about:blank")  # a person has few live pages at once
    assert made.violations == []


@pytest.fixture(params=[True, False], ids=["javascript", "none"])
async def either(me: Person, request: pytest.FixtureRequest) -> Person:
    """The same person, with a browser that runs scripts or does not."""
    await me.with_javascript(on=request.param)
    return me


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


async def test_approve_a_changed_definition_without_javascript(house: House, me: Person) -> None:
    """Each changed part has a box; the form is not sent before all are ticked."""
    await me.with_javascript(on=False)
    await house.change("fair", tool("look", "Looks elsewhere."), tool("pay", "Pay another way."))
    await me.open(f"{house.url}/ui/approvals/fair")
    await me.run("void document.querySelector('[data-approve]').click()")
    assert (await house.gateway.case("fair", viewer=LOCAL_USER)).awaits
    await me.run("document.querySelectorAll('input[name=read]').forEach((one) => one.click())")
    await me.follow("[data-approve]")
    assert "fair is approved" in await me.text(".notice")
    assert not (await house.gateway.case("fair", viewer=LOCAL_USER)).awaits


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


async def test_find_the_server_that_is_in_trouble_and_restart_it(
    house: House, either: Person, tmp_path: Path
) -> None:
    """Its last words say why. Mended, it is listed from the page, and started again."""
    settings, name = house.gateway.settings, f"press-{tmp_path.name}"[:40].rstrip("-_")
    (house.folder / f"{name}.json").write_text("{ this is no JSON")
    added = settings_of(house.folder, {name: []}).servers
    both = replace(settings, servers={**settings.servers, **added})
    await house.gateway.configure(both, viewer=LOCAL_USER)
    await house.gateway.sync([name], viewer=LOCAL_USER)
    await either.open(f"{house.url}/ui/")
    await either.follow(f"a[href='/ui/servers/{name}']")
    assert "JSONDecodeError" in await either.text("pre.wrote")
    house.script(name, tool("print"))
    await either.follow("form[action$='/refresh'] button")
    assert f"{name} was listed: 1 tool, 1 changed" in await either.text(".notice")
    before = house.gateway.watched_server(name, LOCAL_USER).health.pid
    await either.follow("form[action$='/restart'] button")
    assert "it starts again with its next call" in await either.text(".notice")
    await house.gateway.call(ToolCall(name=f"{name}__print", arguments={}), viewer=LOCAL_USER)
    await either.open(f"{house.url}/ui/servers/{name}")
    assert "running" in await either.text("#server")
    assert house.gateway.watched_server(name, LOCAL_USER).health.pid not in (before, None)
    await either.open(f"{house.url}/ui/")
    await house.gateway.configure(settings, viewer=LOCAL_USER)


async def test_see_what_the_gateway_saves(house: House, either: Person) -> None:
    """One figure on the first page, and where it comes from in the ledger."""
    for _ in range(3):
        house.gateway.count_menu([{"name": "search_tools", "description": "Find tools."}], LOCAL_USER)
    [row, *_] = (await house.gateway.stats(7, viewer=LOCAL_USER)).spending
    saved = f"{row.raw_tokens - row.spent:,}"
    await either.open(f"{house.url}/ui/")
    assert saved in await either.text("#saving")
    assert "below break-even" in await either.text("#saving")
    await either.follow("nav a[href='/ui/ledger']")
    text = await either.text("main")
    assert f"{row.raw_tokens:,}" in text
    assert saved in text


async def test_follow_who_uses_which_server(house: House, me: Person) -> None:
    """The map draws a client when it calls, while the page is open."""
    await me.open(f"{house.url}/ui/servers")
    await me.sees("document.documentElement.dataset.stream === 'open'")
    assert "zed" not in await me.text("#servers")
    grant = Grant(principal="zoe", role="agent")
    viewer = Viewer(grant=grant, client="zed", surface="mcp")
    await house.gateway.call(ToolCall(name="yard__look", arguments={}), viewer=viewer)
    await me.sees("document.querySelector('.map')?.textContent.includes('zed')")
    row = "[...document.querySelectorAll('#servers tr')].find((one) => one.innerText.startsWith('yard'))"
    assert "zed zoe, 1 call" in await me.run(f"{row}.innerText")
    await me.follow(".map a[href='/ui/servers/yard']")
    assert await me.text("h1") == "yard"


async def test_follow_a_live_page_while_a_call_waits(house: House, me: Person) -> None:
    """It appears on the first page and is gone from it, without the page being loaded again."""
    await me.open(f"{house.url}/ui/")
    await me.sees("document.documentElement.dataset.stream === 'open'")
    await me.run("void (globalThis.same = true)")
    async with holding(house, ToolCall(name="mall__buy", arguments={"item": "a lamp"})) as held:
        await me.sees("document.querySelector('#today').innerText.includes('mall__buy')")
        await send(await house.person(), f"/ui/held/{held.id}", decision="once", read=held.id)
        await me.sees("!document.querySelector('#today').innerText.includes('mall__buy')")
        assert json.loads(await held.outcome()) == {"item": "a lamp"}
    assert await me.run("globalThis.same")


async def test_replay_what_an_agent_did_and_save_it_as_one_file(
    house: House, either: Person, tmp_path: Path
) -> None:
    """The file opens without the gateway, and secrets are masked in it."""
    grant = Grant(principal=f"robot-{tmp_path.name}", role="agent")
    viewer = Viewer(grant=grant, client="claude-code", surface="mcp")
    secret = "ghp_" + "a1B2" * 9
    for arguments in ({"q": "lamps"}, {"q": secret}):
        await house.gateway.call(ToolCall(name="desk__look", arguments=arguments), viewer=viewer)
    await house.recorded(2, who=grant.principal)
    await either.open(f"{house.url}/ui/replay")
    await either.follow("tbody a")
    assert f"{grant.principal} with claude-code by mcp" in await either.text(".heading")
    file = await either.save("a[download]", tmp_path)
    assert file.name == "work-session.html"
    assert secret not in file.read_text(encoding="utf-8")
    await either.open(file.as_uri())
    text = await either.text()
    assert text.count("desk__look") == 2
    assert "lamps" in await either.run("document.body.textContent")


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
    assert "Agents get all tools in their list now" in text
    assert "What a search shows" in text
    assert "yard__pay" in text
    assert "tokens" in text


async def test_make_a_token_and_see_the_catalog_as_its_bearer(house: House, either: Person) -> None:
    """It is shown once; afterwards it is nowhere."""
    me = either
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


async def test_enter_with_a_token_over_the_network(house: House, browser: CdpConnection) -> None:
    """Under the gateway's name nobody enters without one; the page asked for is the one that opens."""
    token = (
        await house.gateway.make_token(TokenRequest(name="ann", role="operator", scope=Scope()), LOCAL_USER)
    ).token
    me = await person(browser)
    await me.resize(1_200)
    await me.open(f"http://{NAME}/ui/servers")
    assert await me.run("location.pathname") == "/ui/enter"
    assert "without a token" not in await me.text("main")
    await me.fill(token="maitred_wrong")
    await me.follow("main form button")
    assert "does not open anything" in await me.text("main")
    me.violations.clear()  # the browser logs the status 403
    await me.fill(token=token)
    await me.follow("main form button")
    assert await me.run("location.href") == f"http://{NAME}/ui/servers"
    assert "ann" in await me.text(".person")
    assert token not in await me.run("document.documentElement.outerHTML")
    await me.follow("form[action='/ui/leave'] button")
    assert await me.run("location.pathname") == "/ui/enter"
    await me.open("about:blank")
    insecure = "origin"  # without TLS, a browser says of two headers that it does not take them
    assert [one for one in me.violations if insecure not in one] == []


async def test_leave_so_that_no_other_person_uses_my_session(house: House, either: Person) -> None:
    """Neither a page of this browser, nor what it had as a cookie."""
    await either.open(f"{house.url}/ui/")
    known = await either.send("Network.getCookies", urls=[f"{house.url}/ui/"])
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in known["cookies"])
    assert (await house.stranger().get("/ui/", headers={"cookie": cookies})).status_code == 200
    await either.follow("form[action='/ui/leave'] button")
    assert await either.run("location.pathname") == "/ui/enter"
    await either.open(f"{house.url}/ui/servers")
    assert await either.run("location.pathname") == "/ui/enter"
    assert await either.run("localStorage.length + sessionStorage.length") == 0
    assert await either.run("document.cookie") == ""
    assert (await house.stranger().get("/ui/", headers={"cookie": cookies})).status_code == 303
