"""The client of a request, as a server behind the gateway sees it: what it can answer, and how to ask it."""

from collections.abc import Mapping
from itertools import count
from typing import Any, Protocol

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.errors import CallerRefusedError
from maitred.gateway import Caller
from maitred.model.access import Viewer
from maitred.model.asking import check_askable

_CAPABILITIES = "maitred.capabilities"
_numbers = count(1)


class Link(Protocol):
    """The way back to the client of one request, on the stream of that request."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send the client a request; see `mcp.shared.dispatcher.Outbound`."""
        ...

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send the client a notification."""
        ...

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress of the request, if the client asked for it."""
        ...


class HandshakeCaller:
    """A client of the handshake era, which answers requests on the stream of its own request."""

    takes_rounds = False
    log_level = ""

    def __init__(
        self, link: Link, connection: Connection, params: Mapping[str, Any] | None, viewer: Viewer
    ) -> None:
        self._link = link
        self.key = _key(viewer)
        self.capabilities = _declared(connection)
        self.wants_progress = progress_token_from_params(params) is not None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client; see `Caller`."""
        check_askable(method, params, self.capabilities)
        try:
            return await self._link.send_raw_request(method, params)
        except MCPError as error:
            raise CallerRefusedError(error.code, error.message, error.error.data) from error

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        await self._link.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        """Send a log message; see `Caller`."""
        await self._link.notify("notifications/message", params)


class StatelessCaller:
    """A client of the stateless era, which says with each request what it can answer.

    Over HTTP nothing says that two requests come from one client, so each request has its own key.
    """

    takes_rounds = True

    def __init__(self, link: Link, params: Mapping[str, Any] | None, viewer: Viewer) -> None:
        self._link = link
        meta = (params or {}).get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        capabilities, level = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(LOG_LEVEL_META_KEY)
        self.key = _key(viewer)
        self.capabilities: Mapping[str, Any] = capabilities if isinstance(capabilities, Mapping) else {}
        self.log_level = level if isinstance(level, str) else ""
        self.wants_progress = progress_token_from_params(params) is not None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: a client of this era takes no requests."""
        check_askable(method, params, self.capabilities)
        raise CallerRefusedError(METHOD_NOT_FOUND, f"a client of its protocol revision takes no {method}")

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        await self._link.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any]) -> None:
        """Send a log message; see `Caller`."""
        await self._link.notify("notifications/message", params)


def caller_of(ctx: ServerRequestContext[Any, Any], viewer: Viewer) -> Caller:
    """The caller of a request that the SDK took in."""
    session = ctx.session
    link, connection = session._request_outbound, session._connection  # noqa: SLF001  # see the server's module
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return StatelessCaller(link, ctx.params, viewer)
    return HandshakeCaller(link, connection, ctx.params, viewer)


def _key(viewer: Viewer) -> str:
    return f"{viewer.principal} {viewer.connection or f'request {next(_numbers)}'}"


def _declared(connection: Connection) -> Mapping[str, Any]:
    """What a client declared in its handshake, as on the wire."""
    known: Mapping[str, Any] | None = connection.state.get(_CAPABILITIES)
    if known is None:
        declared = connection.client_capabilities
        known = declared.model_dump(mode="json", by_alias=True, exclude_none=True) if declared else {}
        connection.state[_CAPABILITIES] = known
    return known
