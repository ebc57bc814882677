"""A server of 23 tools that drive a browser and its debugger; there is no browser, but the state is real.

Calls change which connections there are, and whether the debugger of the active one is on and has paused the
page. A call that makes no sense in the state, or would wait for a paused page for ever, fails and changes
nothing. Names and parameters are those of the design document on dynamic visibility; all words are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Context = ServerRequestContext[Any, Any]
STR, INT, BOOL = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
STATES = {"type": "string", "enum": ["none", "uncaught", "all"]}
MAIN, LAST = 2, 1  # frames on the stack when a page is paused, and in its last function


def _either(name: str, kind: Mapping[str, Any], default: Any) -> dict[str, Any]:
    return {name: {**kind, "default": default}}


CONNECTION = {"connection_id": STR | {"description": "The active connection, if it is not given"}}
CONTEXT = _either("include_context", BOOL, default=True)
INDEX = _either("index", INT, 0)

# name: what it does, its parameters, those required, whether it only reads
TOOLS: Mapping[str, tuple[str, dict[str, Any], list[str], bool]] = {
    "chrome_connect": (
        "Attach to a browser that listens for debuggers.",
        _either("port", INT, 9222) | _either("host", STR, "localhost")
        | _either("connection_id", STR, "default"),
        [], False,
    ),
    "chrome_launch": (
        "Start a browser and attach to it.",
        _either("debug_port", INT, 9222) | _either("headless", BOOL, default=False)
        | {"user_data_dir": STR, "extra_args": {"type": "array", "items": STR}}
        | _either("connection_id", STR, "auto"),
        [], False,
    ),
    "chrome_list_connections": ("List the connections and which one is active.", {}, [], True),
    "chrome_switch_connection": (
        "Make another connection the active one.", {"connection_id": STR}, ["connection_id"], False,
    ),
    "chrome_disconnect": ("End a connection.", {"connection_id": STR}, ["connection_id"], False),
    "list_targets": ("List the open pages of the browser.", {}, [], True),
    "switch_target": (
        "Work with another page, by number, title or address.", {"index": INT, "title": STR, "url": STR}, [],
        False,
    ),
    "query_elements": (
        "Look for elements of the page by CSS selector.",
        {"selector": STR, "text_contains": STR} | _either("limit", INT, 5)
        | _either("include_hidden", BOOL, default=False),
        ["selector"], True,
    ),
    "click_element": ("Click an element.", {"selector": STR} | INDEX | CONTEXT, ["selector"], False),
    "fill_element": (
        "Type text into a field.",
        {"selector": STR, "text": STR} | INDEX | CONTEXT | _either("submit", BOOL, default=False),
        ["selector", "text"], False,
    ),
    "navigate": ("Open an address in the page.", {"url": STR} | CONTEXT, ["url"], False),
    "get_console_logs": (
        "Read the newest messages of the page's console.",
        _either("filter_level", STR, "all") | _either("limit", INT, 3)
        | _either("expand_errors", BOOL, default=False),
        [], True,
    ),
    "debugger_enable": ("Turn on the debugger of the page.", {}, [], False),
    "debugger_set_breakpoint": (
        "Stop at a line of a script, if a condition holds there.",
        {"url": STR, "line_number": INT, "condition": STR} | _either("column_number", INT, 0),
        ["url", "line_number"], False,
    ),
    "debugger_remove_breakpoint": (
        "Take a breakpoint away.", {"breakpoint_id": STR}, ["breakpoint_id"], False,
    ),
    "debugger_get_call_stack": ("Tell the functions the page is paused in.", {}, [], True),
    "debugger_evaluate_on_call_frame": (
        "Work out an expression where the page is paused.", {"call_frame_id": STR, "expression": STR},
        ["call_frame_id", "expression"], False,
    ),
    "debugger_step_over": ("Run to the next line.", {}, [], False),
    "debugger_step_into": ("Run into the function that is called next.", {}, [], False),
    "debugger_step_out": ("Run until the function returns.", {}, [], False),
    "debugger_resume": ("Let the page run on.", {}, [], False),
    "debugger_pause": ("Pause the page.", {}, [], False),
    "debugger_set_pause_on_exceptions": (
        "Choose whether errors pause the page.", {"state": STATES}, ["state"], False,
    ),
}  # fmt: skip
ALWAYS = frozenset({"chrome_connect", "chrome_launch", "chrome_list_connections"})
_OWN_ID = frozenset({name for name in TOOLS if name.startswith("chrome_")})
_WAITS_FOR_PAGE = frozenset({"click_element", "fill_element", "navigate"})
_WHEN_PAUSED = frozenset({
    "debugger_get_call_stack", "debugger_evaluate_on_call_frame", "debugger_step_over", "debugger_step_into",
    "debugger_step_out", "debugger_resume",
})  # fmt: skip


class RefusedError(Exception):
    """The call makes no sense in this state."""


@dataclass
class Connection:
    """One browser; `frames` are on the stack while it is paused."""

    enabled: bool = False
    frames: int = 0
    breakpoints: list[str] = field(default_factory=list)


class DebuggerServer:
    """Keeps the connections, and answers calls."""

    def __init__(self, name: str = "debugger") -> None:
        self.name = name
        self.connections: dict[str, Connection] = {}
        self.active = ""
        self.made: list[str] = []

    @property
    def state(self) -> dict[str, Any]:
        """The state as answers tell it."""
        one = self.connections.get(self.active, Connection())
        debugger = {"enabled": one.enabled, "paused": one.frames > 0}
        return {"connections": len(self.connections), "active": bool(self.active), "debugger": debugger}

    def sdk(self) -> Server[Any]:
        """The server as the SDK runs it."""
        return Server(self.name, on_list_tools=self._list, on_call_tool=self._call)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> types.CallToolResult:
        """Answer one call."""
        self.made.append(name)
        try:
            said = self._do(name, dict(arguments or {}))
        except RefusedError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        text = f"{said}. State: {self.state}"
        return types.CallToolResult(
            content=[types.TextContent(text=text)], structured_content={"said": said, **self.state}
        )

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[definition(name) for name in TOOLS])

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return self.call(params.name, params.arguments)

    def _do(self, name: str, arguments: dict[str, Any]) -> str:
        if name not in TOOLS:
            raise RefusedError(f"There is no tool {name}")
        if name in _OWN_ID:
            return self._connect(name, arguments)
        one = self._needed(arguments)
        if name == "switch_target":
            self.connections[self.active] = Connection()
            return "Another page"
        if name in _WAITS_FOR_PAGE and one.frames:
            raise RefusedError("The page is paused and would not answer")
        if name == "click_element" and one.enabled and one.breakpoints:
            one.frames = MAIN
            return "The page stopped at a breakpoint"
        return self._debug(name, arguments, one) if name.startswith("debugger_") else f"{name} is done"

    def _needed(self, arguments: dict[str, Any]) -> Connection:
        """The active connection, which is the only one that works."""
        if not self.active:
            raise RefusedError("There is no connection")
        if arguments.get("connection_id", self.active) != self.active:
            raise RefusedError("This is not the active connection")
        return self.connections[self.active]

    def _connect(self, name: str, arguments: dict[str, Any]) -> str:
        if name == "chrome_list_connections":
            return f"{sorted(self.connections)}, active: {self.active or 'none'}"
        wanted = arguments.get("connection_id", "default" if name == "chrome_connect" else "auto")
        if name in ALWAYS:
            wanted = self._free_id() if wanted == "auto" else wanted
            if wanted in self.connections:
                raise RefusedError("There is a connection of this name")
            self.connections[wanted] = Connection()
            self.active = wanted
            return f"Connected as {wanted}"
        if wanted not in self.connections:
            raise RefusedError("There is no connection of this name")
        if name == "chrome_switch_connection":
            self.active = wanted
            return f"{wanted} is active"
        del self.connections[wanted]
        if self.active == wanted:
            self.active = next(iter(self.connections), "")
        return f"{wanted} is no more"

    def _free_id(self) -> str:
        return next(f"auto-{n}" for n in range(99) if f"auto-{n}" not in self.connections)

    def _debug(self, name: str, arguments: dict[str, Any], one: Connection) -> str:
        if name == "debugger_enable":
            one.enabled = True
            return "The debugger is on"
        if not one.enabled:
            raise RefusedError("The debugger is off")
        if name in _WHEN_PAUSED:
            return self._step(name, one)
        if name == "debugger_pause":
            one.frames = one.frames or MAIN
        elif name == "debugger_set_breakpoint":
            one.breakpoints.append(f"b{len(one.breakpoints)}")
            return f"Breakpoint {one.breakpoints[-1]}"
        elif name == "debugger_remove_breakpoint":
            if arguments.get("breakpoint_id") not in one.breakpoints:
                raise RefusedError("There is no such breakpoint")
            one.breakpoints.remove(arguments["breakpoint_id"])
        return f"{name} is done"

    def _step(self, name: str, one: Connection) -> str:
        if not one.frames:
            raise RefusedError("The page is not paused")
        change = {"debugger_step_into": 1, "debugger_step_out": -1, "debugger_resume": -one.frames}
        one.frames += change.get(name, 0)
        return f"{name} is done, {one.frames} frames on the stack"


def definition(name: str) -> types.Tool:
    """How a tool is listed; all but those on connections and pages take a connection."""
    description, properties, required, reads = TOOLS[name]
    known = properties if name in _OWN_ID else {**properties, **CONNECTION}
    schema: dict[str, Any] = {"type": "object", "properties": known}
    return types.Tool(
        name=name,
        description=description,
        input_schema=schema | ({"required": required} if required else {}),
        annotations=types.ToolAnnotations(read_only_hint=True) if reads else None,
    )


async def main() -> None:
    """Serve over standard input and output."""
    async with stdio_server() as (incoming, outgoing):
        server = DebuggerServer().sdk()
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
