"""Where the web interface is mounted: it knows who may enter, and loads the pages with the first request.

Jinja, the screens and their templates take a moment to import, and most gateways never show a page.
"""

import time
from collections.abc import Awaitable
from functools import cached_property

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.model.access import Grant
from maitred.surfaces.web.screen import BASE
from maitred.surfaces.web.session import CODE_S
from maitred.surfaces.web.state import WebState


class WebInterface(WebState):
    """The pages of one gateway as an ASGI application for all paths from `/ui` on."""

    @cached_property
    def _pages(self) -> ASGIApp:
        from maitred.surfaces.web.app import pages  # noqa: PLC0415  # see above

        self.changes.follow(self.gateway)
        return pages(self)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request."""
        self.used_at = max(self.used_at, time.monotonic())
        return self._pages(scope, receive, send)

    def entry_path(self, grant: Grant, token: str = "") -> str:
        """The path by which the bearer of a grant enters; it is good once, and not for long."""
        self.used_at = time.monotonic() + CODE_S
        return f"{BASE}/enter/{self.sessions.issue_code(grant, token)}"


def refusal_page(status: int, text: str) -> Response:
    """The answer to a request for a page that may not reach the pages; `text` says why."""
    from maitred.surfaces.web.app import bare_refusal  # noqa: PLC0415  # see above

    return bare_refusal(status, text)


def is_page(path: str) -> bool:
    """Whether a path is one of the web interface."""
    return path == BASE or path.startswith(f"{BASE}/")
