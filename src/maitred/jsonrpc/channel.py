"""JSON-RPC, one message a line, for servers that are child processes and for a client on stdio.

It implements the SDK's `Dispatcher` protocol, so the SDK's sessions speak both protocol eras over it. It has
three advantages over the SDK's own. It answers within one task switch, limits the length of a line, and
survives what real servers write: log lines, ANSI colours, invalid UTF-8, messages that answer no request.
"""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

import anyio
import anyio.abc
import structlog
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import (
    cancelled_request_id_from_params,
    handler_exception_to_error_data,
)
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData
from pydantic_core import PydanticSerializationError, from_json, to_json

from maitred.background import Background, PooledTask, TaskPool
from maitred.deadline import Deadline, DeadlineQueue, FixedDeadline
from maitred.jsonrpc.context import Inbound, RequestOptions
from maitred.jsonrpc.errors import ChannelClosedError, RequestTimedOutError, UnreadableMessageError
from maitred.model.nesting import depth_within
from maitred.token_bucket import TokenBucket

log = structlog.get_logger(__name__)

Write = Callable[[bytes], anyio.Event | None]

_NOISE_BURST = 20_000.0
_NOISE_PER_S = 2_000.0
_FLOOD_BYTES = 32 * 1024
_FLOOD_UNITS = 32
_FLOOD_S = 1.0
_CANCEL_WRITE_S = 2.0
_DEEPEST = 200
_MOST_LEVELS = 700
_EXCERPT_CHARS = 200
_TOO_LARGE = 1e300
_BOM = b"\xef\xbb\xbf"
_BYTE_ORDER = _BOM + b"\xff\xfe"
_MESSAGE = re.compile(rb"\s*[\[{].*[\"']jsonrpc[\"']\s*:", re.DOTALL)
_ANSWER = re.compile(rb"\s*[\[{].*[\"'](?:result|error)[\"']\s*:", re.DOTALL)
_ID = re.compile(rb"[\"']id[\"']\s*:\s*[\"']?(\d{1,15})\b")


class _Pending:
    """A request of ours that waits for its answer. `unread`: the peer certainly did not read it."""

    __slots__ = ("_method", "future", "progress", "unread")

    def __init__(
        self, method: str, future: asyncio.Future[dict[str, Any]], progress: ProgressFnT | None
    ) -> None:
        self._method = method
        self.future = future
        self.progress = progress
        self.unread = False

    def expire(self) -> None:
        """Fail, since the time is up."""
        if not self.future.done():
            self.future.set_exception(RequestTimedOutError(f"Request {self._method!r} timed out"))

    def end(self) -> None:
        """Forget an outcome that is not waited for any more."""
        if self.future.done() and not self.future.cancelled():
            self.future.exception()  # mark as retrieved: the connection may have ended meanwhile


class _Serving(NamedTuple):
    """A request of the peer that is being answered. An `endless` one is answered when the peer ends it."""

    context: Inbound
    task: PooledTask
    endless: bool


