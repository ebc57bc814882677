"""The HTTP application: the API, the MCP endpoint and the web interface beside it, and the guard in front.

Paths are routed in their percent-encoded form, because names of servers and tools may contain slashes; the
routes decode the parts.
"""

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred import __version__
from maitred.config.settings import Http
from maitred.gateway import Gateway
from maitred.surfaces.http import (
    admission,
    allow_list,
    audit,
    configurations,
    held_calls,
    menu,
    principals,
    server_control,
    switches,
    tokens,
    tools,
    welcome,
)
from maitred.surfaces.http import operations as probes
from maitred.surfaces.http.auth import OPEN, Authentication, Guard, anonymous
from maitred.surfaces.http.errors import Refusal, answer_errors
from maitred.surfaces.http.filters import describe_refusals, refuse_unknown_parameters
from maitred.surfaces.http.internal import InternalEndpoint
from maitred.surfaces.http.logins import LoginPages, is_login
from maitred.surfaces.http.openapi import ERRORS
from maitred.surfaces.http.operations import RequestCounter
from maitred.surfaces.http.page_cache import CachedApp, Pages
from maitred.surfaces.web.mount import WebInterface, is_page

_MCP: Final = "/mcp"
_MAX_BODY: Final = 4 * 1024 * 1024  # as at the MCP endpoint
_ABOUT: Final = """\
The tools of many MCP servers behind one address, disclosed in tiers: what is used most (T0), categories (T1),
summaries (T2), whole definitions (T3). Names in paths are percent-encoded.
"""


def application(
    gateway: Gateway,
    settings: Http,
    mcp: ASGIApp,
    web: WebInterface | None = None,
    *,
    is_draining: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The API with an MCP endpoint and the pages beside it; the endpoint's lifespan is that of the whole.

    Once `is_draining`, it says that it is not ready, and still answers all requests.
    """
    pages = web or web_interface(gateway, settings)
    if not gateway.settings.replica.takes_clients:
        mcp = Refusal(
            503, "runner", "this replica runs servers for others; connect to one that takes clients"
        )
    described = api(
        gateway,
        guarded=anonymous(settings) is None,
        is_ending=lambda: pages.changes.closed,
        is_draining=is_draining,
    )
    every = _Beside(mcp, pages, LoginPages(gateway, pages), described)
    guarded = Guard(every, settings, gateway.grant_of, hold=gateway.hold_request)
    return InternalEndpoint(RequestCounter(guarded, gateway), gateway)


def web_interface(gateway: Gateway, settings: Http) -> WebInterface:
    """The pages of a gateway, for who may use the API."""
    authentication = Authentication(settings, gateway.grant_of)
    return WebInterface(gateway, authentication.grant_of, unasked=authentication.anonymous, serves_mcp=True)


def api(
    gateway: Gateway,
    *,
    guarded: bool = False,
    is_ending: Callable[[], bool] = lambda: False,
    is_draining: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The API alone; with `guarded`, its description says that a token is required, not optional.

    Streams end soon after `is_ending` says so.
    """
    pages = Pages(gateway, on_use=gateway.metrics.page_used)
    app = FastAPI(
        title="maitred",
        version=__version__,
        description=_ABOUT,
        openapi_url=None,  # see `_Description`
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    configurations.add_routes(app, gateway, is_ending)
    menu.add_routes(app, gateway, pages)
    tools.add_routes(app, gateway, pages)
    admission.add_routes(app, gateway)
    allow_list.add_routes(app, gateway)
    held_calls.add_routes(app, gateway)
    switches.add_routes(app, gateway)
    server_control.add_routes(app, gateway)
    tokens.add_routes(app, gateway)
    principals.add_routes(app, gateway)
    audit.add_routes(app, gateway)
    probes.add_routes(app, gateway, is_draining)
    welcome.add_routes(app)
    answer_errors(app)
    app.add_route("/api/openapi.json", _Description(app, needs_token=guarded).answer, include_in_schema=False)
    return _Encoded(CachedApp(app, pages))


class _Description:
    """The description of the API, made in a worker thread when it is first asked for.

    To make it takes longer than all else when a gateway begins to listen, and few clients read it.
    """

    def __init__(self, app: FastAPI, *, needs_token: bool) -> None:
        self._app = app
        self._needs_token = needs_token
        self._lock = Lock()
        self._body = b""

    def answer(self, _: Request) -> Response:
        """Answer with the description; Starlette runs this in a thread."""
        with self._lock:
            if not self._body:
                self._body = bytes(JSONResponse(self._describe()).body)
        return Response(self._body, media_type="application/json")

    def _describe(self) -> dict[str, Any]:
        """Describe all routes, and that all of them but the probes accept a token and refuse a wrong one."""
        described = get_openapi(
            title=self._app.title,
            version=self._app.version,
            description=self._app.description,
            routes=self._app.routes,
        )
        describe_refusals(described)
        schemes = described["components"].setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer", "description": "A token of the gateway."}
        text, example = ERRORS[401]
        content = {"schema": {"$ref": "#/components/schemas/Error"}, "example": example}
        refused = {"description": text, "content": {"application/json": content}}
        for path, operations in described["paths"].items():
            for operation in operations.values() if path not in OPEN else ():
                operation["security"] = [{"token": []}] if self._needs_token else [{"token": []}, {}]
                operation["responses"]["401"] = refused
        return described


class _Beside:
    """Passes requests for MCP to one application, those for pages to others, and the rest to the last."""

    def __init__(self, mcp: ASGIApp, web: ASGIApp, logins: ASGIApp, other: ASGIApp) -> None:
        self._mcp = mcp
        self._web = web
        self._logins = logins
        self._other = other

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http" or scope["path"] == _MCP:
            return self._mcp(scope, receive, send)
        if is_login(scope["path"]):
            return self._logins(scope, receive, send)
        return (self._web if is_page(scope["path"]) else self._other)(scope, receive, send)


class _Encoded:
    """Makes an application route percent-encoded paths, and refuses a body that is too large."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope["path"] = raw.decode("ascii", "replace")
            if scope["method"] != "GET":
                receive = _limited(receive)
        await self._app(scope, receive, send)


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > _MAX_BODY:
            raise HTTPException(413, "the body is too large")
        return message

    return limited
