"""A gateway with its pages at an address, over servers whose definitions a test writes."""

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
from starlette.responses import PlainTextResponse

from maitred.config.settings import Admission, Catalog, Http, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Grant
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.app import application, web_interface
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.web.mount import WebInterface
from maitred.wiring import open_gateway

SOON_S = 120.0
Json = dict[str, Any]

_SERVER = Path(__file__).with_name("scripted_server.py")
_HTTP = Http(port=0)
_FIELD = re.compile(r'name="form_token" value="([^"]+)"')


def tool(name: str, description: str = "", **properties: Any) -> Json:
    """A tool as a server lists it."""
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": schema}


@dataclass(kw_only=True)
class House:
    """A gateway that is open, with its pages."""

    gateway: Gateway
    web: WebInterface
    url: str
    folder: Path
    clients: list[httpx2.AsyncClient] = field(default_factory=list)

    def script(self, server: str, *tools: Json, **more: Any) -> None:
        """Have a server publish something else from its next list on."""
        (self.folder / f"{server}.json").write_text(json.dumps({"tools": list(tools), **more}))

    async def change(self, server: str, *tools: Json, **more: Any) -> None:
        """Change what a server publishes, and have the gateway list it."""
        self.script(server, *tools, **more)
        [report] = await self.gateway.sync([server], viewer=LOCAL_USER)
        assert not report.error

    async def recorded(self, lines: int, **criteria: Any) -> None:
        """Wait until the audit trail has so many lines: those of calls that only read come soon after."""
        with anyio.fail_after(SOON_S):
            while True:
                found = await self.gateway.audit_lines(LOCAL_USER, limit=lines, **criteria)
                if len(found.lines) == lines:
                    return
                await anyio.sleep(0.05)

    def stranger(self) -> httpx2.AsyncClient:
        """A browser of a person who has not entered."""
        client = httpx2.AsyncClient(base_url=self.url, timeout=SOON_S, verify=False)
        self.clients.append(client)
        return client

    async def person(self, grant: Grant = LOCAL_GRANT) -> httpx2.AsyncClient:
        """A browser of a person who has entered by a code."""
        client = self.stranger()
        entered = await client.get(self.web.entry_path(grant))
        assert entered.status_code == 303
        return client


async def form_token(client: httpx2.AsyncClient, path: str = "/ui/") -> str:
    """The token that the forms of a page have."""
    found = _FIELD.search((await client.get(path)).text)
    assert found
    return found[1]


async def send(client: httpx2.AsyncClient, path: str, **fields: Any) -> httpx2.Response:
    """Send a form as the page of the same session would; the answer is the page that follows."""
    fields.setdefault("form_token", await form_token(client))
    origin = str(client.base_url).rstrip("/")
    return await client.post(path, data=fields, headers={"origin": origin}, follow_redirects=True)


def settings_of(folder: Path, servers: Mapping[str, Sequence[Json]], **more: Any) -> Settings:
    specs = {}
    for name, tools in servers.items():
        script = folder / f"{name}.json"
        if not script.exists():
            script.write_text(json.dumps({"tools": list(tools)}))
        specs[name] = ServerSpec(
            name=name, command=sys.executable, args=("-I", "-S", str(_SERVER), str(script))
        )
    settings = Settings(
        source=folder / "maitred.yaml",
        servers=specs,
        catalog=Catalog(path=str(folder / "c.db")),
        admission=Admission(pinning="quarantine"),
    )
    return replace(settings, **more)


@asynccontextmanager
async def opened(
    folder: Path,
    servers: Mapping[str, Sequence[Json]],
    *,
    http: Http = _HTTP,
    **more: Any,
) -> AsyncIterator[House]:
    """A gateway over these servers, at an address of loopback."""
    settings = settings_of(folder, servers, **more)
    addresses, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(address: str) -> None:
        addresses.append(address)
        ready.set()

    async with open_gateway(settings) as gateway:
        with anyio.fail_after(SOON_S):
            assert await gateway.settled(SOON_S)
        web = web_interface(gateway, http)
        app = application(gateway, http, PlainTextResponse("MCP"), web)

        async def serve() -> None:
            await serve_http(app, http, stop=stop, ready=listens, ending=web.close)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await ready.wait()
            house = House(gateway=gateway, web=web, url=addresses[0], folder=folder)
            try:
                yield house
            finally:
                for client in house.clients:
                    await client.aclose()
                stop.set()
