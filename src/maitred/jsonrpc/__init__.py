"""JSON-RPC over lines of text: to servers that are child processes, and to a client on stdio."""

from maitred.jsonrpc.channel import LineChannel
from maitred.jsonrpc.context import Inbound
from maitred.jsonrpc.errors import ChannelClosedError, CredentialsRefusedError, RequestTimedOutError

__all__ = ["ChannelClosedError", "CredentialsRefusedError", "Inbound", "LineChannel", "RequestTimedOutError"]
