"""What happens to servers, reported to discovery, which lists again, and to surfaces, which announce.

`Events` is the pool's listener. Surfaces hear that lists may have changed, that single resources may have,
and that other tools may make sense now. They must not block. The services that `follow` servers hear of
connections and of changes of state before surfaces do.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from maitred.backends.base import SupervisionEvent
from maitred.catalog.discovery import Discoverer
from maitred.catalog.names import resource_uri

OVERVIEW: Final = "maitred://overview"
SERVERS: Final = "maitred://servers"
TOOLS: Final = "maitred://tools"
GUIDE: Final = "maitred://chains/guide"


def server_uri(name: str) -> str:
    """The resource that describes a server."""
    return f"maitred://server/{quote(name, safe='')}"


class Events:
    """Passes on what the pool tells. `refused` says which servers are not tried now."""

    def __init__(self, keeper: Discoverer, refused: Callable[[], object]) -> None:
        self._keeper = keeper
        self._refused = refused
        self._last = refused()
        self._on_lists: list[Callable[[], None]] = []
        self._on_visibility: list[Callable[[], None]] = []
        self._on_resource: list[Callable[[str], None]] = []
        self._on_started: list[Callable[[str], None]] = []
        self._on_health: list[Callable[[str], None]] = []
        self._on_supervised: list[Callable[[str, SupervisionEvent], None]] = []
        keeper.listen(settled=self.lists_changed)

    def follow(
        self,
        *,
        started: Callable[[str], None],
        health_changed: Callable[[str], None],
        supervised: Callable[[str, SupervisionEvent], None],
    ) -> None:
        """Have functions called with the name of a server, before surfaces hear of it.

        `started` is called for each new connection, `health_changed` for each change of state, `supervised`
        for what supervision did.
        """
        self._on_started.append(started)
        self._on_health.append(health_changed)
        self._on_supervised.append(supervised)

    def listen(
        self,
        *,
        lists: Callable[[], None],
        resource: Callable[[str], None],
        visibility: Callable[[], None],
    ) -> None:
        """Have functions called: when lists may have changed, and with the URI of a resource that may.

        `visibility` is called when nothing may have changed but which tools make sense now.
        """
        self._on_lists.append(lists)
        self._on_resource.append(resource)
        self._on_visibility.append(visibility)

    def visibility_changed(self) -> None:
        """Other tools than before may make sense now."""
        for listener in self._on_visibility:
            listener()

    def lists_changed(self) -> None:
        """What clients list may have changed, and so has what describes the whole."""
        for listener in self._on_lists:
            listener()
        for uri in (OVERVIEW, SERVERS, TOOLS, GUIDE):
            self._resource(uri)

    def _resource(self, uri: str) -> None:
        for listener in self._on_resource:
            listener(uri)

    # --- what the pool tells ------------------------------------------------------------------------------

    def started(self, server: str) -> None:
        """A backend has a new open connection."""
        for follower in self._on_started:
            follower(server)
        self._keeper.started(server)

    def tools_changed(self, server: str) -> None:
        """A server announced that its list of tools changed."""
        self._keeper.tools_changed(server)

    def offers_changed(self, server: str) -> None:
        """A server announced that its resources or prompts changed."""
        self._keeper.offers_changed(server)

    def updated(self, server: str, uri: str) -> None:
        """A resource of a server changed."""
        self._resource(resource_uri(server, uri))
        if not uri.startswith("maitred:"):  # a server speaks for itself alone
            self._resource(uri)

    def health_changed(self, server: str) -> None:
        """A server started, became ready, stopped or failed."""
        for follower in self._on_health:
            follower(server)
        refused = self._refused()
        if refused != self._last:  # what it offers comes or goes with it
            self._last = refused
            self.lists_changed()
        else:
            self._resource(SERVERS)
            self.visibility_changed()  # rules may read it
        self._resource(server_uri(server))

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        """Supervision did something about a server."""
        for follower in self._on_supervised:
            follower(server, event)
