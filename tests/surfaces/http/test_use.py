"""Tools by their use, over every surface that finds them; and what tiers say of a tool beyond its schema."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jsonschema_rs
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.responses import PlainTextResponse
from tests.surfaces.http.rig import SOON_S

from maitred.backends.base import NOT_ASKED
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall, ToolKey
from maitred.surfaces.http.app import application
from maitred.surfaces.mcp.server import McpSurface
from maitred.usage.recorder import UsageRecorder
from maitred.wiring import open_gateway
from maitred.wiring.storage import database_of, open_store

pytestmark = pytest.mark.anyio

API = "/api/v1"
PATH = {
    "type": "object",
    "properties": {"path": {"type": "string", "examples": ["src/"]}},
    "required": ["path"],
}
TOOLS = {
    "lint_python": "Static analysis of Python code: lint a file.",
    "type_python": "Static analysis of Python code: check types of a file.",
    "review_python": "Static analysis of Python code: review a file.",
    "format_python": "Static analysis of Python code: find bad format in a file.",
    "lint_rust": "Static analysis of Rust code: lint a file.",
}
OUTPUT = {
    "type": "object",
    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
    "required": ["errors"],
}
Context = ServerRequestContext[Any, Any]


def make_server() -> Server[Any]:
    """Tools that answer with JSON; one declares what it returns."""

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        listed = [
            types.Tool(
                name=name,
                description=text,
                input_schema=PATH,
                output_schema=OUTPUT if name == "type_python" else None,
            )
            for name, text in TOOLS.items()
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        path = (params.arguments or {}).get("path", "")
        found = {"path": path, "faults": [{"line": 3, "text": "secret of the caller"}]}
        return types.CallToolResult(content=[types.TextContent(text=json.dumps(found))])

    return Server("lint", on_list_tools=list_tools, on_call_tool=call_tool)


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A gateway, and a client of its HTTP API."""

    gateway: Gateway
    http: httpx2.AsyncClient

    async def get(self, path: str, **params: Any) -> Any:
        """The answer of a request that succeeds."""
        answer = await self.http.get(f"{API}/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, path: str, **params: Any) -> str:
        """The fault of a request that is refused."""
        answer = await self.http.get(f"{API}/{path}", params=params)
        assert answer.status_code == 422, answer.text
        return str(answer.json()["faults"][0])

    async def page(self, **params: Any) -> list[str]:
        """The raw names of the tools in the category of the tools, narrowed."""
        tool = await self.get("tools/lint/lint_python")
        found = await self.get(f"tools/category/{tool['category']}", **params)
        assert found["pagination"]["total_count"] == len(found["tools"])
        return sorted(raw(one["name"]) for one in found["tools"])

    async def over_http(self, **params: Any) -> list[str]:
        """The raw names of the tools that a search over HTTP finds."""
        found = await self.get("tools/search", q="static analysis", limit=20, **params)
        return sorted(raw(one["name"]) for one in found["results"])

    async def by_agent(self, **arguments: Any) -> str:
        """What `search_tools` answers to an agent."""
        given = {
            "name": "search_tools",
            "arguments": {"phrases": ["static analysis"], "limit": 20, **arguments},
        }
        result = await McpSurface(self.gateway).call_tool(given, "2025-11-25", NOT_ASKED, LOCAL_USER)
        return str(result["content"][0]["text"])

    async def over_mcp(self, **arguments: Any) -> list[str]:
        """The raw names of the tools that `search_tools` finds."""
        lines = (await self.by_agent(**arguments)).splitlines()
        return sorted(raw(line.partition("(")[0]) for line in lines if line.startswith("lint__"))

    async def call(self, name: str, **arguments: Any) -> None:
        """Call a tool."""
        await self.gateway.call(ToolCall(name=f"lint__{name}", arguments=arguments), viewer=LOCAL_USER)


def raw(name: str) -> str:
    return name.removeprefix("lint__")


def settings_of(folder: Path, **disclosure: Any) -> Settings:
    return Settings(
        source=folder / "maitred.yaml",
        servers={"lint": ServerSpec(name="lint", transport="memory")},
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="menu", **disclosure),
    )


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rig]:
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={"lint": make_server()}) as gateway:
            assert await gateway.settled(SOON_S)
            app = application(gateway, settings.http, PlainTextResponse("MCP"))
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield Rig(gateway=gateway, http=client)


