"""The official conformance suite, run against three gateways on one PostgreSQL, which a proxy takes in turns.

The chain is suite -> `proxy.py` (names only) -> round robin -> three times `maitred serve` over HTTP. One of
them runs `everything_server.py` over stdio, and the others forward to it.
"""

import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests.conformance.test_conformance import (
    LATE,
    REVISIONS,
    SERVER,
    START_S,
    SUITE_S,
    TRIES,
    expected_failures,
    free_port,
    judge,
    lists_tools,
    proxy,
    run_suite,
    running,
    suite_path,
    write_config,
)
from tests.support.postgres import Postgres
from tests.support.round_robin import round_robin

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@asynccontextmanager
async def three(folder: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The root of the proxy, once each gateway lists the tools."""
    monkeypatch.setenv("MAITRED_KEY", KEY)
    config = write_config(folder)
    settings = json.loads(config.read_text("utf-8")) | {"catalog": {"url": postgres.new_database()}}
    config.write_text(json.dumps(settings), encoding="utf-8")
    async with AsyncExitStack() as stack:
        roots = []
        for number in range(3):
            port = free_port()
            options = ["--config", str(config), "--transport", "http", "--port", str(port)]
            command = [sys.executable, "-m", "maitred", "serve", *options]
            await stack.enter_async_context(running(command, port, folder / f"gateway{number}.log"))
            roots.append(f"http://127.0.0.1:{port}")
            with anyio.fail_after(START_S):
                async with Client(f"{roots[-1]}/mcp") as client:
                    while not await lists_tools(client):  # noqa: ASYNC110 - another process has no event for us
                        await anyio.sleep(0.1)
                    await client.call_tool(
                        f"{SERVER}__test_simple_text", {}
                    )  # the suite allows half a second
        yield (await stack.enter_async_context(round_robin(roots))).url


@pytest.mark.real
@pytest.mark.timeout(3 * START_S + TRIES * SUITE_S + 60)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_three_gateways_conform_as_one_does(
    revision: str, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scenario that one gateway passes. Source: issue 23."""
    suite, node = suite_path(), shutil.which("node")
    if node is None or not suite.exists():
        pytest.skip("node, or the conformance suite, is not installed")
    async with three(tmp_path, postgres, monkeypatch) as upstream, proxy(upstream, tmp_path) as url:
        for number in range(TRIES):
            results = await run_suite([node, str(suite)], url, revision, tmp_path / str(number))
            verdict = judge(results, expected_failures()[revision])
            if not any(LATE in one for one in verdict.unexpected):
                break
    sys.stdout.write(f"\nthree gateways, {verdict.summary(revision)}\n")
    assert not verdict.unexpected, "\n".join(verdict.unexpected)
