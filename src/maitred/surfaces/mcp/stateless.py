"""Requests of the stateless era over HTTP: each is whole in itself, and ends when its client leaves.

The order of the checks is that of the SDK, whose own functions compare headers and body.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PARAM_HEADER_PREFIX,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST
from starlette.datastructures import Headers

from maitred.jsonrpc import ScopedInbound
from maitred.surfaces.disconnects import OnDisconnect
from maitred.surfaces.encoding import encode
from maitred.surfaces.mcp.dispatch import StatelessDispatch
from maitred.surfaces.mcp.http_answer import HttpAnswer, failure_text, send_body
from maitred.surfaces.mcp.http_request import HttpRefusalError, HttpRequest, is_notification, is_request
from maitred.surfaces.mcp.pings import Pings
from maitred.surfaces.mcp.server import McpSurface

log = structlog.get_logger(__name__)

_OURS = b"mcp-"
_PARAMETER = MCP_PARAM_HEADER_PREFIX.lower()
_OK, _ACCEPTED = 200, 202


class StatelessEndpoint:
    """Answers requests; `state` is that of the SDK's server."""

    def __init__(self, surface: McpSurface, state: Any, pings: Pings) -> None:
        self._surface = surface
        self._dispatch = StatelessDispatch(surface, state)
        self._pings = pings

    async def serve(self, request: HttpRequest) -> None:
        """Answer a request.

        Raises:
            HttpRefusalError: It is malformed, or its headers and its body differ.
        """
        if request.method != "POST":
            raise HttpRefusalError(405, "Method Not Allowed", headers=((b"allow", b"POST"),))
        request.check_post()
        message = await request.message()
        if isinstance(message, dict) and "id" not in message:
            await self._acknowledge(request, message)
            return
        if not is_request(message):
            raise _invalid()
        route = self._route(request, message)
        answer = _StatelessAnswer(request.send)
        context = _StatelessRequest(answer, request, message)
        self._pings.add(answer)
        try:
            await self._answer(answer, context, message, route)
        finally:
            self._pings.discard(answer)

    async def _answer(
        self,
        answer: "_StatelessAnswer",
        context: "_StatelessRequest",
        message: Mapping[str, Any],
        route: InboundModernRoute,
    ) -> None:
        request, text, code = context.request, b"", 0
        try:
            with context.scope, OnDisconnect(request.scope, context.scope.cancel):
                result = await self._dispatch.on_request(
                    context, message["method"], message.get("params"), route, request.viewer
                )
                text = encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
        except Exception as error:  # noqa: BLE001  # the client gets every error as its answer
            text, code = failure_text(message["id"], error)
        if text:
            await answer.finish(text, status=ERROR_CODE_HTTP_STATUS.get(code, _OK))

    async def _acknowledge(self, request: HttpRequest, message: Mapping[str, Any]) -> None:
        """Accept a notification, of which this revision has none; the version must be served."""
        if not is_notification(message):
            raise _invalid()
        rejection = unsupported_protocol_version_rejection(request.header(b"mcp-protocol-version") or "")
        if rejection is not None:
            raise _rejected(rejection, None)
        log.debug("a notification of a stateless client was dropped", method=message["method"])
        await send_body(request.send, _ACCEPTED)

    def _route(self, request: HttpRequest, message: Mapping[str, Any]) -> InboundModernRoute:
        """What the envelope of a request says, once its headers agree with its body."""
        raw = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.scope["headers"]
            if name.startswith(_OURS)
        ]
        headers = dict(raw)
        if len(headers) < len(raw) and (name := find_duplicated_routing_header(raw)) is not None:
            why = f"{name} header appears more than once"
            raise _rejected(InboundLadderRejection(code=HEADER_MISMATCH, message=why), message["id"])
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            raise _rejected(route, message["id"])
        if message["method"] == "tools/call":
            self._check_parameters(request, message, headers)
        return route

    def _check_parameters(
        self, request: HttpRequest, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> None:
        """Compare the headers that repeat arguments with the arguments."""
        params = message["params"]
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            return
        has_headers = any(header.startswith(_PARAMETER) for header in headers)
        if not arguments and not has_headers:
            return
        schema = self._surface.schema_of_headers(name, request.viewer, has_headers=has_headers)
        if schema is None:
            return
        rejection = validate_mcp_param_headers(schema, arguments or {}, Headers(scope=request.scope))
        if rejection is not None:
            raise _rejected(rejection, message["id"])


class _StatelessAnswer(HttpAnswer):
    """An answer that takes notifications of its request, and no requests to the client."""

    __slots__ = ()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification before the answer."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        await self.event(encode(message))

    async def ask(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refused: this revision has no requests to clients."""
        raise NoBackChannelError(method)


class _StatelessRequest(ScopedInbound):
    """The context of a request, as handlers of the SDK expect it."""

    transport = TransportContext(kind="streamable-http", can_send_request=False)
    can_send_request = False

    def __init__(self, answer: _StatelessAnswer, request: HttpRequest, message: Mapping[str, Any]) -> None:
        super().__init__(answer.notify, answer.ask, message["id"], message.get("params"))
        self.request = request

    @property
    def message_metadata(self) -> ServerMessageMetadata:  # type: ignore[override]
        """The HTTP request, which handlers of the SDK get."""
        return self.request.metadata


def _invalid() -> HttpRefusalError:
    text = "Body must be a single JSON-RPC request or notification object"
    return HttpRefusalError(400, text, code=INVALID_REQUEST)


def _rejected(rejection: InboundLadderRejection, request_id: str | int | None) -> HttpRefusalError:
    return HttpRefusalError(
        ERROR_CODE_HTTP_STATUS.get(rejection.code, _OK),
        rejection.message,
        code=rejection.code,
        data=rejection.data,
        request_id=request_id,
    )
