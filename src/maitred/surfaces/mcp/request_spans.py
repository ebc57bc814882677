"""Spans and figures of the requests of MCP clients, by OpenTelemetry's conventions for MCP.

A trace comes in `_meta` of a request, or in the headers of HTTP around it; `_meta` goes first. Names of
methods and tools count only if the gateway knows them, so that no client makes up new ones.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from maitred.gateway import Gateway
from maitred.meta_tools import menu
from maitred.tracing import Span, carrier_of, root_span

_METHODS: Final = frozenset(
    {
        "initialize", "server/discover", "ping", "tools/list", "tools/call", "resources/list",
        "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
        "subscriptions/listen", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
        "tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update",
    }
)  # fmt: skip
_OTHER: Final = "_OTHER"
_MOST_ID: Final = 64

Params = Mapping[str, Any] | None


class RequestSpans:
    """Watches the requests to a surface while something traces or counts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._activity = gateway.activity

    @property
    def is_on(self) -> bool:
        """Whether requests are to be watched."""
        return self._activity.is_observed

    async def watch(
        self,
        context: Any,
        method: str,
        params: Params,
        version: str,
        answer: Callable[[], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Answer a request within a span, and report it."""
        known, params = method if method in _METHODS else _OTHER, params or {}
        meta = params.get("_meta")
        carrier = carrier_of(meta) if isinstance(meta, Mapping) else {}
        target = self._target(known, params)
        started, error = time.perf_counter(), "cancelled"
        name = f"{known} {target}" if target else known
        attributes = _attributes(context, known, version, target)
        with root_span(self._activity.tracer, name, "server", attributes, carrier=carrier) as span:
            try:
                result = await answer()
                error = _error_in(result, span)
            except Exception as raised:
                error = str(getattr(raised, "code", "")) or type(raised).__name__
                raise
            finally:
                self._activity.requested(known, error, time.perf_counter() - started)
        return result

    def _target(self, method: str, params: Mapping[str, Any]) -> str:
        """The tool or the prompt that a request is about, if it is one that the gateway offers."""
        name = params.get("name")
        if method != "tools/call" or not isinstance(name, str):
            return ""
        return name if name in menu.META_TOOLS or name in self._gateway.snapshot.by_name else ""


def _attributes(context: Any, method: str, version: str, target: str) -> dict[str, str]:
    is_http = getattr(context, "message_metadata", None) is not None
    found = {"mcp.method.name": method, "network.transport": "tcp" if is_http else "pipe"}
    if is_http:
        found["network.protocol.name"] = "http"
    if version:
        found["mcp.protocol.version"] = version
    request_id = getattr(context, "request_id", None)
    if request_id is not None:
        found["jsonrpc.request.id"] = str(request_id)[:_MOST_ID]
    if method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    if target:
        found["gen_ai.tool.name"] = target
    return found


def _error_in(result: Any, span: Span) -> str:
    """The error of an answer that is none of the protocol, which a span shows too."""
    if isinstance(result, Mapping) and result.get("isError"):
        span.fail("tool_error")
        return "tool_error"
    return ""
