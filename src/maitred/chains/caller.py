"""The caller of a call within a chain: the chain's own client, which answers what servers ask.

The client awaits the answer of the chain. So it gets neither the progress of a call inside, nor an answer
that asks for input.
"""

from collections.abc import Mapping
from typing import Any

from maitred.backends.base import Caller


class ChainCaller:
    """Passes on what servers ask and log to the client of a chain."""

    takes_rounds = False
    wants_progress = False

    def __init__(self, client: Caller) -> None:
        self._client = client
        self.key = client.key
        self.capabilities = client.capabilities
        self.log_level = client.log_level

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the chain's client; see `Caller`."""
        return await self._client.ask(method, params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Dropped: the chain reports its own progress."""

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        """Send a log message to the chain's client."""
        await self._client.log(params, late=late)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification about a question to the chain's client."""
        await self._client.notify(method, params)
