"""Routes for whoever watches the gateway: does it live, is it ready, are its servers well, its figures."""

from urllib.parse import unquote

from fastapi import FastAPI, Request
from starlette.responses import Response

from maitred.errors import ServerUnavailableError
from maitred.gateway import Gateway
from maitred.surfaces.http import examples, schemas
from maitred.surfaces.http.access import viewer_of
from maitred.surfaces.http.describe import ServerName, answers, error
from maitred.surfaces.http.encoding import encode
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.lookup import server_of
from maitred.surfaces.http.metrics import CONTENT_TYPE, Metrics


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
        response_model=schemas.Alive,
        responses=answers(examples.ALIVE),
    )
    async def healthz() -> Response:
        """Always 200; no token is needed."""
        return Response(fine, media_type="application/json")

    @app.get(
        "/readyz",
        summary="Whether all tools are known",
        tags=["probes"],
        response_model=schemas.Alive,
        responses=answers(examples.ALIVE, 503),
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
        summary="Whether a server is well",
        tags=["probes"],
        response_model=schemas.Well,
        responses=answers(examples.WELL, 403, 404, 422, 503),
    )
    async def health(request: Request, name: ServerName) -> Response:
        """200 if it runs, or would be started for a call; 503 with the reason if it cannot be used now."""
        status = server_of(gateway, unquote(name), viewer_of(request), "watch")
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
                "content": {"text/plain": {"schema": {"type": "string"}, "example": examples.METRICS}},
            },
            403: error(403),
        },
    )
    async def text(request: Request) -> Response:
        """Calls and requests since the start, and what the gateway is now."""
        gateway.access.check(viewer_of(request), "watch")
        return Response(await metrics.text(), headers={"Content-Type": CONTENT_TYPE})
