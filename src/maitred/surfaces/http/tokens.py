"""Routes for access tokens: make, list, revoke. All need the role admin."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from maitred.access.tokens import TokenRequest, token_json
from maitred.errors import ConfigError
from maitred.gateway import Gateway
from maitred.model.access import Role, Scope
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.openapi import API, answers

_JSON: Final = "application/json"
_MOST_SECONDS: Final = 100 * 366 * 86_400
_TOKEN: Final = {
    "id": "5f0c8a1be2",
    "name": "ci",
    "role": "agent",
    "servers": ["calculator"],
    "categories": ["data"],
    "read_only": True,
    "profile": "",
    "state": "valid",
    "made_by": "http",
    "made_at": "2026-03-01T09:30:00+00:00",
    "expires_at": "2026-03-31T09:30:00+00:00",
    "revoked_by": "",
    "revoked_at": "",
}
_REVOKED: Final = {
    "state": "revoked",
    "revoked_by": "http",
    "revoked_at": "2026-03-02T09:30:00+00:00",
}
Which = Annotated[
    str,
    Path(
        description="The id of a token, or the name of a principal to revoke all of its tokens.",
        examples=["5f0c8a1be2"],
    ),
]
Names = Annotated[list[str], Field(max_length=1_000)] | None


class TokenBody(BaseModel):
    """A token to make. Without `servers` and `categories`, it is valid for all of them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "ci", "role": "agent", "read_only": True}]},
    )

    name: str = Field(description="The principal who gets it.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$")
    role: Role = Field(description="What its bearer may do.")
    servers: Names = Field(default=None, description="Only these servers and their tools.")
    categories: Names = Field(default=None, description="Only tools of these categories and below.")
    read_only: bool = Field(default=False, strict=True, description="Only tools known to change nothing.")
    profile: str = Field(default="", description="Only tools of this profile of the configuration.")
    expires_s: int | None = Field(
        default=None, ge=1, le=_MOST_SECONDS, strict=True, description="After how many seconds it expires."
    )


class Token(BaseModel):
    """A token without its secret. Times are ISO 8601 in UTC, or empty."""

    id: str
    name: str
    role: Role
    servers: list[str] | None
    categories: list[str] | None
    read_only: bool
    profile: str
    state: Literal["valid", "expired", "revoked"]
    made_by: str
    made_at: str
    expires_at: str
    revoked_by: str
    revoked_at: str


class MadeTokenResponse(Token):
    """A new token with its secret, which the gateway shows only once."""

    token: str


class TokenList(BaseModel):
    """Tokens, the newest first."""

    tokens: list[Token]


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_make(app, gateway)
    _add_list(app, gateway)
    _add_revoke(app, gateway)


def _add_make(app: FastAPI, gateway: Gateway) -> None:
    example = _TOKEN | {"token": "maitred_5f0c8a1be2_..."}
    described = answers(example, 400, 403, 413, 422, 503)

    @app.post(
        f"{API}/tokens",
        summary="Make a token",
        tags=["access"],
        status_code=201,
        response_model=MadeTokenResponse,
        responses={201: described.pop(200), **described},
    )
    async def make(request: Request, body: TokenBody) -> Response:
        """Make an access token. Only this answer has its secret."""
        scope = Scope(
            servers=None if body.servers is None else frozenset(body.servers),
            categories=None if body.categories is None else frozenset(body.categories),
            read_only=body.read_only,
            profiles=(body.profile,) if body.profile else (),
        )
        lifetime = None if body.expires_s is None else timedelta(seconds=body.expires_s)
        wanted = TokenRequest(name=body.name, role=body.role, scope=scope, lifetime=lifetime)
        try:
            made = await gateway.make_token(wanted, viewer_of(request))
        except ConfigError as error:
            return Refusal(422, "request_invalid", str(error), faults=list(error.faults))
        return _answer({"token": made.token, **token_json(made.record)}, 201)


def _add_list(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/tokens",
        summary="All tokens",
        tags=["access"],
        response_model=TokenList,
        responses=answers({"tokens": [_TOKEN]}, 403, 503),
    )
    async def listed(request: Request) -> Response:
        """All tokens, the newest first, also those that expired or were revoked."""
        found = await gateway.access_tokens(viewer_of(request))
        return _answer({"tokens": [token_json(one) for one in found]})


def _add_revoke(app: FastAPI, gateway: Gateway) -> None:
    @app.delete(
        f"{API}/tokens/{{which}}",
        summary="Revoke tokens",
        tags=["access"],
        response_model=TokenList,
        responses=answers({"tokens": [_TOKEN | _REVOKED]}, 403, 404, 422, 503),
    )
    async def revoke(request: Request, which: Which) -> Response:
        """Revoke the token of an id, or all tokens of a name. Answers with those that were still valid."""
        viewer = viewer_of(request)
        revoked = {one.id for one in await gateway.revoke_tokens(unquote(which), viewer)}
        records = [one for one in await gateway.access_tokens(viewer) if one.id in revoked]
        return _answer({"tokens": [token_json(one) for one in records]})


def _answer(value: Any, status: int = 200) -> Response:
    return Response(
        encode(value), status_code=status, media_type=_JSON, headers={"Cache-Control": "no-store"}
    )
