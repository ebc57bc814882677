"""Tools for connections to browsers: start one, connect to one, list them, switch, disconnect."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.browser.launch import LaunchRequest
from maitred.browser.tools.base import BrowserTool, text, truth, whole
from maitred.browser.workspace import Attachment, Workspace


async def _connect(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    connection_id = workspace.free_id(arguments["connection_id"])
    place = arguments.get("address", "")
    made = await workspace.attach(connection_id, place, arguments["port"], arguments["host"])
    own = "" if made.browser.pid else " This tab is new; switch_target chooses one that was open."
    return f"Connected to {_about(made)}.{own}"


async def _launch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    request = LaunchRequest(
        port=arguments["debug_port"],
        headless=arguments.get("headless"),
        profile=arguments.get("user_data_dir", ""),
        extra_args=arguments.get("extra_args", ()),
    )
    made = await workspace.launch(workspace.free_id(arguments["connection_id"]), request)
    return f"Started {_about(made)}."


async def _list(workspace: Workspace, _: Mapping[str, Any]) -> str:
    if not workspace.attachments:
        return "There is no connection."
    lines = (
        f"{'*' if one.id == workspace.active_id else '-'} {_about(one)}"
        for one in workspace.attachments.values()
    )
    return "\n".join(lines)


async def _switch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    return f"Active now: {_about(workspace.switch(arguments['connection_id']))}."


async def _disconnect(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    gone = await workspace.detach(arguments["connection_id"])
    left = f"active now: {workspace.active_id}" if workspace.active_id else "there is no other connection"
    return f"The connection {gone.id!r} has ended; {left}."


def _about(one: Attachment) -> str:
    page = f", page {one.page.tab.title or one.page.tab.url!r}" if one.page and not one.page.gone else ""
    return f"{one.browser.product} on port {one.browser.port} as {one.id!r}{page}"


_ID: Final = text("The name of the connection.")

TOOLS: Final = (
    BrowserTool(
        name="chrome_connect",
        description="Connect to a browser that runs, by its debugging port or the folder of its profile.",
        run=_connect,
        properties={
            "port": whole("The port of --remote-debugging-port.", default=9222, minimum=1, maximum=65_535),
            "connection_id": text(
                "A name for the connection; `auto` makes one.", default="default", minLength=1
            ),
            "host": text("The host of the port.", default="localhost"),
            "address": text(
                "Instead of a port: `ws://…`, `http://…`, or the profile folder of a Chrome whose user"
                " allowed debugging at chrome://inspect/#remote-debugging."
            ),
        },
        of_connection=False,
    ),
    BrowserTool(
        name="chrome_launch",
        description="Start a browser and connect to it. It ends with the connection.",
        run=_launch,
        properties={
            "debug_port": whole("0 takes a free port.", default=0, minimum=0, maximum=65_535),
            "headless": truth("Without a window; left out, that is so where there is no display."),
            "user_data_dir": text("The name of a profile that stays; left out, a fresh one."),
            "extra_args": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Flags, such as --window-size=1280,800.",
            },
            "connection_id": text("A name for the connection.", default="auto", minLength=1),
        },
        of_connection=False,
    ),
    BrowserTool(
        name="chrome_list_connections",
        description="List the connections to browsers; `*` marks the active one.",
        run=_list,
        reads=True,
        of_connection=False,
    ),
    BrowserTool(
        name="chrome_switch_connection",
        description="Make another connection the active one.",
        run=_switch,
        properties={"connection_id": _ID},
        required=("connection_id",),
        needs="a second connection",
        of_connection=False,
    ),
    BrowserTool(
        name="chrome_disconnect",
        description="End a connection; a browser that chrome_launch started ends too.",
        run=_disconnect,
        properties={"connection_id": _ID},
        required=("connection_id",),
        needs="a connection",
        of_connection=False,
    ),
)
