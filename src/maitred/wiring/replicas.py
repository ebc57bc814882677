"""This process as one of several gateways on one database."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from maitred import __version__
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.replica_settings import address_fault
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.replicas import LiveReplica
from maitred.model.tools import ToolKey
from maitred.wiring.references import operator_resolver
from maitred.wiring.storage import database_of, shared_key

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import ServerPool
    from maitred.backends.placement import ServerPlacement
    from maitred.catalog.live import LiveCatalog
    from maitred.replicas.forwarding import Replicas


@asynccontextmanager
async def open_replicas(settings: Settings, own_id: str, *, joins: bool) -> "AsyncIterator[Replicas]":
    """The replicas of the database; with `joins`, this process becomes one of them when it listens.

    Raises:
        ConfigError: `replica.address` cannot be used.
    """
    from maitred.replicas.forwarding import Replicas

    own = LiveReplica(
        id=own_id, role=settings.replica.role, address=_configured_address(settings), version=__version__
    )
    replicas = Replicas(database_of(settings), own, shared_key(settings, "requests between replicas"))
    if joins:
        replicas.expect_to_join()
    async with replicas.serving():
        yield replicas


def make_placement(
    settings: Settings, replicas: "Replicas", catalog: "LiveCatalog"
) -> "ServerPlacement | None":
    """What finds the replica that runs a server; `None` on SQLite, where there is one alone."""
    from maitred.backends.placement import ServerPlacement
    from maitred.replicas.ownership import Ownership

    def reads(server: str, name: str) -> bool:
        tool = catalog.snapshot.by_key.get(ToolKey(server=server, name=name))
        return tool is not None and tool.read_only

    database = database_of(settings)
    if not database.writes_together:
        return None
    return ServerPlacement(replicas, Ownership(database, replicas), reads)


def serve_links(placement: "ServerPlacement", pool: "ServerPool") -> "AbstractAsyncContextManager[None]":
    """Answer the other replicas with the servers of this one, until the context is left."""
    from maitred.backends.runner_service import RunnerService

    return RunnerService(placement, pool).serving()


def _configured_address(settings: Settings) -> str:
    try:
        address = operator_resolver(settings)(settings.replica.address)
        fault = address_fault(address) if address else ""
    except UnresolvedReferenceError as error:
        address, fault = "", str(error)
    if fault:
        raise ConfigError(str(settings.source), [f"replica.address: {fault}"])
    return address.rstrip("/")
