"""This process as one of several gateways on one database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from maitred import __version__
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.replica_settings import address_fault
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.replicas import LiveReplica
from maitred.wiring.references import operator_resolver
from maitred.wiring.storage import database_of, shared_key

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.replicas.forwarding import Replicas


@asynccontextmanager
async def open_replicas(settings: Settings, own_id: str) -> "AsyncIterator[Replicas]":
    """The replicas of the database; this process joins them when it listens.

    Raises:
        ConfigError: `replica.address` cannot be used.
    """
    from maitred.replicas.forwarding import Replicas

    own = LiveReplica(
        id=own_id, role=settings.replica.role, address=_configured_address(settings), version=__version__
    )
    replicas = Replicas(database_of(settings), own, shared_key(settings, "requests between replicas"))
    async with replicas.serving():
        yield replicas


def _configured_address(settings: Settings) -> str:
    try:
        address = operator_resolver(settings)(settings.replica.address)
        fault = address_fault(address) if address else ""
    except UnresolvedReferenceError as error:
        address, fault = "", str(error)
    if fault:
        raise ConfigError(str(settings.source), [f"replica.address: {fault}"])
    return address.rstrip("/")
