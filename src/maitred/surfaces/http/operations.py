"""Metrics for Prometheus at `/metrics`, and routes for operators: liveness, readiness, health of servers.

Each application has a registry of its own. Labels have few values: configured servers and declared routes,
never tools or texts of a client. Gauges are computed when Prometheus reads them.
"""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred.errors import ServerUnavailableError, StoreError
from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.model.servers import State
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import openapi, schemas
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.openapi import ServerName, answers, error
from maitred.surfaces.web.mount import is_page
from maitred.surfaces.web.screen import BASE as PAGES

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_MCP: Final = "/mcp"


class Metrics:
    """Counts calls and requests, and reports gauges of the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._registry = registry = CollectorRegistry()
        self._calls = Counter("maitred_calls", "Calls of tools.", ["server"], registry=registry)
        self._errors = Counter("maitred_call_errors", "Calls that failed.", ["server"], registry=registry)
        self._seconds = Histogram(
            "maitred_call_seconds", "How long calls took.", ["server"], buckets=_SECONDS, registry=registry
        )
        self._requests = Counter(
            "maitred_http_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._children: dict[tuple[str, int], Counter] = {}
        self._of_server: dict[str, tuple[Counter, Counter, Histogram]] = {}
        self._tools = Gauge("maitred_tools", "Tools that may be shown.", registry=registry)
        self._servers = Gauge("maitred_servers", "Servers that are configured.", registry=registry)
        self._states = Gauge("maitred_servers_by_state", "Servers by state.", ["state"], registry=registry)
        self._generation = Gauge("maitred_catalog_generation", "The catalog's generation.", registry=registry)
        self._raw = Gauge(
            "maitred_raw_list_tokens", "What a list of all definitions costs.", registry=registry
        )
        self._today = Gauge(
            "maitred_tokens_today",
            "Tokens of all principals since midnight UTC: spent on finding tools, and what raw lists cost.",
            ["kind"],
            registry=registry,
        )
        self._visibility = Counter(
            "maitred_visibility_changes",
            "How often other tools of a server made sense than before.",
            ["server", "cause"],
            registry=registry,
        )
        self._pages = Counter(
            "maitred_pages", "Pages of the menu, answered from the cache or made.", ["route", "cache"],
            registry=registry,
        )  # fmt: skip
        gateway.watch(self._called)
        gateway.watch_visibility(lambda server, cause: self._visibility.labels(server, cause).inc())

    def _called(self, server: str, ok: bool, elapsed_s: float) -> None:  # noqa: FBT001  # as the gateway tells
        known = self._of_server.get(server)
        if known is None:
            every = self._calls.labels(server), self._errors.labels(server), self._seconds.labels(server)
            known = self._of_server[server] = every
        calls, errors, seconds = known
        calls.inc()
        if not ok:
            errors.inc()
        seconds.observe(elapsed_s)

    def page_used(self, route: str, cache: str) -> None:
        """Count a page of the menu: a `hit` in the cache, or a `miss`."""
        self._pages.labels(route, cache).inc()

    def requested(self, route: str, status: int) -> None:
        """Count a request that is being answered."""
        child = self._children.get((route, status))
        if child is None:
            child = self._children[route, status] = self._requests.labels(route, str(status))
        child.inc()

    async def text(self, viewer: Viewer) -> bytes:
        """All metrics, in the text format of Prometheus, for a viewer who may watch everything.

        Raises:
            NotAllowedError: The viewer may not.
        """
        gateway = self._gateway
        snapshot = gateway.whole_catalog(viewer)
        states = [status.health.state for status in gateway.servers(viewer)]
        self._tools.set(len(gateway.visible_tools(viewer)))
        self._servers.set(len(states))
        for state in State:
            self._states.labels(state.value).set(states.count(state))
        self._generation.set(snapshot.generation)
        self._raw.set(gateway.raw_tokens(viewer))
        try:
            day = datetime.now(UTC).date().isoformat()
            today = [row for row in (await gateway.stats(1, viewer=viewer)).spending if row.day == day]
        except StoreError:
            self._today.clear()  # no figure is better than an old one
        else:
            self._today.labels("spent").set(sum(row.spent for row in today))
            self._today.labels("raw").set(sum(row.raw_tokens for row in today))
        return generate_latest(self._registry)


class RequestCounter:
    """Counts every request of an ASGI application by its route and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requested(_route(scope), message["status"])
            await send(message)

        await self._app(scope, receive, counting)


def _route(scope: Scope) -> str:
    route = getattr(scope.get("route"), "path_format", "")
    return route or (_MCP if scope["path"] == _MCP else PAGES if is_page(scope["path"]) else "none")


def add_routes(app: FastAPI, gateway: Gateway, metrics: Metrics) -> None:
    """Add the routes."""
    _add_probes(app, gateway)
    _add_health(app, gateway)
    _add_metrics(app, gateway, metrics)


def _add_probes(app: FastAPI, gateway: Gateway) -> None:
    fine = encode({"status": "ok"})

    @app.get(
        "/healthz",
        summary="Whether the process answers",
        tags=["probes"],
        response_model=schemas.LivenessResponse,
        responses=answers(openapi.ALIVE),
    )
    async def healthz() -> Response:
        """Always 200; no token is needed."""
        return Response(fine, media_type="application/json")

    @app.get(
        "/readyz",
        summary="Whether all tools are known",
        tags=["probes"],
        response_model=schemas.LivenessResponse,
        responses=answers(openapi.ALIVE, 503),
    )
    async def readyz() -> Response:
        """200 once the catalog is loaded and no server is being discovered for the first time."""
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


def _add_metrics(app: FastAPI, gateway: Gateway, metrics: Metrics) -> None:
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
        return Response(await metrics.text(viewer_of(request)), headers={"Content-Type": CONTENT_TYPE})
