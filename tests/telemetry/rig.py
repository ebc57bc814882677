"""A gateway that sends telemetry, before a server over HTTP that remembers what its requests carried."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from maitred.config.monitoring_settings import Telemetry
from maitred.config.settings import Audit, Catalog, Disclosure, Http, Settings
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.serve import serve_http
from maitred.wiring import open_gateway

SOON_S = 120.0
SECRET = "hunter2-argument"
ANSWER = "classified-answer"


@dataclass(kw_only=True)
class NoteServer:
    """Remembers `_meta` and headers of its calls; `fails` makes its answers errors.

    `meanwhile` is awaited in the middle of each call.
    """

    metas: list[Mapping[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    fails: bool = False
    meanwhile: Callable[[], Awaitable[None]] | None = None

    @property
    def server(self) -> Server[Any]:
        return Server("notes", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        tool = types.Tool(name="add", description="Adds a note to the notebook.", input_schema=schema)
        return types.ListToolsResult(tools=[tool])

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], _: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self.metas.append(dict(ctx.params.get("_meta") or {}) if ctx.params else {})
        request: Any = ctx.request
        self.headers.append(dict(request.headers) if request is not None else {})
        if self.meanwhile is not None:
            await self.meanwhile()
        return types.CallToolResult(content=[types.TextContent(text=ANSWER)], is_error=self.fails)


def settings_of(folder: Path, *specs: ServerSpec, audit: Audit | None = None, **telemetry: Any) -> Settings:
    return Settings(
        source=folder / "maitred.yaml",
        servers={spec.name: spec for spec in specs},
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="menu"),
        telemetry=Telemetry(**telemetry),
        audit=audit or Audit(),
    )


@asynccontextmanager
async def listening(server: Server[Any]) -> AsyncIterator[str]:
    """The address of a server over streamable HTTP."""
    addresses, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(address: str) -> None:
        addresses.append(address)
        ready.set()

    app = server.streamable_http_app()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: serve_http(app, Http(port=0), stop=stop, ready=listens))
        await ready.wait()
        try:
            yield f"{addresses[0]}/mcp"
        finally:
            stop.set()


@asynccontextmanager
async def over_notes(folder: Path, notes: NoteServer, **telemetry: Any) -> AsyncIterator[Gateway]:
    """A gateway before a server of notes in another HTTP server, which sends telemetry."""
    async with listening(notes.server) as url:
        settings = settings_of(folder, ServerSpec(name="notes", transport="http", url=url), **telemetry)
        with anyio.fail_after(SOON_S):
            async with open_gateway(settings, serves=True) as gateway:
                assert await gateway.settled(SOON_S)
                yield gateway
