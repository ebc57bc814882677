"""The typical flow of an agent, played over MCP, and what it costs: discover, search, ask, call.

Counted in o200k: the arguments that a model writes and the texts that it reads.
Source: the design's token budget analysis; issue "The menu", Done when 2.
"""

import json
import re
from typing import Any

from mcp import Client
from mcp_types import TextResourceContents
from tests.support.arguments import smallest

from maitred.catalog.token_count import count_tokens
from maitred.gateway import LEDGER_KEY, Gateway
from maitred.model.access import LOCAL_USER

PHRASES = (
    "read a text file",
    "create an issue in a repository",
    "run a query on a database",
    "list calendar events",
)
_SIGNATURE = re.compile(r"^~?([A-Za-z0-9_-]{1,64})\(", re.MULTILINE)

Costs = dict[str, int]


async def play(client: Client, gateway: Gateway, phrase: str) -> Costs:
    """The tokens of each step for one wish."""
    overview = await client.read_resource("maitred://overview")
    [content] = overview.contents
    assert isinstance(content, TextResourceContents)
    costs = {"discover": _count(content.text)}
    found, costs["search"] = await _call(client, "search_tools", {"phrases": [phrase]})
    match = _SIGNATURE.search(found)
    assert match, found
    name = match[1]
    _, costs["info"] = await _call(client, "tool_info", {"names": [name]})
    schema = gateway.snapshot.schema(gateway.find(name, LOCAL_USER).input_hash)
    arguments = {"name": name, "arguments": smallest(schema)}
    _, costs["call"] = await _call(client, "call_tool", arguments)
    return costs


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, int]:
    result = await client.call_tool(tool, arguments)
    text = "\n".join(block.text for block in result.content if block.type == "text")
    assert result.meta is not None
    assert LEDGER_KEY in result.meta
    return text, _count(json.dumps(arguments)) + _count(text)


def _count(text: str) -> int:
    return count_tokens([text])[0]
