"""The connection with a server that is a part of the gateway: it offers tools, and nothing else of MCP.

A subclass lists and calls its tools. It ends with its backend, never on its own.
"""

from collections.abc import Mapping
from typing import Any, Literal

import anyio

from maitred.backends.base import Caller, ServerOffers
from maitred.errors import ServerUnavailableError
from maitred.model.servers import ServerFacts, ServerSpec


class BuiltInConnection:
    """What all such connections have in common; see `maitred.backends.base.Connection`.

    `era` says how it asks the client's user: in the handshake era by a request during the call.
    """

    completes = False
    subscribes = False
    heard_at = float("inf")
    waiting_since = None

    def __init__(
        self,
        spec: ServerSpec,
        title: str,
        instructions: str,
        *,
        era: Literal["handshake", "stateless"] = "stateless",
    ) -> None:
        self.facts = ServerFacts(era=era, title=title, instructions=instructions)
        self.title_as_sent = title
        self.instructions_as_sent = instructions
        self._spec = spec
        self._ended = anyio.Event()
        self._reason = ""

    @property
    def alive(self) -> bool:
        """Whether it has not been ended."""
        return not self._reason

    async def ping(self, timeout_s: float) -> None:
        """Always succeeds."""

    def end(self, reason: str) -> None:
        """End it; `closed` returns the reason."""
        self._reason = reason
        self._ended.set()

    async def closed(self) -> str:
        """Wait until it is ended; returns why."""
        await self._ended.wait()
        return self._reason

    async def list_offers(self) -> ServerOffers:
        """Nothing: it has no resources and no prompts."""
        return ServerOffers()

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Refuse.

        Raises:
            ServerUnavailableError: Always.
        """
        raise ServerUnavailableError(self._spec.name, f"it does not answer {method}")

    def forget(self, key: str) -> None:
        """Ignored: it remembers no client."""

    async def roots_changed(self, key: str) -> None:
        """Ignored: it never asks for roots."""

    async def ask_about_task(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Refuse.

        Raises:
            ServerUnavailableError: Always.
        """
        raise ServerUnavailableError(self._spec.name, f"it does not answer {method}")

    def subscribe(self, uri: str) -> Any:
        """Refuse.

        Raises:
            ServerUnavailableError: Always.
        """
        raise ServerUnavailableError(self._spec.name, f"it has no resource {uri}")
