"""Routes of admission: register a server by its manifest, list pending decisions, decide, withdraw.

A manifest is read as text, because the layers report each fault with its line. A body that was parsed before
would lose the lines.
"""

from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import FastAPI, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from maitred.admission.findings import Decision
from maitred.gateway import Gateway
from maitred.gateway.admission import Verdict
from maitred.gateway.cases import Case
from maitred.surfaces.case_json import case_json, findings_json, registered_json
from maitred.surfaces.encoding import encode
from maitred.surfaces.http import admission_schemas as schemas
from maitred.surfaces.http.auth import viewer_of
from maitred.surfaces.http.errors import Refusal
from maitred.surfaces.http.openapi import API, ServerName, answers, error

_JSON: Final = "application/json"
_MANIFEST: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "A manifest. `maitred schema manifest` prints the JSON Schema of its keys.",
        "content": {
            language: {"schema": {"title": "Manifest"}, "example": schemas.MANIFEST}
            for language in ("application/yaml", _JSON)
        },
    }
}
Everything = Annotated[
    bool, Query(alias="all", description="Also the servers that need no decision.", examples=[False])
]


def _registrations(*errors: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a registration."""
    said = {
        200: (
            "It is registered already, and unchanged.",
            schemas.REGISTERED | {"happened": "unchanged"},
            schemas.RegistrationResponse,
        ),
        201: ("It is registered and approved.", schemas.REGISTERED, schemas.RegistrationResponse),
        202: (
            "It is registered and waits for a person's approval.",
            schemas.REGISTERED,
            schemas.RegistrationResponse,
        ),
        422: ("The manifest is refused, and nothing changed.", schemas.REFUSED, schemas.RefusalResponse),
    }
    described: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "model": model, "content": {_JSON: {"example": example}}}
        for status, (text, example, model) in said.items()
    }
    return described | {status: error(status) for status in errors}


def add_routes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes."""
    _add_registration(app, gateway)
    _add_withdrawal(app, gateway)
    _add_cases(app, gateway)
    _add_decision(app, gateway)


def _add_registration(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/servers",
        summary="Register a server",
        tags=["admission"],
        response_model=schemas.RegistrationResponse,
        status_code=201,
        responses=_registrations(400, 403, 409, 413, 503),
        openapi_extra=_MANIFEST,
    )
    async def register(request: Request) -> Response:
        """Register a server by its manifest, or its new manifest. A refused manifest changes nothing."""
        registered = await gateway.register_server(
            await _text(request), source=_source(request), viewer=viewer_of(request)
        )
        if registered.case is None:
            return _refusal(registered.decision)
        status = 200 if registered.happened == "unchanged" else 202 if registered.case.awaits else 201
        return _answer(registered_json(registered), status)

    @app.post(
        f"{API}/servers/check",
        summary="Check a manifest",
        tags=["admission"],
        response_model=schemas.DecisionResponse,
        responses=answers(schemas.DECISION, 400, 403, 413),
        openapi_extra=_MANIFEST,
    )
    async def check(request: Request) -> Response:
        """What each layer finds in a manifest, and what a registration would do. Nothing is registered."""
        decision = await gateway.check_manifest(
            await _text(request), source=_source(request), viewer=viewer_of(request)
        )
        return _answer(decision.record())


def _add_withdrawal(app: FastAPI, gateway: Gateway) -> None:
    @app.delete(
        f"{API}/servers/{{name}}",
        summary="Withdraw a server",
        tags=["admission"],
        response_model=schemas.CaseResponse,
        responses=answers(schemas.CASE | {"state": "withdrawn"}, 403, 404, 409, 422, 503),
    )
    async def withdraw(request: Request, name: ServerName) -> Response:
        """Withdraw a server that a manifest registered. Its log stays."""
        case = await gateway.decide(unquote(name), "withdraw", viewer=viewer_of(request))
        return _answer(_decided(case, "withdraw"))


def _add_cases(app: FastAPI, gateway: Gateway) -> None:
    @app.get(
        f"{API}/approvals",
        summary="What waits for a decision",
        tags=["admission"],
        response_model=schemas.Cases,
        responses=answers(schemas.CASES, 403, 422, 503),
    )
    async def approvals(request: Request, every: Everything = False) -> Response:  # noqa: FBT002  # a query
        """Servers that wait for a person's approval, and changes in what approved servers publish."""
        cases = await gateway.cases(viewer_of(request))
        return _answer({"cases": [case_json(case, whole=False) for case in cases if every or case.awaits]})

    @app.get(
        f"{API}/servers/{{name}}/approval",
        summary="The state of a server, and why",
        tags=["admission"],
        response_model=schemas.CaseResponse,
        responses=answers(schemas.CASE, 403, 404, 422, 503),
    )
    async def approval(request: Request, name: ServerName) -> Response:
        """Its manifest, the findings of each layer, its withheld and changed parts, and its log."""
        return _answer(case_json(await gateway.case(unquote(name), viewer=viewer_of(request))))


def _add_decision(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        f"{API}/servers/{{name}}/approval",
        summary="Decide on a server",
        tags=["admission"],
        response_model=schemas.CaseResponse,
        responses=answers(schemas.CASE | {"state": "approved"}, 400, 403, 404, 409, 413, 422, 503),
    )
    async def decide(request: Request, name: ServerName, body: schemas.VerdictBody) -> Response:
        """Approve or reject what you saw, suspend, resume, or withdraw.

        `seen` is the digest of the case, or with `origin` that of the origin. What a person refused is
        approved only with `again`.
        """
        if body.verdict == "approve" and not body.seen:
            fault = "seen: an approval needs it; give the `digest` of the case that you looked at"
            return Refusal(422, "request_invalid", fault, faults=[fault])
        case = await gateway.decide(
            unquote(name),
            body.verdict,
            viewer=viewer_of(request),
            why=body.why,
            seen=body.seen,
            origin=body.origin,
            again=body.again,
        )
        return _answer(_decided(case, body.verdict))


def _refusal(decision: Decision) -> Refusal:
    """The answer to a refused manifest."""
    faults = [str(finding) for finding in decision.findings if finding.severity == "refuse"]
    return Refusal(
        422,
        "manifest_refused",
        "\n".join(["The manifest is refused, and nothing was registered:", *faults]),
        faults=faults,
        findings=findings_json(decision.findings),
    )


def _decided(case: Case, verdict: Verdict) -> dict[str, Any]:
    """The case after a decision. A withdrawn server is shown in its last state."""
    return case_json(replace(case, state="withdrawn", awaits=False) if verdict == "withdraw" else case)


def _source(request: Request) -> str:
    """The source of a manifest; its ending names the language, JSON or YAML."""
    return "http.json" if "json" in request.headers.get("content-type", "") else "http"


async def _text(request: Request) -> str:
    """The text of the body.

    Raises:
        HTTPException: The body is empty, or not UTF-8 text.
    """
    try:
        text = (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8 text") from None
    if not text.strip():
        raise HTTPException(400, "the body is empty; send a manifest")
    return text


def _answer(value: Any, status: int = 200) -> Response:
    return Response(encode(value), status_code=status, media_type=_JSON)
