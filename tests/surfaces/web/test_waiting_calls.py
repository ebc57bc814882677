"""Calls from a page that are not answered at once: they wait for a person, or their tool takes long."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.surfaces.web.held import HOLDS_BUYING
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.rig import SOON_S, House, form_token, opened, send, tool

from maitred.model.access import LOCAL, LOCAL_GRANT, LOCAL_USER, Grant

pytestmark = pytest.mark.anyio

_SHOP = [tool("buy", item={"type": "string"}), tool("wait", file={"type": "string"}), tool("look")]
_HELD = re.compile(r'/ui/held/([0-9a-f]+)"')


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("waiting")
    async with opened(folder, {"shop": _SHOP}, held_calls=HOLDS_BUYING) as made:
        yield made


def words_of(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def call(client: httpx2.AsyncClient, name: str, **arguments: str) -> httpx2.Response:
    typed = {f"arg:{key}": value for key, value in arguments.items()}
    return await send(
        client, f"/ui/call/shop/{name}", form_token=await form_token(client, "/ui/call"), **typed
    )


async def look_again(client: httpx2.AsyncClient, page: httpx2.Response) -> str:
    return words_of((await client.get(str(page.url.copy_with(fragment=None)))).text)


async def made(house: House, who: str) -> list[str]:
    """The outcomes of the calls that a principal made."""
    found = await house.gateway.audit_lines(LOCAL_USER, who=who, limit=50)
    return [
        line["outcome"] for line in found.lines if line["action"] == "call" and line["outcome"] != "begun"
    ]


async def shows(client: httpx2.AsyncClient, page: httpx2.Response, text: str) -> str:
    """Wait until the page of a call has a text; returns all of it."""
    with anyio.fail_after(SOON_S):
        while True:
            read = await look_again(client, page)
            if text in read:
                return read
            await anyio.sleep(0.05)


async def test_a_call_that_waits_says_so_at_once_and_is_answered_at_the_same_address(house: House) -> None:
    """For whom, until when, and where to decide; the person may decide, and the call is made once."""
    client = await house.person()
    page = await call(client, "buy", item="a lamp")
    read = words_of(page.text)
    assert "waits for a person since 20" in read
    assert "It costs" in read
    assert "It is refused if no person decides by then." in read
    assert "You may decide: approve or refuse it" in read
    [held_id] = _HELD.findall(page.text)
    assert "waits for a person" in await look_again(client, page)
    await send(client, f"/ui/held/{held_id}", decision="once", read=held_id)
    read = await shows(client, page, "Answer ok")
    assert '{"item": "a lamp"}' in read
    assert "waits for a person since" not in read


async def test_who_may_not_decide_reads_who_may_and_gets_the_answer(house: House) -> None:
    """No other person sees it, not even the one who approved the call."""
    agent = await house.person(Grant(principal="ann", role="agent"))
    admin = await house.person()
    page = await call(agent, "buy", item="a chair")
    read = words_of(page.text)
    assert "It waits for an admin" in read
    assert _HELD.findall(page.text) == []
    [held] = [one for one in await house.gateway.held_calls(LOCAL_USER) if one.binding.principal == "ann"]
    assert f"maitred calls show {held.id}" in read
    await send(admin, f"/ui/held/{held.id}", decision="once", read=held.id)
    assert '{"item": "a chair"}' in await shows(agent, page, "Answer ok")
    assert "is not kept any more" in await look_again(admin, page)
    await house.recorded(1, who="ann", outcome="ok")
    assert await made(house, "ann") == ["ok"]


async def test_who_calls_may_refuse_its_own_call(house: House) -> None:
    eve = await house.person(Grant(principal="eve", role="admin"))
    page = await call(eve, "buy", item="a bed")
    assert "It waits for another admin" in words_of(page.text)
    [held_id] = _HELD.findall(page.text)
    await send(eve, f"/ui/held/{held_id}", decision="refuse")
    assert "a person refused it" in await shows(eve, page, "There is no answer")


async def test_a_call_that_takes_long_says_since_when_it_runs(house: House, tmp_path: Path) -> None:
    """Six later answers do not push it out, and the list of the last calls leads back to it."""
    client, file = await house.person(), tmp_path / "now"
    page = await call(client, "wait", file=str(file))
    assert "running since 20" in words_of(page.text)
    for _ in range(6):
        assert "Nothing is called yet" not in words_of((await call(client, "fail_not")).text)
    choice = (await client.get("/ui/call")).text
    assert "running" in words_of(choice)
    assert str(page.url.query.decode()) in html.unescape(choice)
    file.touch()
    assert str(file) in await shows(client, page, "Answer ok")


async def test_so_many_calls_wait_and_no_more(house: House) -> None:
    """So no person fills the memory of the gateway; what is refused says so and calls nothing."""
    client = await house.person(Grant(principal="max", role="agent"))
    for number in range(20):
        assert "waits for a person" in words_of((await call(client, "buy", item=f"chair {number}")).text)
    client = await house.person(Grant(principal="max", role="agent"))  # another session of the same person
    refused = words_of((await call(client, "look")).text)
    assert "20 calls from these pages wait or run already" in refused
    waiting = await house.gateway.held_calls(LOCAL_USER)
    assert len([one for one in waiting if one.binding.principal == "max"]) == 20


async def test_the_page_of_a_call_follows_it(house: House) -> None:
    """The answer comes without the page being loaded again; a page that is loaded again calls nothing."""
    async with chromium() as connection:
        me = await person(connection)
        await me.open(house.url + house.web.entry_path(LOCAL_GRANT))
        await me.open(f"{house.url}/ui/call/shop/buy")
        await me.fill(**{"arg:item": "a house"})
        await me.follow("main form button.main")
        await me.sees("document.querySelector('#outcome').innerText.includes('waits for a person')")
        await me.open(str(await me.run("location.href.replace('#outcome', '')")))
        await me.sees("document.documentElement.dataset.stream === 'open'")
        await me.run("void (globalThis.same = true)")
        held_id = str(await me.run("document.querySelector('#outcome a').href")).rpartition("/")[2]
        await send(await house.person(), f"/ui/held/{held_id}", decision="once", read=held_id)
        await me.sees("document.querySelector('#outcome').innerText.includes('a house')")
        assert await me.run("globalThis.same")
        assert me.violations == []
        waiting = await house.gateway.held_calls(LOCAL_USER)
        assert not [one for one in waiting if "a house" in one.arguments]


async def test_a_gateway_that_ends_meanwhile_makes_no_call(tmp_path: Path) -> None:
    """Who opens the address later enters again, and reads that nothing is kept; nothing is called twice."""
    async with opened(tmp_path, {"shop": _SHOP}, held_calls=HOLDS_BUYING) as before:
        client = await before.person()
        page = await call(client, "buy", item="a boat")
        assert "waits for a person" in words_of(page.text)
    async with opened(tmp_path, {"shop": _SHOP}, held_calls=HOLDS_BUYING) as after:
        client = await after.person()
        address = f"{page.url.path}?{page.url.query.decode()}"
        assert "is not kept any more" in words_of((await client.get(address)).text)
        assert await after.gateway.held_calls(LOCAL_USER) == []
        assert "ok" not in await made(after, LOCAL)
