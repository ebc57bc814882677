"""Keep the servers of a cluster registered: each `MCPServer` resource with an address is one server.

Of several gateways on one catalog, one watches at a time. While the cluster cannot be asked, nothing is
withdrawn. A resource that cannot be registered changes nothing of what was registered before.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import anyio
import structlog

from maitred.background import Background
from maitred.config.kubernetes_settings import McpServerWatch
from maitred.config.settings import Settings
from maitred.errors import MaitredError, StoreError
from maitred.model.access import Grant, Viewer
from maitred.surfaces.kubernetes.server_resource import (
    SOURCE,
    ResourceError,
    manifest_of,
    name_of,
    source_of,
)

if TYPE_CHECKING:  # not needed where no cluster is watched
    from maitred.gateway import Gateway
    from maitred.surfaces.kubernetes.cluster_api import ClusterApi

log = structlog.get_logger(__name__)

CLUSTER: Final = Viewer(grant=Grant(principal="kubernetes", role="operator"))
"""The viewer who registers and withdraws the servers of the cluster."""

_JOB: Final = "watch MCPServer resources"
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 5.0
_TURNS: Final = 3
"""How much longer it waits for its turn than after a failure: each attempt connects to PostgreSQL."""
_SHORT_S: Final = 1.0
"""A watch that ended sooner is not opened again at once: something between may end all of them."""
_TURN_S: Final = 50.0
"""Less than a lease of `maitred.storage.leader`, after which another process may have the turn."""


async def follow_mcp_servers(
    gateway: "Gateway", *, look_s: float = _LOOK_S, again_s: float = _AGAIN_S
) -> None:
    """Follow the resources that `kubernetes.watch` of the current settings names; never returns.

    `again_s` is how long it waits after a failure, in seconds; it waits longer between attempts to have the
    turn.
    """
    while True:
        settings = gateway.settings
        watch = settings.kubernetes.watch
        async with Background() as background:
            if watch is not None:
                background.start(_take_turns, gateway, watch, again_s)
            while _is_same(gateway.settings, settings):  # noqa: ASYNC110  # a change of settings sets no event
                await anyio.sleep(look_s)


def _is_same(now: Settings, before: Settings) -> bool:
    """Whether the resources are to be registered as before."""
    return (now.kubernetes, now.admission) == (before.kubernetes, before.admission)


async def _take_turns(gateway: "Gateway", watch: McpServerWatch, again_s: float) -> None:
    """Watch whenever no other process does; never returns."""
    from maitred.surfaces.kubernetes.cluster_api import ClusterApi, ClusterError  # noqa: PLC0415  # HTTP client

    servers, said, is_mine = ClusterServers(gateway, watch, ClusterApi(watch)), "", False
    while True:
        if not is_mine:  # another process may have had the turn since
            servers.forget()
        reason, is_mine = "", False
        try:
            async with gateway.take_turn(_JOB, viewer=CLUSTER) as is_mine:
                with anyio.move_on_after(_TURN_S):
                    while is_mine:
                        began_at = anyio.current_time()
                        await servers.follow()
                        if anyio.current_time() - began_at < _SHORT_S:
                            await anyio.sleep(again_s)
        except (ClusterError, MaitredError) as error:
            servers.read_again()
            reason = f"the API of the cluster: {error}" if isinstance(error, ClusterError) else str(error)
        said = "" if servers.has_read else said
        if reason and reason != said:
            log.warning("MCPServer resources are not watched; nothing is unregistered", reason=reason)
        said, servers.has_read = reason or said, False
        if reason or not is_mine:
            await anyio.sleep(again_s if reason else _TURNS * again_s)


class ClusterServers:
    """The servers of the cluster, as the gateway last registered them."""

    def __init__(self, gateway: "Gateway", watch: McpServerWatch, api: "ClusterApi") -> None:
        self._gateway = gateway
        self._watch = watch
        self._api = api
        self._version = ""
        self._names: set[str] = set()
        self._taken: dict[str, str] = {}
        self.has_read = False
        """Whether the list was read since its owner set this to false."""

    def read_again(self) -> None:
        """Read the list again next time, since a part of it was not heard or not registered."""
        self._version = ""

    def forget(self) -> None:
        """Begin again: another process has registered and withdrawn servers meanwhile."""
        self._version = ""
        self._names.clear()
        self._taken.clear()

    async def follow(self) -> None:
        """Register what there is, and then what changes, until the cluster ends the watch.

        Raises:
            ClusterError: The cluster cannot be asked.
            StoreError: The catalog cannot be written now.
        """
        from maitred.surfaces.kubernetes.cluster_api import ExpiredVersionError  # noqa: PLC0415  # HTTP client

        if not self._version:
            await self._read()
        try:
            async with aclosing(self._api.events(self._version)) as events:
                async for event in events:
                    if event.kind == "applied":
                        await self._apply(event.resource)
                    elif event.kind == "deleted":
                        self._names.discard(name_of(event.resource))
                        await self._withdraw()
                    self._version = event.version or self._version
        except ExpiredVersionError:
            self._version = ""

    async def _read(self) -> None:
        """Register all that is there now, and withdraw the servers of resources that are gone."""
        listed = await self._api.read()
        self._names = {name_of(one) for one in listed.items}
        for resource in sorted(listed.items, key=name_of):
            await self._apply(resource)
        await self._withdraw()
        self._version, self.has_read = listed.version, True

    async def _apply(self, resource: Mapping[str, Any]) -> None:
        """Register one resource. A fault is logged and leaves the earlier registration as it is."""
        name = name_of(resource)
        self._names.add(name)
        try:
            text = manifest_of(resource, network=self._watch.network)
        except ResourceError as error:
            log.warning("an MCPServer is not registered", name=name, reason=str(error))
            return
        if not text or self._taken.get(name) == text:
            return
        source = source_of(self._watch.namespace, name)
        try:
            await self._register(name, text, source)
        except StoreError:
            raise
        except MaitredError as error:
            log.warning("an MCPServer is not registered", name=name, reason=str(error))
        self._taken[name] = text

    async def _register(self, name: str, text: str, source: str) -> None:
        known = (await self._gateway.registrations(CLUSTER)).get(name)
        if known is not None and known[1] != "withdrawn" and not known[0].startswith(SOURCE):
            reason = f"a server of this name came from {known[0]}; unregister that, or rename the resource"
            log.warning("an MCPServer is not registered", name=name, reason=reason)
            return
        registered = await self._gateway.register_server(text, source=source, viewer=CLUSTER)
        for finding in registered.decision.findings if registered.case is None else ():
            log.warning(
                "an MCPServer is refused; what was registered before stays", name=name, fault=str(finding)
            )
        if registered.case is not None and registered.happened != "unchanged":
            log.info("registered from the cluster", server=name, source=source)

    async def _withdraw(self) -> None:
        """Withdraw the servers that came from the cluster and are no resource of it now."""
        present = {source_of(self._watch.namespace, name) for name in self._names}
        self._taken = {name: text for name, text in self._taken.items() if name in self._names}
        for server, (source, state) in (await self._gateway.registrations(CLUSTER)).items():
            if not source.startswith(SOURCE) or source in present or state == "withdrawn":
                continue
            try:
                await self._gateway.decide(server, "withdraw", viewer=CLUSTER, why="its resource is gone")
            except StoreError:
                raise
            except MaitredError as error:
                log.warning("a server is not withdrawn", server=server, reason=str(error))
            else:
                log.info("withdrawn, since its MCPServer is gone", server=server, source=source)
