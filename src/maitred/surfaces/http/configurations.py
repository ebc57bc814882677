"""The configurations of approved servers, for an orchestrator that runs servers itself, and their changes.

A program takes them with `GET`, and again whenever the stream of server-sent events names another revision.
The stream only says that there is something new, so a program that loses it loses nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import anyio
from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from maitred.errors import BusyError, MaitredError
from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import admission_schemas as schemas
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.openapi import API, answers

PATH: Final = f"{API}/servers/configurations"
_JSON: Final = "application/json"
_REVALIDATE: Final = "private, max-age=0, must-revalidate"
_POLL_S: Final = 1.0
"""Decisions of other processes are seen after so many seconds, since SQLite sends no notice."""
_BEATS: Final = 15
"""After how many looks without news a remark is sent, so that a connection that broke is noticed."""
_MOST_STREAMS_EACH: Final = 10
_RETRY_S: Final = 30.0
_LASTS_S: Final = 600.0
_EXAMPLE: Final[Any] = {
    "revision": "9f2c6a51d0b34be7a8c1d2e3f4a5b6c7",
    "servers": [
        {
            "server": "calculator",
            "manifest_hash": "5b" * 32,
            "image": "ghcr.io/acme/calculator@sha256:" + "7a" * 32,
            "approved_by": "ann",
            "approved_at": "2026-03-01T09:41:00+00:00",
            "manifest": schemas.CASE["manifest"],
        }
    ],
}


class ServerConfigurationResponse(BaseModel):
    """An approved server."""

    server: str
    manifest_hash: str = Field(description="What its approval binds to.")
    image: str = Field(description="With its digest as far as that is known; empty without an image.")
    approved_by: str = Field(description="The principal or the rule that approved it last.")
    approved_at: str
    manifest: dict[str, Any] = Field(description="In its normal form.")


class ServerConfigurationsResponse(BaseModel):
    """All approved servers that a manifest registered, by name."""

    revision: str = Field(description="Names this state, as the ETag does.")
    servers: list[ServerConfigurationResponse]


def add_routes(app: FastAPI, gateway: Gateway, is_ending: Callable[[], bool]) -> None:
    """Add the routes; before those of a single server, whose name would match as well."""

    @app.get(
        PATH,
        summary="The configurations of approved servers",
        tags=["servers"],
        response_model=ServerConfigurationsResponse,
        responses=answers(_EXAMPLE, 403, 503, unchanged=True),
    )
    async def configurations(request: Request) -> Response:
        """For a program that runs servers itself. Suspended servers and those of the file are not among them.

        `GET …/changes` is a stream of server-sent events, each with the revision of another state.
        """
        found = await gateway.server_configurations(viewer_of(request))
        headers = {"ETag": f'"{found.revision}"', "Cache-Control": _REVALIDATE}
        known = request.headers.get("if-none-match", "")
        if found.revision in known or known.strip() == "*":
            return Response(status_code=304, headers=headers)
        return Response(encode(found.to_json()), media_type=_JSON, headers=headers)

    _add_stream(app, gateway, is_ending)


def _add_stream(app: FastAPI, gateway: Gateway, is_ending: Callable[[], bool]) -> None:
    streams = Counter[str]()

    # OpenAPI has no words for a stream without end.
    @app.get(f"{PATH}/changes", include_in_schema=False)
    async def changes(request: Request) -> Response:
        """The revision of each state from now on, or from the one in `Last-Event-ID`."""
        viewer = viewer_of(request)
        await gateway.server_configurations(viewer)  # a caller that may see none is refused at once
        if streams[viewer.principal] >= _MOST_STREAMS_EACH:
            raise BusyError(f"{_MOST_STREAMS_EACH} streams are open already", retry_in_s=_RETRY_S)
        after = request.headers.get("last-event-id", "")

        async def counted() -> AsyncIterator[str]:
            streams[viewer.principal] += 1
            try:
                async for event in _revisions(gateway, viewer, after, is_ending):
                    yield event
            finally:
                streams[viewer.principal] -= 1
                if not streams[viewer.principal]:
                    del streams[viewer.principal]

        return StreamingResponse(
            counted(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )


async def _revisions(
    gateway: Gateway, viewer: Viewer, after: str, is_ending: Callable[[], bool]
) -> AsyncIterator[str]:
    """The events of one stream; after a while it ends, so that who reads it is asked for the token again."""
    decisions, quiet = -1, 0
    yield "retry: 2000\n\n"
    until = anyio.current_time() + _LASTS_S
    while not is_ending() and anyio.current_time() < until:
        try:
            if decisions != (decisions := await gateway.decision_count()):
                revision = (await gateway.server_configurations(viewer)).revision
                if revision != after:
                    yield f"id: {revision}\nevent: configurations\ndata: {revision}\n\n"
                    after, quiet = revision, 0
        except MaitredError:  # the catalog cannot be read now; the client connects again
            return
        quiet += 1
        if quiet % _BEATS == 0:
            yield ": still here\n\n"
        await anyio.sleep(_POLL_S)
