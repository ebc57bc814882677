"""`maitred browser serve` as any MCP client uses it; the sessions are in `test_debugging_session.py`."""

import signal
import subprocess
import sys
from functools import partial

import anyio
import psutil
import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.backends.rig import eventually, is_gone
from tests.support.chromium import OPTIONS, SOON_S, chromium
from tests.support.sdk_clients import own_client

pytestmark = pytest.mark.anyio

ROOT = [] if OPTIONS.sandbox else ["--no-sandbox"]
ARGS = ["-m", "maitred", "browser", "serve", *ROOT]


async def test_with_visibility_all_nothing_is_announced(shop: str) -> None:
    """For clients that ignore notices; a call that makes no sense is refused all the same."""
    chromium()
    parameters = StdioServerParameters(command=sys.executable, args=[*ARGS, "--visibility", "all"])
    async with own_client(stdio_client(parameters), "handshake") as one:
        assert len(await one.listed()) == 23
        assert "it needs a connection" in await one.call("chrome_disconnect", connection_id="x")
        await one.call("chrome_launch", headless=True)
        assert len(await one.listed()) == 23
        assert one.told == 0


def test_a_program_that_is_told_to_end_takes_its_browsers_along() -> None:
    """SIGTERM, as clients send it: the browsers end, and the fresh profile goes."""
    chromium()
    program = subprocess.Popen(
        [sys.executable, *ARGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin is not None
    assert program.stdout is not None
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chrome_launch",'
        '"arguments":{"headless":true}}}\n'
    )
    program.stdin.write(hello)
    program.stdin.flush()
    while '"id":2' not in program.stdout.readline():
        pass
    tree = psutil.Process(program.pid).children(recursive=True)
    assert len(tree) > 1
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == -signal.SIGTERM
    program.stdin.close()
    program.stdout.close()
    anyio.run(partial(eventually, lambda: all(is_gone(one.pid) for one in tree), within_s=SOON_S))


def test_unknown_choices_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "maitred", "browser", "serve", "--profile", "../x"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert "profile: must be a name" in done.stderr