async def record_calls(settings: Settings) -> None:
    """What happened on other days: quick, slow, unreliable and old calls."""
    now = datetime.now(UTC)
    async with open_store(settings):
        for name, latency_ms, failures, days in (
            ("lint_python", 47, 0, 1),
            ("type_python", 300, 0, 1),
            ("review_python", 60, 5, 20),
            ("lint_rust", 20, 0, 1),
        ):
            at = now - timedelta(days=days)
            async with UsageRecorder(database_of(settings), clock=lambda at=at: at) as usage:  # type: ignore[misc]
                for number in range(10):
                    key = ToolKey(server="lint", name=name)
                    usage.called(key, ok=number >= failures, elapsed_ms=latency_ms)


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """Over tools that were used on other days."""
    settings = settings_of(tmp_path_factory.mktemp("use"))
    await record_calls(settings)
    async with opened(settings) as made:
        yield made


# --- by use -----------------------------------------------------------------------------------------------

PYTHON = {"tag": "language:python"}
CASES = [
    ({**PYTHON, "max_latency_ms": 100}, ["lint_python", "review_python"]),
    ({"max_latency_ms": 100}, ["lint_python", "lint_rust", "review_python"]),
    ({**PYTHON, "min_success": 0.9}, ["lint_python", "type_python"]),
    ({**PYTHON, "used_within": "7d"}, ["lint_python", "type_python"]),
    (
        {**PYTHON, "max_latency_ms": 100, "min_success": 0.5, "used_within": "30d"},
        ["lint_python", "review_python"],
    ),
    ({"tag": "python", "max_latency_ms": 10}, []),
]


@pytest.mark.parametrize(("limits", "expected"), CASES)
async def test_limits_of_use_find_the_same_tools_on_every_surface(
    rig: Rig, limits: dict[str, Any], expected: list[str]
) -> None:
    """ "Find Python static analysis tools with <100ms latency". Source: design document 003, example 2."""
    assert await rig.over_http(**limits) == expected
    assert await rig.over_mcp(**limits) == expected
    assert await rig.page(**limits) == expected


async def test_a_search_by_use_shows_the_figures_and_how_many_tools_have_some(rig: Rig) -> None:
    """A tool that was never called meets no limit, and the answer says that there are such tools."""
    text = await rig.by_agent(max_latency_ms=50)

    assert "47 ms, 100% ok" in text
    assert "by use: 2 of 5 tools" in text
    found = await rig.get("tools/search", q="static analysis", max_latency_ms=50)
    usage = {raw(one["name"]): one["usage"] for one in found["results"]}
    assert usage["lint_python"]["avg_latency_ms"] == 47
    assert usage["lint_python"]["calls"] == 10


async def test_pages_narrowed_by_use_are_as_recent_as_the_last_call(tmp_path: Path) -> None:
    """No daily computation has to run first, and no answer from before is kept."""
    async with opened(settings_of(tmp_path)) as rig:
        assert await rig.over_mcp(used_within="1h") == []
        assert await rig.page(used_within="1h") == []

        await rig.call("format_python", path="src/")

        assert await rig.over_mcp(used_within="1h") == ["format_python"]
        assert await rig.over_http(used_within="1h") == ["format_python"]
        assert await rig.page(used_within="1h") == ["format_python"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"min_success": 95}, "`min_success` must be a number from 0 to 1"),
        ({"max_latency_ms": "quick"}, "`max_latency_ms` must be a number from 0"),
        ({"used_within": "lately"}, "`used_within` must be a time such as 90m, 24h, 7d or 2w"),
        ({"used_within": "90d"}, "of at most 30 days"),
        ({"tag": "pyton"}, "language:python"),
        ({"latency": 100}, "`search_tools` has no argument `latency`"),
        ({"max_latency": 100}, "did you mean `max_latency_ms`?"),
    ],
)
async def test_an_agent_is_told_what_a_limit_may_be(rig: Rig, arguments: dict[str, Any], said: str) -> None:
    """No argument is dropped or guessed."""
    assert said in await rig.by_agent(**arguments)


@pytest.mark.parametrize(
    ("path", "params", "said"),
    [
        ("tools/search", {"q": "x", "max_latency": 100}, "query.max_latency: there is no such parameter"),
        ("tools/search", {"q": "x", "max_latency": 100}, "did you mean 'max_latency_ms'?"),
        ("tools/search", {"q": "x", "min_success": 95}, "query.min_success"),
        ("tools/search", {"q": "x", "used_within": "90d"}, "of at most 30 days"),
        ("tools/search", {"q": "x", "tag": "pyton"}, "language:python"),
        ("tools/hot", {"limit": 3}, "query.limit: there is no such parameter; there are none here"),
        ("tools/categories", {"page": 1}, "query.page"),
        ("tools/lint/lint_python", {"detail": "full"}, "query.detail"),
        ("servers", {"all": "true"}, "query.all"),
    ],
)
async def test_a_parameter_that_a_route_does_not_have_is_refused(
    rig: Rig, path: str, params: dict[str, Any], said: str
) -> None:
    """An ignored filter would answer another question than the one that was asked."""
    assert said in await rig.refused(path, **params)


