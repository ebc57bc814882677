"""Finding out which era a server speaks, and greeting it in the way of that era.

One private part of the SDK is used, `negotiate_auto`, which `tests/backends/test_session.py` pins.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from maitred.backends.base import ConnectError
from maitred.backends.definitions import clean
from maitred.channel import ChannelClosedError, RequestTimedOutError
from maitred.model.servers import EraChoice


async def negotiate(session: ClientSession, era: EraChoice) -> None:
    """Speak the era that is known; when it is refused, or none is known, find out.

    Raises:
        ConnectError: The server does not answer as an MCP server would.
    """
    known: Mapping[str, Callable[[], Awaitable[Any]]] = {
        "handshake": session.initialize,
        "stateless": session.discover,
    }
    try:
        if era in known and await _speaks(known[era]):
            return
        await negotiate_auto(session)
    except MCPError as error:
        raise ConnectError(_explain(error)) from error
    except (ValidationError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise ConnectError(f"its answer to the handshake is not valid MCP ({first})") from error


async def _speaks(negotiate: Callable[[], Awaitable[Any]]) -> bool:
    """Negotiate the era that a server spoke last time; a slow one has as long as it may take to start."""
    while True:
        try:
            await negotiate()
        except MCPError as error:
            if isinstance(error, ChannelClosedError):
                raise
            if not isinstance(error, RequestTimedOutError):
                return False
        except ValidationError:
            return False
        else:
            return True


def _explain(error: MCPError) -> str:
    if isinstance(error, ChannelClosedError):
        return clean(error.message)
    if isinstance(error, RequestTimedOutError):
        return "it did not answer the handshake in time"
    return f"it refused the handshake with error {error.code}: {clean(error.message)}"
