"""Groups of tools over every surface: agents, HTTP and the command line say the same of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.mediator import replayed
from tests.surfaces.cli.rig import runner
from tests.surfaces.http.rig import House, opened

from maitred.backends.base import NOT_ASKED
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface

WIDGETS = ("create_frobnitz", "get_frobnitz", "list_frobnitz")


def names(tools: Any) -> set[str]:
    return {one["name"].removeprefix("works__") for one in tools}


@pytest.mark.anyio
async def test_agents_and_programs_find_a_group_by_its_name(tmp_path: Path) -> None:
    """As a page, as a filter of searches, and in the list of categories. Source: docs/menu.md, "Groups"."""
    async with opened(tmp_path, {"works": House("works", *WIDGETS, "run_query")}) as (gateway, http):

        async def read(path: str, **params: Any) -> Any:
            answer = await http.get(f"/api/v1/{path}", params=params)
            assert answer.status_code == 200, answer.text
            return answer.json()

        async def agent(name: str, **arguments: Any) -> str:
            given = {"name": name, "arguments": arguments}
            result = await McpSurface(gateway).call_tool(given, "2025-11-25", NOT_ASKED, LOCAL_USER)
            return str(result["content"][0]["text"])

        listed = {one["name"]: one["proposed_by"] for one in (await read("tools/categories"))["categories"]}
        assert listed["frobnitz"] == "rules"
        assert set(listed.values()) == {"", "rules"}
        assert names((await read("tools/category/frobnitz"))["tools"]) == set(WIDGETS)
        found = await read("tools/search", q="query frobnitz", category="frobnitz", limit=20)
        assert names(found["results"]) == set(WIDGETS)
        assert (await read("tools/works/get_frobnitz"))["group"] == {
            "name": "frobnitz",
            "proposed_by": "rules",
        }
        assert "category/frobnitz: Frobnitz - 3 tools" in await agent("list_tools_meta")
        assert "run_query" not in await agent("list_tools_meta", path="category/frobnitz")
        said = await agent("search_tools", phrases=["query frobnitz"], category="frobnitz")
        assert "get_frobnitz" in said
        assert "run_query" not in said


def configured(folder: Path, tools: Mapping[str, str], **more: Any) -> None:
    command, *args = replayed(folder, "works", tools)
    whole = {"servers": {"works": {"command": command, "args": args}}, **more}
    (folder / "maitred.yaml").write_text(json.dumps(whole | {"catalog": {"path": str(folder / "c.db")}}))


def test_the_command_line_says_who_proposed_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the list, of a tool, and in a search; a category that an operator chose ends it."""
    run = runner(tmp_path, monkeypatch, capsys)
    configured(tmp_path, {**dict.fromkeys(WIDGETS, ""), "run_query": "Run a SQL query."})

    assert "group, proposed by rules" in run("categories").fine
    [tool] = json.loads(run("categories", "--of", "get_frobnitz", "--json").fine)
    assert (tool["group"], tool["grouped_by"]) == ("frobnitz", "rules")
    assert "frobnitz, proposed by rules" in run("categories", "--of", "get_frobnitz").fine
    found = json.loads(run("search", "query", "frobnitz", "--category", "frobnitz", "--json").fine)
    assert names(found["results"]) <= set(WIDGETS)
    assert "Put works__get_frobnitz into data" in run("categories", "--set", "get_frobnitz=data").fine
    assert "proposed by" not in run("categories").fine
