"""A server in this process that counts the calls of its tools: one reads, one repeats, one writes."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from tests.gateway.rig import SCHEMA, SOON_S, Context, settings_of
from tests.support.viewers import agent

from maitred.config.settings import Search, Settings
from maitred.gateway import Gateway
from maitred.model.categories import ToolChoice
from maitred.model.tools import ToolCall, ToolKey
from maitred.wiring import open_gateway

HINTS = {
    "read": types.ToolAnnotations(read_only_hint=True),
    "put": types.ToolAnnotations(idempotent_hint=True),
    "write": None,
}


class Desk:
    """Answers `<tool> <path> <how many calls of this tool there were>`, when its gate is open."""

    def __init__(self, name: str = "desk") -> None:
        self.name = name
        self.made: Counter[str] = Counter()
        self.begun = anyio.Event()
        self.gate = anyio.Event()
        self.gate.set()

    def sdk(self) -> Server[Any]:
        return Server(self.name, on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        listed = [types.Tool(name=n, input_schema=SCHEMA, annotations=hints) for n, hints in HINTS.items()]
        return types.ListToolsResult(tools=listed)

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.made[params.name] += 1
        self.begun.set()
        await self.gate.wait()
        path = (params.arguments or {})["path"]
        text = f"{params.name} {path} {self.made[params.name]}"
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=path == "/broken")


def keeping(folder: Path, cache_s: float = 0.0, **tools: float) -> Settings:
    """Settings for two desks; `cache_s` of both, and of some tools of the first."""
    settings = settings_of(folder, "desk", "other", search=Search(mode="lexical"))
    servers = {name: replace(spec, cache_s=cache_s) for name, spec in settings.servers.items()}
    choices = {ToolKey(server="desk", name=name): ToolChoice(cache_s=s) for name, s in tools.items()}
    return replace(settings, servers=servers, tools=choices)


@asynccontextmanager
async def at_desk(settings: Settings) -> AsyncIterator[tuple[Gateway, Desk]]:
    """A gateway that knows both desks, and the first of them."""
    desk = Desk()
    servers = {"desk": desk.sdk(), "other": Desk("other").sdk()}
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process=servers) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway, desk


async def told(gateway: Gateway, tool: str, path: str = "/", principal: str = "ann") -> list[str]:
    """The texts of an answer of the first desk."""
    call = ToolCall(name=f"desk__{tool}", arguments={"path": path})
    answer = await gateway.call(call, viewer=agent(principal))
    return [block["text"] for block in answer["content"]]