class LineChannel:
    """Requests, answers and notifications over a pair of byte pipes.

    The owner passes what the peer writes to `feed`, and calls `close` when the peer is gone. A transport with
    frames makes a line of each: it replaces line ends within the frame by spaces, and adds one.

    Args:
        write: Sends bytes to the peer without waiting; a BrokenPipeError means that the peer read none of
            them. If the peer is behind, it returns the event that is set once the peer has caught up.
        max_message_bytes: A longer line ends the channel.
        trusted: Do not cut off a peer that sends many requests, as a client does.
        inline: Methods that the gateway answers before it reads the next message.
        endless: Methods that are answered only when the peer ends them.
        ids: The beginning of the ids of our requests. A peer that may answer a request of another gateway
            needs ids that no other gateway uses.
    """

    def __init__(
        self,
        write: Write,
        *,
        max_message_bytes: int,
        trusted: bool = False,
        inline: frozenset[str] = frozenset(),
        endless: frozenset[str] = frozenset(),
        ids: str = "",
    ) -> None:
        self._write = write
        self._max_message_bytes = max_message_bytes
        self._trusted = trusted
        self._inline = inline
        self._endless = endless
        self._ids = ids
        self._waiting = True
        self._inbound: dict[str | int, _Serving] = {}
        self._pending: dict[str | int, _Pending] = {}
        self._outbox: list[tuple[bytes, _Pending | None]] = []
        self._behind: anyio.Event | None = None
        self._deadlines = DeadlineQueue()
        self._next_id = 0
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._early: deque[bytes] = deque()
        self._handlers: tuple[OnRequest, OnNotify, OnNotifyIntercept | None] | None = None
        self._background = Background()
        self._tasks = TaskPool(self._background)
        self._warned_unreadable = False
        self._noise = TokenBucket(per_s=_NOISE_PER_S, size=_NOISE_BURST, now=time.monotonic())
        self._noise_read = 0.0
        self._read_bytes = 0
        self._closed = anyio.Event()
        self._ending = ""
        self.reason = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the peer's output; they may end in the middle of a line."""
        if self._closed.is_set():
            return
        self._allow_noise(len(data))
        head, newline, rest = data.partition(b"\n")
        if not newline:
            self._keep(head)
            return
        self._take_line(b"".join([*self._partial, head]))
        self._partial, self._partial_bytes = [], 0
        *lines, tail = rest.split(b"\n")
        for line in lines:
            self._take_line(line)
        self._keep(tail)

    def _keep(self, data: bytes) -> None:
        if data:
            self._partial.append(data)
            self._partial_bytes += len(data)
            if self._partial_bytes > self._max_message_bytes:
                self.close(
                    f"it sent a message of more than {self._max_message_bytes:,} bytes"
                    " (limits.max_message_bytes)"
                )

    def _take_line(self, line: bytes) -> None:
        if self._waiting:
            self._early.append(line)
            if len(self._early) > _NOISE_BURST:
                self.close("it flooded its standard output before the first request")
            return
        if not line.strip():
            self._count_noise(1)
            return
        message = parse(line)
        several = message if isinstance(message, list) else [message]
        readable = [
            entry for entry in several if isinstance(entry, dict) and ("method" in entry or "id" in entry)
        ]
        if len(readable) < len(several):
            self._take_unreadable(line)
        for entry in readable:
            if "method" in entry:
                self._take_message(entry)
            else:
                self._settle(entry)

    def _take_unreadable(self, line: bytes) -> None:
        """Fail the request that this unreadable line answers; count other text as noise.

        An answer that names no request answers the only one that waits.
        """
        self._count_noise(1 + len(line) / 1024)
        line = line.replace(b"\0", b"").lstrip(_BYTE_ORDER)  # UTF-16 becomes readable so
        named = [int(number) for number in _ID.findall(line)]
        waiting = [number for number in named if number in self._pending]
        if not _MESSAGE.match(line) and not (waiting and _ANSWER.match(line)):
            return
        if not self._warned_unreadable:  # one warning is enough for the operator
            self._warned_unreadable = True
            log.warning("a line cannot be read", line=_excerpt(line))
        ids = waiting if b'"id"' in line or not _ANSWER.match(line) else [*self._pending]
        pending = self._pending.pop(ids[0]) if len(ids) == 1 else None
        if pending is not None and not pending.future.done():
            pending.future.set_exception(UnreadableMessageError(_excerpt(line)))
        elif self._trusted:
            self._spawn(self._refuse_unreadable, named[0] if len(named) == 1 else None)

    def _take_message(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params")
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            self._count_noise(1)
            return
        if "id" in message:
            self._count_noise(1)
            self._take_request(message["id"], method, params)
            return
        if method == "notifications/progress" and self._take_progress(params or {}):
            return
        self._count_noise(1)
        if method == "notifications/cancelled":
            self._cancel(cancelled_request_id_from_params(params))
        if self._handlers is None or run_notify_intercept(self._handlers[2], method, params):
            return
        self._spawn(
            self._handlers[1], Inbound(self.notify, self.send_raw_request, None, params), method, params
        )

    def _take_request(self, request_id: Any, method: str, params: dict[str, Any] | None) -> None:
        context = Inbound(self.notify, self.send_raw_request, request_id, params)
        if method in self._inline:
            self._waiting = True
        task = self._spawn(self._serve, context, method, params)
        if task is not None and (key := as_request_id(request_id)) is not None:
            self._inbound[coerce_request_id(key)] = _Serving(context, task, method in self._endless)

    def _cancel(self, request_id: Any) -> None:
        if request_id is not None and (serving := self._inbound.get(coerce_request_id(request_id))):
            serving.context.cancel()
            serving.task.cancel()

    def _take_progress(self, params: dict[str, Any]) -> bool:
        token, amount = params.get("progressToken"), params.get("progress")
        known, total = _number(amount), _number(params.get("total"))
        if not isinstance(token, str | int) or known is None:
            return False
        pending = self._pending.get(coerce_request_id(token))
        if pending is None or pending.progress is None:
            return False
        text = params.get("message")
        self._spawn(pending.progress, known, total, text if isinstance(text, str) else None)
        return True

    def _settle(self, message: dict[str, Any]) -> None:
        request_id = message["id"]
        if isinstance(request_id, float) and request_id.is_integer():
            request_id = int(request_id)  # JSON has one kind of number
        key = as_request_id(request_id)
        if request_id is None and "error" in message and len(self._pending) == 1:
            key = next(iter(self._pending))  # the server could not read the id
        pending = self._pending.pop(coerce_request_id(key), None) if key is not None else None
        if pending is None or pending.future.done():
            self._count_noise(1)
            return
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code = error.get("code")
            pending.future.set_exception(
                MCPError(
                    code=code if isinstance(code, int) else INTERNAL_ERROR,
                    message=str(error.get("message", "")),
                    data=error.get("data"),
                )
            )
        elif isinstance(result, dict):
            pending.future.set_result(result)
        else:
            pending.future.set_exception(MCPError(INTERNAL_ERROR, "the answer has neither result nor error"))

    def _allow_noise(self, count: int) -> None:
        """Refill the allowance for the time since the last read; `count` is the size of the next in bytes.

        A flooding peer gets no refill: its last read was large and full of noise, and this one follows within
        a second. Its wait was our own delay, so a slow machine would otherwise never detect a flood.
        """
        now = time.monotonic()
        pause_s = self._noise.since_s(now=now)
        flooding = (
            self._read_bytes >= _FLOOD_BYTES and self._noise_read >= _FLOOD_UNITS and pause_s < _FLOOD_S
        )
        if flooding:
            self._noise.skip(now=now)
        else:
            self._noise.refill(now=now)
        self._noise_read, self._read_bytes = 0.0, count

    def _count_noise(self, units: float) -> None:
        """Spend the allowance for messages that answer no request; close the channel when it is used up."""
        if self._trusted:
            return
        self._noise.spend(units)
        self._noise_read += units
        if self._noise.left < 0:
            self.close("it flooded the gateway with output that answers no request")

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            MCPError: The peer answered with an error, the time ran out (`REQUEST_TIMEOUT`), or the channel
                ended (`CONNECTION_CLOSED`, with the reason).
        """
        options = cast("RequestOptions", opts or {})
        if self._closed.is_set():
            raise ChannelClosedError(self.reason, unread=True)
        self._next_id += 1
        minted = f"{self._ids}{self._next_id}" if self._ids else self._next_id
        request_id = options.get("request_id", minted)
        progress = options.get("on_progress")
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if progress is not None:
            meta = (params or {}).get("_meta") or {}
            message["params"] = {**(params or {}), "_meta": {**meta, "progressToken": request_id}}
        elif params:
            message["params"] = params
        key = coerce_request_id(request_id)
        loop = asyncio.get_running_loop()
        self._pending[key] = pending = _Pending(method, loop.create_future(), progress)
        if (deadline := _deadline_of(options, loop.time())) is not None:
            self._deadlines.add(key, deadline, pending.expire)
        try:
            self._put(message, pending)  # its answer is waited for, not a peer that is behind
            return await pending.future
        except RequestTimedOutError:
            await self._abandon(request_id, "timed out", options)
            raise
        except anyio.get_cancelled_exc_class():
            await self._abandon(request_id, "cancelled by the caller", options)
            raise
        finally:
            self._pending.pop(key, None)
            self._deadlines.remove(key)
            pending.end()

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Send a notification; do nothing if the peer is gone."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        if not self._closed.is_set():
            await self._send(message)

    async def _send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer; wait while the peer is behind."""
        self._put(message)
        if (behind := self._behind) is not None:
            await behind.wait()

    def _put(self, message: dict[str, Any], request: _Pending | None = None) -> None:
        """Write a message, together with others while several requests are under way: a write costs more."""
        self._outbox.append((to_json(message, inf_nan_mode="null"), request))
        if len(self._inbound) + len(self._pending) <= 1:
            self._flush()
        elif len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        if not outbox:
            return
        try:
            self._behind = self._write(b"\n".join([*(line for line, _ in outbox), b""]))
        except ConnectionError as error:  # the peer is ending, and its end gives the reason
            for _, request in outbox:
                if request is not None:
                    request.unread = isinstance(error, BrokenPipeError)

    async def _abandon(self, request_id: str | int, why: str, options: CallOptions) -> None:
        if options.get("cancel_on_abandon", True) and not self._closed.is_set():
            with anyio.move_on_after(_CANCEL_WRITE_S, shield=True):
                await self.notify("notifications/cancelled", {"requestId": request_id, "reason": why})

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the channel is closed. Messages that arrived before come first."""
        try:
            async with self._background:
                self._handlers = (on_request, on_notify, on_notify_intercept)
                self._resume()
                self._close_if_answered()
                task_status.started()
                await self._closed.wait()
        finally:
            self.close("the session was ended")

    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return not self._closed.is_set()

    def _resume(self) -> None:
        """Read the lines that waited, up to the next request that must be answered first."""
        self._waiting = False
        while self._early and not self._waiting:
            self._take_line(self._early.popleft())

    def close(self, reason: str) -> None:
        """End the channel and fail every waiting request with the reason. Only the first reason counts."""
        if self._closed.is_set():
            return
        self._flush()
        self.reason = reason
        self._closed.set()
        self._partial = []
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(ChannelClosedError(reason, unread=pending.unread))
        self._pending.clear()
        self._deadlines.close()

    def close_when_answered(self, reason: str, *, within_s: float) -> None:
        """End the channel once the requests of the peer are answered: it has ended its side, and reads on.

        Our own requests fail now, since the peer will not answer them.
        """
        if self._closed.is_set() or self._ending:
            return
        self._ending = reason
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(ChannelClosedError(reason, unread=pending.unread))
        asyncio.get_running_loop().call_later(within_s, self.close, reason)
        self._close_if_answered()

    def _close_if_answered(self) -> None:
        is_busy = self._early or any(not one.endless for one in self._inbound.values())
        if self._ending and self._handlers is not None and not is_busy:
            self.close(self._ending)

    async def closed(self) -> str:
        """Wait until the channel ends; returns the reason."""
        await self._closed.wait()
        return self.reason

    def _spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> PooledTask | None:
        if self._background.is_open and not self._closed.is_set():
            return self._tasks.start(self._run_logged, function, *args)
        return None

    async def _run_logged(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        try:
            await function(*args)
        except Exception:  # a handler of one message must not end the connection
            log.exception("a message from a server could not be handled")
        finally:
            if self._ending:
                self._close_if_answered()

    async def _refuse_unreadable(self, request_id: int | None) -> None:
        why = "this line is no JSON, or it is nested too deeply, or a number in it is too long"
        await self._send({"jsonrpc": "2.0", "id": request_id, "error": {"code": PARSE_ERROR, "message": why}})

    async def _serve(self, context: Inbound, method: str, params: dict[str, Any] | None) -> None:
        """Answer a request of the peer, unless the peer cancelled it."""
        if self._handlers is None:
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": context.request_id}
        try:
            answer["result"] = await self._handlers[0](context, method, params)
        except Exception as error:  # noqa: BLE001  # the peer gets every error of a handler as its answer
            answer["error"] = _as_error(error, method)
        finally:
            if (key := as_request_id(context.request_id)) is not None:
                self._inbound.pop(coerce_request_id(key), None)
            if method in self._inline:
                self._resume()
        if context.is_cancelled:
            return
        try:
            await self._send(answer)
        except PydanticSerializationError as error:  # without an answer the peer would wait for ever
            await self._send({"jsonrpc": "2.0", "id": context.request_id, "error": _as_error(error, method)})


def _deadline_of(options: RequestOptions, now: float) -> Deadline | None:
    limit_s = options.get("timeout")
    return options.get("deadline") or (FixedDeadline(now + limit_s) if limit_s is not None else None)


def _as_error(error: Exception, method: str) -> dict[str, Any]:
    data = handler_exception_to_error_data(error)
    if data is None:
        log.error("a request could not be handled", method=method, exc_info=error)
        data = ErrorData(code=INTERNAL_ERROR, message="Internal error")
    return data.model_dump(exclude_none=True)


def parse(line: bytes) -> Any:
    """Parse one line; invalid UTF-8 inside strings is replaced. `None` for a line that is not JSON."""
    line = line.removeprefix(_BOM)
    try:
        return from_json(line)
    except ValueError:
        pass
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return _sendable(json.loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    """A number that other programs can read too; `None` for a larger one, and for what is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < _TOO_LARGE else None


def _excerpt(line: bytes) -> str:
    text = line[:_EXCERPT_CHARS].decode("utf-8", "replace")
    return f"{text}…" if len(line) > _EXCERPT_CHARS else text


def _sendable(value: Any, depth: int = 0) -> Any:
    """The value without what JSON cannot carry: lone surrogates are replaced, too deep nesting is cut off.

    Raises:
        ValueError: So much would be cut off that the message counts as unreadable.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if depth > _DEEPEST:
        if not depth_within(value, _MOST_LEVELS):  # whatever Python's own limit is: libraries change it
            raise ValueError("it has too many levels")
        return None
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item, depth + 1) for key, item in value.items()}
    return [_sendable(item, depth + 1) for item in value] if isinstance(value, list) else value
