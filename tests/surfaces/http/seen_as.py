"""Has the API see requests as those of somebody with a role, which the guard before it would find out."""

from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.gateway.authorization import VIEWER
from maitred.model.access import EVERYTHING, Grant, Role, Viewer
from maitred.model.access import Scope as Reach


class As:
    """An application as an administrator sees it at first, and as `take` says afterwards."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.viewer = Viewer(grant=Grant(principal="ada", role="admin"))

    def take(self, role: Role, reach: Reach = EVERYTHING) -> None:
        """Be somebody with this role from now on."""
        self.viewer = Viewer(grant=Grant(principal=role, role=role, scope=reach))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, VIEWER: self.viewer}, receive, send)
