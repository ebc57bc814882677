"""What a person finds who opens the gateway's address in a browser, besides the pages of `surfaces/web`."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.surfaces.http.rig import House, opened

pytestmark = pytest.mark.anyio
BROWSER = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with opened(tmp_path, {"secretive": House("secretive", "look")}) as (_, client):
        yield client


async def test_a_browser_is_led_to_the_pages_for_a_person(client: httpx2.AsyncClient) -> None:
    """They ask who comes; without a session there is a form to enter by."""
    page = await client.get("/", headers=BROWSER, follow_redirects=True)
    assert page.url.path == "/ui/enter"
    assert page.status_code == 200


async def test_the_page_of_the_api_leads_to_all_there_is(client: httpx2.AsyncClient) -> None:
    """Every link works, and a program gets the same as JSON."""
    page = await client.get("/docs", headers=BROWSER)
    places = (await client.get("/")).json()["places"]

    assert page.headers["content-type"].startswith("text/html")
    assert set(re.findall('href="([^"]+)"', page.text)) == set(places)
    for path in set(places) - {"/mcp"}:
        assert (await client.get(path, follow_redirects=True)).status_code == 200, path


async def test_the_description_is_a_page_with_every_operation(client: httpx2.AsyncClient) -> None:
    """It is made of the one for programs, so it is as true."""
    page = (await client.get("/docs")).text
    described = (await client.get("/api/openapi.json")).json()["paths"]

    wanted = {f"{method.upper()} {path}" for path, operations in described.items() for method in operations}
    assert set(re.findall("<h3><code>([^<]+)</code>", page)) == wanted


@pytest.mark.parametrize("path", ["/docs"])
async def test_pages_run_nothing_load_nothing_and_name_no_server(
    path: str, client: httpx2.AsyncClient
) -> None:
    """So that anybody may see them, also without a token."""
    page = await client.get(path, headers=BROWSER)

    assert "secretive" not in page.text
    assert "<script" not in page.text
    assert "src=" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
