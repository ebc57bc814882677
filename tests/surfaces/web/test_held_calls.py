"""A call that waits for a person, decided on a page: by keyboard, and without JavaScript."""

from collections.abc import AsyncIterator

import pytest
from tests.surfaces.web.held import HOLDS_BUYING, holding
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.rig import House, opened, send, tool

from maitred.model.access import LOCAL_GRANT, Grant, Viewer
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio
APPROVE = "document.querySelector('[data-approve]')?.getAttribute('aria-disabled')"
LONG = "\n".join(f"Line {number} of a long order" for number in range(120))


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    servers = {"shop": [tool("buy", item={"type": "string"})]}
    async with opened(tmp_path_factory.mktemp("held"), servers, held_calls=HOLDS_BUYING) as made:
        yield made


def order(item: str) -> ToolCall:
    return ToolCall(name="shop__buy", arguments={"item": item})


async def test_stop_a_call_that_would_delete_a_table(house: House) -> None:
    """It appears while the inbox is open; its arguments show what does not show elsewhere."""
    async with chromium() as connection:
        me = await person(connection)
        await me.open(house.url + house.web.entry_path(LOCAL_GRANT))
        await me.open(f"{house.url}/ui/approvals")
        async with holding(house, order("a house; drop\u202e table")) as held:
            await me.sees("document.querySelector('#waiting h2 a')?.innerText === 'shop__buy'")
            await me.press("j")
            await me.press("Enter")
            await me.sees("document.querySelector('h1')?.innerText === 'shop__buy'")
            assert "\\u202e" in await me.run("document.querySelector('.wrote').innerText")
            assert "It costs" in await me.run("document.querySelector('main').innerText")
            await me.press("r")
            assert "a person refused it" in await held.outcome()
            await me.sees("document.body.innerText.includes('Nothing waits for you')")
        assert me.violations == []


async def test_approve_a_call_once_all_of_it_was_on_screen(house: House) -> None:
    """The key does nothing as long as the end of the arguments was not."""
    async with chromium() as connection:
        me = await person(connection)
        await me.open(house.url + house.web.entry_path(LOCAL_GRANT))
        async with holding(house, order(LONG)) as held:
            await me.open(f"{house.url}/ui/held/{held.id}")
            await me.sees(f"{APPROVE} === 'true'")
            await me.press("a")
            assert not held.ended.is_set()
            await me.run("void document.querySelector('.part').scrollIntoView()")  # and look at its beginning
            await me.run("new Promise(r => setTimeout(r, 350))")
            await me.run("document.querySelector('.read').scrollIntoView({block: 'center'})")
            await me.sees(f"{APPROVE} === 'false'")
            await me.press("a")
            assert "a person refused" not in await held.outcome()
        assert me.violations == []


async def test_a_call_is_decided_without_javascript_and_only_what_was_read(house: House) -> None:
    """Each button is a form; one without the mark of the arguments approves nothing."""
    client = await house.person()
    async with holding(house, order("a chair")) as held:
        page = (await client.get(f"/ui/held/{held.id}")).text
        assert "An approval is for this call as it is" in page
        unread = await send(client, f"/ui/held/{held.id}", decision="once")
        assert "its arguments were not on screen yet" in unread.text
        odd = await send(client, f"/ui/held/{held.id}", decision="always", read=held.id)
        assert "There is no such decision." in odd.text
        assert not held.ended.is_set()
        done = await send(client, f"/ui/held/{held.id}", decision="once", read=held.id)
        assert "The call of shop__buy is approved once." in done.text
        assert "was not approved" not in await held.outcome()
        again = await send(client, f"/ui/held/{held.id}", decision="refuse")
        assert "does not wait any more" in again.text


async def test_who_may_not_decide_is_shown_no_call(house: House) -> None:
    viewer = await house.person(Grant(principal="vera", role="viewer"))
    async with holding(house, order("a lamp")) as held:
        assert held.id not in (await viewer.get("/ui/")).text
        assert (await viewer.get(f"/ui/held/{held.id}")).status_code == 403
        refused = await send(viewer, f"/ui/held/{held.id}", decision="once", read=held.id)
        assert "is approved" not in refused.text
        assert not held.ended.is_set()


async def test_who_calls_is_offered_no_approval_of_its_own_call(house: House) -> None:
    grant = Grant(principal="eve", role="admin")
    eve, other = await house.person(grant), await house.person()
    async with holding(house, order("a bed"), Viewer(grant=grant, surface="http")) as held:
        page = (await eve.get(f"/ui/held/{held.id}")).text
        assert "This is a call of your own" in page
        assert [word in page for word in ("data-approve", "data-refuse")] == [False, True]
        assert "data-approve" in (await other.get(f"/ui/held/{held.id}")).text
        await send(eve, f"/ui/held/{held.id}", decision="refuse")
        assert "a person refused it" in await held.outcome()


async def test_the_form_of_a_call_says_that_it_may_wait_for_a_person(house: House) -> None:
    answer = await (await house.person()).get("/ui/call/shop/buy")
    assert f"waits for a person, at most {HOLDS_BUYING.wait_s:g} seconds" in answer.text
