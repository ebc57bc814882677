"""Routes that restart servers, list them again, and show what they wrote. All need the role operator."""

from typing import Final
from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from maitred.gateway import Gateway, ServerRefresh
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.openapi import API, ServerName, answers

_JSON: Final = "application/json"
_LISTED: Final = {
    "server": "calculator",
    "tools": 2,
    "added": ["calculator__divide"],
    "changed": [],
    "removed": [],
    "error": "",
    "notes": [],
}
_OUTPUT: Final = {"server": "calculator", "lines": ["calculator 1.2.0 is ready"]}
_FAULTS: Final = (403, 404, 413, 422, 503)


class RefreshResponse(BaseModel):
    """What listing a server again found. Tools are named as the gateway publishes them."""

    server: str
    tools: int = Field(description="How many tools it has now.")
    added: list[str]
    changed: list[str]
    removed: list[str]
    error: str = Field(description="Why it cannot be listed; else empty.")
    notes: list[str] = Field(description="What the operator should know about its lists.")


class OutputResponse(BaseModel):
    """The last lines of a server's standard error, without the credentials that the gateway knows."""

    server: str
    lines: list[str]


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_restart(app, gateway)
    _add_refresh(app, gateway)
    _add_output(app, gateway)


def _add_restart(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/servers/{{name}}/restart",
        summary="Restart a server",
        tags=["servers"],
        response_model=RefreshResponse,
        responses=answers(_LISTED, *_FAULTS),
    )
    async def restart_server(request: Request, name: ServerName) -> Response:
        """End it with all its instances, start it again and list it. Calls that it was making fail."""
        return _answer(await gateway.restart([unquote(name)], viewer_of(request)))


def _add_refresh(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/servers/{{name}}/refresh",
        summary="List a server again",
        tags=["servers"],
        response_model=RefreshResponse,
        responses=answers(_LISTED, *_FAULTS),
    )
    async def refresh_server(request: Request, name: ServerName) -> Response:
        """Ask it for its tools, and say what changed."""
        return _answer(await gateway.refresh([unquote(name)], viewer_of(request)))


def _add_output(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/servers/{{name}}/output",
        summary="What a server wrote",
        tags=["servers"],
        response_model=OutputResponse,
        responses=answers(_OUTPUT, *_FAULTS),
    )
    async def server_output(request: Request, name: ServerName) -> Response:
        """The last lines of its standard error, those of its processes before it was started again, too."""
        server, viewer = unquote(name), viewer_of(request)
        gateway.watched_server(server, viewer)  # an unknown one is an error that names the nearest
        lines = list(gateway.last_output(server, viewer, earlier=True))
        return _response({"server": server, "lines": lines})


def _answer(found: list[ServerRefresh]) -> Response:
    return _response(found[0].to_json())


def _response(value: object) -> Response:
    return Response(encode(value), media_type=_JSON, headers={"Cache-Control": "no-store"})
