"""*Access*: a token is made with a profile, and the list and the bearer's view have it."""

from pathlib import Path

import anyio
import pytest
from tests.surfaces.web.rig import SOON_S, House, opened, send, tool

from maitred.access.tokens import TokenRequest
from maitred.model.access import LOCAL_USER, Scope
from maitred.model.profiles import Profile

pytestmark = pytest.mark.anyio

PROFILES = {"looking": Profile(tools=("shop/look",)), "other": Profile()}


async def test_a_token_is_made_with_a_profile(tmp_path: Path) -> None:
    """Its bearer finds the tools of the profile alone. Source: docs/profiles.md."""
    async with opened(tmp_path, {"shop": [tool("look"), tool("buy")]}, profiles=PROFILES) as house:
        client = await house.person()
        form = (await client.get("/ui/access")).text
        made = await send(
            client, "/ui/access/create", name="ann", role="agent", expires="", profile="looking"
        )
        listed = (await client.get("/ui/access")).text
        wrong = await send(
            client, "/ui/access/create", name="bo", role="agent", expires="", profile="nothing"
        )
        records = await house.gateway.access_tokens(LOCAL_USER)

    assert "<option>looking</option>" in form
    assert made.status_code in (200, 303)
    assert "profile looking" in listed
    assert [(one.grant.principal, one.grant.scope.profiles) for one in records] == [("ann", ("looking",))]
    assert "there is no profile" in wrong.text


async def test_an_admin_suspends_and_resumes_a_principal(tmp_path: Path) -> None:
    """The page says who is suspended; the person's pages and their stream end."""
    async with opened(tmp_path, {"shop": [tool("look")]}) as house:
        await suspend_and_resume(house)


async def suspend_and_resume(house: House) -> None:
    token = await house.gateway.make_token(
        TokenRequest(name="mallory", role="viewer", scope=Scope()), LOCAL_USER
    )
    admin, mallory = await house.person(), house.stranger()
    await mallory.post("/ui/enter", data={"token": token.token}, headers={"origin": house.url})
    async with mallory.stream("GET", "/ui/events") as stream:
        assert stream.status_code == 200
        page = await send(admin, "/ui/access/suspend", principal="mallory", why="its token leaked")
        with anyio.fail_after(SOON_S):
            async for _ in stream.aiter_bytes():
                pass
    assert "mallory is suspended" in page.text
    assert "its token leaked" in page.text
    assert (await mallory.get("/ui/tools")).status_code == 303
    page = await send(admin, "/ui/access/resume", principal="mallory")
    assert "mallory is resumed" in page.text
