"""Words and notices of one backend on their way to others: why it failed, and what its server says of itself.

It keeps nothing and decides nothing; `owner` does.
"""

from dataclasses import replace

import structlog

from maitred.backends.base import ConnectError, Ending, Listener, Notice, find
from maitred.config.redaction import redact
from maitred.errors import ConnectionLostError, ServerError, for_want_of_files

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
    """Why a connection failed, as a sentence about the server, without credentials that are known.

    What is no known failure is logged whole.
    """
    return redact(for_want_of_files(error) or _told(server, error))


def redacted(ending: Ending) -> Ending:
    """How a connection ended, without credentials that are known."""
    return replace(ending, reason=redact(ending.reason))


def _told(server: str, error: Exception) -> str:
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
