"""Routes that switch servers and tools off and on. All need the role admin.

The configuration file has the switch afterwards, and it counts at once.
"""

from typing import Final
from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from maitred.errors import ConfigError
from maitred.gateway import Gateway
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.openapi import API, ServerName, ToolName, answers

_JSON: Final = "application/json"
_OF_SERVER: Final = {"server": "calculator", "tool": "", "enabled": False}
_OF_TOOL: Final = {"server": "calculator", "tool": "add", "enabled": False}
_FAULTS: Final = (403, 404, 409, 413, 422, 503)


class SwitchResponse(BaseModel):
    """What was switched, and what it is now."""

    server: str
    tool: str = Field(description="The tool's raw name; empty for the server itself.")
    enabled: bool


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    for word, enabled in (("disable", False), ("enable", True)):
        _add_server(app, gateway, word, enabled=enabled)
        _add_tool(app, gateway, word, enabled=enabled)


def _add_server(app: FastAPI, gateway: Gateway, word: str, *, enabled: bool) -> None:
    @app.post(
        f"{API}/servers/{{name}}/{word}",
        summary=f"{word.capitalize()} a server",
        operation_id=f"{word}_server",
        tags=["servers"],
        response_model=SwitchResponse,
        responses=answers(_OF_SERVER | {"enabled": enabled}, *_FAULTS),
    )
    async def switch_server(request: Request, name: ServerName) -> Response:
        """Write it into the configuration file and apply it. A disabled server is stopped, and not there."""
        server = unquote(name)
        try:
            await gateway.switch_server(server, viewer_of(request), enabled=enabled)
        except ConfigError as error:
            return _refusal(error)
        return _answer(server, "", enabled=enabled)


def _add_tool(app: FastAPI, gateway: Gateway, word: str, *, enabled: bool) -> None:
    @app.post(
        f"{API}/tools/{{server}}/{{tool}}/{word}",
        summary=f"{word.capitalize()} a tool",
        operation_id=f"{word}_tool",
        tags=["tools"],
        response_model=SwitchResponse,
        responses=answers(_OF_TOOL | {"enabled": enabled}, *_FAULTS),
    )
    async def switch_tool(request: Request, server: ServerName, tool: ToolName) -> Response:
        """Write it into the configuration file and apply it. No caller finds or calls a disabled tool."""
        viewer = viewer_of(request)
        try:
            switched = await gateway.switch_tool(unquote(server), unquote(tool), viewer, enabled=enabled)
        except ConfigError as error:
            return _refusal(error)
        return _answer(switched.server, switched.key.name, enabled=enabled)


def _refusal(error: ConfigError) -> Response:
    return Refusal(422, "request_invalid", str(error), faults=list(error.faults))


def _answer(server: str, tool: str, *, enabled: bool) -> Response:
    made = encode({"server": server, "tool": tool, "enabled": enabled})
    return Response(made, media_type=_JSON, headers={"Cache-Control": "no-store"})
