"""The page of the allow list: what is refused stays in the form, so that a person types it once."""

import html
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.surfaces.web.rig import House, form_token, opened, send, tool
from tests.surfaces.web.test_tools import page, words_of

from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, {"shop": [tool("look", "Look at a thing.")]}) as made:
        yield made


async def test_a_refused_pattern_stays_in_the_form_with_its_reason(house: House) -> None:
    await house.gateway.add_allow_pattern("trusted_hosts", "api.example.com", viewer=LOCAL_USER)
    person = await house.person()
    typed = {"kind": "trusted_hosts", "pattern": "api.example.com", "why": 'the "new" one'}
    token = await form_token(person, "/ui/access/allow")
    refused = await send(person, "/ui/access/allow/add", form_token=token, **typed)

    assert "is in the list already" in words_of(refused.text)
    form = html.unescape(refused.text[refused.text.index('id="add-title"') :])
    assert '<option value="trusted_hosts" selected>' in form
    assert 'value="api.example.com"' in form
    assert 'value="the "new" one"' in form

    other = await send(
        person, "/ui/access/allow/add", form_token=token, **{**typed, "pattern": "api2.example.com"}
    )
    assert "api2.example.com is in trusted_hosts now" in words_of(other.text)
    assert 'value="api2.example.com"' not in (await page(person, "/ui/access/allow"))[-3000:]
