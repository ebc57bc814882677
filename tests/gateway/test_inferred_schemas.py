"""An inferred schema is shown as such and refuses no call; the servers here declare no parameters."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types
from tests.gateway.rig import Upstream, opened, settings_of, until

from maitred.config.settings import MediationSettings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

FIND = "Finds documents. query: the search text (required); limit: how many, one of 10, 20 (default 10)"


class Silent(Upstream):
    """A server whose tools declare no parameters; an answer repeats the arguments."""

    async def _list_tools(self, _: Any, __: object) -> types.ListToolsResult:
        listed = [
            types.Tool(name=n, description=d, input_schema={"type": "object"}) for n, d in self.tools.items()
        ]
        return types.ListToolsResult(tools=listed)

    async def _call(self, _: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = types.TextContent(text=json.dumps(params.arguments))
        return types.CallToolResult(content=[text], is_error=bool((params.arguments or {}).get("fail")))


def inferring(folder: Path, **mediation: Any) -> Any:
    return settings_of(
        folder, "docs", mediation=MediationSettings(auto_enhance=True, proof=False, **mediation)
    )


async def definition(gateway: Gateway, name: str) -> dict[str, Any]:
    tool = gateway.find(name, LOCAL_USER)
    return dict((await gateway.tool_json(tool, LOCAL_USER))["definition"])


async def test_it_is_marked_wherever_it_is_read(tmp_path: Path) -> None:
    """For programs in `_meta`, for agents in the line of a search, the details and the definition."""
    async with opened(inferring(tmp_path), Silent("docs", {"find_docs": FIND})) as gateway:
        whole = await definition(gateway, "docs__find_docs")
        assert whole["_meta"]["maitred/inferred"] == ["query", "limit"]
        assert whole["inputSchema"]["required"] == ["query"]
        assert whole["inputSchema"]["properties"]["limit"]["default"] == 10
        descriptions = [one["description"] for one in whole["inputSchema"]["properties"].values()]
        assert all(text.endswith("(inferred)") for text in descriptions)
        brief = (await gateway.info(["docs__find_docs"], "brief", viewer=LOCAL_USER)).text
        assert "docs__find_docs(query: any, limit?: 10|20) (inferred)" in brief
        assert "no call is refused by them" in brief
        found = await gateway.search(["find documents"], viewer=LOCAL_USER)
        assert "(inferred)" in found.results[0].line
        assert "(inferred)" in (await gateway.info(["docs__find_docs"], "full", viewer=LOCAL_USER)).text


@pytest.mark.parametrize(
    "arguments", [{}, {"limit": "many"}, {"q": "x"}, {"query": 3, "limit": -1}, {"query": None}], ids=str
)
async def test_it_refuses_no_call(arguments: dict[str, Any], tmp_path: Path) -> None:
    """Whatever it says of names, types, choices and what is required, the server decides."""
    async with opened(inferring(tmp_path), Silent("docs", {"find_docs": FIND})) as gateway:
        assert gateway.find("docs__find_docs", LOCAL_USER).inferred
        call = ToolCall(name="docs__find_docs", arguments=arguments)
        answer = await gateway.call(call, viewer=LOCAL_USER)
        assert json.loads(answer["content"][0]["text"]) == arguments


async def test_calls_that_succeeded_are_evidence(tmp_path: Path) -> None:
    """Their names and types, not their values; the next list of the server has them, also after a restart."""
    settings, server = inferring(tmp_path), Silent("docs", {"find_docs": "Finds."})
    async with opened(settings, server) as gateway:
        assert not gateway.find("docs__find_docs", LOCAL_USER).inferred
        for arguments in (
            {"words": "secret-4711", "most": 5},
            {"words": "b", "fail": True},
            {"odd name!": 1},
        ):
            await gateway.call(ToolCall(name="docs__find_docs", arguments=arguments), viewer=LOCAL_USER)
        await gateway.sync(viewer=LOCAL_USER)
        await until(gateway, lambda: bool(gateway.find("docs__find_docs", LOCAL_USER).inferred))
    async with opened(settings, server) as gateway:
        whole = await definition(gateway, "docs__find_docs")
        assert whole["_meta"]["maitred/inferred"] == ["words", "most"]
        assert {name: one["type"] for name, one in whole["inputSchema"]["properties"].items()} == {
            "words": "string",
            "most": "integer",
        }
        assert "required" not in whole["inputSchema"]
        assert "4711" not in json.dumps(whole)


def test_no_value_is_kept_of_a_call(tmp_path: Path) -> None:
    """The file of the catalog has names and types alone."""

    async def use() -> None:
        async with opened(inferring(tmp_path), Silent("docs", {"find_docs": "Finds."})) as gateway:
            call = ToolCall(name="docs__find_docs", arguments={"words": "secret-4711"})
            await gateway.call(call, viewer=LOCAL_USER)

    anyio.run(use)
    written = b"".join(path.read_bytes() for path in tmp_path.glob("c.db*"))
    assert b"words" in written
    assert b"4711" not in written


async def test_a_chain_is_not_refused_by_it(tmp_path: Path) -> None:
    """Types of a chain are checked by what the server declares."""
    async with opened(inferring(tmp_path), Silent("docs", {"find_docs": FIND})) as gateway:
        source = "await docs__find_docs(q=3)"
        answer = await gateway.run_chain(source, viewer=LOCAL_USER)
        assert (answer.ok, answer.result) == (True, {"q": 3})


async def test_without_mediation_nothing_is_inferred(tmp_path: Path) -> None:
    """The server's own words are shown."""
    async with opened(settings_of(tmp_path, "docs"), Silent("docs", {"find_docs": FIND})) as gateway:
        whole = await definition(gateway, "docs__find_docs")
        assert whole["inputSchema"] == {"type": "object"}
        assert "_meta" not in whole
