"""Metrics for Prometheus at `/metrics`, and routes for operators: liveness, readiness, health of servers.

`maitred.gateway.metrics` counts; requests of HTTP are counted, and traced, here.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from fastapi import FastAPI, Request
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred.errors import ServerUnavailableError
from maitred.gateway import Gateway
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import openapi, schemas
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.openapi import ServerName, answers, error
from maitred.surfaces.web.mount import is_page
from maitred.surfaces.web.screen import BASE as PAGES
from maitred.tracing import Span, carrier_of, note_remote, present_span, root_span

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_MCP: Final = "/mcp"
_API: Final = "/api/"
_SERVER_ERRORS: Final = 500


class RequestCounter:
    """Counts every request of an ASGI application by its route and status, and traces those to the API."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._metrics = gateway.metrics
        self._activity = gateway.activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.http_requested(_route(scope), message["status"])
                present = present_span()
                if present is not None and scope["path"].startswith(_API):
                    _describe(present, scope, message["status"])
            await send(message)

        if self._activity.tracer is None:
            await self._app(scope, receive, counting)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        note_remote(carrier_of(headers))
        if not scope["path"].startswith(_API):  # a request of MCP has its own span, pages and probes none
            await self._app(scope, receive, counting)
            return
        attributes = {"http.request.method": scope["method"]}
        with root_span(self._activity.tracer, scope["method"], "server", attributes):
            await self._app(scope, receive, counting)


def _describe(span: Span, scope: Scope, status: int) -> None:
    route = _route(scope)
    span.rename(f"{scope['method']} {route}")
    span.note(http__route=route, http__response__status_code=status)
    if status >= _SERVER_ERRORS:
        span.fail(str(status))


def _route(scope: Scope) -> str:
    route = getattr(scope.get("route"), "path_format", "")
    return route or (_MCP if scope["path"] == _MCP else PAGES if is_page(scope["path"]) else "none")


def add_routes(app: FastAPI, gateway: Gateway, is_draining: Callable[[], bool] = lambda: False) -> None:
    """Add the routes; a gateway that drains is not ready."""
    _add_probes(app, gateway, is_draining)
    _add_health(app, gateway)
    _add_metrics(app, gateway)


def _add_probes(app: FastAPI, gateway: Gateway, is_draining: Callable[[], bool]) -> None:
    fine = encode({"status": "ok"})

    @app.get(
        "/healthz",
        summary="Whether the process answers",
        tags=["probes"],
        response_model=schemas.LivenessResponse,
        responses=answers(openapi.ALIVE),
    )
    async def healthz() -> Response:
        """Always 200; no token is needed. Notices say what the gateway goes on without."""
        notices = gateway.notices
        body = encode({"status": "ok", "notices": notices}) if notices else fine
        return Response(body, media_type="application/json")

    @app.get(
        "/readyz",
        summary="Whether all tools are known",
        tags=["probes"],
        response_model=schemas.LivenessResponse,
        responses=answers(openapi.ALIVE, 503),
    )
    async def readyz() -> Response:
        """200 once no server is being discovered for the first time, until the gateway begins to end."""
        if is_draining():
            return Refusal(503, "ending", "maitred ends, and takes no new clients")
        if gateway.snapshot.generation < 0:
            return Refusal(503, "not_ready", "the catalog is not loaded yet")
        if not await gateway.settled(0):
            return Refusal(503, "not_ready", "servers are being discovered for the first time")
        return Response(fine, media_type="application/json")


def _add_health(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        "/healthz/{name}",
        summary="Whether a server can be used",
        tags=["probes"],
        response_model=schemas.ServerHealth,
        responses=answers(openapi.WELL, 403, 404, 422, 503),
    )
    async def health(request: Request, name: ServerName) -> Response:
        """200 if it runs, or would start for a call. 503 with the reason if it cannot be used now."""
        status = gateway.watched_server(unquote(name), viewer_of(request))
        if why := status.unwell:
            raise ServerUnavailableError(status.name, why)
        about = {"server": status.name, "state": status.health.state.value, "desired": status.spec.start}
        body = encode({"status": "ok", **about, "since": status.health.since})
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def _add_metrics(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        "/metrics",
        summary="Figures for Prometheus",
        tags=["probes"],
        response_class=Response,
        responses={
            200: {
                "description": "The text format.",
                "content": {"text/plain": {"schema": {"type": "string"}, "example": openapi.METRICS}},
            },
            403: error(403),
        },
    )
    async def text(request: Request) -> Response:
        """Calls and requests since the start, and the present state of the gateway."""
        return Response(
            await gateway.metrics.text(viewer_of(request)), headers={"Content-Type": CONTENT_TYPE}
        )
