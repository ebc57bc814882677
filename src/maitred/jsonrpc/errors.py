"""Errors of a request that got no answer.

An answer of the peer may have the same codes; only these classes say that no answer came.
"""

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT


class ChannelClosedError(MCPError):
    """The channel ended before the answer came; `unread` if the peer certainly did not read the request."""

    def __init__(self, reason: str, *, unread: bool = False) -> None:
        super().__init__(CONNECTION_CLOSED, reason)
        self.unread = unread


class UnreadableMessageError(MCPError):
    """The peer sent an answer that is not JSON-RPC."""

    def __init__(self, reason: str) -> None:
        super().__init__(PARSE_ERROR, reason)


class CredentialsRefusedError(MCPError):
    """The peer refused the credentials, or found none, before it read the request."""

    def __init__(self, reason: str) -> None:
        super().__init__(INTERNAL_ERROR, reason)


class RequestTimedOutError(MCPError):
    """The answer did not come in time."""

    def __init__(self, message: str) -> None:
        super().__init__(REQUEST_TIMEOUT, message)
