"""*Access*: a token is made with a profile, and the list and the bearer's view have it."""

from pathlib import Path

import pytest
from tests.surfaces.web.rig import opened, send, tool

from maitred.model.access import LOCAL_USER
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
