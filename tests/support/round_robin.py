"""A load balancer that knows nothing: each request goes to the next of several gateways."""

import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import anyio
import httpx2
import uvicorn
from starlette.types import Message, Receive, Scope, Send

OF_THE_CONNECTION = {b"connection", b"keep-alive", b"transfer-encoding"}


class RoundRobin:
    """An ASGI application in front of gateways; one that refuses the connection is passed over."""

    def __init__(self, http: httpx2.AsyncClient, roots: Sequence[str]) -> None:
        self._http = http
        self.roots = [*roots]
        self.url = ""
        self._turns = itertools.count()
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
            await self._relay(scope, body, send)
            tasks.cancel_scope.cancel()

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()
        scope.cancel()

    async def _relay(self, scope: Scope, body: bytes, send: Send) -> None:
        headers = [(k, v) for k, v in scope["headers"] if k not in OF_THE_CONNECTION | {b"host"}]
        query = scope["query_string"].decode()
        path = scope["raw_path"].decode() + (f"?{query}" if query else "")
        for _ in self.roots:
            root = self.roots[next(self._turns) % len(self.roots)]
            request = httpx2.Request(scope["method"], root + path, headers=headers, content=body)
            self.requests += 1
            try:
                answer = await self._http.send(request, stream=True)
            except httpx2.ConnectError:
                continue
            try:
                own = [(k.lower(), v) for k, v in answer.headers.raw if k.lower() not in OF_THE_CONNECTION]
                await send({"type": "http.response.start", "status": answer.status_code, "headers": own})
                async for chunk in answer.aiter_raw():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                with anyio.CancelScope(shield=True):
                    await answer.aclose()
            return
        await send({"type": "http.response.start", "status": 502, "headers": []})
        await send({"type": "http.response.body", "body": b"no gateway answers"})


class _Server(uvicorn.Server):
    """Leaves signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def round_robin(roots: Sequence[str]) -> AsyncIterator[RoundRobin]:
    """Listen on a free port of loopback, and pass requests on to the gateways at these addresses."""
    async with httpx2.AsyncClient(
        timeout=None, trust_env=False, limits=httpx2.Limits(max_connections=None)
    ) as http:
        proxy = RoundRobin(http, roots)
        config = uvicorn.Config(
            proxy, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        server = _Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for us
                await anyio.sleep(0.005)
            proxy.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                yield proxy
            finally:
                server.should_exit = True
