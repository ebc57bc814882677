"""Passes events of servers to discovery, which lists tools again, and to surfaces, which notify clients.

`Events` is the pool's listener; it is made first, and given to the pool and to the gateway. Surfaces hear
that lists may have changed, that single resources may have, and that other tools may make sense now. The
services that `follow` servers hear of each event before surfaces do. Neither may block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from maitred.backends.base import SupervisionEvent
from maitred.catalog.names import resource_uri

OVERVIEW: Final = "maitred://overview"
SERVERS: Final = "maitred://servers"
TOOLS: Final = "maitred://tools"
GUIDE: Final = "maitred://chains/guide"


def _ignore(server: str, key: str) -> None:
    """Do nothing about a server."""


def _unreported(server: str, facts: Mapping[str, Any], key: str) -> None:
    """Do nothing about facts."""


def _untold(server: str, task: Mapping[str, Any], key: str) -> None:
    """Do nothing about a task."""


def _unsupervised(server: str, event: SupervisionEvent) -> None:
    """Do nothing about an act of supervision."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The instance of a server that an event came from; see `maitred.model.sharing`."""

    server: str
    key: str


def server_uri(name: str) -> str:
    """The URI of the resource that describes a server."""
    return f"maitred://server/{quote(name, safe='')}"


@dataclass(frozen=True, kw_only=True)
class Follower:
    """What a service does about servers. Each function gets a server, and the share key of its instance.

    Attributes:
        started: A server has a new connection.
        tools_changed: A server announced that its list of tools changed.
        offers_changed: A server announced that its resources or prompts changed.
        task_changed: A server announced the state of a task.
        facts_changed: A server reported the facts that visibility rules read.
        health_changed: The state of a server changed.
        supervised: Supervision did something about a server.
    """

    started: Callable[[str, str], None] = _ignore
    tools_changed: Callable[[str, str], None] = _ignore
    offers_changed: Callable[[str, str], None] = _ignore
    task_changed: Callable[[str, Mapping[str, Any], str], None] = _untold
    facts_changed: Callable[[str, Mapping[str, Any], str], None] = _unreported
    health_changed: Callable[[str, str], None] = _ignore
    supervised: Callable[[str, SupervisionEvent], None] = _unsupervised


ResourceListener = Callable[[str, Origin | None], None]
"""Gets the URI of a changed resource, and the instance that reported it; `None` for a resource of ours."""


class Events:
    """Passes on what the pool reports, to services in the order in which they began to follow."""

    def __init__(self) -> None:
        self._refused: Callable[[], object] = frozenset
        self._last: object = frozenset()
        self._on_lists: list[Callable[[], None]] = []
        self._on_visibility: list[Callable[[], None]] = []
        self._on_resource: list[ResourceListener] = []
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Have functions called with the name of a server, before surfaces hear of it."""
        self._followers.append(follower)

    def compare(self, refused: Callable[[], object]) -> None:
        """Have a function say which servers are not tried now; lists change when that does."""
        self._refused, self._last = refused, refused()

    def listen(
        self,
        *,
        lists: Callable[[], None],
        resource: ResourceListener,
        visibility: Callable[[], None],
    ) -> None:
        """Register functions to call when lists may have changed, and with each changed resource.

        `visibility` is called when other tools may make sense now, and nothing else changed.
        """
        self._on_lists.append(lists)
        self._on_resource.append(resource)
        self._on_visibility.append(visibility)

    def visibility_changed(self) -> None:
        """Other tools than before may make sense now."""
        for listener in self._on_visibility:
            listener()

    def lists_changed(self) -> None:
        """Lists of clients may have changed, and with them the resources that describe the whole."""
        for listener in self._on_lists:
            listener()
        for uri in (OVERVIEW, SERVERS, TOOLS, GUIDE):
            self._resource(uri)

    def _resource(self, uri: str, origin: Origin | None = None) -> None:
        for listener in self._on_resource:
            listener(uri, origin)

    # --- what the pool reports ----------------------------------------------------------------------------

    def started(self, server: str, key: str) -> None:
        """A backend has a new open connection."""
        for follower in self._followers:
            follower.started(server, key)

    def tools_changed(self, server: str, key: str) -> None:
        """A server announced that its list of tools changed."""
        for follower in self._followers:
            follower.tools_changed(server, key)

    def offers_changed(self, server: str, key: str) -> None:
        """A server announced that its resources or prompts changed."""
        for follower in self._followers:
            follower.offers_changed(server, key)

    def updated(self, server: str, uri: str, key: str) -> None:
        """A resource of a server changed; only the clients of that instance hear of it."""
        origin = Origin(server=server, key=key)
        self._resource(resource_uri(server, uri), origin)
        if not uri.startswith("maitred:"):  # a server reports only its own resources
            self._resource(uri, origin)

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        """The state of a task changed at a server."""
        for follower in self._followers:
            follower.task_changed(server, task, key)

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        """A server reported its facts, which decide which of its tools make sense."""
        for follower in self._followers:
            follower.facts_changed(server, facts, key)

    def health_changed(self, server: str, key: str) -> None:
        """A server started, became ready, stopped or failed."""
        for follower in self._followers:
            follower.health_changed(server, key)
        refused = self._refused()
        if refused != self._last:  # its tools are shown or not, with its state
            self._last = refused
            self.lists_changed()
        else:
            self._resource(SERVERS)
            self.visibility_changed()  # rules may read it
        self._resource(server_uri(server))

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        """Supervision acted on a server."""
        for follower in self._followers:
            follower.supervised(server, event)
