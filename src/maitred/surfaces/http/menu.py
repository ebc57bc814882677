"""Routes that read: the tiers T0 to T2, servers, and figures."""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from maitred.gateway import Gateway, ToolPage
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import openapi, schemas
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.filters import Tags, Use
from maitred.surfaces.http.openapi import API, ServerName, answers
from maitred.surfaces.http.page_cache import Pages

_MAX_PAGE = 100_000
_MAX_DAYS = 90

CategoryName = Annotated[str, Path(description="The name of a category of T1.", examples=["data"])]
PageNumber = Annotated[int, Query(ge=1, le=_MAX_PAGE, description="Which page, from 1.", examples=[1])]
PageSize = Annotated[int, Query(ge=1, le=50, description="How many tools a page has.", examples=[30])]
Days = Annotated[int, Query(ge=1, le=_MAX_DAYS, description="How many days, today included.", examples=[30])]


def add_routes(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    """Add the routes."""
    _add_tiers(app, gateway, pages)
    _add_category(app, gateway, pages)
    _add_servers(app, gateway, pages)
    _add_stats(app, gateway)


def _add_tiers(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    @app.get(
        f"{API}/tools/hot",
        summary="T0: the tools that are used most",
        tags=["menu"],
        response_model=schemas.HotListResponse,
        responses=answers(openapi.HOT, unchanged=True),
    )
    async def hot(request: Request) -> Response:
        """The hot list, at most 2,000 tokens: pinned tools, then the most used ones."""
        return pages.answer(request, lambda: gateway.hot(viewer_of(request)).to_json())

    @app.get(
        f"{API}/tools/categories",
        summary="T1: the categories",
        tags=["menu"],
        response_model=schemas.CategoriesResponse,
        responses=answers(openapi.CATEGORIES, unchanged=True),
    )
    async def categories(request: Request) -> Response:
        """The categories that hold tools, with how many, at most 2,000 tokens."""
        return pages.answer(request, lambda: gateway.categories(viewer_of(request)).to_json())


def _add_category(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    @app.get(
        f"{API}/tools/category/{{name}}",
        summary="T2: the tools of a category",
        tags=["menu"],
        response_model=schemas.ToolPageResponse,
        responses=answers(openapi.PAGE, 404, 422, unchanged=True),
    )
    async def category(
        request: Request,
        name: CategoryName,
        use: Use,
        page: PageNumber = 1,
        page_size: PageSize = 30,
        tag: Tags = [],  # noqa: B006  # FastAPI copies it
    ) -> Response:
        """A page of summaries, the most used tool first. A page after the last one is empty.

        With limits of use, the figures are those up to now; else those of the last computation of the tiers.
        """
        viewer, path = viewer_of(request), f"category/{unquote(name)}"
        start = (page - 1) * page_size
        cursor = str(start) if start else ""
        if not tag and not use.is_set:
            found = gateway.page(path, cursor, page_size, viewer=viewer)
            return pages.answer(request, lambda: _with_position(found, page, page_size))
        found = await gateway.filtered_page(path, cursor, page_size, tags=tag, use=use, viewer=viewer)
        return pages.answer(request, lambda: _with_position(found, page, page_size), keep=not use.is_set)


def _add_servers(app: FastAPI, gateway: Gateway, pages: Pages) -> None:
    @app.get(
        f"{API}/servers",
        summary="All servers",
        tags=["servers"],
        response_model=schemas.Servers,
        responses=answers(openapi.SERVERS, 403, unchanged=True),
    )
    async def servers(request: Request) -> Response:
        """All configured servers with their state, without values of their environment and headers."""
        found = gateway.watched_servers(viewer_of(request))
        lasting = all(  # else the text counts seconds, or what was within a window of them
            status.health.retry_in_s is None and not status.health.restarts and not status.instances
            for status in found
        )
        return pages.answer(
            request,
            lambda: {"servers": [status.to_json() for status in found]},
            keep=lasting,
            of_servers=True,
        )

    @app.get(
        f"{API}/servers/{{name}}",
        summary="One server",
        tags=["servers"],
        response_model=schemas.ServerDetail,
        responses=answers(openapi.SERVER, 403, 404, 422, unchanged=True),
    )
    async def server(request: Request, name: ServerName) -> Response:
        """A server with its own description, and its present state."""
        status = gateway.watched_server(unquote(name), viewer_of(request))
        detail = {
            "title": status.facts.title,
            "instructions": status.facts.instructions,
            "failures": status.health.failures,
            "starts": status.health.starts,
            "in_flight": status.health.in_flight,
        }
        return pages.answer(request, lambda: status.to_json() | detail, keep=False)


def _add_stats(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/stats",
        summary="How tools were used",
        tags=["figures"],
        response_model=schemas.StatsResponse,
        responses=answers(openapi.STATS, 403, 422, 503),
    )
    async def stats(request: Request, days: Days = 30) -> Response:
        """Calls by tool and server, and tokens by day and principal."""
        found = await gateway.stats(days, viewer=viewer_of(request))
        return Response(
            encode(found.to_json() | {"levels": dict(found.levels)}), media_type="application/json"
        )


def _with_position(found: ToolPage, page: int, size: int) -> dict[str, Any]:
    """A page of tools with its position among the pages."""
    place = {
        "page": page,
        "page_size": size,
        "total_count": found.total,
        "total_pages": -(-found.total // size),
    }
    return found.to_json() | {"pagination": place}
