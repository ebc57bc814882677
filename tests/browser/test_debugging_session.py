"""Design document 002: a client of each SDK, in each era, plays its session against a real browser.

Source: issue 19, "Done when": 3, 12, 15 and 17 tools, one more with two connections.
"""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.browser.sessions import Session
from tests.support.chromium import OPTIONS, SOON_S, Running, chromium
from tests.support.gateway_http import over_http
from tests.support.sdk_clients import Sdk, each_sdk, sdk_client

from maitred.config.load import parse
from maitred.config.settings import Catalog, Disclosure
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway with a browser server that shows all tools, and its address."""
    sandbox = str(OPTIONS.sandbox).lower()
    text = f"servers: {{chrome: {{transport: browser, browser: {{sandbox: {sandbox}}}}}}}"
    settings = replace(
        parse(folder / "maitred.yaml", text),
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="all"),
    )
    async with open_gateway(settings, serves=True) as gateway:
        assert await gateway.settled(SOON_S)
        async with over_http(gateway) as url:
            yield gateway, url


@each_sdk
async def test_the_session_through_the_gateway(tmp_path: Path, running: Running, shop: str, sdk: Sdk) -> None:
    """Lists, notices, refusals and answers; pages of the menu mark what makes no sense now."""
    with anyio.fail_after(2 * SOON_S):
        async with serving(tmp_path) as (gateway, url), sdk_client(sdk, {"url": url}, "chrome__") as one:
            await Session(one, shop, running.port).play()
            text = gateway.browse("server/chrome", viewer=LOCAL_USER).text
            assert re.search(r"^chrome__debugger_resume\(.*\[not available now", text, re.MULTILINE)


@each_sdk
async def test_the_session_with_the_program(running: Running, shop: str, sdk: Sdk) -> None:
    """`maitred browser serve` over standard streams, without a gateway."""
    chromium()
    root = [] if OPTIONS.sandbox else ["--no-sandbox"]
    command = [sys.executable, "-m", "maitred", "browser", "serve", *root]
    with anyio.fail_after(2 * SOON_S):
        async with sdk_client(sdk, {"command": command}) as one:
            await Session(one, shop, running.port).play()