# --- what the tiers say -----------------------------------------------------------------------------------


async def test_the_hot_list_and_pages_say_how_long_calls_take(rig: Rig) -> None:
    """T0 and T2; a tool that was never called has no figure. Source: design document 003, T0 and T2."""
    await rig.gateway.update_tiers(LOCAL_USER)
    hot = {raw(one["name"]): one for one in (await rig.get("tools/hot"))["tools"]}
    tool = await rig.get("tools/lint/lint_python")
    page = {raw(one["name"]): one for one in (await rig.get(f"tools/category/{tool['category']}"))["tools"]}

    assert hot["lint_python"]["avg_latency_ms"] == page["lint_python"]["avg_latency_ms"] == 47
    assert hot["lint_python"]["success_rate"] == 1
    assert "avg_latency_ms" not in page["format_python"]


async def test_a_page_says_what_a_tool_returns_by_its_schema_or_by_its_answers(tmp_path: Path) -> None:
    """The shape of an answer is kept, and no value of it. Source: design document 003, T2."""
    settings = settings_of(tmp_path)
    async with opened(settings) as rig:
        category = (await rig.get("tools/lint/lint_python"))["category"]

        async def returns() -> dict[str, str]:
            found = await rig.get(f"tools/category/{category}")
            return {raw(one["name"]): one.get("returns", "") for one in found["tools"]}

        assert (await returns())["lint_python"] == ""
        await rig.call("lint_python", path="src/")

        found = await returns()
        whole = await rig.get("tools/lint/lint_python")
    async with opened(settings) as again:
        later = await again.get("tools/lint/lint_python")

    assert found["type_python"] == "{errors: str[]}"
    assert found["lint_python"] == "{path: str, faults: {line: int, text: str}[]}"
    assert whole["returns"]["by"] == "answers"
    assert "secret of the caller" not in json.dumps(whole)
    assert later["returns"] == whole["returns"]


async def test_details_have_examples_that_the_tool_accepts(rig: Rig) -> None:
    """Made from the schema. Source: design document 003, T3."""
    tool = await rig.get("tools/lint/lint_python")

    assert tool["examples"] == [{"arguments": {"path": "src/"}, "from": "schema"}]
    jsonschema_rs.validate(tool["definition"]["inputSchema"], tool["examples"][0]["arguments"])


async def test_a_real_call_is_an_example_only_where_the_operator_allows_it(tmp_path: Path) -> None:
    """Without its secrets; and it is gone for good once the operator does not allow it any more."""
    off, on = settings_of(tmp_path), settings_of(tmp_path, real_examples=True)

    async def real(rig: Rig) -> list[Any]:
        found = await rig.get("tools/lint/lint_python")
        return [one["arguments"] for one in found["examples"] if one["from"] == "call"]

    async with opened(off) as rig:
        await rig.call("lint_python", path="/home/ann")
        assert await real(rig) == []
    async with opened(on) as rig:
        assert await real(rig) == []
        await rig.call("lint_python", path="/home/ann", token="ghp_" + "a" * 36)
        await rig.call("lint_python", path="/home/bob")
        assert await real(rig) == [{"path": "/home/ann", "token": "***"}]
    async with opened(on) as rig:
        assert await real(rig) == [{"path": "/home/ann", "token": "***"}]
        await rig.gateway.configure(off, viewer=LOCAL_USER)
        assert await real(rig) == []
    async with opened(on) as rig:
        assert await real(rig) == []


async def test_details_say_how_the_server_of_a_tool_runs(tmp_path: Path) -> None:
    """Image, network and limits. Source: design document 003, T3."""
    settings = settings_of(tmp_path)
    away = ServerSpec(name="away", transport="http", url="https://user:pass@tools.example/mcp?key=1")
    settings = replace(settings, servers={**settings.servers, "away": away})
    async with opened(settings) as rig:
        tool = await rig.get("tools/lint/lint_python")

    assert tool["runs"] == {
        "transport": "memory",
        "image": "",
        "isolation": "",
        "network": "internal",
        "limits": {"call_timeout_s": 120.0, "longest_call_s": 3600.0},
    }
