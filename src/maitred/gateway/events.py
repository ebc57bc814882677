"""What happens to servers, reported to discovery, which lists again, and to surfaces, which announce.

`Events` is the pool's listener. Surfaces hear that lists may have changed, that single resources may have,
and that other tools may make sense now. They must not block. `on_started` hears of every new connection,
`on_health` of every change of state before surfaces do, and `supervised` of what supervision did.
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
        self.on_started: Callable[[str], None] = lambda _: None
        self.on_health: Callable[[str], None] = lambda _: None
        self.supervised: Callable[[str, SupervisionEvent], None] = lambda _, __: None
        keeper.on_settled = self.lists_changed

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
        self.on_started(server)
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
        self.on_health(server)
        refused = self._refused()
        if refused != self._last:  # what it offers comes or goes with it
            self._last = refused
            self.lists_changed()
        else:
            self._resource(SERVERS)
            self.visibility_changed()  # rules may read it
        self._resource(server_uri(server))
