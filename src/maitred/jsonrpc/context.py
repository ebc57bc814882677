"""The context of one message from the peer, in the form that the SDK's handlers expect."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext

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
        self.scope = anyio.CancelScope()
        self.cancel_requested = anyio.Event()

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
        if self.progress_token is None or self.cancel_requested.is_set():
            return
        params: dict[str, Any] = {"progressToken": self.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._notify("notifications/progress", params, None)
