"""`servers: {chrome: {transport: browser}}`: the browser server behind the gateway, for both eras."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest
from tests.support.chromium import OPTIONS, SOON_S, Running, chromium
from tests.support.sdk_clients import own_client

from maitred.config.load import parse
from maitred.config.settings import Catalog, Disclosure, Settings, VisibilitySettings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio


def settings_of(folder: Path, *, debounce_ms: int = 50) -> Settings:
    text = (
        f"servers: {{chrome: {{transport: browser, browser: {{sandbox: {str(OPTIONS.sandbox).lower()}}}}}}}"
    )
    return replace(
        parse(folder / "maitred.yaml", text),
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="all"),
        visibility=VisibilitySettings(debounce_ms=debounce_ms),
    )


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Gateway, McpSurface]]:
    chromium()
    with anyio.fail_after(4 * SOON_S):
        async with open_gateway(settings_of(folder)) as gateway, anyio.create_task_group() as tasks:
            assert await gateway.settled(SOON_S)
            surface = McpSurface(gateway)
            tasks.start_soon(surface.announce)
            yield gateway, surface
            tasks.cancel_scope.cancel()


async def test_two_clients_have_connections_of_their_own_and_share_a_browser(
    tmp_path: Path, running: Running, shop: str
) -> None:
    """The list of one does not follow the state of the other, nor does a tab serve both."""
    async with (
        serving(tmp_path) as (_, surface),
        own_client(surface.server, "handshake", "chrome__") as ann,
        own_client(surface.server, "handshake", "chrome__") as bob,
    ):
        before = await bob.listed()
        await ann.listed()
        await ann.call("chrome_connect", port=running.port)
        await ann.call("navigate", url=f"{shop}/index.html")
        await ann.until(lambda: ann.told > 0)
        assert len(await ann.listed()) == 12
        assert await bob.listed() == before
        assert bob.told == 0
        assert "There is no connection." in await bob.call("chrome_list_connections")
        await bob.call("chrome_connect", port=running.port)
        assert "belongs to client" in await bob.call("switch_target", title="Shop")


async def test_a_browser_that_is_killed_changes_the_list(tmp_path: Path, shop: str) -> None:
    """Without any call: the client is told, and the reason is in the next refusal."""
    async with (
        serving(tmp_path) as (gateway, surface),
        own_client(surface.server, "handshake", "chrome__") as one,
    ):
        await one.until_listed(3)
        answer = await one.call("chrome_launch", headless=True)
        await one.call("navigate", url=f"{shop}/ticking.html")
        await one.call("debugger_enable")
        assert "Paused" in await one.call("debugger_pause")
        await one.until_listed(17)
        port = answer.partition(" on port ")[2].split()[0]
        os.killpg(_listening(port), signal.SIGKILL)
        await one.until_listed(3)
        assert gateway.settings.servers["chrome"].browser is not None


async def test_a_call_may_name_another_connection_while_the_active_one_is_paused(
    tmp_path: Path, running: Running, shop: str
) -> None:
    """The rules are about the active connection; the other page runs."""
    async with (
        serving(tmp_path) as (_, surface),
        own_client(surface.server, "handshake", "chrome__") as one,
    ):
        await one.call("chrome_launch", headless=True, connection_id="second")
        await one.call("navigate", url=f"{shop}/index.html")
        await one.call("chrome_connect", port=running.port)
        await one.call("navigate", url=f"{shop}/index.html")
        await one.call("debugger_enable")
        await one.call("debugger_set_breakpoint", url="app.js", line_number=2)
        assert "Paused" in await one.call("click_element", selector="#add")
        assert "not paused" in await one.call("click_element", selector="#add")
        assert "not paused" in await one.call("click_element", selector="#add", connection_id="default")
        assert "Clicked" in await one.call("click_element", selector="#add", connection_id="second")
        assert "not paused" in await one.call("debugger_resume", connection_id="second")


def _listening(port: str) -> int:
    """The process of the browser that was started with a port of its own."""
    for process in psutil.Process().children(recursive=True):
        ports = {str(c.laddr.port) for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
        if port in ports:
            return os.getpgid(process.pid)
    raise AssertionError(port)


async def test_nothing_is_started_before_a_tool_is_called(tmp_path: Path) -> None:
    """Discovery lists the tools without a browser."""
    before = set(psutil.Process().children(recursive=True))
    async with serving(tmp_path) as (gateway, _):
        [status] = [one for one in gateway.watched_servers(LOCAL_USER) if one.name == "chrome"]
        assert status.tools == 23
        made = set(psutil.Process().children(recursive=True)) - before
        assert [one for one in made if "chrom" in one.name()] == []


def test_a_gateway_without_browsers_does_not_load_them(tmp_path: Path) -> None:
    """Nor the client of the protocol. Source: issue 19, "Default start must not import it"."""
    code = (
        "import sys, anyio; from pathlib import Path; from maitred.config.load import parse;"
        "from maitred.wiring import open_gateway\n"
        "async def main():\n"
        f"    settings = parse(Path({str(tmp_path / 'maitred.yaml')!r}), 'servers: {{}}')\n"
        "    async with open_gateway(settings) as gateway:\n"
        "        await gateway.settled(5)\n"
        "anyio.run(main)\n"
        "print([one for one in sys.modules if one.startswith(('maitred.browser', 'websockets'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"
