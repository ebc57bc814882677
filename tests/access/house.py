"""A gateway that listens, over two servers in this process, with tokens of every kind for its bearers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.interaction.harness import Mode, over_http

from maitred.access.tokens import TokenRequest
from maitred.config.settings import AccessSettings, Catalog, Disclosure, Http, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Role, Scope
from maitred.model.categories import Category, ToolChoice
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolKey
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

SOON_S = 120.0
Context = ServerRequestContext[Any, Any]

TOOLS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "files": {"read_note": ("archive", True), "write_note": ("files_text", False)},
    "tickets": {"list_tickets": ("communication", True), "close_ticket": ("communication", False)},
}
"""By server, its tools with the category of each, and whether it only reads."""
LONG = "A long note. " * 8_000

FILES = Scope(servers=frozenset({"files"}))
TEXT = Scope(categories=frozenset({"files_text"}))
READING = Scope(read_only=True)
TOKENS: Mapping[str, tuple[Role, Scope]] = {
    "viewer": ("viewer", Scope()),
    "agent": ("agent", Scope()),
    "other": ("agent", Scope()),
    "operator": ("operator", Scope()),
    "admin": ("admin", Scope()),
    "files": ("agent", FILES),
    "text": ("agent", TEXT),
    "reader": ("agent", READING),
    "overseer": ("operator", FILES),
}


@dataclass(frozen=True, kw_only=True)
class House:
    """A running gateway; `tokens` by the names of `TOKENS`, which are those of their principals too."""

    gateway: Gateway
    url: str
    tokens: Mapping[str, str]

    @asynccontextmanager
    async def http(self, name: str) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of the API for a principal; without a name it sends no token."""
        headers = {"Authorization": f"Bearer {self.tokens[name]}"} if name else {}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S) as client:
            yield client

    @asynccontextmanager
    async def mcp(self, name: str, mode: Mode) -> AsyncIterator[Client]:
        """An MCP client of one era for a principal."""
        async with over_http(f"{self.url}/mcp", mode, token=self.tokens[name]) as client:
            yield client


def upstream(name: str) -> Server[Any]:
    """A server with the tools above, a resource, a template, a prompt and completions."""

    async def tools(_: Context, __: object) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        listed = [
            types.Tool(
                name=tool,
                description=f"{tool.replace('_', ' ').capitalize()} of the house.",
                input_schema=schema,
                annotations=types.ToolAnnotations(read_only_hint=reads),
            )
            for tool, (_, reads) in TOOLS[name].items()
        ]
        return types.ListToolsResult(tools=listed)

    async def call(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        path = (params.arguments or {}).get("path")
        text = LONG if path == "long" else f"{name}/{params.name}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def resources(_: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=f"{name}://all", name="all")])

    async def templates(_: Context, __: object) -> types.ListResourceTemplatesResult:
        made = types.ResourceTemplate(uri_template=f"{name}://one/{{id}}", name="one")
        return types.ListResourceTemplatesResult(resource_templates=[made])

    async def read(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        content = types.TextResourceContents(uri=params.uri, text=f"all of {name}")
        return types.ReadResourceResult(contents=[content])

    async def prompts(_: Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="sum_up")])

    async def prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        said = types.TextContent(text=f"Sum up {name}.")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=[f"{name}-1"]))

    return Server(
        name,
        instructions=f"About {name}.",
        on_list_tools=tools,
        on_call_tool=call,
        on_list_resources=resources,
        on_list_resource_templates=templates,
        on_read_resource=read,
        on_list_prompts=prompts,
        on_get_prompt=prompt,
        on_completion=complete,
    )


def settings_of(folder: Path, http: Http | None = None, access: AccessSettings | None = None) -> Settings:
    """Settings of the house: `archive` is a category below `files_text`; all tools are listed."""
    return Settings(
        source=folder / "maitred.yaml",
        servers={name: ServerSpec(name=name, transport="memory") for name in TOOLS},
        catalog=Catalog(path=str(folder / "c.db")),
        disclosure=Disclosure(mode="all"),
        categories={"archive": Category(name="archive", parent="files_text")},
        tools={
            ToolKey(server=server, name=tool): ToolChoice(category=category)
            for server, tools in TOOLS.items()
            for tool, (category, _) in tools.items()
        },
        access=access or AccessSettings(),
        http=replace(http or Http(), port=0),
    )


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Gateway]:
    """The gateway, which knows its servers and has placed their tools."""
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={name: upstream(name) for name in TOOLS}) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


@asynccontextmanager
async def living(folder: Path, http: Http | None = None) -> AsyncIterator[House]:
    """The gateway as it listens on a free port."""
    settings = settings_of(folder, http)
    servers = {name: upstream(name) for name in TOOLS}
    address, stop = list[str](), anyio.Event()
    async with open_gateway(settings, in_process=servers) as gateway, anyio.create_task_group() as tasks:
        assert await gateway.settled(SOON_S)
        surface = McpSurface(gateway)
        app = application(gateway, settings.http, mcp_app(surface, settings.http))
        listening = anyio.Event()

        def ready(url: str) -> None:
            address.append(url)
            listening.set()

        async def serve() -> None:
            await serve_http(app, settings.http, stop=stop, ready=ready, ending=surface.close)

        tasks.start_soon(serve)
        with anyio.fail_after(SOON_S):
            await listening.wait()
        tokens = {}
        for name, (role, scope) in TOKENS.items():
            made = await gateway.make_token(TokenRequest(name=name, role=role, scope=scope), LOCAL_USER)
            tokens[name] = made.token
        yield House(gateway=gateway, url=address[0], tokens=tokens)
        stop.set()
