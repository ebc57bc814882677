"""The internal endpoint, by which other replicas send requests; it is beside the guard, not behind it.

A request needs the signed token of a replica, which no client has. It is checked before the body is read.
"""

from typing import Final

import anyio
import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.gateway import Gateway
from maitred.replicas.forwarding import HEADER, PATH
from maitred.replicas.internal_token import InternalTokenError
from maitred.surfaces.disconnects import OnDisconnect
from maitred.surfaces.http.errors import Refusal

log = structlog.get_logger(__name__)

_HEADER: Final = HEADER.lower().encode()


class InternalEndpoint:
    """Answers requests of other replicas, and passes all others on."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a replica that closes the connection cancels it."""
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        with anyio.CancelScope() as running, OnDisconnect(scope, running.cancel):
            answer = await self._answer(scope, receive)
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] != "POST":
            return Refusal(405, "method_not_allowed", "this address takes POST alone")
        token = next((value for name, value in scope["headers"] if name.lower() == _HEADER), b"")

        async def read(most: int) -> bytes:
            return await _read(receive, most)

        try:
            body = await self._gateway.answer_replica(token.decode("latin-1"), read)
        except InternalTokenError as error:
            return Refusal(401, "internal_token_refused", str(error))
        except _TooLargeError:
            return Refusal(413, "body_too_large", "the request is larger than a message may be")
        except Exception:  # a handler is code of any feature; the sender hears that it failed
            log.exception("a request of another replica failed")
            return Refusal(500, "failed", "the request failed; the log of this replica says why")
        return Response(body, media_type="application/octet-stream")


class _TooLargeError(Exception):
    """The body is larger than one may be."""


async def _read(receive: Receive, most: int) -> bytes:
    """The whole body, or what came of it before the sender left."""
    parts, size, has_more = [], 0, True
    while has_more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _TooLargeError
        has_more = message.get("more_body", False)
    return b"".join(parts)
