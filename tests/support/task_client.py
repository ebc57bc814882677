"""A client of the Python SDK 2 that speaks the tasks of its era, which the SDK's own client does not."""

from dataclasses import dataclass
from typing import Any, Literal

import anyio
from mcp import Client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from tests.support.task_server import EXTENSION

Json = dict[str, Any]
Era = Literal["handshake", "stateless"]
CAPABILITIES: dict[str, Any] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}


@dataclass(frozen=True, kw_only=True)
class User:
    """A client that can start, follow and end tasks of one server behind the gateway."""

    client: Client
    era: Era
    takes_tasks: bool = True
    server: str = "s"

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool like a client that knows no tasks; returns the text of its answer."""
        result = await self.client.call_tool(f"{self.server}__{tool}", arguments)
        return said(result.model_dump(by_alias=True))

    async def ask(self, method: str, /, **params: Any) -> Json:
        """Send a request, and return its result as it is on the wire."""
        session, data, opts = self.client.session, {"method": method, "params": params}, CallOptions()
        session._stamp(data, opts)
        if self.takes_tasks and self.era == "stateless":
            params["_meta"][CLIENT_CAPABILITIES_META_KEY] = CAPABILITIES
            if "taskId" in params:
                opts["headers"] = {**opts.get("headers", {}), MCP_NAME_HEADER: params["taskId"]}
        return await session._dispatcher.send_raw_request(method, params, opts)

    async def start(self, tool: str, **arguments: Any) -> str:
        """Call a tool that becomes a task; returns the id of the task."""
        task = {"task": {"ttl": 60_000}} if self.era == "handshake" else {}
        answer = await self.ask("tools/call", name=f"{self.server}__{tool}", arguments=arguments, **task)
        state = answer["task"] if self.era == "handshake" else answer
        assert state["status"] == "working"
        times = ("ttl", "pollInterval") if self.era == "handshake" else ("ttlMs", "pollIntervalMs")
        assert all(isinstance(state[key], int) for key in times), state
        assert "content" not in answer
        task_id: str = state["taskId"]
        return task_id

    async def get(self, task_id: str) -> Json:
        return await self.ask("tasks/get", taskId=task_id)

    async def until(self, task_id: str, *statuses: str) -> Json:
        """The state of a task, as soon as it has one of these statuses."""
        while (state := await self.get(task_id))["status"] not in statuses:  # noqa: ASYNC110 - it polls
            await anyio.sleep(0.02)
        return state

    async def result(self, task_id: str) -> Json:
        """The result of a task that ends."""
        if self.era == "handshake":
            return await self.ask("tasks/result", taskId=task_id)
        state = await self.until(task_id, "completed", "failed")
        if "error" in state:
            raise MCPError(state["error"]["code"], state["error"]["message"])
        result: Json = state["result"]
        return result


def said(result: Json) -> str:
    """The first text of a result."""
    words: str = result["content"][0]["text"]
    return words
