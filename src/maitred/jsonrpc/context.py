"""The context of one message from the peer, in the form that the SDK's handlers expect."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext

from maitred.deadline import Deadline


class RequestOptions(CallOptions, total=False):
    """The options of the SDK for one request, with a deadline that may move, in place of `timeout`."""

    deadline: Deadline


Notify = Callable[[str, Mapping[str, Any] | None, CallOptions | None], Awaitable[None]]
Ask = Callable[[str, Mapping[str, Any] | None, CallOptions | None], Awaitable[dict[str, Any]]]


class Inbound:
    """The context of one message: its id, its progress token, and whether the peer cancelled it."""

    transport = TransportContext(kind="stdio", can_send_request=True)
    can_send_request = True
    message_metadata = None

    def __init__(self, notify: Notify, ask: Ask, request_id: Any, params: Mapping[str, Any] | None) -> None:
        self._notify = notify
        self._ask = ask
        self.request_id = request_id
        self.progress_token = progress_token_from_params(params)
        self.is_cancelled = False
        self._cancelled: anyio.Event | None = None

    @property
    def cancel_requested(self) -> anyio.Event:
        """Set when the peer cancels the request."""
        if self._cancelled is None:
            self._cancelled = anyio.Event()
            if self.is_cancelled:
                self._cancelled.set()
        return self._cancelled

    def cancel(self) -> None:
        """Note that the peer cancelled the request."""
        self.is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send the peer a request, also after its own was answered; raises as the channel does."""
        return await self._ask(method, params, opts)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification."""
        await self._notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the peer asked for it."""
        if self.progress_token is None or self.is_cancelled:
            return
        params: dict[str, Any] = {"progressToken": self.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._notify("notifications/progress", params, None)


class ScopedInbound(Inbound):
    """A message whose answer is made in a cancel scope of its own, where no task is cancelled for it."""

    def __init__(self, notify: Notify, ask: Ask, request_id: Any, params: Mapping[str, Any] | None) -> None:
        super().__init__(notify, ask, request_id, params)
        self.scope = anyio.CancelScope()

    def cancel(self) -> None:
        """Note that the peer cancelled the request, and end the work for it."""
        super().cancel()
        self.scope.cancel()
