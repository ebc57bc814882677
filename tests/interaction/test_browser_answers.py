"""Browser servers behind the gateway, two of others and our own: an agent does a task with short answers.

`make servers` installs those with Chromium; without them the tests are skipped. The whole task, and what it
costs without the gateway, is `python -m bench --only browsing`.
"""

from pathlib import Path

import pytest
from tests.interaction.harness import cli, over_stdio, write_settings
from tests.support import shop
from tests.support.web_site import serve_site

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("browsers")]

LONGEST = {"playwright": 800, "chrome-devtools": 800, "maitred-browser": 1_600}
"""Tokens of the longest answer; a snapshot of the shop has up to 8,000. Our own server cuts nothing."""


@pytest.mark.parametrize("name", shop.PEERS_IN_SHOP)
async def test_an_agent_finds_its_way_with_the_answers_of_a_preset(tmp_path: Path, name: str) -> None:
    """Each step with what the answers before it gave: search, sort, open. Source: issue 19, point 5."""
    peer = shop.PEERS_IN_SHOP[name](shop.chromium(), tmp_path)
    if not (shop.chromium() and peer.is_installed):
        pytest.skip("Chromium and its servers are not installed: `make servers`")
    config = write_settings(tmp_path, {"shop": peer.server}, disclosure={"mode": "menu"})
    cli(config, "list")
    with serve_site("shop") as site:
        async with over_stdio(config, "legacy") as client:
            spent = await shop.ShopAgent(client, peer, site.origin, prefix="shop__").run(shop.STEPS[:6])

    assert (spent.steps, spent.lost) == (6, "")
    assert spent.largest < LONGEST[name]
    assert spent.by_step[5] < spent.by_step[0] / 2  # a look at the same page: only what changed
