"""JSON-RPC over lines of text: to servers that are child processes, and to a client on stdio."""

from maitred.channel.context import Inbound
from maitred.channel.errors import ChannelClosedError, CredentialsRefusedError, RequestTimedOutError
from maitred.channel.lines import LineChannel

__all__ = ["ChannelClosedError", "CredentialsRefusedError", "Inbound", "LineChannel", "RequestTimedOutError"]
