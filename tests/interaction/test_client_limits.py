"""A client is known by what it calls itself, over each transport, in both eras. Source: docs/connect.md."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mcp_types as types
import pytest
from tests.interaction.harness import Front, call, listed, text_of, write_settings
from tests.interaction.requirements import requirement
from tests.support import wordy_server
from tests.support.sdk_clients import Sdk, each_sdk, sdk_client

from maitred.surfaces.daemon.control import stop_gateways

pytestmark = pytest.mark.anyio
WORDY = {"command": sys.executable, "args": ["-I", "-S", wordy_server.__file__, "3"]}
LONG = {"characters": 400_000}
CODEX = "codex-mcp-client"
MOST_NAME, MOST_CHARACTERS = 50, 10_000 * 6


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    """One server with long names and long answers, all of whose tools are listed."""
    return lambda folder: write_settings(folder, {"w": WORDY}, disclosure={"mode": "all"})


@pytest.fixture(scope="module")
def shared(config: Path) -> Iterator[list[str]]:
    """The command by which clients share one gateway."""
    yield [sys.executable, "-m", "maitred", "serve", "--config", str(config)]
    stop_gateways(config, "", all_of_them=False)


@requirement("clients:limits")
async def test_a_known_client_gets_what_it_can_take(front: Front) -> None:
    """Codex: names of at most 64 with its prefix, answers of at most 10,000 tokens; others neither."""
    known = types.Implementation(name="Codex_MCP Client", version="1")
    async with front.connect(client_info=known) as client:
        names = [tool.name for tool in await listed(client)]
        short = text_of(await call(client, "w__page", LONG))
        called = text_of(await client.call_tool(next(name for name in names if "list" in name), {}))
    async with front.connect() as other:
        longest = max(len(tool.name) for tool in await listed(other))
        whole = text_of(await other.call_tool("w__page", LONG))
    assert max(map(len, names)) == MOST_NAME
    assert longest == 64
    assert called.startswith("list_everything")
    assert len(short) < MOST_CHARACTERS
    assert len(whole) == LONG["characters"]


@each_sdk
@requirement("clients:shared")
async def test_clients_of_a_shared_gateway_are_known_each_by_its_own_name(
    sdk: Sdk, shared: list[str]
) -> None:
    """Every SDK says who it is in its own way."""
    async with sdk_client(sdk, {"command": shared, "client": CODEX}) as client:
        names = [str(one["name"]) for one in await client.definitions()]
        answer = await client.result("w__page", LONG)
    async with sdk_client(sdk, {"command": shared}) as other:
        others = [str(one["name"]) for one in await other.definitions()]
    assert max(map(len, names)) == MOST_NAME
    assert max(map(len, others)) == 64
    assert len(json.dumps(answer)) < MOST_CHARACTERS
