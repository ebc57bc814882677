"""Requests of ours to a client that wait for its answer, where no line channel carries them.

The owner sends the messages and hands in what the client answers, in whatever way its transport has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

import anyio
from mcp.shared.dispatcher import CallOptions, as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from maitred.jsonrpc.errors import ChannelClosedError, RequestTimedOutError

_CANCEL_WRITE_S: Final = 2.0

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Questions:
    """The requests to one client that are open; their ids are numbers, or a prefix with numbers."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._pending: dict[str | int, asyncio.Future[dict[str, Any]]] = {}
        self._next_id = 0
        self._reason = ""

    async def ask(
        self, send: Send, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            MCPError: The client answered with an error, the time ran out (`REQUEST_TIMEOUT`), or the client
                left (`CONNECTION_CLOSED`, with the reason).
        """
        if self._reason:
            raise ChannelClosedError(self._reason, unread=True)
        self._next_id += 1
        request_id = f"{self._prefix}{self._next_id}" if self._prefix else self._next_id
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params:
            message["params"] = dict(params)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = future
        limit_s = (opts or {}).get("timeout")
        try:
            with anyio.fail_after(limit_s) if limit_s is not None else nullcontext():
                await send(message)
                return await future
        except TimeoutError:
            await self._abandon(send, request_id, "timed out")
            raise RequestTimedOutError(f"Request {method!r} timed out") from None
        except anyio.get_cancelled_exc_class():
            await self._abandon(send, request_id, "cancelled by the caller")
            raise
        finally:
            self._pending.pop(request_id, None)

    async def _abandon(self, send: Send, request_id: int | str, why: str) -> None:
        params = {"requestId": request_id, "reason": why}
        with anyio.move_on_after(_CANCEL_WRITE_S, shield=True):
            await send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def settle(self, message: Mapping[str, Any]) -> bool:
        """Take an answer of the client; false for one to a request that does not wait here."""
        key = as_request_id(message.get("id"))
        future = self._pending.get(coerce_request_id(key)) if key is not None else None
        if future is None or future.done():
            return False
        error, result = message.get("error"), message.get("result")
        if isinstance(result, dict):
            future.set_result(result)
        elif isinstance(error, dict):
            code = error.get("code")
            future.set_exception(
                MCPError(
                    code=code if isinstance(code, int) else INTERNAL_ERROR,
                    message=str(error.get("message", "")),
                    data=error.get("data"),
                )
            )
        else:
            why = "the answer has neither result nor error"
            future.set_exception(MCPError(code=INTERNAL_ERROR, message=why))
        return True

    def close(self, reason: str) -> None:
        """Fail every open request with the reason, and those that would follow."""
        self._reason = reason
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ChannelClosedError(reason))
