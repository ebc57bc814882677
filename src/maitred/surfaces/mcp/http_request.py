"""One HTTP request to the MCP endpoint: its headers, its body, and the answers that refuse it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from maitred.gateway.authorization import VIEWER
from maitred.jsonrpc.channel import parse
from maitred.model.access import Viewer
from maitred.surfaces.mcp.http_answer import JSON_TYPE, Headers, error_text, send_body, send_text

MOST_BODY: Final = 4 * 1024 * 1024
"""Bytes of a body."""

_JSON: Final = b"application/json"
_VERSION: Final = "2.0"


class HttpRefusalError(Exception):
    """A request is answered with an error: of JSON-RPC if it has a code, else as plain text."""

    def __init__(
        self,
        status: int,
        text: str,
        *,
        code: int | None = None,
        data: Any = None,
        request_id: str | int | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(text)
        self._status = status
        self._headers = headers
        self._body = None if code is None else error_text(request_id, code, text, data)

    async def send(self, send: Send) -> None:
        """Send the answer."""
        if self._body is None:
            await send_text(send, self._status, str(self), self._headers)
        else:
            await send_body(send, self._status, self._body, (JSON_TYPE, *self._headers))


class HttpRequest:
    """A request; of a repeated header, the first counts."""

    __slots__ = ("_receive", "headers", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self.send = send
        self.headers: Mapping[bytes, bytes] = dict(reversed(scope["headers"]))

    @property
    def method(self) -> str:
        """The HTTP method."""
        return str(self.scope["method"])

    @property
    def viewer(self) -> Viewer | None:
        """The viewer that the guard in front identified."""
        viewer = self.scope.get(VIEWER)
        return viewer if isinstance(viewer, Viewer) else None

    def choose(self, viewer: Viewer) -> None:
        """Count the request as that of another viewer: the same with a smaller part of the catalog."""
        self.scope[VIEWER] = viewer

    @property
    def metadata(self) -> ServerMessageMetadata:
        """What handlers of the SDK get of the request."""
        return ServerMessageMetadata(request_context=Request(self.scope))

    def header(self, name: bytes) -> str | None:
        """The value of a header."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value is not None else None

    def check_post(self) -> None:
        """Refuse a body that is no JSON, and a client that does not take both kinds of answers.

        Raises:
            HttpRefusalError: It says what the client has to send.
        """
        kind = self.headers.get(b"content-type", b"").lower()
        if not kind.startswith(_JSON):
            raise HttpRefusalError(400, "Invalid Content-Type header")
        if kind.partition(b";")[0].strip() != _JSON:
            text = "Unsupported Media Type: Content-Type must be application/json"
            raise HttpRefusalError(415, text, code=INVALID_REQUEST)
        if accepts(self.headers.get(b"accept", b"")) != (True, True):
            text = "Not Acceptable: Client must accept both application/json and text/event-stream"
            raise HttpRefusalError(406, text, code=INVALID_REQUEST)

    def check_size(self) -> None:
        """Refuse a body that is declared to be too large.

        Raises:
            HttpRefusalError: It is.
        """
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > MOST_BODY:
            raise HttpRefusalError(413, "Request body too large")

    async def message(self) -> Any:
        """The body, read as JSON.

        Raises:
            HttpRefusalError: It is too large, or no JSON.
            ClientDisconnect: The client left before it had sent all.
        """
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            received = await self._receive()
            if received["type"] != "http.request":
                raise ClientDisconnect
            part = received.get("body", b"")
            more = received.get("more_body", False)
            size += len(part)
            if size > MOST_BODY:
                raise HttpRefusalError(413, "Request body too large")
            parts.append(part)
        message = parse(parts[0] if len(parts) == 1 else b"".join(parts))
        if message is None:
            raise HttpRefusalError(400, "Parse error", code=PARSE_ERROR)
        return message


def is_request(message: Any) -> bool:
    """Whether a message is a well-formed request of JSON-RPC."""
    request_id = message.get("id") if isinstance(message, dict) else None
    return isinstance(request_id, str | int) and not isinstance(request_id, bool) and is_notification(message)


def is_notification(message: Mapping[str, Any]) -> bool:
    """Whether an object without an id is a well-formed notification of JSON-RPC."""
    params = message.get("params")
    return (
        message.get("jsonrpc") == _VERSION
        and isinstance(message.get("method"), str)
        and (params is None or isinstance(params, dict))
    )


@lru_cache(maxsize=64)
def accepts(header: bytes) -> tuple[bool, bool]:
    """Whether an `Accept` header takes JSON, and whether it takes a stream of events."""
    kinds = {one.partition(b";")[0].strip().lower() for one in header.split(b",")}
    everything = b"*/*" in kinds
    return (
        everything or not kinds.isdisjoint({b"application/json", b"application/*"}),
        everything or not kinds.isdisjoint({b"text/event-stream", b"text/*"}),
    )
