"""The pages: routes, who enters and leaves, the check of forms, and the headers of every answer.

Forms are checked by the origin of the request and by a token of the session. Paths are routed in their
percent-encoded form, because names of servers and tools may contain slashes.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from traceback import format_exception
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import anyio
import structlog
from anyio.abc import TaskGroup
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred.background import Background
from maitred.errors import MaitredError, SignInError
from maitred.model.access import Grant, RefusedAccess, Role, Viewer
from maitred.surfaces.error_status import status_of
from maitred.surfaces.loopback import is_of_this_machine
from maitred.surfaces.web.events import server_of, stream
from maitred.surfaces.web.screen import (
    BASE,
    Action,
    Form,
    McpEndpoint,
    ScreenPage,
    Visit,
    WebScreen,
    WorkAfter,
    url_of,
)
from maitred.surfaces.web.screens import SCREENS
from maitred.surfaces.web.session import WebSession, cookie_name
from maitred.surfaces.web.sign_in import ProviderEntrance, is_secure
from maitred.surfaces.web.state import WebState
from maitred.surfaces.web.templates import TYPES, ending_of, render, static_files

log = structlog.get_logger(__name__)

_MAX_FORM: Final = 1024 * 1024
_MAX_FIELDS: Final = 5_000
_MOST_STREAMS: Final = 200
_MOST_STREAMS_EACH: Final = 10
_POSITION: Final = re.compile(r"[0-9a-f]{8}-[0-9]{1,20}")
_END_S: Final = 3.0
"""How long what goes on after its form may take when the gateway ends: less than requests have."""
_HOME: Final = f"{BASE}/"
_LIVE: Final = "maitred-live"
"""The header of a request that a page sends by itself, because some of it changed."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types maitred"
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""The headers of every answer that does not set them itself."""


class LeaveError(Exception):
    """The request goes on elsewhere: to the form where a person enters."""

    def __init__(self, response: Response) -> None:
        self.response = response


def pages(web: WebState, screens: Sequence[WebScreen] = SCREENS) -> ASGIApp:
    """All pages of a gateway."""
    site = _Site(web, screens)
    routes = [
        Route("/", site.home),  # where nothing but pages is served
        Route(BASE, site.home),
        Route(f"{BASE}/enter", site.show_entrance, methods=["GET"]),
        Route(f"{BASE}/enter", site.enter, methods=["POST"]),
        Route(f"{BASE}/enter/{{code}}", site.redeem, methods=["GET"]),
        Route(f"{BASE}/login", site.sign_in, methods=["GET"]),
        Route(f"{BASE}/login/callback", site.come_back, methods=["GET"]),
        Route(f"{BASE}/leave", site.leave, methods=["POST"]),
        Route(f"{BASE}/events", site.events),
        Route(f"{BASE}/static/{{name}}", site.static),
    ]
    for screen in screens:
        routes += [
            Route(_path(one.path), partial(site.page, screen, one), methods=["GET"]) for one in screen.pages
        ]
        routes += [Route(_path(one.path), partial(site.act, one), methods=["POST"]) for one in screen.actions]
    handlers: Mapping[Any, Any] = {
        MaitredError: site.refused,
        HTTPException: site.missing,
        LeaveError: site.left,
    }
    return _Outermost(ExceptionMiddleware(Router(routes), handlers), site.broken)


def _path(below: str) -> str:
    return f"{BASE}/{below}"


class _Outermost:
    """Routes by the encoded path, puts the headers on every answer, and turns a fault of ours into a page."""

    def __init__(self, app: ASGIApp, broken: Callable[[Request], Response]) -> None:
        self._app = app
        self._broken = broken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        scope = {**scope, "path": raw.decode("ascii", "replace"), "root_path": "", "app": self._app}
        is_begun = False

        async def guarded(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                there = {name for name, _ in message["headers"]}
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(one for one in more if one[0] not in there)]
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:  # a fault of ours in one page must not end the others
            frames = "".join(format_exception(error, limit=-3))
            log.error("a page failed", path=scope["path"], reason=repr(error), frames=frames)  # noqa: TRY400  # bounded
            if is_begun:
                raise
            await self._broken(Request(scope))(scope, receive, guarded)


class _LastingResponse(Response):
    """An answer that is sent while tasks go on, which have the task of the request for their owner.

    The connection is free for other requests as soon as the answer is sent. When the gateway ends, the tasks
    have a moment, as requests have.
    """

    def __init__(self, make: Callable[[TaskGroup], Awaitable[Response]], web: WebState) -> None:
        self._make = make
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._web.acting += 1
        try:
            async with Background() as background, anyio.create_task_group() as tasks:
                background.start(self._cancel_at_end, tasks.cancel_scope)
                response = await self._make(tasks)
                await response(scope, receive, send)
        finally:
            self._web.acting -= 1

    async def _cancel_at_end(self, tasks: anyio.CancelScope) -> None:
        await self._web.ending.wait()
        await anyio.sleep(_END_S)
        tasks.cancel()


class _TasksAfter:
    """What goes on after an action; see `WorkAfter`."""

    def __init__(self, tasks: TaskGroup, web: WebState, owner: tuple[str, Role]) -> None:
        self._tasks = tasks
        self._web = web
        self._owner = owner

    @property
    def count(self) -> int:
        return self._web.going_on[self._owner]

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._web.going_on[self._owner] += 1
        self._tasks.start_soon(self._counted, work)

    async def _counted(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            self._web.going_on[self._owner] -= 1
            if not self._web.going_on[self._owner]:
                del self._web.going_on[self._owner]

    def mark(self, *fragments: str) -> None:
        self._web.changes.mark(*fragments)


class _Site:
    """Answers requests: finds their session, and passes them on to a page or an action."""

    def __init__(self, web: WebState, screens: Sequence[WebScreen]) -> None:
        self._web = web
        self._screens = screens
        self._provider = ProviderEntrance(web.gateway)

    # --- entering and leaving -----------------------------------------------------------------------------

    async def home(self, _: Request) -> Response:
        """The address without a slash leads to the first screen."""
        return RedirectResponse(_HOME, 303)

    async def show_entrance(self, request: Request) -> Response:
        """The form to enter by."""
        return self._entrance(request, _next_of(_query_of(request)))

    async def enter(self, request: Request) -> Response:
        """Begin a session by an access token, or as the person of this machine where none is needed."""
        _check_origin(request)
        form = await _form_of(request)
        onward = _next_of(form)
        unasked = self._unasked(request)
        if form.text("as") == "local" and unasked:
            return self._begun(request, self._web.sessions.begin(unasked), onward)
        token = form.text("token")
        if not token:
            return self._entrance(request, onward, "Type an access token.", 422)
        made = await self._web.sessions.enter(token)
        if isinstance(made, RefusedAccess):
            return self._entrance(request, onward, f"This token does not open anything: {made.reason}.", 403)
        return self._begun(request, made, onward)

    async def redeem(self, request: Request) -> Response:
        """Begin a session by a code."""
        made = self._web.sessions.redeem(request.path_params["code"])
        if not made:
            text = "This address was good once, for 30 seconds. Type `maitred ui` for another."
            return self._entrance(request, _HOME, text, 403)
        return self._begun(request, made, _HOME)

    async def sign_in(self, request: Request) -> Response:
        """Go to the provider, which knows who the person is."""
        query = _query_of(request)
        return await self._provider.leave(request, query, _next_of(query))

    async def come_back(self, request: Request) -> Response:
        """Begin a session for the person whom the provider sent back."""
        came = await self._provider.arrive(request, _query_of(request))
        session_id = self._web.sessions.begin(
            came.grant,
            partial(self._web.gateway.grant_of_person, came.person),
            lasts_s=came.lasts_s,
            sign_out_url=came.person.sign_out_url,
        )
        answer = self._begun(request, session_id, _inside(came.onward), came_from_elsewhere=True)
        self._provider.forget(request, answer)
        return answer

    async def leave(self, request: Request) -> Response:
        """End the session, also in other windows, and lead to where that at the provider ends."""
        await self._checked(request)
        ended = self._web.sessions.end(request.cookies.get(cookie_name(request), ""))
        answer: Response = RedirectResponse(f"{BASE}/enter", 303)
        if ended and ended.sign_out_url:  # no redirect: a policy of forms would stop it
            name = self._web.gateway.sign_in_name
            answer = HTMLResponse(render("signed_out.html", sign_out=ended.sign_out_url, name=name))
            answer.headers["Refresh"] = f"0; url={ended.sign_out_url}"
        answer.delete_cookie(cookie_name(request), path=BASE)
        answer.headers["Clear-Site-Data"] = '"cache"'
        return answer

    def _begun(
        self, request: Request, session_id: str, onward: str, *, came_from_elsewhere: bool = False
    ) -> Response:
        """Go on with a new session; the session that the browser had before is over.

        Who came from a provider's site gets a cookie that also counts on the way from there.
        """
        settings = self._web.gateway.sign_in if came_from_elsewhere else None
        self._web.sessions.end(request.cookies.get(cookie_name(request), ""))
        answer = RedirectResponse(onward, 303)
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.set_cookie(
            cookie_name(request),
            session_id,
            path=BASE,
            httponly=True,
            samesite="lax" if came_from_elsewhere else "strict",
            secure=is_secure(settings)
            if settings
            else request.headers.get("origin", "").startswith("https://"),
        )
        return answer

    def _unasked(self, request: Request) -> Grant | None:
        """The grant of a person without a token, who is on this machine; through a proxy there is none."""
        host = request.headers.get("host", "").encode("latin-1")
        return self._web.unasked if is_of_this_machine(host) else None

    def _entrance(self, request: Request, onward: str, fault: str = "", status: int = 200) -> Response:
        unasked = self._unasked(request)
        role = unasked.role if unasked else ""
        provider = self._web.gateway.sign_in_name if self._web.serves_mcp else ""
        page = render("enter.html", next=onward, fault=fault, role=role, provider=provider)
        return HTMLResponse(page, status)

    async def _session(self, request: Request) -> WebSession:
        """The session of a request.

        Raises:
            LeaveError: There is none.
        """
        by_person = _LIVE not in request.headers  # a page that fetches itself keeps no session alive
        found = await self._web.sessions.find(request.cookies.get(cookie_name(request), ""), used=by_person)
        if found:
            return found
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        onward = asked if request.method == "GET" and asked != _HOME else ""
        raise LeaveError(RedirectResponse(url_of("enter", next=onward), 303))

    # --- pages and actions --------------------------------------------------------------------------------

    async def page(self, screen: WebScreen, page: ScreenPage, request: Request) -> Response:
        """One page of a screen."""
        session = await self._session(request)
        request.state.session, position = session, self._web.changes.position
        values = await page.view(self._visit(request, session))
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        notices = () if _LIVE in request.headers else session.take_notices()  # these are for a person
        about = {"screen": screen, "position": position, "here": here, "notices": notices}
        return self._rendered(page.template, session, **{**about, **values})

    async def act(self, action: Action, request: Request) -> Response:
        """Do what a form asks; a refusal is shown on the page that the form came from."""
        session, form = await self._checked(request)
        request.state.session = session

        async def answer(tasks: TaskGroup) -> Response:
            after = _TasksAfter(tasks, self._web, session.person)
            try:
                onward = await action.act(self._visit(request, session, after), form)
            except MaitredError as error:
                session.notify(str(error), "fault")
                onward = _inside(form.text("back"))
            return RedirectResponse(onward, 303)

        return _LastingResponse(answer, self._web)

    async def _checked(self, request: Request) -> tuple[WebSession, Form]:
        """The session of a form, and its fields.

        Raises:
            HTTPException: The form does not come from a page of this session.
        """
        _check_origin(request)
        session = await self._session(request)
        form = await _form_of(request)
        if not session.owns(form.text("form_token")):
            raise HTTPException(403, "This form is of another session. Load the page again and repeat it.")
        return session, form

    def _visit(self, request: Request, session: WebSession, after: WorkAfter | None = None) -> Visit:
        path = {name: unquote(part) for name, part in request.path_params.items()}
        return Visit(
            gateway=self._web.gateway,
            session=session,
            memory=self._web.memory,
            path=path,
            query=_query_of(request),
            endpoint=self._endpoint(request),
            after=after,
        )

    def _endpoint(self, request: Request) -> McpEndpoint | None:
        """Where clients reach the gateway: over TLS if the configuration names such an origin of it."""
        if not self._web.serves_mcp:
            return None
        host = request.headers.get("host", "")
        origins = self._web.gateway.settings.http.allowed_origins
        scheme = "https" if f"https://{host}" in origins else "http"
        return McpEndpoint(url=f"{scheme}://{host}/mcp", needs_token=self._unasked(request) is None)

    def _rendered(self, template: str, session: WebSession, *, status: int = 200, **values: Any) -> Response:
        common = {
            "screens": [one for one in self._screens if one.is_for(session.viewer)],
            "screen": None,
            "viewer": session.viewer,
            "form_token": session.form_token,
            "notices": (),
            "position": "",
            "here": _HOME,
        }
        values = common | values
        values.setdefault("page_title", values["screen"].title if values["screen"] else "maitred")
        return HTMLResponse(render(template, **values), status)

    # --- what pages load ----------------------------------------------------------------------------------

    async def static(self, request: Request) -> Response:
        """A file that pages load; its address changes with it."""
        name = request.path_params["name"]
        body = static_files().get(name)
        if body is None:
            raise HTTPException(404)
        kind = TYPES[ending_of(name)]
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(body, media_type=kind, headers=headers)

    async def events(self, request: Request) -> Response:
        """The stream of what changed."""
        found = await self._web.sessions.find(request.cookies.get(cookie_name(request), ""), used=False)
        if not found:
            return Response(status_code=204)  # the browser does not connect again
        streams, who = self._web.streams, found.person
        if streams.total() >= _MOST_STREAMS or streams[who] >= _MOST_STREAMS_EACH:
            return Response(status_code=503, headers={"Retry-After": "30"})
        session, changes = found, self._web.changes
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        if not _POSITION.fullmatch(after):
            after = changes.position

        def visible(fragments: Collection[str]) -> Iterable[str]:
            return self._visible(fragments, session.viewer)

        async def goes_on() -> bool:
            return await self._web.sessions.goes_on(session)

        async def counted() -> Any:
            streams[who] += 1
            try:
                with self._web.gateway.follow_suspensions():
                    async for event in stream(changes, after, visible=visible, goes_on=goes_on):
                        yield event
            finally:
                streams[who] -= 1
                if not streams[who]:
                    del streams[who]

        return StreamingResponse(counted(), media_type="text/event-stream")

    def _visible(self, fragments: Collection[str], viewer: Viewer) -> Iterable[str]:
        """The fragments of servers and screens that a viewer has; Today has news for who watches a server."""
        unseen = {one.title.lower() for one in self._screens if not one.is_for(viewer)}
        unseen |= set() if self._web.gateway.watches(viewer) else {"today"}
        names = set(self._web.gateway.server_names(viewer)) if "servers" not in unseen else set()
        return [
            one for one in fragments if (server_of(one) in names if server_of(one) else one not in unseen)
        ]

    # --- what goes wrong ----------------------------------------------------------------------------------

    async def refused(self, request: Request, error: Exception) -> Response:
        """The page of an error that the gateway raised on purpose."""
        assert isinstance(error, MaitredError)  # noqa: S101  # as it is registered
        if isinstance(error, SignInError):
            page = render("sign_in_failed.html", reason=error.reason, advice=error.advice)
            answer = HTMLResponse(page, status_of(error))
            self._provider.forget(request, answer)
            return answer
        return self._fault(request, status_of(error), str(error))

    async def missing(self, request: Request, error: Exception) -> Response:
        """The page of an address that there is not, or of a form that is not taken."""
        assert isinstance(error, HTTPException)  # noqa: S101  # as it is registered
        texts = {404: "There is no page at this address.", 405: "This address does not take this method."}
        return self._fault(request, error.status_code, texts.get(error.status_code, error.detail))

    async def left(self, _: Request, error: Exception) -> Response:
        """The form to enter by."""
        assert isinstance(error, LeaveError)  # noqa: S101  # as it is registered
        return error.response

    def broken(self, _: Request) -> Response:
        """The page of a fault of ours; it uses little that may be at fault."""
        text = "maitred has a fault; its log has the details."
        return HTMLResponse(render("bare_error.html", status=500, text=text), 500)

    def _fault(self, request: Request, status: int, text: str) -> Response:
        session = getattr(request.state, "session", None)
        if not isinstance(session, WebSession):
            return HTMLResponse(render("bare_error.html", status=status, text=text), status)
        return self._rendered(
            "error.html", session, status=status, text=text, code=status, page_title="Refused"
        )


def bare_refusal(status: int, text: str) -> Response:
    """The page of a request that is refused before it reaches the pages, with the headers of all pages."""
    sentence = text[:1].upper() + text[1:]
    return HTMLResponse(render("bare_error.html", status=status, text=sentence), status, headers=HEADERS)


# --- requests ---------------------------------------------------------------------------------------------


def _check_origin(request: Request) -> None:
    """Refuse a form that a page of another origin sent.

    Raises:
        HTTPException: It did, or the browser does not say.
    """
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if urlsplit(origin).netloc.lower() != host.lower() or not host or site != "same-origin":
        raise HTTPException(403, "Forms are taken only from the pages of this gateway.")


def _query_of(request: Request) -> Form:
    """The fields of the query.

    Raises:
        HTTPException: There are too many.
    """
    try:
        return Form(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise HTTPException(400, "The query cannot be read.") from None


async def _form_of(request: Request) -> Form:
    """The fields of a form.

    Raises:
        HTTPException: It is too large, or of another type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Send the form as application/x-www-form-urlencoded.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM:
            raise HTTPException(413, "The form is too large.")
    try:
        text = body.decode("ascii")
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise HTTPException(422, "The form cannot be read.") from None


def _next_of(form: Form) -> str:
    return _inside(form.text("next"))


def _inside(address: str) -> str:
    """An address if it is one of our pages, else that of the first screen."""
    fine = address.startswith(_HOME) and address.isascii() and address.isprintable()
    parts = urlsplit(address) if fine else urlsplit("")
    path = parts.path.startswith(_HOME) and "\\" not in address
    path = path and not {"", ".", ".."} & set(unquote(parts.path).strip("/").split("/"))
    return address if path and not parts.netloc and not parts.scheme else _HOME
