"""Routes for the allow list: what registers without a person's approval. All need the role admin."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

from fastapi import FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from maitred.admission.allow_list import AllowKind, pattern_json
from maitred.gateway import Gateway
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.openapi import API, answers

_JSON: Final = "application/json"
_WHO: Final = {"who": "ann", "why": "our own images", "at": "2026-03-01T09:41:00+00:00"}
_NAMED: Final[dict[str, Any]] = {"kind": "trusted_images", "pattern": "ghcr.io/acme/*"}
_OF_FILE: Final = {
    "kind": "images",
    "pattern": "docker.io/**",
    "source": "configuration",
    "who": "",
    "why": "",
    "at": "",
}
_PATTERN: Final = _NAMED | {"source": "list"} | _WHO
_REMOVED: Final = _NAMED | {"action": "removed"} | _WHO
_ADDED: Final = _NAMED | {"action": "added"} | _WHO

KindOfPattern = Annotated[
    AllowKind, Path(description="A key of the section `admission`.", examples=["trusted_images"])
]
Pattern = Annotated[str, Path(description="The pattern, percent-encoded.", examples=["ghcr.io/acme/*"])]
Why = Annotated[str, Query(max_length=500, description="The reason, for the history.", examples=["unused"])]


class AllowBody(BaseModel):
    """A pattern to add."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [_NAMED | {"why": "our own images"}]}
    )

    kind: AllowKind = Field(
        description="A key of the section `admission`, which says what the pattern means."
    )
    pattern: str = Field(min_length=1, max_length=500, description="As in the configuration file.")
    why: str = Field(default="", max_length=500, description="The reason, for the history.")


class AllowPatternResponse(BaseModel):
    """A pattern that counts now."""

    kind: AllowKind
    pattern: str
    source: Literal["configuration", "list"] = Field(
        description="`configuration`: the file has it, and only the file can take it away."
    )
    who: str
    why: str
    at: str


class AllowPatterns(BaseModel):
    """All patterns that count, those of the configuration file first."""

    patterns: list[AllowPatternResponse]


class AllowEventResponse(BaseModel):
    """A change of the list."""

    kind: AllowKind
    pattern: str
    action: Literal["added", "removed"]
    who: str
    why: str
    at: str


class AllowHistory(BaseModel):
    """All changes of the list, the oldest first."""

    changes: list[AllowEventResponse]


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_reading(app, gateway)
    _add_changes(app, gateway)


def _add_reading(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/allow",
        summary="The allow list",
        tags=["admission"],
        response_model=AllowPatterns,
        responses=answers({"patterns": [_OF_FILE, _PATTERN]}, 403, 422, 503),
    )
    async def patterns(request: Request) -> Response:
        """The patterns of the configuration file, and those that were added while the gateway ran."""
        found = await gateway.allow_patterns(viewer_of(request))
        return _answer({"patterns": [pattern_json(one) for one in found]})

    @app.get(
        f"{API}/allow/history",
        summary="The history of the allow list",
        tags=["admission"],
        response_model=AllowHistory,
        responses=answers({"changes": [_ADDED, _REMOVED]}, 403, 422, 503),
    )
    async def history(request: Request) -> Response:
        """Who added and removed which pattern, when and why."""
        found = await gateway.allow_history(viewer_of(request))
        return _answer({"changes": [pattern_json(one) for one in found]})


def _add_changes(app: FastAPI, gateway: Gateway) -> None:
    described = answers(_PATTERN, 400, 403, 413, 422, 503)

    @app.post(
        f"{API}/allow",
        summary="Add a pattern",
        tags=["admission"],
        status_code=201,
        response_model=AllowPatternResponse,
        responses={201: described.pop(200), **described},
    )
    async def add(request: Request, body: AllowBody) -> Response:
        """Add a pattern to the list. The next registration is judged by it."""
        viewer = viewer_of(request)
        made = await gateway.add_allow_pattern(body.kind, body.pattern, why=body.why, viewer=viewer)
        return _answer(pattern_json(made), 201)

    @app.delete(
        f"{API}/allow/{{kind}}/{{pattern}}",
        summary="Remove a pattern",
        tags=["admission"],
        response_model=AllowEventResponse,
        responses=answers(_REMOVED, 403, 404, 422, 503),
    )
    async def remove(request: Request, kind: KindOfPattern, pattern: Pattern, why: Why = "") -> Response:
        """Remove a pattern of the list. What was approved by it stays approved."""
        viewer = viewer_of(request)
        gone = await gateway.remove_allow_pattern(kind, unquote(pattern), why=why, viewer=viewer)
        return _answer(pattern_json(gone))


def _answer(value: Any, status: int = 200) -> Response:
    return Response(
        encode(value), status_code=status, media_type=_JSON, headers={"Cache-Control": "no-store"}
    )
