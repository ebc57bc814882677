"""A server in this process that may say something else of itself at every listing, in any of its parts."""

from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.gateway.rig import SCHEMA

Context = ServerRequestContext[Any, Any]


def tool(name: str, description: str = "", **fields: Any) -> types.Tool:
    """A tool that takes a path, unless the fields say otherwise."""
    fields.setdefault("input_schema", SCHEMA)
    return types.Tool(name=name, description=description or f"Tell about {name}.", **fields)


class Shifting:
    """What it lists is what its attributes hold at that moment; instructions hold for the next connection."""

    def __init__(self, name: str, *tools: types.Tool) -> None:
        self.name = name
        self.tools = list(tools) or [tool("read_note"), tool("write_note")]
        self.prompts = [types.Prompt(name="summary", description="Sum up the notes.")]
        self.templates = [types.ResourceTemplate(uri_template="note://{id}", name="note")]
        self.instructions = "Notes of a team."
        self.calls: list[str] = []
        self._sdk = Server[Any](
            name,
            instructions=self.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
        )

    def sdk(self) -> Server[Any]:
        """The server object, the same each time."""
        self._sdk.instructions = self.instructions
        return self._sdk

    def change(self, name: str, **fields: Any) -> None:
        """Have a tool be another one from the next listing on."""
        self.tools = [one.model_copy(update=fields) if one.name == name else one for one in self.tools]

    async def _list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.calls.append(params.name)
        return types.CallToolResult(content=[types.TextContent(text=f"{self.name}/{params.name}")])

    async def _list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=self.prompts)

    async def _get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        said = types.TextContent(text=f"{self.name}/{params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def _list_resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def _list_templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=self.templates)
