"""Translate names of tools and prompts between the conformance suite and the gateway.

The suite asks for them by the names it prescribes; the gateway publishes them as `server__name`. This proxy
puts the prefix on in calls (`params.name`, and the `Mcp-Name` header that repeats it) and in references to
prompts, and takes it off in lists. Names which the gateway lists without the prefix are its own and stay as
they are. URIs of resources pass as they are: the gateway knows a server's own where no other server has it.

It judges, repairs and adds nothing: all other bytes, headers and statuses pass as they came, so that a
verdict of the suite is one on the gateway. Only its own `host:port` in Host and Origin becomes the gateway's,
as behind any reverse proxy; a foreign one passes, for the gateway to refuse. White space around the value of
a header is lost, since HTTP clients send none; a test of its own in `test_conformance.py` sends some.
"""

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

Headers: TypeAlias = list[tuple[bytes, bytes]]

METHODS = ["GET", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"]

# Both belong to one connection, and a changed name changes the length.
OF_THE_CONNECTION = {b"connection", b"keep-alive", b"transfer-encoding", b"content-length"}


class NameMap:
    """The prefix of one server, and the names that never carry it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._own: set[str] = set()

    def _published(self, name: str) -> str:
        return name if name in self._own else f"{self._prefix}{name}"

    def request(self, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
        """Translate the name in the body of a call and in the header that repeats it."""
        message = parse(body)
        match message:
            case {"method": "tools/call" | "prompts/get", "params": {"name": str(name)}}:
                message["params"]["name"] = self._published(name)
                return dump(message), [self._header(*header) for header in headers]
            case {
                "method": "completion/complete",
                "params": {"ref": {"type": "ref/prompt", "name": str(name)}},
            }:
                message["params"]["ref"]["name"] = self._published(name)
                return dump(message), headers
            case _:
                return body, headers

    def _header(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        if name != b"mcp-name":
            return name, value
        return name, self._published(value.decode("latin-1")).encode("latin-1")

    def response_body(self, body: bytes) -> bytes:
        message = parse(body)
        match message:
            case {"result": {"tools": [*entries]}}:
                message["result"]["tools"] = [self._bare(entry) for entry in entries]
                return dump(message)
            case {"result": {"prompts": [*entries]}}:
                message["result"]["prompts"] = [self._bare(entry) for entry in entries]
                return dump(message)
            case _:
                return body

    def response_line(self, line: bytes) -> bytes:
        """Translate one line of an event stream, its end included."""
        field, _, data = line.partition(b":")
        if field != b"data":
            return line
        content = data.rstrip(b"\r\n")
        return b"data:" + self._indented(content) + data[len(content) :]

    def _indented(self, content: bytes) -> bytes:
        value = content.removeprefix(b" ")
        return content[: len(content) - len(value)] + self.response_body(value)

    def _bare(self, entry: Any) -> Any:
        match entry:
            case {"name": str(name)} if name.startswith(self._prefix):
                return {**entry, "name": name.removeprefix(self._prefix)}
            case {"name": str(name)}:
                self._own.add(name)
        return entry


def parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def dump(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def passing(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in OF_THE_CONNECTION]


class Proxy:
    """One gateway endpoint, seen under another address and with other tool names."""

    def __init__(self, *, upstream: str, own: str, names: NameMap) -> None:
        self._upstream = httpx2.URL(upstream)
        self._own = own.encode()
        self._names = names
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False)

    def app(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with self._client:
                yield

        return Starlette(routes=[Route("/{path:path}", self.relay, methods=METHODS)], lifespan=lifespan)

    async def relay(self, request: Request) -> Response:
        body, headers = self._names.request(await request.body(), self._readdressed(request.headers.raw))
        url = self._upstream.copy_with(raw_path=target(request))
        answer = await self._client.send(
            httpx2.Request(request.method, url, headers=headers, content=body), stream=True
        )
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return replied(answer, StreamingResponse(self._translated(answer), answer.status_code))
        whole = b"".join([chunk async for chunk in answer.aiter_raw()])
        return replied(answer, Response(self._names.response_body(whole), answer.status_code))

    def _readdressed(self, headers: Headers) -> Headers:
        theirs = self._upstream.netloc
        own = {self._own: theirs, b"http://" + self._own: b"http://" + theirs}
        return [
            (name, own.get(value, value) if name in {b"host", b"origin"} else value)
            for name, value in ((name, value.strip(b" \t")) for name, value in passing(headers))
        ]

    async def _translated(self, answer: httpx2.Response) -> AsyncIterator[bytes]:
        rest = b""
        try:
            async for chunk in answer.aiter_raw():
                *lines, rest = (rest + chunk).split(b"\n")
                yield b"".join(self._names.response_line(line + b"\n") for line in lines)
            yield self._names.response_line(rest)
        finally:
            await answer.aclose()


def replied(answer: httpx2.Response, response: Response) -> Response:
    """Give `response` the headers of `answer`, except for its length, which may have changed."""
    length = [(name, value) for name, value in response.raw_headers if name == b"content-length"]
    response.raw_headers = passing(answer.headers.raw) + length
    return response


def target(request: Request) -> bytes:
    """Return path and query as they came."""
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope["query_string"]
    return raw_path + (b"?" + query if query else b"")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="where the suite connects")
    parser.add_argument("--upstream", required=True, help="root of the gateway, as in http://127.0.0.1:8080")
    parser.add_argument("--prefix", required=True, help="what the gateway puts before each name")
    given = parser.parse_args()
    own = f"127.0.0.1:{given.port}"
    proxy = Proxy(upstream=given.upstream, own=own, names=NameMap(given.prefix))
    uvicorn.run(
        proxy.app(),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        server_header=False,
        date_header=False,
    )


if __name__ == "__main__":
    main()
