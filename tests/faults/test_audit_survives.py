"""The audit trail outlives gateways that are killed: what a server was asked to do is in it."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.catalog.databases import execute
from tests.faults import recorder

from maitred.audit.log import AuditLog
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

KILLS = 10
SEED = 7


async def test_a_gateway_that_is_killed_has_done_nothing_that_is_not_written_down(tmp_path: Path) -> None:
    """Each call that the server saw has begun in the trail, each answered one has ended, none twice."""
    command = [sys.executable, recorder.__file__, str(tmp_path), str(SEED), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr
    seen, answered = ((tmp_path / name).read_text().split() for name in ("seen", "answered"))
    rows = execute(tmp_path / "c.db", "SELECT body FROM audit ORDER BY seq")
    lines = {line["seq"]: line for line in (json.loads(body) for (body,) in rows) if line["action"] == "call"}
    begun = {seq: line["arguments"]["n"] for seq, line in lines.items() if line["outcome"] == "begun"}
    ended = [line["begun"] for line in lines.values() if line["outcome"] == "ok"]

    assert len({name.split("-")[0] for name in seen}) == KILLS + 1
    assert max(Counter(seen).values()) == max(Counter(begun.values()).values()) == 1
    assert set(seen) <= set(begun.values())
    assert max(Counter(ended).values()) == 1
    assert set(answered) <= {begun[seq] for seq in ended} <= set(seen)
    assert (await AuditLog(SqliteDatabase(tmp_path / "c.db")).verify()).faults == ()
