"""Routes that suspend and resume one principal, and say who is suspended. All need the role admin."""

from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from maitred.gateway import Gateway
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.openapi import API, answers

_JSON: Final = "application/json"
_ONE: Final = {"principal": "ci", "by": "http", "why": "its token leaked", "at": "2026-03-01T09:30:00+00:00"}
_FAULTS: Final = (400, 403, 409, 413, 422, 503)
Principal = Annotated[
    str, Path(description="The principal, as the audit trail has it; percent-encoded.", examples=["ci"])
]


class ReasonBody(BaseModel):
    """Why a principal is suspended or resumed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"why": "its token leaked"}]})

    why: str = Field(default="", max_length=500, description="The reason, for the audit trail.")


class PrincipalResponse(BaseModel):
    """What was done, and how many calls that waited for a person were refused."""

    principal: str
    suspended: bool
    refused_calls: int


class SuspendedResponse(BaseModel):
    """A principal who is suspended; `at` is ISO 8601 in UTC."""

    principal: str
    by: str
    why: str
    at: str


class SuspendedList(BaseModel):
    """Who is suspended, the first first."""

    suspended: list[SuspendedResponse]


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_list(app, gateway)
    _add_suspend(app, gateway)
    _add_resume(app, gateway)


def _add_list(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/principals/suspended",
        summary="Suspended principals",
        tags=["access"],
        response_model=SuspendedList,
        responses=answers({"suspended": [_ONE]}, 403, 503),
    )
    async def suspended(request: Request) -> Response:
        """Who is suspended, by whom and why."""
        found = await gateway.suspended_principals(viewer_of(request))
        return _answer({"suspended": [one.to_json() for one in found]})


def _add_suspend(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/principals/{{principal}}/suspend",
        summary="Suspend a principal",
        tags=["access"],
        response_model=PrincipalResponse,
        responses=answers({"principal": "ci", "suspended": True, "refused_calls": 0}, *_FAULTS),
    )
    async def suspend(request: Request, principal: Principal, body: ReasonBody) -> Response:
        """Refuse all its tokens, end what it has open, and refuse its calls that wait, within a second."""
        done = await gateway.suspend_principal(unquote(principal), viewer_of(request), why=body.why)
        said = {"principal": done.principal, "suspended": True, "refused_calls": done.refused_calls}
        return _answer(said)


def _add_resume(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/principals/{{principal}}/resume",
        summary="Resume a principal",
        tags=["access"],
        response_model=PrincipalResponse,
        responses=answers({"principal": "ci", "suspended": False, "refused_calls": 0}, *_FAULTS),
    )
    async def resume(request: Request, principal: Principal, body: ReasonBody) -> Response:
        """Give a principal back what its tokens and groups give it."""
        name = unquote(principal)
        await gateway.resume_principal(name, viewer_of(request), why=body.why)
        return _answer({"principal": name, "suspended": False, "refused_calls": 0})


def _answer(value: Any) -> Response:
    return Response(encode(value), media_type=_JSON, headers={"Cache-Control": "no-store"})
