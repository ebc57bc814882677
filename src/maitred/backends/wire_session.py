"""The only module that uses the SDK's client session: negotiation, and raw requests both ways.

What a server asks goes to the caller of its request as JSON, too; see `maitred.backends.callers`.
It uses five private parts of the SDK, which `tests/backends/test_session.py` pins: the session's
envelope stamp, its dispatcher, its handlers of requests and notifications, its capabilities, and
`negotiate_auto`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value, x_mcp_header_map
from mcp_types import CLIENT_CAPABILITIES_META_KEY, INTERNAL_ERROR
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from maitred.backends.base import Caller, ConnectError
from maitred.backends.callers import CallersUnderWay
from maitred.backends.dispatcher import LOG_MESSAGE
from maitred.backends.listing import clean
from maitred.backends.log_messages import LogMessages
from maitred.backends.question_tasks import QuestionTasks
from maitred.background import Background
from maitred.errors import CallerRefusedError
from maitred.jsonrpc import (
    ChannelClosedError,
    RequestOptions,
    RequestTimedOutError,
    UnreadableMessageError,
)
from maitred.model.asking import LIST_ROOTS
from maitred.model.servers import EraChoice
from maitred.model.tasks import related_task
from maitred.tracing import child_span, present_span

_MOST_ABOUT_TASKS = 64
_TELL_ROOTS_S = 2.0
_OF_TASKS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_EVERYTHING: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
"""The capabilities that a client can have towards a server behind the gateway; all are relayed."""


async def negotiate(session: ClientSession, era: EraChoice) -> None:
    """Speak the known era; if it is refused, or none is known, find out.

    Raises:
        ConnectError: The server does not answer as an MCP server would.
    """
    known: Mapping[str, Callable[[], Awaitable[Any]]] = {
        "handshake": session.initialize,
        "stateless": session.discover,
    }
    try:
        if era in known and await _speaks(known[era]):
            return
        await negotiate_auto(session)
    except MCPError as error:
        raise ConnectError(_explain(error)) from error
    except (ValidationError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise ConnectError(f"its answer to the handshake is not valid MCP ({first})") from error


async def _speaks(negotiate: Callable[[], Awaitable[Any]]) -> bool:
    """Negotiate the era of the last session; a slow server has its whole start time for the answer."""
    while True:
        try:
            await negotiate()
        except MCPError as error:
            if isinstance(error, ChannelClosedError):
                raise
            if not isinstance(error, RequestTimedOutError):
                return False
        except ValidationError:
            return False
        else:
            return True


def _explain(error: MCPError) -> str:
    if isinstance(error, ChannelClosedError):
        return clean(error.message)
    if isinstance(error, RequestTimedOutError):
        return "it did not answer the handshake in time"
    if isinstance(error, UnreadableMessageError):
        return f"its answer to the handshake could not be read: {clean(error.message)}"
    return f"it refused the handshake with error {error.code}: {clean(error.message)}"


class WireSession(ClientSession):
    """The SDK's session, with raw requests both ways, which carry its negotiated envelope.

    A server names the task that it asks about, so that the question goes to who asked about that task last.
    """

    def __init__(
        self, server: str, callers: CallersUnderWay, folder: str, background: Background, **options: Any
    ) -> None:
        super().__init__(**options)
        self.server = server
        self.callers = callers
        self.questions = QuestionTasks(callers.answer, background)
        self.logs = LogMessages(server, callers)
        self._folder = folder
        self._asked_for_roots = False
        self._told_roots = anyio.Event()
        self._open_about_tasks = 0

    async def _on_request(self, dctx: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        if method == "ping":
            return {}
        if self.questions.takes(method, params or {}):
            return await self.questions.handle(method, params or {})
        if callers := self.callers.of_tasks.get(related_task(params)):
            return await self._ask_about_task(callers[-1], method, params or {})
        if method != LIST_ROOTS or not self._folder:
            return await self.callers.answer(method, params or {}, waits=not self._folder)
        self._asked_for_roots = True
        try:
            return await self.callers.answer(method, params or {}, waits=False)
        except MCPError:
            return _roots_in(self._folder)
        finally:
            self._told_roots.set()

    async def _ask_about_task(self, caller: Caller, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._open_about_tasks >= _MOST_ABOUT_TASKS:
            why = f"{_MOST_ABOUT_TASKS} questions about tasks wait for answers; ask again later"
            raise MCPError(INTERNAL_ERROR, why)
        self._open_about_tasks += 1
        try:
            return await caller.ask(method, params)
        except CallerRefusedError as error:
            raise MCPError(error.rpc_code, error.message, error.data) from error
        finally:
            self._open_about_tasks -= 1

    @contextmanager
    def asked_about(self, task_id: str, caller: Caller, *, waits: bool) -> Iterator[None]:
        """Let a caller be asked about a task while the context is open.

        One that waits for the result is asked rather than one that only looks at the state.
        """
        callers = self.callers.of_tasks.setdefault(task_id, [])
        callers.insert(len(callers) if waits else 0, caller)
        try:
            yield
        finally:
            callers.remove(caller)
            if not callers:
                del self.callers.of_tasks[task_id]

    async def tell_roots(self) -> None:
        """Let a server that was just started in a folder ask for it, and take the answer in.

        Some ask as soon as they are initialized, and refuse every path until they have the answer. A server
        answers messages in their order, so one that has answered a ping has asked by then.
        """
        if not self._folder or self.modern:
            return
        with anyio.move_on_after(_TELL_ROOTS_S):
            await self._ping()
            if self._asked_for_roots:
                await self._told_roots.wait()
                await self._ping()

    async def _ping(self) -> None:
        with suppress(MCPError):  # it may know no pings, but has answered in its turn
            await self._dispatcher.send_raw_request("ping", None, {})

    def _intercept_notification(self, method: str, params: Mapping[str, Any] | None) -> bool:
        if method != LOG_MESSAGE:
            return super()._intercept_notification(method, params)
        self.logs.take(params or {})
        return True

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        known = dict(_EVERYTHING)
        if version in MODERN_PROTOCOL_VERSIONS:
            del known["tasks"]  # an extension, which requests declare
        return types.ClientCapabilities.model_validate(known)

    async def request(self, method: str, params: dict[str, Any], opts: RequestOptions) -> dict[str, Any]:
        """Send a request with the envelope of the session; returns the result unchanged.

        A server gets the trace of the request, if there is one, and never the baggage that a client sent.
        """
        if "baggage" in (meta := params.get("_meta") or {}):
            params = {**params, "_meta": {key: value for key, value in meta.items() if key != "baggage"}}
        if present_span() is None:
            return await self._send(method, params, opts)
        name = params.get("name")
        target = f"{method} {name}" if method == "tools/call" else method
        with child_span(target, "client", self._attributes(method, name)) as span:
            carrier = span.carrier()
            params = {**params, "_meta": {**(params.get("_meta") or {}), **carrier}}
            opts["headers"] = {**(opts.get("headers") or {}), **carrier}
            result = await self._send(method, params, opts)
            if result.get("isError"):
                span.fail("tool_error")
            return result

    def _attributes(self, method: str, tool: Any) -> dict[str, str]:
        """What a span says of a request, by the conventions for MCP."""
        found = {"mcp.method.name": method, "maitred.server": self.server}
        if self.protocol_version:
            found["mcp.protocol.version"] = self.protocol_version
        if method == "tools/call":
            found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str(tool)}
        return found

    async def _send(self, method: str, params: dict[str, Any], opts: RequestOptions) -> dict[str, Any]:
        data: dict[str, Any] = {"method": method, "params": params}
        capabilities = params.get("_meta", {}).get(CLIENT_CAPABILITIES_META_KEY)
        self._stamp(data, opts)
        if capabilities is not None and self.modern:
            data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = capabilities
        if self.modern and method in _OF_TASKS:
            opts.setdefault("headers", {})[MCP_NAME_HEADER] = encode_header_value(params["taskId"])
        return await self._dispatcher.send_raw_request(method, data["params"], opts)

    async def notify(self, method: str) -> None:
        """Send a notification without parameters."""
        await self._dispatcher.notify(method, None)

    @property
    def modern(self) -> bool:
        """Whether the server speaks the stateless era."""
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    def mirror_headers(self, schemas: Mapping[str, Any]) -> None:
        """Remember which arguments the server wants in HTTP headers (`x-mcp-header`), by its whole list."""
        maps = {tool: x_mcp_header_map(schema) for tool, schema in schemas.items()}
        self._x_mcp_header_maps = {tool: found for tool, found in maps.items() if found}


def _roots_in(folder: str) -> dict[str, Any]:
    """The answer to a server that asks for roots: one folder."""
    return {"roots": [{"uri": Path(folder).as_uri(), "name": Path(folder).name}]}
