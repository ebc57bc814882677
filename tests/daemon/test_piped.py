"""What a person pipes into `maitred serve` is answered before it ends."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from tests.daemon.gateways import LEGACY, Json, call, request
from tests.daemon.home import Home, at_home
from tests.interaction.harness import cli, faulty

pytestmark = pytest.mark.anyio

SHAKE: Sequence[Json] = [request(1, "initialize", **LEGACY), {"method": "notifications/initialized"}]


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        made.write({"one": faulty("count")})
        yield made


async def piped(home: Home, messages: Sequence[Json], *options: str) -> list[Any]:
    """What `serve` wrote until it ended, for lines that all came at once."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = await to_thread.run_sync(lambda: cli(home.config, "serve", *options, stdin=lines))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("options", [[], ["--no-daemon"]], ids=["shared", "alone"])
async def test_what_is_piped_into_serve_is_answered_before_it_ends(home: Home, options: list[str]) -> None:
    """A first message alone, and a list and a call right behind the handshake."""
    [only] = await piped(home, SHAKE[:1], *options)
    assert only["result"]["serverInfo"]["name"] == "maitred"
    asked = [*SHAKE, request(2, "tools/list"), call(3, "one__echo", text="hello")]
    answers = {one["id"]: one["result"] for one in await piped(home, asked, *options) if "id" in one}
    assert "one__echo" in {tool["name"] for tool in answers[2]["tools"]}
    assert answers[3]["content"][0]["text"] == "hello"
    assert set(answers) == {1, 2, 3}
