"""How a request can end without an answer; errors that the peer answered may have the same codes."""

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT


class ChannelClosedError(MCPError):
    """The channel ended before the answer came; `unread` if the peer certainly did not read the request."""

    def __init__(self, reason: str, *, unread: bool = False) -> None:
        super().__init__(CONNECTION_CLOSED, reason)
        self.unread = unread


class CredentialsRefusedError(MCPError):
    """The peer did not look at the request, since whoever sent it may not, or did not say who it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(INTERNAL_ERROR, reason)


class RequestTimedOutError(MCPError):
    """The answer did not come in time."""

    def __init__(self, message: str) -> None:
        super().__init__(REQUEST_TIMEOUT, message)
