"""What several gateways share for a while: one contract for memory, PostgreSQL and Valkey."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from tests.support.postgres import Postgres
from tests.support.valkey import ValkeyService

from maitred.background import Background
from maitred.errors import StoreError
from maitred.storage.shared_sealed import SealedState
from maitred.storage.shared_state import MOST_MESSAGE_BYTES, Allowance, MemoryState, SharedState

pytestmark = pytest.mark.anyio

SOON_S = 20.0
A_MINUTE = 60.0
KEY = b"k" * 32


class Hearer:
    """What one process hears."""

    def __init__(self, state: SharedState) -> None:
        self.messages: list[str] = []
        self._news = anyio.Event()
        state.listen(self._heard, self._reset)

    def _heard(self, message: str) -> None:
        self.messages.append(message)
        self._news.set()

    def _reset(self) -> None:
        return

    async def until(self, message: str) -> None:
        with anyio.fail_after(SOON_S):
            while message not in self.messages:
                self._news = anyio.Event()
                await self._news.wait()


@asynccontextmanager
async def of_postgres(url: str) -> AsyncIterator[SharedState]:
    from maitred.storage.postgres import PostgresDatabase  # noqa: PLC0415  # of an extra
    from maitred.storage.shared_postgres import PostgresState  # noqa: PLC0415  # of an extra

    async with PostgresDatabase(url) as database, Background() as background:
        state = PostgresState(database)
        background.start(database.watch)
        yield state


@asynccontextmanager
async def of_valkey(url: str) -> AsyncIterator[SharedState]:
    from maitred.storage.shared_valkey import ValkeyState  # noqa: PLC0415  # of an extra

    state = ValkeyState(url, prefix="maitred")
    try:
        yield state
    finally:
        await state.close()


@pytest.fixture(
    params=["memory", "valkey", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]
)
async def two(request: pytest.FixtureRequest) -> AsyncIterator[Sequence[SharedState]]:
    """What two processes have of one store; memory has but one."""
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            yield [SealedState(MemoryState(), lambda: KEY)] * 2
            return
        postgres = request.param == "postgres"
        service = request.getfixturevalue("postgres" if postgres else "valkey_server")
        url = service.new_database() if postgres else service.new_url()
        open_state = of_postgres if postgres else of_valkey
        states = [
            SealedState(await stack.enter_async_context(open_state(url)), lambda: KEY) for _ in range(2)
        ]
        background = await stack.enter_async_context(Background())
        for state in states:
            background.start(state.watch)
        yield states


async def test_what_one_writes_the_other_reads_until_it_expires(two: Sequence[SharedState]) -> None:
    """A value is replaced, kept longer, removed, and gone when its time is over."""
    one, other = two
    assert await other.get("a") is None
    await one.put("a", b"first", A_MINUTE)
    await other.put("a", b"\0second\xff", A_MINUTE)
    assert await one.get("a") == b"\0second\xff"
    assert await other.touch("a", A_MINUTE)
    assert not await other.touch("b", A_MINUTE)

    assert await one.delete("a")
    assert not await other.delete("a")
    assert await other.get("a") is None

    await one.put("short", b"", 0.02)
    with anyio.fail_after(SOON_S):
        while await other.get("short") is not None:  # noqa: ASYNC110 - a store has no event for us
            await anyio.sleep(0.01)
    assert not await one.touch("short", A_MINUTE)


async def test_numbers_are_added_to_in_one_step(two: Sequence[SharedState]) -> None:
    """Of twenty processes that count at once, none is lost, and each sees a number of its own."""
    seen: list[int] = []

    async def count(state: SharedState) -> None:
        seen.append(await state.add("n", 1, A_MINUTE))

    async with anyio.create_task_group() as tasks:
        for place in range(20):
            tasks.start_soon(count, two[place % 2])
    assert sorted(seen) == list(range(1, 21))


async def test_a_value_is_replaced_only_where_it_is_still_the_one_that_was_read(
    two: Sequence[SharedState],
) -> None:
    """Of two who change what they read, one must read again; none must be there for the first."""
    one, other = two
    assert not await one.swap("a", b"", b"late", A_MINUTE)
    assert await one.swap("a", None, b"first", A_MINUTE)
    assert not await other.swap("a", None, b"also first", A_MINUTE)
    assert await other.swap("a", b"first", b"second", A_MINUTE)
    assert not await one.swap("a", b"first", b"third", A_MINUTE)
    assert await one.get("a") == b"second"


async def test_a_bucket_is_one_for_all(two: Sequence[SharedState]) -> None:
    """Ten calls at once find five tokens; the others hear how long to wait."""
    limit = [Allowance(key="ann", per_s=0.01, size=5)]
    refused = []

    async def call(place: int) -> None:
        refused.append(await two[place % 2].admit(limit, f"call {place}"))

    async with anyio.create_task_group() as tasks:
        for place in range(10):
            tasks.start_soon(call, place)
    shortages = [one for one in refused if one is not None]
    assert len(shortages) == 5
    assert all(one.place == 0 and not one.running and 0 < one.wait_s <= 100 for one in shortages)


async def test_calls_at_the_same_time_are_counted_for_all(two: Sequence[SharedState]) -> None:
    """The third call waits until one of two has ended, at whichever process."""
    one, other = two
    limit = [Allowance(key="ben", at_once=2)]
    assert await one.admit(limit, "1") is None
    assert await other.admit(limit, "2") is None
    refused = await one.admit(limit, "3")
    assert refused is not None
    assert (refused.place, refused.running) == (0, 2)

    await other.release(["ben"], "2")
    assert await one.admit(limit, "3") is None


async def test_a_refused_call_takes_nothing_from_the_others_buckets(two: Sequence[SharedState]) -> None:
    """The team has nothing left, so the bucket of its member stays full."""
    one, other = two
    own, team = Allowance(key="cid", per_s=0.01, size=1), Allowance(key="team", per_s=0.01, size=1)
    assert await one.admit([team], "1") is None
    refused = await other.admit([own, team], "2")
    assert refused is not None
    assert refused.place == 1
    assert await one.admit([own], "3") is None


async def test_a_message_reaches_every_process(two: Sequence[SharedState]) -> None:
    """Also the one that sent it; one that is too long is refused."""
    one, other = two
    hearers = [Hearer(one), Hearer(other)]
    with anyio.fail_after(SOON_S):
        while not (one.is_live and other.is_live):  # noqa: ASYNC110 - a store has no event for us
            await anyio.sleep(0.01)
    await one.publish("ä message")
    for hearer in hearers:
        await hearer.until("ä message")
    if one.is_shared:
        with pytest.raises(ValueError, match="6,000"):
            await one.publish("m" * (MOST_MESSAGE_BYTES + 1))


@pytest.mark.parametrize(
    "store", ["valkey", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]
)
async def test_a_store_that_is_away_is_said_and_comes_back(
    request: pytest.FixtureRequest, store: str
) -> None:
    """Each method raises, the reason is kept, and the first try after the return succeeds."""
    if store == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.new_database()
        async with of_postgres(url) as state:
            await state.put("a", b"", A_MINUTE)
            with postgres.refusing(url):
                await expect_away(state)
            await expect_back(state)
        return
    valkey: ValkeyService = request.getfixturevalue("valkey_server")
    async with of_valkey(valkey.new_url()) as state:
        await state.put("a", b"", A_MINUTE)
        valkey.stop()
        try:
            await expect_away(state)
        finally:
            valkey.start()
        await expect_back(state)


async def expect_away(state: SharedState) -> None:
    with anyio.fail_after(SOON_S):
        while not state.why_away:
            try:
                await state.get("a")
            except StoreError:
                break
    with pytest.raises(StoreError):
        await state.put("a", b"", A_MINUTE)
    assert state.why_away


async def expect_back(state: SharedState) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            try:
                await state.put("b", b"", A_MINUTE)
            except StoreError:
                await anyio.sleep(0.05)
            else:
                break
    assert not state.why_away
