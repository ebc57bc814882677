"""What a terminal gets of a command is the same whether a running gateway carries it out or not."""

import os
import pty
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from anyio import to_thread
from tests.daemon.home import Home, at_home
from tests.interaction.harness import cli, faulty

pytestmark = pytest.mark.anyio


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        made.write({"one": faulty("count")})
        yield made


def typed(*words: str) -> bytes:
    """What a command writes to a terminal of 100 columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": "100"})
        os.execv(sys.executable, [sys.executable, "-m", "maitred", *words])  # no shell
    seen = b""
    with suppress(OSError):  # the end of a terminal is an error
        while data := os.read(terminal, 65536):
            seen += data
    os.close(terminal)
    os.waitpid(pid, 0)
    return seen


async def test_a_terminal_gets_the_same_colours_and_escapes_from_a_running_gateway(home: Home) -> None:
    """Bold headings, and control characters of a server as escapes. What shows a wait is taken away again."""
    await to_thread.run_sync(lambda: cli(home.config, "list"))
    config = ("--config", str(home.config))
    commands = [("list", *config), ("call", *config, "one__echo", "text=\x1b[2J\u202e")]
    alone = [await to_thread.run_sync(typed, *words) for words in commands]
    async with home.client() as client:
        await client.echo("one")
        asked = [await to_thread.run_sync(typed, *words) for words in commands]
        said = await to_thread.run_sync(typed, "-v", *commands[0])
    assert asked[0] == alone[0]
    assert asked[1].rpartition(b"\x1b[2K")[2] == alone[1].rpartition(b"\x1b[2K")[2]
    assert b"\x1b[1m" in asked[0]
    assert rb"\x1b[2J\u202e" in asked[1]
    assert b"ran this command" in said
