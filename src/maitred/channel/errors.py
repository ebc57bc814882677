"""How a request can end without an answer; errors that the peer answered may have the same codes."""

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT


class ChannelClosedError(MCPError):
    """The channel ended before the answer came; `unread` if the peer certainly did not read the request."""

    def __init__(self, reason: str, *, unread: bool = False) -> None:
        super().__init__(CONNECTION_CLOSED, reason)
        self.unread = unread


class RequestTimedOutError(MCPError):
    """The answer did not come in time."""

    def __init__(self, message: str) -> None:
        super().__init__(REQUEST_TIMEOUT, message)
