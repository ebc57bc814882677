"""Gateways for the tests of the API: over servers in this process, asked without a network between."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.responses import PlainTextResponse

from maitred.config.settings import Catalog, Settings
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.app import application
from maitred.wiring import open_gateway

SOON_S = 120.0
Context = ServerRequestContext[Any, Any]


class House:
    """A server whose list of tools can be changed, and held back until `gate` is set."""

    def __init__(self, name: str, *tools: str, gate: anyio.Event | None = None) -> None:
        self.tools = list(tools)
        self.answer = types.CallToolResult(content=[types.TextContent(text="done")])
        self._gate = gate
        self.server: Server[Any] = Server(name, on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        if self._gate is not None:
            await self._gate.wait()
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        listed = [
            types.Tool(name=name, description=f"Does {name}.", input_schema=schema) for name in self.tools
        ]
        return types.ListToolsResult(tools=listed)

    async def _call(self, _: Context, __: types.CallToolRequestParams) -> types.CallToolResult:
        return self.answer


def settings_of(folder: Path, houses: Mapping[str, House]) -> Settings:
    return Settings(
        source=folder / "maitred.yaml",
        servers={name: ServerSpec(name=name, transport="memory") for name in houses},
        catalog=Catalog(path=str(folder / "c.db")),
    )


@asynccontextmanager
async def opened(
    folder: Path, houses: Mapping[str, House], *, settled: bool = True
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    """A gateway over these servers, and a client of all that it serves over HTTP."""
    settings = settings_of(folder, houses)
    servers = {name: house.server for name, house in houses.items()}
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process=servers) as gateway:
            assert not settled or await gateway.settled(SOON_S)
            app = application(gateway, settings.http, PlainTextResponse("MCP"))
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield gateway, client
