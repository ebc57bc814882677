"""The API's answer to every error: a status, a stable code, a text, and facts for a program.

The table of `maitred.surfaces.error_status` maps errors to statuses. A failing tool is not an error: the
answer is the tool's result, with status 200 and `isError`.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from maitred.errors import MaitredError, NotAllowedError
from maitred.surfaces.encoding import encode
from maitred.surfaces.error_status import status_of
from maitred.wording import shorten_middle

log = structlog.get_logger(__name__)

REQUEST_HEADER: Final = "X-Request-Id"
"""The header with the id of a call, in requests and answers."""

_FACTS: Final = ("nearest", "faults", "server", "reason", "retry_in_s", "rpc_code", "data")
_CODES: Final = {
    400: "request_invalid",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
}
_NOT_ALLOWED: Final = 405
_MOST_FAULTS: Final = 10
_MOST_FAULT: Final = 240
_TEXTS: Final = {404: "there is nothing at this address", 405: "this address does not take this method"}


class Refusal(Response):
    """An error as JSON: `error` is a stable code, `message` a text for people, the rest are facts."""

    media_type = "application/json"

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None, **facts: Any
    ) -> None:
        self.message = message
        body = encode({"error": code, "message": message, **facts})
        super().__init__(body, status_code=status, headers=headers)


def refusal_of(error: MaitredError) -> Refusal:
    """The answer to an error that the gateway raised on purpose."""
    status = status_of(error)
    facts = {name: value for name in _FACTS if (value := getattr(error, name, None)) not in (None, (), "")}
    wait_s = facts.get("retry_in_s")
    headers = {"Retry-After": str(math.ceil(wait_s))} if wait_s else {}
    if isinstance(error, NotAllowedError):
        headers["WWW-Authenticate"] = 'Bearer error="insufficient_scope"'
    if error.request_id:
        headers[REQUEST_HEADER] = error.request_id
    return Refusal(status, error.code, str(error), headers=headers, **facts)


def answer_errors(app: FastAPI) -> None:
    """Make an application answer all errors in this form."""

    @app.exception_handler(MaitredError)
    async def expected(_: Request, error: MaitredError) -> Response:
        return refusal_of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        every = error.errors()
        places = [".".join(map(str, one["loc"])) for one in every[:_MOST_FAULTS]]
        faults = [
            shorten_middle(f"{place}: {one['msg']}", _MOST_FAULT)
            for place, one in zip(places, every, strict=False)
        ]
        malformed = any(one["type"] == "json_invalid" for one in every)
        code = "json_invalid" if malformed else "request_invalid"
        return Refusal(400 if malformed else 422, code, "\n".join(faults), faults=faults)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, "http_error")
        text = _TEXTS.get(error.status_code, error.detail)
        headers = {"Allow": _methods(request)} if error.status_code == _NOT_ALLOWED else error.headers
        return Refusal(error.status_code, code, text, headers=headers)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        log.error("a request failed", reason=repr(error))
        return Refusal(500, "internal", "maitred has a fault; its log has the details")


def _methods(request: Request) -> str:
    """The methods that an address accepts; each route knows only its own."""
    path = request.scope["path"]
    routes = [r for r in request.app.routes if isinstance(r, Route) and r.path_regex.match(path)]
    literal = [route for route in routes if route.path == path]
    return ", ".join(sorted({method for route in literal or routes for method in route.methods or ()}))
