"""Gateways over servers in this process whose lists a test may change, and a way to wait for the catalog."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from tests.catalog.makers import Counter, LetsAllIn, open_store

from maitred.audit.masking import mask_value
from maitred.backends.base import Backend
from maitred.backends.pool import BackendPool
from maitred.catalog.discovery import Discoverer
from maitred.catalog.live import LiveCatalog
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway
from maitred.gateway.menu import Menu
from maitred.gateway.state import GatewayState as GatewayContext
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.storage.leader import Jobs
from maitred.usage.observations import ToolObservations
from maitred.wiring import open_gateway
from maitred.wiring.storage import database_of

SOON_S = 120.0
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
Context = ServerRequestContext[Any, Any]


class Upstream:
    """A server; what it lists may be changed between two listings, and `well` be taken from it."""

    def __init__(
        self,
        name: str,
        tools: Mapping[str, str] | None = None,
        *,
        resources: Mapping[str, str] | None = None,
        templates: Sequence[str] = (),
        prompts: Sequence[str] = (),
        values: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.tools = dict(tools or {})
        self.resources = dict(resources or {})
        self.templates = list(templates)
        self.prompts = list(prompts)
        self.values = values
        self.meta: dict[str, Any] | None = None
        self.hints: types.ToolAnnotations | None = None
        self.well = True
        self.starts = 0

    def sdk(self) -> Server[Any]:
        """The server object; it declares resources, prompts and completions only if it has some."""
        offers: dict[str, Any] = {}
        if self.resources or self.templates:
            offers["on_list_resources"] = self._list_resources
            offers["on_list_resource_templates"] = self._list_templates
            offers["on_read_resource"] = self._read
        if self.prompts:
            offers |= {"on_list_prompts": self._list_prompts, "on_get_prompt": self._get_prompt}
        if self.values is not None:
            offers["on_completion"] = self._complete
        return Server(
            self.name,
            instructions=f"About {self.name}.",
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call,
            **offers,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        self.starts += 1
        if not self.well:
            raise RuntimeError("it is in a mood")
        yield

    async def _list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        listed = [
            types.Tool(name=n, description=d, input_schema=SCHEMA, annotations=self.hints)
            for n, d in self.tools.items()
        ]
        return types.ListToolsResult(tools=listed)

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = types.TextContent(text=f"{self.name}/{params.name}")
        return types.CallToolResult(content=[text], _meta=self.meta)

    async def _list_resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=u, name=u) for u in self.resources])

    async def _list_templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        found = [types.ResourceTemplate(uri_template=t, name=t) for t in self.templates]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if params.uri not in self.resources and not self.templates:
            raise MCPError(-32002, "no such resource")
        text = f"{self.name}: {self.resources.get(params.uri, 'made up')}"
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

    async def _list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=name) for name in self.prompts])

    async def _get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        said = types.TextContent(text=f"{self.name}/{params.name} {params.arguments}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def _complete(self, _: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        asked = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        values = [v for v in self.values or () if v.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=[asked, *values]))


def settings_of(folder: Path, *names: str, **fields: Any) -> Settings:
    """Settings for servers in this process, with a catalog in the folder."""
    fields.setdefault("disclosure", Disclosure(mode="menu"))
    return Settings(
        source=folder / "maitred.yaml",
        servers={name: ServerSpec(name=name, transport="memory") for name in names},
        catalog=Catalog(path=str(folder / "c.db")),
        **fields,
    )


@asynccontextmanager
async def opened(
    settings: Settings, *upstreams: Upstream, within_s: float = 2 * SOON_S
) -> AsyncIterator[Gateway]:
    """A gateway that knows all of its servers, and has placed their tools."""
    with anyio.fail_after(within_s):
        servers = {upstream.name: upstream.sdk() for upstream in upstreams}
        async with open_gateway(settings, in_process=servers) as gateway:
            assert await gateway.settled(SOON_S)
            await until(gateway, lambda: all(tool.placement.by for tool in gateway.snapshot.tools))
            yield gateway


async def until(gateway: Gateway, true: Callable[[], bool]) -> None:
    """Wait until something is true; it is looked at whenever lists may have changed."""
    news = anyio.Event()

    def heard() -> None:
        news.set()

    gateway.listen(lists=heard, resource=lambda *_: None)
    with anyio.fail_after(SOON_S):
        while not true():
            await news.wait()
            news = anyio.Event()


async def call(gateway: Gateway, name: str, times: int = 1) -> dict[str, Any]:
    """Call a tool so often; the last answer."""
    for _ in range(times):
        answer = await gateway.call(ToolCall(name=name, arguments={"path": "/"}), viewer=LOCAL_USER)
    return answer


class Shown:
    """The menu of a snapshot without any servers behind it; the snapshot may be put in place of another."""

    def __init__(self, snapshot: Snapshot, **fields: Any) -> None:
        self.settings = settings_of(Path(), *snapshot.servers, **fields)
        self.catalog = LiveCatalog(open_store("never-opened.db"))
        self.show(snapshot)
        pool = BackendPool(_unneeded, max_starting=1, on_close=_nothing)
        keeper = Discoverer(self.catalog, pool, Counter(), LetsAllIn())
        self.seen = ToolObservations(database_of(self.settings), mask_value)
        self.context = GatewayContext(
            self.settings,
            catalog=self.catalog,
            pool=pool,
            keeper=keeper,
            observations=self.seen,
            jobs=Jobs(database_of(self.settings)),
        )
        self.menu = Menu(self.context, lambda _, __: [])

    def show(self, snapshot: Snapshot) -> None:
        self.catalog.snapshot = snapshot


def _unneeded(spec: ServerSpec) -> Backend:
    raise AssertionError(f"{spec.name} was started")


def _nothing() -> None:
    """Nothing is open."""
