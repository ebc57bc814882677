"""The pages of a gateway that clients share: opened when a person asks, and never without."""

import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import psutil
import pytest
from tests.daemon.home import WAIT_S, Home, at_home
from tests.interaction.harness import cli, faulty

pytestmark = pytest.mark.anyio


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        yield made


async def ui(home: Home, **env: str) -> subprocess.CompletedProcess[str]:
    return await anyio.to_thread.run_sync(lambda: cli(home.config, "ui", "--no-open", env=env))


def ports(pid: int) -> list[int]:
    found = psutil.Process(pid).net_connections("tcp")
    return [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]


async def test_the_command_opens_the_pages_of_the_gateway_that_clients_share(home: Home) -> None:
    """It listens on no port before; the address is of loopback, good once, and leads to the pages."""
    home.write({"one": faulty("count")})
    async with home.client() as client:
        await client.echo("one")
        [daemon] = home.daemons()
        assert ports(daemon) == []
        done = await ui(home)
        address = done.stdout.strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ui/enter/[\w-]{32}", address)
        assert home.daemons() == [daemon]
        async with httpx2.AsyncClient(follow_redirects=True, timeout=WAIT_S, verify=False) as browser:
            page = await browser.get(address)
            assert page.status_code == 200
            assert "one" in (await browser.get(str(page.url.join("servers")))).text
            assert (await browser.get(address)).status_code == 403
            assert (await browser.get(str(page.url.join("/")))).url.path == "/ui/"
            assert (await browser.get(str(page.url.join("/api/tools")))).status_code == 404
        again = (await ui(home)).stdout.strip()
        assert again != address
        assert again.rpartition("/")[0] == address.rpartition("/")[0]  # one port, however often


async def test_the_command_starts_a_gateway_which_stays_while_a_page_is_open(home: Home) -> None:
    """And ends as without pages once nobody looks."""
    home.write({"one": faulty("count")}, daemon={"idle_timeout": 1.0})
    address = (await ui(home)).stdout.strip()
    [daemon] = home.daemons()
    async with httpx2.AsyncClient(follow_redirects=True, timeout=WAIT_S, verify=False) as browser:
        page = await browser.get(address)
        async with browser.stream("GET", str(page.url.join("events"))) as stream:
            assert (await anext(stream.aiter_lines())).startswith(":")
            assert home.daemons() == [daemon]


async def test_the_command_says_what_to_do_where_sharing_is_off(home: Home) -> None:
    home.write({}, daemon={"enabled": False})
    done = await ui(home)
    assert done.returncode == 2
    assert "maitred serve --transport http" in done.stderr


async def test_a_bearer_of_a_token_opens_the_pages_as_that_bearer(home: Home) -> None:
    home.write({"one": faulty("count")})
    made = await anyio.to_thread.run_sync(
        lambda: cli(
            None, "tokens", "create", "ann", "--role", "viewer", "--json", "--config", str(home.config)
        )
    )
    token = json.loads(made.stdout)["token"]
    address = (await ui(home, MAITRED_AS_TOKEN=token)).stdout.strip()
    async with httpx2.AsyncClient(follow_redirects=True, timeout=WAIT_S, verify=False) as browser:
        page = await browser.get(address)
        assert "ann" in page.text
        assert (await browser.get(str(page.url.join("servers")))).status_code == 403
