"""A scripted client that defers tools as Claude Code does, and six tasks for it.

At first its model sees the names of tools and the instructions of the server, and no definition. Its own tool
search gives it the five best definitions, by words; names weigh most. The script plays the model: it takes
what it has in sight by fixed rules, and knows nothing of the gateway. The tasks, and which tools are right
for each, were written down before the first run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp import Client
from tests.support.sdk_clients import Era

from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.model.tools import RawTool
from maitred.surfaces.mcp.server import McpSurface

Json = dict[str, Any]

CLAUDE_CODE: Final = types.Implementation(name="claude-code", version="2.1.240")
ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
MOST_TURNS: Final = 4
_FOUND: Final = 5
_WHOLE_NAME, _PART_OF_NAME, _DESCRIPTION = 12, 6, 2
_WORD: Final = re.compile(r"[a-z0-9]+")
_FINDS_TOOLS: Final = re.compile(r"\b(?:find|search)\b[^.]*\btools?\b", re.IGNORECASE)
_LITTLE: Final = frozenset(
    {"a", "all", "for", "in", "is", "it", "of", "on", "our", "that", "the", "to", "when"}
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a person asks for; `right` are the tools of servers that do it, as `server/name`."""

    text: str
    right: frozenset[str]


TASKS: Final = (
    Task(
        text="What time is it in Tokyo when it is nine in the morning in Berlin?",
        right=frozenset({"time/convert_time", "time-mcp-npm/convert_time", "weather-py/convert_time"}),
    ),
    Task(
        text="List the pods in all namespaces of the Kubernetes cluster.",
        right=frozenset({"kubernetes-containers/pods_list", "kubectl/kubectl_get"}),
    ),
    Task(
        text="Send an email to ann@example.org with the minutes of the meeting.",
        right=frozenset(
            {
                "gmail-autoauth/send_email",
                "email-mcp/send_email",
                "google-workspace/send_gmail_message",
                "ms-365/send-mail",
            }
        ),
    ),
    Task(
        text="Add a card to a list on our Trello board.",
        right=frozenset({"trello/add_card_to_list", "trello/add_cards_to_list"}),
    ),
    Task(text="Find a place to stay in Lisbon on Airbnb.", right=frozenset({"airbnb/airbnb_search"})),
    Task(
        text="Take a screenshot of the page that is open in the browser.",
        right=frozenset(
            {
                "playwright/browser_take_screenshot",
                "chrome-devtools/take_screenshot",
                "ref-puppeteer/puppeteer_screenshot",
                "aws-agentcore/browser_take_screenshot",
                "browserbase/browserbase_screenshot",
            }
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Ways:
    """What works against deferral: the client loads what asks for it, and its model sees the instructions."""

    loads: bool
    instructs: bool


WAYS: Final = tuple(Ways(loads=loads, instructs=told) for loads in (True, False) for told in (True, False))


@dataclass(kw_only=True)
class DeferringClient:
    """One conversation; `loaded` are the definitions that the model has, by name."""

    client: Client
    deferred: dict[str, Json]
    loaded: dict[str, Json]
    instructions: str
    searched: set[str] = field(default_factory=set)

    async def turn(self, task: Task) -> str:
        """The model's next act, and what it then reads; empty if it knows nothing to do."""
        finder = next((one for one in self.loaded.values() if _FINDS_TOOLS.search(one["description"])), None)
        if finder is not None:
            (key,) = finder["inputSchema"]["required"]
            is_list = finder["inputSchema"]["properties"][key].get("type") == "array"
            arguments = {key: [task.text] if is_list else task.text}
            result = await self.client.call_tool(finder["name"], arguments)
            return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
        named = [name for name in self.deferred if re.search(rf"\b{name}\b", self.instructions)]
        query = f"select:{','.join(named)}" if named else task.text
        if query in self.searched:
            return ""
        self.searched.add(query)
        found = named or self._search(task.text)
        self.loaded |= {name: self.deferred.pop(name) for name in found}
        return str([self.loaded[name] for name in found]) if found else ""

    def _search(self, text: str) -> list[str]:
        """The deferred tools that have words of a text, the best five."""
        words = {word for word in _WORD.findall(text.lower()) if word not in _LITTLE}
        scores = {name: sum(_score(word, one) for word in words) for name, one in self.deferred.items()}
        best = sorted(scores, key=lambda name: -scores[name])[:_FOUND]
        return [name for name in best if scores[name]]


def _score(word: str, definition: Json) -> int:
    name = f"mcp__maitred__{definition['name']}".lower()
    if word == name:
        return _WHOLE_NAME
    in_name = word in re.split(r"[_-]+", name)
    in_text = word in _WORD.findall(definition["description"].lower())
    return _PART_OF_NAME * in_name + _DESCRIPTION * in_text


async def turns_until_right(gateway: Any, task: Task, ways: Ways, era: Era) -> int:
    """The turn in which the model has a right tool in sight, ready to be called; 0 if it never has."""
    right = {tool.name for tool in gateway.snapshot.tools if f"{tool.server}/{tool.key.name}" in task.right}
    assert right, task.text
    mode: Any = "legacy" if era == "handshake" else "auto"
    surface = McpSurface(gateway)
    async with Client(surface.server, mode=mode, client_info=CLAUDE_CODE) as client:
        listed = [
            tool.model_dump(by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools
        ]
        loaded = {one["name"]: one for one in listed if ways.loads and one.get("_meta", {}).get(ALWAYS_LOAD)}
        model = DeferringClient(
            client=client,
            deferred={one["name"]: one for one in listed if one["name"] not in loaded},
            loaded=loaded,
            instructions=(client.instructions or "") if ways.instructs else "",
        )
        for turn in range(1, MOST_TURNS + 1):
            seen = await model.turn(task)
            if any(f"{name}(" in seen for name in right):
                return turn
            if not seen:
                return 0
    return 0


async def measure(tools: Sequence[RawTool], era: Era) -> Mapping[Ways, Sequence[int]]:
    """The turn for each task, by what works against deferral."""
    async with gateway_with_tools(tools, Search()) as gateway:
        await gateway.warm(wholly=True)
        return {ways: [await turns_until_right(gateway, task, ways, era) for task in TASKS] for ways in WAYS}
