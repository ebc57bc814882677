"""What a tool of the browser server is, and the types of its parameters."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.browser.workspace import Workspace

Json = dict[str, Any]
Run = Callable[[Workspace, Mapping[str, Any]], Awaitable[str]]
"""Does what a tool does; returns the text of the answer. The arguments have all defaults."""

CONNECTION: Final[Mapping[str, Any]] = {
    "connection_id": {"type": "string", "description": "The active connection, if it is left out."}
}


def text(description: str = "", **more: Any) -> Json:
    """A parameter that is a text."""
    return {"type": "string", **({"description": description} if description else {}), **more}


def whole(description: str = "", **more: Any) -> Json:
    """A parameter that is a whole number."""
    return {"type": "integer", **({"description": description} if description else {}), **more}


def truth(description: str = "", **more: Any) -> Json:
    """A parameter that is true or false."""
    return {"type": "boolean", **({"description": description} if description else {}), **more}


CONTEXT: Final = truth("Whether the answer says what became of the page.", default=True)


@dataclass(frozen=True, kw_only=True)
class BrowserTool:
    """One tool. `of_connection` adds the parameter `connection_id`; `needs` is its requirement in words."""

    name: str
    description: str
    run: Run = field(repr=False)
    properties: Mapping[str, Json] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    needs: str = ""
    reads: bool = False
    of_connection: bool = True

    @property
    def parameters(self) -> Mapping[str, Json]:
        """All parameters."""
        return {**self.properties, **(CONNECTION if self.of_connection else {})}

    @property
    def definition(self) -> Json:
        """The tool as MCP lists it. The description names the requirement, for lists that never change."""
        schema: Json = {
            "type": "object",
            "properties": dict(self.parameters),
            "additionalProperties": False,
        }
        return {
            "name": self.name,
            "description": f"{self.description} Needs {self.needs}." if self.needs else self.description,
            "inputSchema": schema | ({"required": list(self.required)} if self.required else {}),
            "annotations": {"readOnlyHint": self.reads, "openWorldHint": True},
        }

    def with_defaults(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a call, with the defaults of those that are left out."""
        given = {name: one["default"] for name, one in self.parameters.items() if "default" in one}
        return {**given, **arguments}
