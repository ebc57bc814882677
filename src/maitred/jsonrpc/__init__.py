"""JSON-RPC, one message a line: with servers that are child processes, and with a client on stdio.

`LineChannel` implements the SDK's `Dispatcher` protocol. The package knows no server, tool or caller.
"""

from maitred.jsonrpc.channel import LineChannel
from maitred.jsonrpc.context import Inbound
from maitred.jsonrpc.errors import ChannelClosedError, CredentialsRefusedError, RequestTimedOutError

__all__ = ["ChannelClosedError", "CredentialsRefusedError", "Inbound", "LineChannel", "RequestTimedOutError"]
