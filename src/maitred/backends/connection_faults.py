"""Why a connection to a server failed or ended, in words for people, without known credentials."""

from dataclasses import replace

import structlog

from maitred.backends.base import ConnectError, Ending, find
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.redaction import redact
from maitred.errors import ConnectionLostError, ServerError, open_files_reason
from maitred.model.servers import FaultCode

log = structlog.get_logger(__name__)


def connection_fault(server: str, error: Exception) -> str:
    """Why a connection failed, as a sentence about the server, without known credentials.

    An unknown failure is logged with its traceback.
    """
    return redact(open_files_reason(error) or _reason_of(server, error))


def fault_code(error: Exception) -> FaultCode:
    """What an operator can mend about a failed connection; empty if the gateway does not know."""
    if open_files_reason(error):
        return "open_files"
    known = find(error, ConnectError)
    return known.fault if known else ""


def redact_ending(ending: Ending) -> Ending:
    """How a connection ended, without known credentials."""
    return replace(ending, reason=redact(ending.reason))


def _reason_of(server: str, error: Exception) -> str:
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


def reference_error(error: UnresolvedReferenceError) -> ConnectError:
    """The error of a server whose configuration has a reference that cannot be replaced."""
    return ConnectError(
        f"its configuration refers to something missing: {error}",
        fault="variable_unset" if error.variable else "",
    )
