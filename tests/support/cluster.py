"""The API of a Kubernetes cluster with `MCPServer` resources, as far as it is listed and watched.

It does what the API's conventions say of lists in pages, versions, bookmarks, and forgotten versions.
"""

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from maitred.config.kubernetes_settings import McpServerWatch

PATH = "/apis/mcp.x-k8s.io/v1alpha1/namespaces/mcp-servers/mcpservers"
TOKEN = "token-of-the-pod"

GROUP = {"groupVersion": "mcp.x-k8s.io/v1alpha1", "version": "v1alpha1"}
KIND = {"name": "mcpservers", "singularName": "mcpserver", "namespaced": True, "kind": "MCPServer"}
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "mcp.x-k8s.io", "versions": [GROUP], "preferredVersion": GROUP}],
    },
    "/apis/mcp.x-k8s.io/v1alpha1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "mcp.x-k8s.io/v1alpha1",
        "resources": [{**KIND, "verbs": ["list", "watch"]}],
    },
}
"""What `kubectl` asks first."""
LIST = {"apiVersion": "mcp.x-k8s.io/v1alpha1", "kind": "MCPServerList"}

Resource = dict[str, Any]


def mcp_server(
    name: str, url: str = "", *, image: str = "", annotations: Mapping[str, str] | None = None
) -> Resource:
    """A resource as the operator of the cluster has it."""
    meta: Resource = {"name": name, "namespace": "mcp-servers"}
    if annotations:
        meta["annotations"] = dict(annotations)
    source = {"type": "ContainerImage", "containerImage": {"ref": image or f"registry.example/{name}:1"}}
    status = {"address": {"url": url}} if url else {}
    about = {"apiVersion": "mcp.x-k8s.io/v1alpha1", "kind": "MCPServer"}
    return {**about, "metadata": meta, "spec": {"source": source}, "status": status}


@dataclass(kw_only=True)
class Cluster:
    """What it has, what it was asked, and how it misbehaves.

    `page` is how many resources a list has at once. `status` is answered to everything if it is not 200.
    `nonsense` is the body of every answer if there is some.
    `gone_by` is how a watch hears that its version is forgotten: the API does either.
    """

    token: str = TOKEN
    page: int = 2
    status: int = 200
    gone_by: str = "event"
    nonsense: str = ""
    requests: int = 0
    lists: int = 0
    watches: list[str] = field(default_factory=list)
    open: int = 0
    resources: dict[str, Resource] = field(default_factory=dict)
    url: str = ""
    _version: int = 100
    _oldest: int = 0
    _log: list[tuple[int, str, Resource]] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)
    _cuts: int = 0

    def put(self, *resources: Resource) -> None:
        """Make resources, or change them."""
        for one in resources:
            name = one["metadata"]["name"]
            self._note("MODIFIED" if name in self.resources else "ADDED", one)
            self.resources[name] = one

    def delete(self, name: str) -> None:
        """Delete a resource."""
        self._note("DELETED", self.resources.pop(name))

    def bookmark(self) -> None:
        """Tell all watches the present version."""
        self._note("BOOKMARK", {"metadata": {}})

    def forget(self) -> None:
        """Forget every version but the present one."""
        self._oldest, self._log = self._version, []

    def cut(self) -> None:
        """End all watches."""
        self._cuts += 1
        self._wake()

    def _note(self, kind: str, resource: Resource) -> None:
        self._version += 1
        resource["metadata"]["resourceVersion"] = str(self._version)
        self._log.append((self._version, kind, json.loads(json.dumps(resource))))
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def answer(self, request: Request) -> Response:
        """One request."""
        self.requests += 1
        if self.nonsense:
            return Response(self.nonsense, media_type="application/json")
        if self.status != 200:
            return _status(self.status, "as the test wants it")
        if request.headers.get("authorization", "") != (f"Bearer {self.token}" if self.token else ""):
            return _status(401, "Unauthorized")
        if request.query_params.get("watch"):
            return self._watch(request)
        return self._list(request)

    def _list(self, request: Request) -> Response:
        self.lists += 1
        at = int(request.query_params.get("continue", "0"))
        names = sorted(self.resources)
        meta = {"resourceVersion": str(self._version)}
        if at + self.page < len(names):
            meta["continue"] = str(at + self.page)
        items = [self.resources[name] for name in names[at : at + self.page]]
        return JSONResponse({**LIST, "metadata": meta, "items": items})

    def _watch(self, request: Request) -> Response:
        version = int(request.query_params["resourceVersion"])
        self.watches.append(str(version))
        if version < self._oldest:
            if self.gone_by == "status":
                return _status(410, "Expired")
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
            return Response(json.dumps(gone) + "\n", media_type="application/json")
        return StreamingResponse(self._changes(version), media_type="application/json")

    async def _changes(self, version: int) -> AsyncIterator[bytes]:
        cuts = self._cuts
        self.open += 1
        try:
            while cuts == self._cuts:
                news = self._news
                for at, kind, resource in [one for one in self._log if one[0] > version]:
                    version = at
                    line = json.dumps({"type": kind, "object": resource}).encode() + b"\n"
                    yield line[:20]  # a line comes in pieces
                    yield line[20:]
                await news.wait()
        finally:
            self.open -= 1


def _discovery(path: str) -> Route:
    return Route(path, lambda _: JSONResponse(DISCOVERY[path]))


def _status(code: int, reason: str) -> Response:
    return JSONResponse({"kind": "Status", "code": code, "reason": reason}, status_code=code)


@asynccontextmanager
async def serving(cluster: Cluster, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Cluster]:
    """Serve the API on this machine."""
    app = Starlette(routes=[Route(PATH, cluster.answer), *map(_discovery, DISCOVERY)])
    config = uvicorn.Config(
        app, port=0, log_config=None, ws="none", lifespan="off", timeout_graceful_shutdown=1
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await server.ready.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        cluster.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield cluster
        finally:
            cluster.cut()
            server.should_exit = True


class _Server(uvicorn.Server):
    """Says when it listens, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def watch_of(cluster: Cluster, folder: Path, **more: Any) -> McpServerWatch:
    """The settings by which a gateway watches the cluster."""
    token = folder / "cluster-token"
    token.write_text(f"{TOKEN}\n", encoding="utf-8")
    given = {"namespace": "mcp-servers", "api": cluster.url, "token_file": str(token), "ca_file": ""}
    return McpServerWatch(**{**given, **more})
