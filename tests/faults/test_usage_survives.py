"""Usage outlives the gateway that counted it, however that ended."""

import sys
import time
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.catalog.makers import open_store

from maitred.storage.sqlite import SqliteDatabase
from maitred.usage.recorder import UsageRecorder

pytestmark = pytest.mark.anyio

LOST_S = 1.0
RUN_S = 2.5
COUNTING = """
import sys, time
from pathlib import Path

import anyio

from maitred.usage.recorder import UsageRecorder
from maitred.storage.sqlite import SqliteDatabase
from maitred.model.tools import ToolKey

KEY = ToolKey(server="s", name="t")

async def main():
    async with UsageRecorder(SqliteDatabase(Path(sys.argv[1]))) as recorder:
        count = 0
        while True:
            recorder.called(KEY, ok=True, elapsed_ms=1)
            recorder.spent("p", list_tokens=2)
            count += 1
            print(count, time.monotonic(), flush=True)
            await anyio.sleep(0.001)  # a thousand calls a second at most

anyio.run(main)
"""


async def test_a_gateway_that_is_killed_has_lost_at_most_the_last_second(tmp_path: Path) -> None:
    """Calls and tokens are written as they come, not at the end. Source: issue "Menu", usage."""
    path = tmp_path / "c.db"
    async with open_store(path):
        pass
    made: list[tuple[int, float]] = []
    command = [sys.executable, "-c", COUNTING, str(path)]
    with anyio.fail_after(120):
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            lines = BufferedByteReceiveStream(process.stdout)
            while not made or made[-1][1] - made[0][1] < RUN_S:
                count, at = (await lines.receive_until(b"\n", 100)).split()
                made.append((int(count), float(at)))
            process.kill()
            killed_at = time.monotonic()
            await process.wait()

    due = max(count for count, at in made if at <= killed_at - LOST_S)
    after = UsageRecorder(SqliteDatabase(path))
    kept = sum(usage.calls for usage in (await after.usage(2)).values())
    assert due > 0
    assert kept >= due
    assert sum(day.list_tokens for day in await after.spending(2)) == 2 * kept
