"""Words and notices of one backend on their way to others: why it failed, and what its server says of itself.

It keeps nothing and decides nothing; `owner` does.
"""

import structlog

from maitred.backends.base import ConnectError, Listener, Notice, find
from maitred.errors import ConnectionLostError, ServerError

log = structlog.get_logger(__name__)


def pass_on(listener: Listener, server: str, notice: Notice) -> None:
    """Have the listener hear what a server gave notice of."""
    match notice.kind:
        case "tools":
            listener.tools_changed(server)
        case "updated":
            listener.updated(server, notice.uri)
        case "resources" | "prompts":
            listener.offers_changed(server)


def explained(server: str, error: Exception) -> str:
    """Why a connection failed, as a sentence about the server; what is no known failure is logged whole."""
    if known := find(error, ConnectError):
        return str(known)
    if lost := find(error, ConnectionLostError):
        return lost.reason
    if isinstance(error, ServerError):
        return str(error)
    log.error("unexpected failure of a backend", server=server, exc_info=error)
    leaf: BaseException = error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    return f"{type(leaf).__name__}: {leaf}"
