"""Which client used which server in the last day, and how long the calls took: from the audit trail.

The trail keeps the time of each call, which the figures of usage do not: they have a histogram of each day.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.audit.service import moment_ago
from maitred.errors import (
    CallTimeoutError,
    ConnectionLostError,
    ProtocolError,
    ServerError,
    UnreadableAnswerError,
)
from maitred.surfaces.web.activity import own_ms
from maitred.surfaces.web.screen import Visit

SPAN: Final = "24h"
MOST_LINES: Final = 500
_MADE: Final = frozenset(
    {
        "ok",
        "tool_error",
        "input_required",
        *(
            one.code
            for one in (
                CallTimeoutError,
                ConnectionLostError,
                ProtocolError,
                ServerError,
                UnreadableAnswerError,
            )
        ),
    }
)
"""The outcomes of calls that reached their server, as the figures of usage count them.

A call that may change something has a second line, `begun`; one that was refused has the code of an error.
"""
_SURFACES: Final = {"mcp": "MCP", "http": "HTTP API", "cli": "command line", "web": "web interface"}


@dataclass(frozen=True, kw_only=True)
class ClientUse:
    """The calls of one client by server: of a principal, by a program that names itself or by a surface."""

    principal: str
    client: str
    calls: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many calls it made."""
        return sum(self.calls.values())


@dataclass(frozen=True, kw_only=True)
class RecentUse:
    """The last calls: clients with the busiest first, and milliseconds by server with the oldest first."""

    clients: Sequence[ClientUse] = ()
    latencies: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def of_server(self, server: str) -> Sequence[tuple[ClientUse, int]]:
        """The clients that called a server, each with the number of its calls; the busiest first."""
        found = [(one, one.calls[server]) for one in self.clients if server in one.calls]
        return sorted(found, key=lambda pair: -pair[1])


async def recent_use(visit: Visit) -> RecentUse | None:
    """The use by the last lines of the audit trail; `None` if the viewer may not read it, or if it is off."""
    gateway, viewer = visit.gateway, visit.viewer
    if not gateway.settings.audit.enabled or not gateway.is_allowed(viewer, "audit"):
        return None
    return use_of((await gateway.audit_lines(viewer, since=moment_ago(SPAN), limit=MOST_LINES)).lines)


def use_of(lines: Iterable[Mapping[str, Any]]) -> RecentUse:
    """The use by lines of the audit trail, the newest first."""
    calls: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    latencies: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        server = str(line.get("server", ""))
        if line.get("action") != "call" or not server or line.get("outcome") not in _MADE:
            continue
        surface = str(line.get("surface", ""))
        client = str(line.get("client", "")) or _SURFACES.get(surface, "a program")
        calls[str(line.get("who", "")), client][server] += 1
        if line.get("ms"):
            latencies[server].insert(0, own_ms(line))
    clients = [ClientUse(principal=who, client=client, calls=of) for (who, client), of in calls.items()]
    return RecentUse(clients=sorted(clients, key=lambda one: -one.total), latencies=latencies)
