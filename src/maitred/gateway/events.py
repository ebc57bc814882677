"""What happens to servers, told to whom it concerns: the keeper, who relists, and surfaces, who announce.

`Events` is the pool's listener. Surfaces hear of two things: that lists may have changed, and that single
resources may have. They must not block.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from maitred.catalog.keeper import Keeper
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

    def __init__(self, keeper: Keeper, refused: Callable[[], object]) -> None:
        self._keeper = keeper
        self._refused = refused
        self._last = refused()
        self._on_lists: list[Callable[[], None]] = []
        self._on_resource: list[Callable[[str], None]] = []
        keeper.on_settled = self.lists_changed

    def listen(self, *, lists: Callable[[], None], resource: Callable[[str], None]) -> None:
        """Have functions called: when lists may have changed, and with the URI of a resource that may."""
        self._on_lists.append(lists)
        self._on_resource.append(resource)

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
        refused = self._refused()
        if refused != self._last:  # what it offers comes or goes with it
            self._last = refused
            self.lists_changed()
        else:
            self._resource(SERVERS)
        self._resource(server_uri(server))
