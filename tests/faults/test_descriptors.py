"""Too few file descriptors: whatever fails for want of them says so, with the limit and how to raise it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.disk_rig import diary

from maitred.errors import open_files_reason

LIMIT = 64
PROGRAM = f"""
import json, os, resource, sys
from pathlib import Path
import anyio
from maitred.config.load import load
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

def use_up():
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return held

async def main():
    async with open_gateway(load(Path(sys.argv[1])), discovers=False) as gateway:
        await gateway.sync(["never"], viewer=LOCAL_USER)
        held = use_up()
        [report] = await gateway.sync([sys.argv[2]], viewer=LOCAL_USER)
        for number in held:
            os.close(number)
        [again] = await gateway.sync([sys.argv[2]], viewer=LOCAL_USER)
        print(json.dumps({{"error": report.error, "again": [again.error]}}))

resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
anyio.run(main)
"""


def _stdio(folder: Path) -> dict[str, object]:
    return diary(folder)


def _http(_: Path) -> dict[str, object]:
    return {"url": "http://127.0.0.1:9/mcp", "era": "handshake"}


@pytest.mark.parametrize("make", [_stdio, _http])
def test_a_server_that_cannot_be_started_for_want_of_descriptors_is_told_as_such(
    tmp_path: Path, make: Callable[[Path], dict[str, object]]
) -> None:
    """Neither its program nor its address is at fault; with some to spare it is tried again as ever."""
    config = tmp_path / "maitred.yaml"
    servers = {"s": make(tmp_path), "never": {"command": "no-such-program"}}
    config.write_text(json.dumps({"servers": servers, "catalog": {"path": "catalog.db"}}), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(config), "s"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    [said] = [line for line in done.stdout.splitlines() if line.startswith("{")]  # among what was logged
    told = json.loads(said)
    assert f"may have no more than {LIMIT} open files; `ulimit -n` raises that" in told["error"]
    assert "open files" not in told["again"][0]


def test_the_want_of_descriptors_is_found_below_whatever_was_made_of_it() -> None:
    """Libraries say that all attempts failed, and put what happened below that."""
    below = ExceptionGroup("all", [ValueError(), OSError(24, "Too many open files")])
    error = ConnectionError("all connection attempts failed")
    error.__cause__ = below

    assert "open files" in open_files_reason(error)
    assert open_files_reason(OSError(2, "No such file")) == ""
