"""Routes about calls that wait for a person: list them, look at one, decide; callers need `approve`."""

from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from maitred.gateway import Gateway
from maitred.surfaces.encoding import encode
from maitred.surfaces.held_call_json import held_call_json
from maitred.surfaces.http import openapi
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.openapi import API, answers

_JSON = "application/json"
Choice = Literal["once", "session", "any", "refuse"]
HeldId = Annotated[str, Path(description="The id of the held call.", examples=["5b1f0c7ad2e9"])]


class HeldCallResponse(BaseModel):
    """A call that waits for a person, or did."""

    id: str
    tool: str = Field(description="Its published name.")
    server: str
    raw_name: str = Field(description="The name of the tool at its server.")
    principal: str = Field(description="Who calls.")
    client: str = Field(description="What the client calls itself, unverified.")
    surface: str
    chain: str = Field(description="The id of the chain that makes the call; may be empty.")
    request_id: str = Field(description="The id in the audit trail.")
    arguments: Any = Field(description="The exact arguments; null when they are not kept any more.")
    arguments_text: str = Field(description="The same as JSON text in which no character is invisible.")
    arguments_hash: str = Field(description="The SHA-256 of their canonical JSON.")
    why: str = Field(description="The rules that hold it.")
    by: Literal["caller", "operator"] = Field(description="Who decides; an operator always may.")
    choices: list[Choice] = Field(description="What the caller may decide.")
    held_at: str
    expires_at: str = Field(description="When it is refused, or when its approval ends.")
    state: Literal["waiting", "approved", "refused", "expired", "used"]
    decision: Literal["", "once", "session", "any", "refuse"]
    decided_by: str
    decided_at: str


class HeldCallsResponse(BaseModel):
    """The calls that wait, the oldest first."""

    calls: list[HeldCallResponse]


class DecisionBody(BaseModel):
    """A decision on a held call."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"decision": "once"}]})

    decision: Choice = Field(
        description="`once`: this call, one time. `session`: the same call with the same arguments again, in"
        " this client session. `any`: every call of the tool in this session. `refuse`: not at all."
    )


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""

    @app.get(
        f"{API}/calls",
        summary="The calls that wait for a person",
        tags=["calls"],
        response_model=HeldCallsResponse,
        responses=answers(openapi.HELD, 403, 503),
    )
    async def waiting(request: Request) -> Response:
        """The held calls that the caller may decide on, the oldest first, with their exact arguments."""
        found = await gateway.held_calls(viewer_of(request))
        return _answer({"calls": [held_call_json(one) for one in found]})

    @app.get(
        f"{API}/calls/{{held_id}}",
        summary="One held call",
        tags=["calls"],
        response_model=HeldCallResponse,
        responses=answers(openapi.HELD_CALL, 403, 404, 422, 503),
    )
    async def held(request: Request, held_id: HeldId) -> Response:
        """A call that waits, or one that was decided within the last 90 days."""
        return _answer(held_call_json(await gateway.held_call(unquote(held_id), viewer_of(request))))

    _add_decision(app, gateway)


def _add_decision(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/calls/{{held_id}}/decision",
        summary="Approve or refuse a held call",
        tags=["calls"],
        response_model=HeldCallResponse,
        responses=answers(openapi.DECIDED, 400, 403, 404, 409, 413, 422, 503),
    )
    async def decide(request: Request, held_id: HeldId, body: DecisionBody) -> Response:
        """Decide on a call that waits. The gateway that holds it notices within a second."""
        decided = await gateway.decide_call(unquote(held_id), body.decision, viewer_of(request))
        return _answer(held_call_json(decided))


def _answer(value: Any) -> Response:
    return Response(encode(value), media_type=_JSON)
