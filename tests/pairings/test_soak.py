"""Clients of both eras beside each other: servers ask, are killed, and calls are cancelled; see `soak.py`."""

from pathlib import Path

import pytest
from tests.pairings.soak import soak

pytestmark = pytest.mark.anyio

SECONDS = 12.0


async def test_nothing_is_mixed_up_done_twice_or_lost_while_servers_ask_and_are_killed(
    tmp_path: Path,
) -> None:
    """Source: issue "Nothing a server can do is lost behind maitred"."""
    found = await soak(tmp_path, seconds=SECONDS, clients=6, pause_s=0.2, kill_every_s=5)
    assert not any(found[name] for name in ("wrong", "twice", "lost", "left")), found
    assert found["steps"]["ask"] > 5, found
    assert found["kills"], found
