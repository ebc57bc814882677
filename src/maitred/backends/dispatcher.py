"""The SDK's stream dispatcher, which also reports its end and whether the server read a lost request.

It is for transports that are a pair of the SDK's streams, such as HTTP and memory. Transports that exchange
texts, one message each, use `maitred.jsonrpc`: the lines of child processes, or the frames of a socket.
"""

from contextvars import Context
from typing import Any, Final, cast

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT

from maitred.deadline import cancelled_at
from maitred.jsonrpc import (
    ChannelClosedError,
    CredentialsRefusedError,
    RequestOptions,
    RequestTimedOutError,
    UnreadableMessageError,
)

_FORGOTTEN_CODES = frozenset({INVALID_REQUEST, -32001})
LOG_MESSAGE: Final = "notifications/message"
_NOT_JSON = "Failed to parse "
_TRANSPORT_SAYS = ("Connection closed", "SSE stream")


class EndingDispatcher(JSONRPCDispatcher[Any]):
    """Distinguishes its own failures from errors that the server answered with the same codes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._end = anyio.Event()
        self._reason = "the connection was closed"
        self._close_reason = ""
        self._refused_ids: set[Any] = set()
        self._locked_out: dict[Any, str] = {}
        self._id_count = 0

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return not (self._end.is_set() or self._closed)

    def not_found(self, request_id: Any) -> None:
        """The transport got a 404 for a request of an open session: the server has forgotten the session."""
        self._refused_ids.add(request_id)

    def locked_out(self, request_id: Any, reason: str) -> None:
        """The transport got a 401 or 403 for a request: the server wants other credentials."""
        self._locked_out[request_id] = reason

    def _dispatch_notification(
        self, msg: Any, metadata: Any, on_notify: Any, sender_ctx: Context | None
    ) -> None:
        """Let the session see on whose stream a log message came; see `maitred.backends.callers`."""
        dispatch = super()._dispatch_notification
        if sender_ctx is None or msg.method != LOG_MESSAGE:
            dispatch(msg, metadata, on_notify, sender_ctx)
        else:
            sender_ctx.copy().run(dispatch, msg, metadata, on_notify, sender_ctx)

    async def run(self, *args: Any, **kwargs: Any) -> None:
        """Serve until the streams end."""
        try:
            await super().run(*args, **kwargs)
        finally:
            self._end.set()

    async def send_raw_request(
        self, method: str, params: Any, opts: CallOptions | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            ChannelClosedError: The connection ended; `unread` if the server certainly did not read the
                request.
            RequestTimedOutError: The answer did not come in time.
            CredentialsRefusedError: The server wants other credentials.
            UnreadableMessageError: The answer is no JSON-RPC message.
            MCPError: The server answered with an error.
        """
        if not self.alive:
            raise ChannelClosedError(self._reason, unread=True)
        self._id_count += 1
        options = cast("RequestOptions", dict(opts or {}))
        deadline = options.pop("deadline", None)
        request_id = options.setdefault("request_id", f"maitred-{self._id_count}")
        try:
            if deadline is None:
                return await super().send_raw_request(method, params, options, **kwargs)
            with cancelled_at(deadline):
                return await super().send_raw_request(method, params, options, **kwargs)
            raise RequestTimedOutError(f"Request {method!r} timed out")
        except MCPError as error:
            if reason := self._locked_out.get(request_id):
                raise CredentialsRefusedError(reason) from error
            if request_id in self._refused_ids and error.code in _FORGOTTEN_CODES:
                self._reason = "it has forgotten the session"
                self._end.set()
                raise ChannelClosedError(self._reason, unread=True) from error
            if error.code == CONNECTION_CLOSED and error.message.startswith(_TRANSPORT_SAYS):
                raise ChannelClosedError(self._close_reason or error.message) from error
            if error.code == REQUEST_TIMEOUT and isinstance(error.__context__, TimeoutError):
                raise RequestTimedOutError(error.message) from error
            if error.code == PARSE_ERROR and error.message.startswith(_NOT_JSON):
                raise UnreadableMessageError(_why_unreadable(error.message)) from error
            raise
        finally:
            self._refused_ids.discard(request_id)
            self._locked_out.pop(request_id, None)

    def close(self, reason: str) -> None:
        """End the connection; requests in flight fail with this reason when its context is left."""
        if self.alive:
            self._reason = self._close_reason = reason
            self._end.set()

    async def closed(self) -> str:
        """Wait for the end and return the reason."""
        await self._end.wait()
        return self._reason


def _why_unreadable(message: str) -> str:
    """What was wrong with an answer, in the words of its transport; those of a JSON parser help no one."""
    why = message.partition(": ")[2]
    return "it is no JSON-RPC message" if "validation error" in why or not why else why.splitlines()[0]
