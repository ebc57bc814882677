"""Four clients in one browser, and browsers that are killed during their calls; see `soak.py`."""

from pathlib import Path

import pytest
from tests.browser.soak import soak

pytestmark = pytest.mark.anyio


async def test_four_clients_in_one_browser_do_not_mix_up_and_a_killed_browser_leaves_nothing(
    tmp_path: Path,
) -> None:
    """A short one; the whole is `python -m tests.browser.soak`. Source: issue 19, "Done when"."""
    found = await soak(tmp_path, steps=40, kills=2)
    assert {name: found[name] for name in ("wrong", "hung", "left") if found[name]} == {}
    assert found["steps"] >= 40
    assert found["kills"] == 2
    assert found["calls that a kill ended"], found
