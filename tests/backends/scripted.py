"""A server that is a script of answers, for sessions that are looked at message by message."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp_types import METHOD_NOT_FOUND
from tests.backends.rig import SOON_S, Heard, options

from maitred.backends.base import NOT_ASKED, ConnectError, Connection, find
from maitred.backends.session import open_session
from maitred.config.settings import Limits
from maitred.jsonrpc import LineChannel
from maitred.model.servers import EraChoice, ServerSpec, Timeouts
from maitred.model.tools import ToolCall

Json = dict[str, Any]
Answer = Json | Callable[[Json], Json | None]

MODERN = "2026-07-28"
INFO: Json = {"name": "scripted", "version": "1"}
HANDSHAKE: Json = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
DISCOVERED: Json = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
}


def refusal(code: int, message: str = "no", data: object = None) -> Json:
    return {"error": {"code": code, "message": message, "data": data}}


class Script:
    """A server that answers each method as told, or not at all, and keeps what it was sent."""

    def __init__(self, **answers: Answer) -> None:
        self.answers: dict[str, Answer] = {
            "server/discover": refusal(METHOD_NOT_FOUND),
            "initialize": refusal(METHOD_NOT_FOUND),
            "tools/call": {"content": []},
        }
        self.answers |= {method.replace("_", "/"): answer for method, answer in answers.items()}
        self.sent: list[Json] = []
        self.notices = Heard()
        self.asked = Heard()
        self.channel = LineChannel(self._write, max_message_bytes=1_000_000)

    def _write(self, data: bytes) -> None:
        for line in data.splitlines():
            self._take(json.loads(line))

    def _take(self, message: Json) -> None:
        self.sent.append(message)
        if "id" in message and "method" in message:
            answer = self.answers[message["method"]]
            outcome = answer(message) if callable(answer) else answer
            self.asked(message["method"])
            if outcome is None:
                return
            body = outcome if "error" in outcome else {"result": outcome}
            self.feed(id=message["id"], **body)

    def feed(self, **message: Any) -> None:
        """Say something, asked or not."""
        self.channel.feed(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.sent]

    @asynccontextmanager
    async def open(
        self,
        era: EraChoice = "auto",
        *,
        limits: Limits | None = None,
        list_s: float = SOON_S,
        transport: str = "stdio",
    ) -> AsyncIterator[Connection]:
        spec = ServerSpec(name="scripted", timeouts=Timeouts(list_s=list_s), transport=transport)
        try:
            with anyio.fail_after(SOON_S):
                async with open_session(
                    spec, self.channel, self.channel, options(era, self.notices), limits or Limits()
                ) as connection:
                    yield connection
        except ExceptionGroup as group:  # what the task groups of a session make of an error
            raise find(group, ConnectError) or group from None

    async def call(self, connection: Connection, tool_call: ToolCall) -> Mapping[str, Any]:
        return await connection.call_tool(tool_call.name, tool_call, timeout_s=SOON_S, caller=NOT_ASKED)
