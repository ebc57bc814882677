"""A server in this process that sends whatever JSON it holds, past every check of the SDK's server."""

from collections.abc import Callable
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

Json = dict[str, Any]
ANY = {"type": "object"}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}


def raw(name: Any, description: Any = "Does something.", **fields: Any) -> Json:
    """A tool as it goes over the wire."""
    return {"name": name, "description": description, "inputSchema": ANY, **fields}


class Evil:
    """Stands in for an SDK server object in `open_gateway(..., in_process=...)`.

    `tools` holds the pages of its tool list, or makes them for the nth listing; each page but the last names
    a cursor. Everything may be changed between two listings.
    """

    def __init__(
        self, name: str, *tools: Any, prompts: Any = (), templates: Any = (), says: Any = ""
    ) -> None:
        self.name = name
        self.tools = list(tools)
        self.pages: Callable[[int], list[list[Any]]] = lambda _: [self.tools]
        self.prompts = list(prompts)
        self.templates = list(templates)
        self.instructions = says
        self.result: Json = {"content": [{"type": "text", "text": f"{name} answers"}]}
        self.listings = 0
        self._writers: list[Any] = []

    def sdk(self) -> Any:
        """Itself, as the rig wants it."""
        return self

    def create_initialization_options(self) -> None:
        """It has none."""

    async def run(self, read: Any, write: Any, _: None, *, raise_exceptions: bool) -> None:
        """Answer until the client leaves."""
        assert not raise_exceptions
        self._writers.append(write)
        async for message in read:
            if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCRequest):
                await write.send(SessionMessage(self._answer(message.message)))
        self._writers.remove(write)

    async def announce(self, kind: str = "tools") -> None:
        """Tell all clients that a list is another one."""
        told = JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}/list_changed")
        for write in self._writers:
            await write.send(SessionMessage(told))

    def _answer(self, asked: JSONRPCRequest) -> JSONRPCResponse | JSONRPCError:
        made = getattr(self, "_" + asked.method.replace("/", "_"), None)
        if made is None:
            said = ErrorData(code=METHOD_NOT_FOUND, message="no")
            return JSONRPCError(jsonrpc="2.0", id=asked.id, error=said)
        return JSONRPCResponse(jsonrpc="2.0", id=asked.id, result=made(asked.params or {}))

    def _initialize(self, params: Json) -> Json:
        about = {"name": self.name, "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": CAPABILITIES,
            "serverInfo": about,
            "instructions": self.instructions,
        }

    def _tools_list(self, params: Json) -> Json:
        number = int(params.get("cursor", 0))
        self.listings += not number
        pages = self.pages(self.listings)
        more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
        return {"tools": pages[number], **more}

    def _tools_call(self, _: Json) -> Json:
        return self.result

    def _prompts_list(self, _: Json) -> Json:
        return {"prompts": self.prompts}

    def _resources_list(self, _: Json) -> Json:
        return {"resources": []}

    def _resources_templates_list(self, _: Json) -> Json:
        return {"resourceTemplates": self.templates}


def deep(levels: int) -> Any:
    """A schema nested so deep."""
    made: Any = {"type": "string"}
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made}}
    return made
