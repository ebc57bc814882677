"""A person at a real Chromium changes a setting, and copies the entry of a client; without scripts, too."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.surfaces.web.person import Person, chromium, person
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_screens import _AXE, _RUN, PICTURES
from tests.surfaces.web.test_settings import configuration

from maitred.browser.cdp import CdpConnection
from maitred.model.access import LOCAL_GRANT

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("settings")
    configuration(folder)
    async with opened(folder, {"shop": [tool("buy", "Buys an item.")]}) as made:
        yield made


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[CdpConnection]:
    async with chromium() as connection:
        yield connection


@pytest.fixture(params=[True, False], ids=["javascript", "none"])
def scripts(request: pytest.FixtureRequest) -> bool:
    """Whether the browser runs scripts."""
    return bool(request.param)


@pytest.fixture
async def me(house: House, browser: CdpConnection, scripts: bool) -> AsyncIterator[Person]:
    made = await person(browser)
    await made.resize(360)
    await made.open(house.url + house.web.entry_path(LOCAL_GRANT))
    await made.with_javascript(on=scripts)
    yield made
    assert made.violations == []


async def type_in(me: Person, text: str) -> None:
    await me.run(f"void (document.querySelector('#f-text').value = {json.dumps(text)})")


async def is_whole_and_accessible(me: Person, picture: str) -> None:
    """Nothing is cut off at 360 pixels, and axe finds nothing serious in either theme."""
    for dark in (False, True):
        await me.resize(360, dark=dark)
        over = await me.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0
        await me.run(_AXE)
        found = await me.run(_RUN)
        assert [one for one in found if one["impact"] in ("serious", "critical")] == [], json.dumps(found)
        if PICTURES:
            await me.picture(Path(PICTURES, f"{picture}-{'dark' if dark else 'light'}.png"))


async def test_change_a_limit(house: House, me: Person, scripts: bool) -> None:
    """A fault first, then the difference, then it counts. Each state can be read by all."""
    wanted = house.gateway.settings.limits.call_timeout_s + 1
    await me.open(f"{house.url}/ui/settings")
    await me.follow('a[href="/ui/settings/limits"]')
    await type_in(me, "# hurry\nlimits:\n  call_timeout_s: soon\n")
    await me.follow("main form button.main")
    assert "limits.call_timeout_s: must be a number" in await me.text("#difference")
    if scripts:
        await is_whole_and_accessible(me, "settings-fault")
    await type_in(me, f"# hurry\nlimits:\n  call_timeout_s: {wanted:.0f}   # {'x' * 200}\n")
    await me.follow('form[action$="/compare"] button')
    assert f"+   call_timeout_s: {wanted:.0f}" in await me.text("#difference")
    if scripts:
        await is_whole_and_accessible(me, "settings-difference")
    assert house.gateway.settings.limits.call_timeout_s != wanted
    await me.follow('form[action$="/apply"] button')
    assert "The gateway uses the new limits now." in await me.text("main .notice")
    assert house.gateway.settings.limits.call_timeout_s == wanted


async def test_a_click_selects_the_whole_entry_of_a_client(house: House, me: Person) -> None:
    """So that a person copies all of it, and nothing else, without a script."""
    await me.open(f"{house.url}/ui/clients")
    at = await me.run(
        "(() => { const one = document.querySelector('.paste'); one.scrollIntoView({block: 'center'});"
        " const box = one.getBoundingClientRect(); return [box.x + 30, box.y + 20]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        await me.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)
    await me.sees("getSelection().toString().length > 20")
    selected = await me.run("getSelection().toString().trim()")
    assert selected == (await me.text(".paste")).strip()
    assert str(house.folder / "maitred.yaml") in selected
