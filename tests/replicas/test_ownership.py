"""One owner at a time, also when a renewal is late and after the database was away."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.replicas.conftest import OpenReplica, OwnReplica
from tests.replicas.test_forwarding import know_each_other

from maitred.model.replicas import LEASE_S
from maitred.replicas import membership
from maitred.replicas.ownership import NotOwnerError, Ownership
from maitred.storage.database import DriverConnection

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

SOON_S = 20.0


def names_of(replica: OwnReplica) -> Ownership:
    return Ownership(replica.replicas.membership._database, replica.replicas)


async def end_leases(replica: OwnReplica) -> None:
    """All leases have ended by the clock of the database, as after an outage."""
    await replica.replicas.membership._database.write_driver(
        lambda connection: connection.execute(
            "UPDATE replicas SET alive_until = extract(epoch FROM clock_timestamp()) - 1"
        )
    )


async def renew(replica: OwnReplica) -> None:
    await replica.replicas.membership.renew(replica.replicas.own)


class HeldClaim(Ownership):
    """Holds the transaction of a claim open before it is committed."""

    taken = threading.Event()
    goes_on = threading.Event()

    def _take(self, connection: DriverConnection, name: str, own: str) -> int | str:
        number = super()._take(connection, name, own)
        self.taken.set()
        self.goes_on.wait(SOON_S)
        return number


async def test_a_renewal_that_comes_late_waits_for_who_takes_over(open_replica: OpenReplica) -> None:
    async with open_replica() as one, open_replica() as two:
        await know_each_other(one, two)
        first, second = names_of(one), HeldClaim(two.replicas.membership._database, two.replicas)
        number = await first.claim("x")
        await end_leases(one)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.claim, "x")
            await anyio.to_thread.run_sync(second.taken.wait)
            renewed = anyio.Event()

            async def renewing() -> None:
                await renew(one)
                renewed.set()

            tasks.start_soon(renewing)
            with anyio.move_on_after(1.0):
                await renewed.wait()
            second.goes_on.set()
        assert second.holds("x")
        with pytest.raises(NotOwnerError, match="does not run the server any more"):
            first.check("x", number, changes=True)


async def test_after_an_outage_the_first_that_is_back_takes_nothing_from_others(
    open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_replica() as one, open_replica() as two:
        await know_each_other(one, two)
        first, second = names_of(one), names_of(two)
        await first.claim("x")
        gone: list[frozenset[str]] = []
        two.replicas.membership.on_gone.append(gone.append)
        monkeypatch.setattr(membership, "_now", later_by(LEASE_S, membership._now))
        await end_leases(one)
        await renew(two)
        assert gone == []
        with pytest.raises(NotOwnerError, match="it runs the server") as refused:
            await second.claim("x")
        assert refused.value.replica == one.replicas.id == await second.find("x")


def later_by(seconds: float, now: Callable[[], float]) -> Callable[[], Any]:
    return lambda: now() + seconds
