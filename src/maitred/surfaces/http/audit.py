"""Routes about the audit trail and its request ids; callers need the ability `audit`.

Each request reads the file again. The last entries may not be in it yet, except those of changes.
"""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import FastAPI, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from maitred.audit.service import mark_of, moment_ago
from maitred.gateway import Gateway, known_id
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import openapi
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import REQUEST_HEADER
from maitred.surfaces.http.openapi import API, answers

_JSON = "application/json"

Since = Annotated[
    str,
    Query(
        pattern=r"^([0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}Z?)?)?)?)?)?$|^[0-9]{1,6}[mhdw]$",
        description="Only lines from this time on, in UTC, or of the last `90m`, `24h`, `7d` or `2w`.",
        examples=["2026-03-01T09:30:00Z"],
    ),
]
Principal = Annotated[str, Query(description="Only what this principal did.", examples=[""])]
ToolFilter = Annotated[
    str, Query(description="Only what concerns this tool (either name) or server.", examples=["calculator"])
]
Limit = Annotated[int, Query(ge=1, le=500, description="How many lines.", examples=[50])]
Cursor = Annotated[
    str,
    Query(pattern=r"^[0-9]{0,18}$", description="`next_cursor` of the page before.", examples=[""]),
]
Head = Annotated[
    str,
    Query(
        pattern=r"^([0-9]{1,18}:[0-9a-f]{64})?$",
        description="A head that you noted before, as `NUMBER:DIGEST`.",
        examples=[""],
    ),
]
AnswerId = Annotated[str, Path(description="The id that the refusal named.", examples=["Zk3v9QmBx1s0Tt7a"])]


class AuditPage(BaseModel):
    """Lines of the audit trail, the newest first; docs/audit.md lists the fields of a line."""

    lines: list[dict[str, Any]]
    next_cursor: str = Field(description="Empty on the last page.")


class VerificationResponse(BaseModel):
    """The result of a check of the whole trail."""

    ok: bool
    lines: int
    first: int = Field(description="The number of the oldest line that is left.")
    head: str = Field(
        description="The last line or anchor as `NUMBER:DIGEST`; keep it elsewhere to compare with."
    )
    replicas: int = Field(description="How many processes have chains of their own, on PostgreSQL.")
    anchors: int = Field(description="The links of the global chain over them.")
    faults: list[str]


class WithheldAnswer(BaseModel):
    """A page of an answer that was withheld from a model."""

    text: str
    next_cursor: str = Field(description="Empty on the last page.")


def id_of(request: Request) -> str:
    """The request id of a call: the sender's own, if it is valid in the trail, else a new one."""
    return known_id(request.headers.get(REQUEST_HEADER, ""))


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_lines(app, gateway)
    _add_verify(app, gateway)
    _add_answers(app, gateway)


def _add_lines(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/audit",
        summary="Who did what",
        tags=["audit"],
        response_model=AuditPage,
        responses=answers(openapi.AUDIT, 403, 422, 503),
    )
    async def lines(
        request: Request,
        since: Since = "",
        principal: Principal = "",
        tool: ToolFilter = "",
        limit: Limit = 50,
        cursor: Cursor = "",
    ) -> Response:
        """The lines of the audit trail, the newest first. An action that began and ended is one line."""
        moment = moment_ago(since) or since.removesuffix("Z")
        found = await gateway.audit_lines(
            viewer_of(request),
            since=moment,
            who=principal,
            tool=tool,
            before=int(cursor or "0"),
            limit=limit,
        )
        page = {"lines": list(found.lines), "next_cursor": str(found.before or "")}
        return Response(encode(page), media_type=_JSON)


def _add_verify(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/audit/verify",
        summary="Whether the audit trail is unchanged",
        tags=["audit"],
        response_model=VerificationResponse,
        responses=answers(openapi.VERIFIED, 403, 422, 503),
    )
    async def verify(request: Request, head: Head = "") -> Response:
        """Read all lines, about 100,000 a second. A trail that was changed gives status 200 with `faults`."""
        found = await gateway.verify_audit(viewer_of(request), mark_of(head) if head else None)
        return Response(encode(found.to_json()), media_type=_JSON)


def _add_answers(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/audit/answers/{{answer_id}}",
        summary="An answer that was withheld from a model",
        tags=["audit"],
        response_model=WithheldAnswer,
        responses=answers(openapi.WITHHELD, 403, 404, 422),
    )
    async def answer(request: Request, answer_id: AnswerId, cursor: Cursor = "") -> Response:
        """An answer that `results.screening: block` withheld from a model; kept for `results.keep_s`."""
        viewer, name = viewer_of(request), unquote(answer_id)
        await gateway.fetch_result(name, viewer=viewer)
        page = gateway.withheld_answer(name, cursor, viewer=viewer, request_id=id_of(request))
        return Response(encode({"text": page.text, "next_cursor": page.next_cursor}), media_type=_JSON)
