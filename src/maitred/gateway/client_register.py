"""Which clients over MCP got a list or an answer since the gateway started, in memory.

A client's name is its own claim. The audit trail has more of the past, and no client that only listed tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from maitred.model.access import Viewer, ViewerEra

_MOST: Final = 200


@dataclass(kw_only=True)
class SeenClient:
    """A client of one principal; times in ISO 8601, UTC. `open` are its connections, in the handshake era.

    `version` is the one that it said last.
    """

    client: str
    principal: str
    era: ViewerEra
    first: str
    last: str
    version: str = ""
    open: set[tuple[str, str]] = field(default_factory=set)

    @property
    def is_connected(self) -> bool:
        """Whether a connection of it is open; a client of the stateless era has none."""
        return bool(self.open)


class ClientRegister:
    """The clients over MCP: those that are connected, and the last others, 200 in all."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, ViewerEra], SeenClient] = {}

    def note(self, viewer: Viewer) -> None:
        """A client got something now."""
        if viewer.surface != "mcp":
            return
        key = viewer.client, viewer.principal, viewer.era
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        seen = self._seen.pop(key, None) or SeenClient(
            client=viewer.client, principal=viewer.principal, era=viewer.era, first=now, last=now
        )
        seen.last, seen.version = now, viewer.version or seen.version
        if viewer.era == "handshake":
            seen.open.add(viewer.scope)
        self._seen[key] = seen
        if len(self._seen) > _MOST:
            oldest = next(iter(self._seen))  # if all are connected
            del self._seen[next((key for key, one in self._seen.items() if not one.is_connected), oldest)]

    def leave(self, viewer: Viewer) -> None:
        """A connection has ended."""
        for seen in self._seen.values():
            seen.open.discard(viewer.scope)

    def seen(self) -> Sequence[SeenClient]:
        """All of them, the last one that got something first."""
        return list(reversed(self._seen.values()))
