"""Routes about single tools: find them, read one whole (T3), call it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import unquote

import anyio
from fastapi import FastAPI, Query, Request
from pydantic_core.core_schema import CoreSchema, literal_schema
from starlette.responses import Response

from maitred.gateway import Gateway
from maitred.model.details import DETAILS, Detail
from maitred.model.tools import ToolCall
from maitred.surfaces.disconnects import OnDisconnect
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import openapi, schemas
from maitred.surfaces.http.audit import id_of
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import REQUEST_HEADER
from maitred.surfaces.http.filters import Tags, Use
from maitred.surfaces.http.openapi import API, ServerName, ToolName, answers
from maitred.surfaces.http.page_cache import Pages

_JSON = "application/json"
_GONE = 408

Phrase = Annotated[str, Query(min_length=1, max_length=2_000)]
Phrases = Annotated[
    list[Phrase],
    Query(
        min_length=1,
        max_length=20,
        description="A capability in a few words. Repeat the parameter for several.",
        examples=[["add numbers"]],
    ),
]
ServerFilter = Annotated[str, Query(description="Only tools of this server.", examples=[""])]
CategoryFilter = Annotated[
    str, Query(description="Only tools of this category and below.", examples=["data"])
]
ReadOnly = Annotated[bool, Query(description="Only tools that are marked read-only.", examples=[False])]
Limit = Annotated[int, Query(ge=1, le=20, description="Results for each phrase.", examples=[5])]


class _Level:
    """A name of the table of levels, as it is when the application is made."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        return literal_schema(list(DETAILS))


HowMuch = Annotated[
    Detail,
    _Level,
    Query(description=" ".join(f"`{name}`: {shown}" for name, shown in DETAILS.items()), examples=["brief"]),
]


def add_routes(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    """Add the routes."""
    _add_search(app, gateway)
    _add_tool(app, gateway, pages)
    _add_call(app, gateway)


def _add_search(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/tools/search",
        summary="Find tools by what they do",
        tags=["tools"],
        response_model=schemas.SearchResult,
        responses=answers(openapi.SEARCH, 404, 422),
    )
    async def search(
        request: Request,
        q: Phrases,
        use: Use,
        server: ServerFilter = "",
        category: CategoryFilter = "",
        tag: Tags = [],  # noqa: B006  # FastAPI copies it
        read_only: ReadOnly = False,  # noqa: FBT002  # a query parameter
        limit: Limit = 5,
        detail: HowMuch = "brief",
    ) -> Response:
        """Search by words and by meaning. The best result of every phrase comes before any second best."""
        answer = await gateway.search(
            q,
            server=server,
            category=category,
            tags=tag,
            read_only=read_only,
            use=use,
            limit=limit,
            detail=detail,
            viewer=viewer_of(request),
        )
        return Response(encode(_found(answer)), media_type=_JSON)


def _found(answer: Any) -> dict[str, Any]:
    return {
        "band": answer.band,
        "bands": dict(answer.bands),
        "corrections": dict(answer.corrections),
        "results": [
            {
                "name": found.tool.name,
                "server": found.tool.server,
                "category": found.tool.placement.category,
                "line": found.line,
                "band": found.band,
                "also": list(found.also),
                "why_not": found.why_not,
                "usage": found.usage_json(),
            }
            for found in answer.results
        ],
        "withheld": [
            {"server": name, "tools": count, "reason": why} for name, (count, why) in answer.withheld.items()
        ],
        "unread": dict(answer.unread),
        "note": answer.note,
    }


def _add_tool(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    @app.get(
        f"{API}/tools/{{server}}/{{tool}}",
        summary="T3: everything about one tool",
        tags=["tools"],
        response_model=schemas.ToolDetail,
        responses=answers(openapi.TOOL, 404, 409, 422, unchanged=True),
    )
    async def tool(request: Request, server: ServerName, tool: ToolName) -> Response:
        """The definition as its server wrote it, its place in the menu, and how it was used."""
        viewer = viewer_of(request)
        found = gateway.tool(unquote(server), unquote(tool), viewer)
        described = await gateway.tool_json(found, viewer)
        return pages.answer(request, lambda: described, keep=False)  # its use is that of this moment


def _add_call(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/tools/{{server}}/{{tool}}/call",
        summary="Call a tool",
        tags=["tools"],
        response_model=schemas.CallResult,
        responses=answers(openapi.RESULT, 400, 403, 404, 409, 413, 422, 429, 502, 503, 504),
    )
    async def call(request: Request, server: ServerName, tool: ToolName, body: schemas.CallBody) -> Response:
        """The tool's result, unchanged. A tool that fails gives status 200 with `isError`."""
        viewer, request_id = viewer_of(request), id_of(request)
        async with gateway.audit_request("call", unquote(tool), viewer, request_id=request_id):
            found = await gateway.tool_of_server_to_call(unquote(server), unquote(tool), viewer)
        wanted = ToolCall(name=found.name, arguments=body.arguments, request_id=request_id)
        with _while_connected(request, gateway):
            result = await gateway.call(wanted, viewer=viewer, read_only=body.read_only)
            return Response(encode(result), media_type=_JSON, headers={REQUEST_HEADER: request_id})
        return Response(status_code=_GONE)  # no client gets this


@contextmanager
def _while_connected(request: Request, gateway: Gateway) -> Iterator[None]:
    """Cancel a call whose client leaves, if calls may wait for a person: it must not be made then."""
    if not gateway.holds_calls:
        yield
        return
    with anyio.CancelScope() as scope, OnDisconnect(request.scope, scope.cancel):
        yield
