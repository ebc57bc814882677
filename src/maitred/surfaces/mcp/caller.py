"""The client of a request, as a server behind the gateway sees it: what it can answer, and how to ask it.

Only this module uses the two private parts of the SDK that lead from a request to its client: the session's
connection and the request's own stream. `tests/surfaces/mcp/test_server.py` pins them.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.errors import CallerRefusedError
from maitred.gateway.authorization import askable
from maitred.model.access import Viewer
from maitred.model.asking import LIST_ROOTS, check_askable
from maitred.model.held_calls import HeldCall
from maitred.model.log_levels import DEFAULT_LEVEL
from maitred.model.sharing import sharer_of
from maitred.surfaces.mcp.client_keys import key_of

LOG_LEVEL: Final = "maitred.log_level"
"""Where the state of a connection of the handshake era has the level that its client set."""

CLIENT: Final = "maitred.client"
"""Where the state of a connection has what identifies its client, where the transport does."""

_CAPABILITIES = "maitred.capabilities"
_ASKABLE = frozenset({"elicitation", "sampling", "roots"})

Ask = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Link(Protocol):
    """The way back to the client of one request, on the stream of that request."""

    @property
    def can_send_request(self) -> bool:
        """Whether requests can be sent on that stream now."""
        ...

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

    def __init__(
        self,
        link: Link,
        connection: Connection,
        params: Mapping[str, Any] | None,
        viewer: Viewer,
        answer_s: float,
    ) -> None:
        self._link = link
        self._connection = connection
        self._answer_s = answer_s
        self.key = key_of(viewer)
        self.principal = viewer.principal
        self.sharer = sharer_of(viewer)
        self.capabilities = askable(_declared(connection), viewer)
        self.wants_progress = progress_token_from_params(params) is not None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client; see `Caller`."""
        check_askable(method, params, self.capabilities)
        if params.get("mode") == "url" and "elicitationId" not in params:  # 2026-07-28 has none
            params = {**params, "elicitationId": secrets.token_hex(8)}
        try:
            return await self._send(method, _without_token(params))
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                why = f"the client did not answer {method} within {self._answer_s:g} s"
                raise CallerRefusedError(error.code, why) from error
            raise CallerRefusedError(error.code, error.message, error.error.data) from error

    async def _send(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        options = CallOptions(timeout=self._answer_s)
        try:
            return await self._link.send_raw_request(method, params or None, options)
        except NoBackChannelError:
            if method != LIST_ROOTS:
                raise
        # the request of the client is answered; over HTTP its open stream takes what concerns none
        return await self._connection.outbound.send_raw_request(method, params or None, options)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        await self._link.progress(progress, total, message)

    @property
    def log_level(self) -> str:
        """The level that the client set; see `Caller`."""
        level: str = self._connection.state.get(LOG_LEVEL, DEFAULT_LEVEL)
        return level

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send a log message; see `Caller`. Over HTTP a late one takes the stream of no request."""
        link = self._connection.outbound if late else self._link
        await link.notify("notifications/message", params)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification about an earlier question; over HTTP later by the client's open stream."""
        channel = self._link if self._link.can_send_request else self._connection.outbound
        await channel.notify(method, params)

    def note_held(self, call: HeldCall) -> None:
        """Dropped: the gateway asks the client, or reports progress to it."""


class StatelessCaller:
    """A client of the stateless era, which says with each request what it can answer.

    Over HTTP nothing says that two requests come from one client, so each request has its own key. `client`
    identifies the client where the transport does.
    """

    takes_rounds = True

    def __init__(
        self, link: Link, params: Mapping[str, Any] | None, viewer: Viewer, *, client: str = ""
    ) -> None:
        self.link: Link | None = link
        """The way back to the client; `None` while no request of it is open."""
        self.park: Ask | None = None
        """Asks by ending the client's request; set while its call can be parked."""
        meta = (params or {}).get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        capabilities, level = meta.get(CLIENT_CAPABILITIES_META_KEY), meta.get(LOG_LEVEL_META_KEY)
        self.key = key_of(viewer, client)
        self.principal = viewer.principal
        self.sharer = sharer_of(viewer)
        declared = capabilities if isinstance(capabilities, Mapping) else {}
        self.capabilities = askable(declared, viewer)
        self.log_level = level if isinstance(level, str) else ""
        self.wants_progress = progress_token_from_params(params) is not None

    @property
    def can_answer(self) -> bool:
        """Whether it declared that it can answer anything that a server may ask."""
        return not _ASKABLE.isdisjoint(self.capabilities)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client by an answer `input_required`; see `maitred.surfaces.mcp.parked_calls`."""
        check_askable(method, params, self.capabilities)
        if self.park is None:
            raise CallerRefusedError(METHOD_NOT_FOUND, f"a client of its protocol revision takes no {method}")
        return await self.park(method, _without_token(params))

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; see `Caller`."""
        if self.link is not None:
            await self.link.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send a log message; see `Caller`."""
        if self.link is not None and not late:
            await self.link.notify("notifications/message", params)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Dropped: its revision has no notifications about questions."""

    def note_held(self, call: HeldCall) -> None:
        """Dropped: the gateway asks the client, or reports progress to it."""


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """The connection of a request. In the stateless era over HTTP, it ends with the request."""
    return ctx.session._connection  # noqa: SLF001  # see the module's docstring


def caller_of(
    ctx: ServerRequestContext[Any, Any], viewer: Viewer, answer_s: float
) -> HandshakeCaller | StatelessCaller:
    """The caller of a request that the SDK took in."""
    link = ctx.session._request_outbound  # noqa: SLF001  # see the module's docstring
    connection = connection_of(ctx)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return StatelessCaller(link, ctx.params, viewer, client=connection.state.get(CLIENT, ""))
    return HandshakeCaller(link, connection, ctx.params, viewer, answer_s)


def _without_token(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters without the server's progress token, which the client's connection does not know."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or "progressToken" not in meta:
        return params
    return {**params, "_meta": {key: value for key, value in meta.items() if key != "progressToken"}}


def _declared(connection: Connection) -> Mapping[str, Any]:
    """What a client declared in its handshake, as on the wire."""
    known: Mapping[str, Any] | None = connection.state.get(_CAPABILITIES)
    if known is None:
        declared = connection.client_capabilities
        known = declared.model_dump(mode="json", by_alias=True, exclude_none=True) if declared else {}
        connection.state[_CAPABILITIES] = known
    return known
