"""JSON-RPC, one message a line: with servers that are child processes, and with a client on stdio.

`LineChannel` implements the SDK's `Dispatcher` protocol. The package knows no server, tool or caller.
A backend whose transport has the SDK's streams instead of lines uses `maitred.backends.dispatcher`.
`channel` sends and receives, `context` is one request, `questions` are ours to a client over HTTP.
To add an error (what can go wrong), write it in `errors` and raise it in `channel`.
"""

from maitred.jsonrpc.channel import LineChannel
from maitred.jsonrpc.context import Inbound, RequestOptions, ScopedInbound
from maitred.jsonrpc.errors import (
    ChannelClosedError,
    CredentialsRefusedError,
    RequestTimedOutError,
    UnreadableMessageError,
)

__all__ = [
    "ChannelClosedError",
    "CredentialsRefusedError",
    "Inbound",
    "LineChannel",
    "RequestOptions",
    "RequestTimedOutError",
    "ScopedInbound",
    "UnreadableMessageError",
]
