"""Resources that stay subscribed while somebody wants them, whatever becomes of connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.backends.rig import LONG_S, Heard
from tests.catalog.makers import FACTS

from maitred.backends.base import Connection, Listing, ServerOffers
from maitred.calls import subscriptions
from maitred.calls.subscriptions import Subscriptions
from maitred.errors import ConnectionLostError, ProtocolError, ServerError, ServerUnavailableError
from maitred.model.sharing import NO_SHARER, Sharer

pytestmark = pytest.mark.anyio

GONE = ConnectionLostError("s", "it ended", unread=True)


class Server:
    """Stands at our own seam: lends itself as a connection, and agrees unless there is trouble in store."""

    facts = FACTS
    alive = completes = subscribes = True

    def __init__(self, *troubles: ServerError) -> None:
        self._troubles = list(troubles)
        self._end = anyio.Event()
        self.agrees = anyio.Event()
        self.agrees.set()
        self.did = Heard()
        self.lent = 0

    def end(self) -> None:
        """End all that was subscribed until now, as the end of a connection does."""
        ended, self._end = self._end, anyio.Event()
        ended.set()

    def fail(self, *troubles: ServerError) -> None:
        self._troubles += troubles

    def key(self, server: str, sharer: Sharer) -> str:
        return ""

    @asynccontextmanager
    async def connection(self, server: str, sharer: Sharer = NO_SHARER) -> AsyncIterator[Connection]:
        if self._troubles and isinstance(self._troubles[0], ServerUnavailableError):
            self.did("unavailable")
            raise self._troubles.pop(0)
        self.lent += 1
        try:
            yield self  # type: ignore[misc]  # only what a subscription needs
        finally:
            self.lent -= 1

    @asynccontextmanager
    async def subscribe(self, uri: str) -> AsyncIterator["Held"]:
        if not self.agrees.is_set():
            self.did(f"ask {uri}")
        await self.agrees.wait()
        if self._troubles:
            self.did(f"refuse {uri}")
            raise self._troubles.pop(0)
        self.did(f"subscribe {uri}")
        try:
            yield Held(self._end)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                self.did(f"unsubscribe {uri}")

    async def list_tools(self) -> Listing:
        return Listing(tools=())

    async def list_offers(self) -> ServerOffers:
        return ServerOffers()


class Held:
    def __init__(self, end: anyio.Event) -> None:
        self._end = end

    async def ended(self) -> str:
        await self._end.wait()
        return "it ended"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are not what is tested, but for their growth."""
    monkeypatch.setattr(subscriptions, "_FIRST_DELAY_S", 0.0)


@asynccontextmanager
async def kept(server: Server) -> AsyncIterator[tuple[Subscriptions, Heard]]:
    missed = Heard()
    with anyio.fail_after(LONG_S):
        async with Subscriptions(server, on_updated=lambda *what: missed(what)) as subject:
            yield subject, missed


async def test_a_resource_is_subscribed_when_add_returns_and_its_server_is_kept_busy() -> None:
    """A borrowed connection is not stopped for idleness, and nothing is reported as missed."""
    server = Server()
    async with kept(server) as (subject, missed):
        await subject.add("s", "a:1")
        assert (server.did.all, server.lent) == (["subscribe a:1"], 1)
        subject.remove("s", "a:1")
        await server.did.until("unsubscribe a:1")
    assert (server.lent, missed.all) == (0, [])


async def test_several_who_want_the_same_share_one_subscription_until_the_last_leaves() -> None:
    server = Server()
    async with kept(server) as (subject, _):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(subject.add, "s", "a:1")
        subject.remove("s", "a:1")
        subject.remove("s", "a:1")
        await subject.add("s", "a:2")
        assert server.did.all == ["subscribe a:1", "subscribe a:2"]
        subject.remove("s", "a:1")
        await server.did.until("unsubscribe a:1")
        assert server.lent == 1


async def test_what_is_wanted_again_at_once_stays_subscribed() -> None:
    """The old subscription is taken back before the new one is made, or the server would forget both."""
    server = Server()
    async with kept(server) as (subject, _):
        await subject.add("s", "a:1")
        subject.remove("s", "a:1")
        await subject.add("s", "a:1")
        assert server.did.all == ["subscribe a:1", "unsubscribe a:1", "subscribe a:1"]
        subject.remove("s", "a:1")
        subject.remove("s", "a:1")  # once too often
        await subject.add("s", "a:1")
        assert server.did.all[3:] == ["unsubscribe a:1", "subscribe a:1"]


@pytest.mark.parametrize(
    "error",
    [ProtocolError("s", -32002, "no such file"), ServerUnavailableError("s", "no such program")],
    ids=lambda error: type(error).__name__,
)
async def test_the_first_failure_goes_to_who_wanted_it_and_leaves_nothing_running(error: ServerError) -> None:
    server = Server(error)
    async with kept(server) as (subject, _):
        with pytest.raises(type(error)) as caught:
            await subject.add("s", "a:1")
        assert caught.value is error
        assert (len(server.did.all), server.lent) == (1, 0)
        subject.remove("s", "a:1")
        await subject.add("s", "a:1")
        assert server.did.all[1:] == ["subscribe a:1"]


async def test_a_connection_that_had_ended_unnoticed_is_tried_again_once() -> None:
    server = Server(GONE)
    async with kept(server) as (subject, _):
        await subject.add("s", "a:1")
        assert server.did.all == ["refuse a:1", "subscribe a:1"]
        subject.remove("s", "a:1")
        await server.did.until("unsubscribe a:1")
        server.fail(GONE, GONE)
        with pytest.raises(ConnectionLostError):
            await subject.add("s", "a:1")


async def test_after_the_end_of_a_connection_the_resource_is_subscribed_anew_and_counts_as_updated() -> None:
    """However often it takes: what changed in the meantime was not told."""
    server = Server()
    async with kept(server) as (subject, missed):
        await subject.add("s", "a:1")
        server.fail(
            GONE, ServerUnavailableError("s", "it does not start"), ProtocolError("s", -32603, "busy")
        )
        server.end()
        await missed.until(("s", "a:1", ""))
        assert server.did.all[2:] == ["refuse a:1", "unavailable", "refuse a:1", "subscribe a:1"]
        server.end()
        await missed.until(("s", "a:1", ""), times=2)
    assert len(missed.all) == 2


async def test_who_gives_up_before_the_server_agrees_leaves_nothing_behind() -> None:
    server = Server()
    server.agrees = anyio.Event()
    async with kept(server) as (subject, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subject.add, "s", "a:1")
            tasks.start_soon(subject.add, "s", "a:1")
            await server.did.until("ask a:1")
            tasks.cancel_scope.cancel()
        server.agrees.set()
        await subject.add("s", "a:1")
        subject.remove("s", "a:1")
        await server.did.until("unsubscribe a:1")
    assert server.did.all == ["ask a:1", "subscribe a:1", "unsubscribe a:1"]
    assert server.lent == 0


async def test_leaving_ends_all_subscriptions() -> None:
    server = Server()
    async with kept(server) as (subject, _):
        await subject.add("s", "a:1")
        await subject.add("s", "a:2")
    assert set(server.did.all[2:]) == {"unsubscribe a:1", "unsubscribe a:2"}
    assert server.lent == 0
