"""Sub-categories over every surface: a page of their own, and a narrower search."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.surfaces.http.rig import House, opened

from maitred.backends.base import NOT_ASKED
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface

pytestmark = pytest.mark.anyio

API = "/api/v1"
QUERIES = [f"run_sql_query_{n}" for n in range(15)]
PRICES = [f"get_stock_price_{n}" for n in range(10)]


@pytest.fixture(scope="module")
async def shown(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    """Tools of two parts of one category, so many that the category names its parts."""
    folder: Path = tmp_path_factory.mktemp("parts")
    async with opened(folder, {"all": House("all", *QUERIES, *PRICES)}) as rig:
        yield rig


def names(found: Any) -> list[str]:
    return sorted(one["name"].removeprefix("all__") for one in found)


async def read(http: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await http.get(f"{API}/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def agent(gateway: Gateway, name: str, **arguments: Any) -> str:
    given = {"name": name, "arguments": arguments}
    result = await McpSurface(gateway).call_tool(given, "2025-11-25", NOT_ASKED, LOCAL_USER)
    return str(result["content"][0]["text"])


async def test_a_large_category_names_its_parts(shown: tuple[Gateway, httpx2.AsyncClient]) -> None:
    """With numbers for programs, by name alone for agents, who pay for each word."""
    gateway, http = shown
    [category] = (await read(http, "tools/categories"))["categories"]
    text = await agent(gateway, "list_tools_meta")

    assert category["name"] == "data"
    assert category["parts"] == {"databases": 15, "finance": 10}
    assert "; in it: databases, finance" in text


async def test_a_part_is_a_page_and_a_filter_of_searches(shown: tuple[Gateway, httpx2.AsyncClient]) -> None:
    """Over HTTP and for agents alike. Source: docs/menu.md, "Categories"."""
    gateway, http = shown
    page = await read(http, "tools/category/finance", page_size=50)
    found = await read(http, "tools/search", q="get run", category="databases", limit=20)
    of_agent = await agent(gateway, "search_tools", phrases=["get run"], category="finance", limit=20)
    listed = await agent(gateway, "list_tools_meta", path="category/databases")
    whole = await read(http, "tools/category/data", page_size=50)
    tool = await read(http, f"tools/all/{PRICES[0]}")

    assert names(page["tools"]) == sorted(PRICES)
    assert found["results"]
    assert set(names(found["results"])) <= set(QUERIES)
    assert "get_stock_price" in of_agent
    assert "run_sql_query" not in of_agent
    assert "run_sql_query_14" in listed
    assert "get_stock_price" not in listed
    assert whole["total"] == 25
    assert (tool["category"], tool["subcategory"]) == ("data", "finance")


async def test_a_mistyped_part_is_answered_with_the_nearest(
    shown: tuple[Gateway, httpx2.AsyncClient],
) -> None:
    """As with a category."""
    _, http = shown
    answer = await http.get(f"{API}/tools/category/database")

    assert answer.status_code == 404
    assert "category/databases" in answer.json()["nearest"]
