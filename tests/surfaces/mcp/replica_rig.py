"""Several gateways on one PostgreSQL, each at an address of its own, behind a proxy that takes turns."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.server.lowlevel import Server
from tests.support.round_robin import RoundRobin, round_robin
from tests.surfaces.mcp.http_rig import SOON_S, RawSession, RawStateless

from maitred.config.settings import Catalog, Disclosure, Http, Settings
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway
from maitred.wiring.storage import _DATABASES

DECLARED: dict[str, Any] = {
    "facts": {"draft": False},
    "on_success": {"begin": {"draft": True}},
    "visible_when": {"publish": "draft"},
}


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One gateway, and what ends it in good order."""

    gateway: Gateway
    url: str
    stop: anyio.Event
    ended: anyio.Event

    async def end(self) -> None:
        """End it, and wait until it has ended."""
        self.stop.set()
        await self.ended.wait()

    @asynccontextmanager
    async def http(self, token: str = "") -> AsyncIterator[httpx2.AsyncClient]:
        """A client of this gateway alone."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S) as http:
            yield http


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Gateways, and the proxy in front of them."""

    replicas: Sequence[Replica]
    proxy: RoundRobin
    settings: Settings

    @asynccontextmanager
    async def session(self, *, at: int | None = None, **options: Any) -> AsyncIterator["FleetSession"]:
        """A session that is opened at one gateway, or through the proxy."""
        url = self.proxy.url if at is None else self.replicas[at].url
        async with AsyncExitStack() as stack:
            client = httpx2.AsyncClient(base_url=url, timeout=SOON_S)
            session = FleetSession(await stack.enter_async_context(client), self, stack)
            await session.open(**options)
            yield session

    @asynccontextmanager
    async def stateless(self, at: int) -> AsyncIterator[RawStateless]:
        """A client of the stateless era at one gateway."""
        async with self.replicas[at].http() as http:
            yield RawStateless(http)


class FleetSession(RawSession):
    """A session whose client goes to whichever gateway a test says."""

    def __init__(self, http: httpx2.AsyncClient, fleet: Fleet, stack: AsyncExitStack) -> None:
        super().__init__(http)
        self._fleet = fleet
        self._stack = stack

    async def at(self, number: int) -> RawSession:
        """The same session at a gateway."""
        url = self._fleet.replicas[number].url
        client = httpx2.AsyncClient(base_url=url, timeout=SOON_S)
        there = RawSession(await self._stack.enter_async_context(client))
        there.headers = self.headers
        return there


@asynccontextmanager
async def fleet(
    folder: Path,
    url: str,
    make_server: Callable[[], Server[Any]],
    *,
    count: int = 2,
    limit_s: float | None = SOON_S,
    change: Callable[[Settings], Settings] = lambda settings: settings,
) -> AsyncIterator[Fleet]:
    """Gateways with one server, which is in this process; all of it takes at most `limit_s`."""
    http = Http(port=0, unready_s=0.3, drain_s=2)
    settings = change(
        Settings(
            source=folder / "maitred.yaml",
            servers={"s": ServerSpec(name="s", transport="memory", era="handshake", visibility=DECLARED)},
            disclosure=Disclosure(mode="all"),
            catalog=Catalog(url=url),
            http=http,
        )
    )
    with anyio.fail_after(limit_s):
        async with AsyncExitStack() as stack:
            replicas = [
                await stack.enter_async_context(_replica(settings, make_server())) for _ in range(count)
            ]
            proxy = await stack.enter_async_context(round_robin([one.url for one in replicas]))
            yield Fleet(replicas=replicas, proxy=proxy, settings=settings)


@asynccontextmanager
async def _replica(settings: Settings, server: Server[Any]) -> AsyncIterator[Replica]:
    ready, stop, ended, addresses = anyio.Event(), anyio.Event(), anyio.Event(), list[str]()

    def listens(url: str) -> None:
        hosted[0].join_replicas(url)
        addresses.append(url)
        ready.set()

    hosted = list[Gateway]()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            try:
                _DATABASES.clear()  # as in a process of its own, which shares no connections with others
                async with open_gateway(settings, in_process={"s": server}, serves=True) as gateway:
                    assert await gateway.settled(SOON_S)
                    hosted.append(gateway)
                    surface = McpSurface(gateway)
                    mcp = mcp_app(surface, settings.http)
                    app = application(gateway, settings.http, mcp, is_draining=stop.is_set)
                    await serve_http(
                        app,
                        settings.http,
                        stop=stop,
                        ready=listens,
                        ending=surface.close,
                        is_idle=lambda: not surface.parked_calls.count,
                    )
            finally:
                ended.set()

        tasks.start_soon(serve)
        await ready.wait()
        replica = Replica(gateway=hosted[0], url=addresses[0], stop=stop, ended=ended)
        try:
            yield replace(replica)
        finally:
            stop.set()
