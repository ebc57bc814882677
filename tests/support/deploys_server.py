"""The server of the examples in docs/visibility.md: it keeps a draft of files until that is published.

A call that makes no sense in its state fails and changes nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Context = ServerRequestContext[Any, Any]

# name: what it does, its only parameter if it has one
TOOLS: Mapping[str, tuple[str, str]] = {
    "begin": ("Begin a draft.", "name"),
    "upload": ("Put a file into the draft.", "path"),
    "remove_file": ("Take a file out of the draft.", "path"),
    "check": ("Look for problems in the draft.", ""),
    "choose_target": ("Choose where the draft is to be published.", "target"),
    "publish": ("Publish the draft.", ""),
    "abort": ("Throw the draft away.", ""),
    "status": ("Tell what there is.", ""),
}
TARGETS = ("eu", "us")


class DeploysServer:
    """Keeps the draft, and answers calls; `made` are the tools that were called."""

    def __init__(self, name: str = "deploys") -> None:
        self.name = name
        self.made: list[str] = []
        self._drafts = 0
        self._draft = ""
        self._files: list[str] = []

    def sdk(self) -> Server[Any]:
        """The server as the SDK runs it."""
        return Server(self.name, on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(name) for name in TOOLS])

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.made.append(params.name)
        said = self._do(params.name, dict(params.arguments or {}))
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(said))],
            structured_content=said,
            is_error="refused" in said,
        )

    def _do(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if tool != "status" and (tool == "begin") == bool(self._draft):
            return {"refused": "there is a draft" if self._draft else "there is no draft"}
        match tool:
            case "begin":
                self._drafts += 1
                self._draft, self._files = f"d{self._drafts}", []
                return {"draft": {"id": self._draft}, "targets": list(TARGETS)}
            case "upload":
                self._files.append(arguments["path"])
            case "remove_file" if arguments["path"] in self._files:
                self._files.remove(arguments["path"])
            case "remove_file":
                return {"refused": "there is no such file"}
            case "check":
                return {
                    "ok": bool(self._files),
                    "open questions": ["which files?"] if not self._files else [""],
                }
            case "publish" | "abort":
                self._draft, self._files = "", []
        return {"files": list(self._files)}


def _definition(name: str) -> types.Tool:
    description, parameter = TOOLS[name]
    schema: dict[str, Any] = {"type": "object"}
    if parameter:
        schema |= {"properties": {parameter: {"type": "string"}}, "required": [parameter]}
    reads = types.ToolAnnotations(read_only_hint=True) if name == "status" else None
    return types.Tool(name=name, description=description, input_schema=schema, annotations=reads)


async def main() -> None:
    """Serve over standard input and output."""
    async with stdio_server() as (incoming, outgoing):
        server = DeploysServer().sdk()
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
