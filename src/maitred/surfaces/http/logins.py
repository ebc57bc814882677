"""Pages by which a principal logs in to a server in a browser: the page of a ticket, and the way back.

The browser has no token of the gateway. Where people sign in at a provider, the page is for the principal
alone. Elsewhere it names the principal, and a person who did not ask for the login reads to stop there. See
`maitred.backends.oauth.login_requests` for what binds the browser.
"""

import html
from collections.abc import Awaitable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from maitred.gateway import Gateway
from maitred.model.logins import CALLBACK, LOGIN_BASE, LOGIN_S, BrowserLogin
from maitred.surfaces.web.screen import url_of
from maitred.surfaces.web.state import WebState

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
}
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Log in - maitred</title>
<main><h1>maitred</h1>{}</main></html>
"""
_QUESTION: Final = """<p>A program asked to log in to the server <b>{server}</b> for <b>{principal}</b>.</p>
<p>Continue only if you are {principal}, and if you have just asked for this. From then on, calls of
{principal} reach {server} with the account that you log in with.</p>
<form method="post"><button>Continue to log in</button></form>"""
_OTHER: Final = """<p>This login is for <b>{principal}</b>, and you are signed in here as <b>{visitor}</b>.
Nothing was done.</p>
<p>If you are both, <a href="/ui/">leave the pages</a>, and open this address again.</p>"""
_GONE: Final = "<p>This address is not good any more. Make the call again to get another one.</p>"


def is_login(path: str) -> bool:
    """Whether a path is one of these pages."""
    return path.startswith(LOGIN_BASE)


class LoginPages:
    """The pages as an ASGI application."""

    def __init__(self, gateway: Gateway, pages: WebState) -> None:
        self._gateway = gateway
        self._pages = pages
        self._app = Starlette(
            routes=[
                Route(CALLBACK, self._return),
                Route(LOGIN_BASE + "{ticket}", self._ask, methods=["GET"]),
                Route(LOGIN_BASE + "{ticket}", self._go, methods=["POST"]),
            ]
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request."""
        return self._app(scope, receive, send)

    async def _ask(self, request: Request) -> Response:
        login = self._gateway.find_login(request.path_params["ticket"])
        if login is None:
            return _page(_GONE, 404)
        if refused := await self._refusal(request, login):
            return refused
        server, principal = html.escape(login.server), html.escape(login.principal)
        return _page(_QUESTION.format(server=server, principal=principal))

    async def _go(self, request: Request) -> Response:
        ticket = request.path_params["ticket"]
        asked = self._gateway.find_login(ticket)
        if asked and (refused := await self._refusal(request, asked)):
            return refused
        login = self._gateway.continue_login(ticket)
        if login is None:
            return _page(_GONE, 404)
        answer = RedirectResponse(login.page, status_code=303, headers=_HEADERS)
        answer.set_cookie(
            login.cookie,
            login.proof,
            max_age=int(LOGIN_S),
            path=LOGIN_BASE,
            secure=login.is_secure,
            httponly=True,
            samesite="lax",
        )
        return answer

    async def _refusal(self, request: Request, login: BrowserLogin) -> Response | None:
        """Why the browser may not make a login: it has to be that of the principal, where people sign in."""
        if self._gateway.sign_in is None:
            return None
        visitor = await self._pages.visitor(request)
        if visitor is None:
            return RedirectResponse(url_of("enter", next=request.url.path), 303, headers=_HEADERS)
        if visitor.principal == login.principal:
            return None
        names = {"principal": html.escape(login.principal), "visitor": html.escape(visitor.principal)}
        return _page(_OTHER.format(**names), 403)

    async def _return(self, request: Request) -> Response:
        counts, text = self._gateway.finish_login(dict(request.query_params), request.cookies)
        return _page(f"<p>{html.escape(text)}</p>", 200 if counts else 400)


def _page(body: str, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(body), status, headers=_HEADERS)
