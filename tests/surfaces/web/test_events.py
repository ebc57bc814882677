"""The stream of what changed: whatever breaks it, no change is lost and none comes twice."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.surfaces.web.rig import House, opened, tool

from maitred.model.access import LOCAL_USER, Grant, Scope
from maitred.model.tools import ToolCall
from maitred.surfaces.web.events import FragmentChanges, server_fragment, server_of, stream

pytestmark = pytest.mark.anyio


async def always() -> bool:
    return True


class Reader:
    """A page that reads the stream; it knows the last id that came, as a browser does."""

    def __init__(self, changes: FragmentChanges) -> None:
        self.changes = changes
        self.position = changes.position
        self.names: list[str] = []

    async def read(self, events: int) -> None:
        """Read some events from the last id on, and then lose the connection."""
        seen = 0
        source = stream(
            self.changes,
            self.position,
            visible=lambda names: names,
            goes_on=always,
            beat_s=0.001,
            pause_s=0.0,
        )
        async for text in source:
            for line in text.splitlines():
                if line.startswith("id: "):
                    self.position = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    self.names.append(line.removeprefix("data: "))
            seen += 1
            if seen > events:
                break
        await source.aclose()  # type: ignore[attr-defined]


async def test_a_stream_that_breaks_a_hundred_times_loses_and_doubles_no_change() -> None:
    """They come before, between and after; each fragment comes once for each time it is read again."""
    chance = random.Random(20)
    changes = FragmentChanges()
    reader = Reader(changes)
    for _ in range(100):
        marked = [f"part-{chance.randrange(8)}" for _ in range(chance.randrange(4))]
        for name in marked:
            changes.mark(name)
        before = len(reader.names)
        await reader.read(chance.randrange(1, 3))
        await reader.read(1)
        assert sorted(reader.names[before:]) == sorted(set(marked))


async def test_a_page_of_another_run_of_the_gateway_is_read_again_whole() -> None:
    for position in ("", "other-3", "x", f"{FragmentChanges().position}0", "-", "\u202e-1"):
        assert FragmentChanges().since(position) == {"*"}


@pytest.mark.parametrize("odd", ["", "-", "x-1", "{run}-", "{run}--1", "{run}-" + "9" * 5_000, "{run}-²"])
def test_an_odd_position_means_that_all_is_read_again(odd: str) -> None:
    changes = FragmentChanges()

    assert changes.since(odd.format(run=changes.position.partition("-")[0])) == {"*"}


def test_the_name_of_a_server_breaks_no_line_of_the_stream() -> None:
    """A manifest may name it as it likes."""
    name = "a b\nevent: changed\n\ndata: x\u2028/"
    assert server_of(server_fragment(name)) == name
    assert not set(server_fragment(name)) & set(" \n\r\u2028")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("h"), {"shop": [tool("look")], "bank": [tool("pay")]}) as made:
        yield made


async def names_of(house: House, grant: Grant, after: str, until: str = "") -> set[str]:
    """The fragments of the first event after a position, or of all up to the one that names `until`."""
    client = await house.person(grant)
    async with client.stream("GET", "/ui/events", headers={"last-event-id": after}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = set[str]()
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                found.add(line.removeprefix("data: "))
            elif not line and found and (not until or until in found):
                break
    return found


async def test_a_page_of_activity_is_fetched_once_its_line_is_written(house: House) -> None:
    """However many calls there are in a second, it is one change; the trail has their lines by then."""
    await (await house.person()).get("/ui/")
    admin, after = Grant(principal="local", role="admin"), house.web.changes.position
    calls = [ToolCall(name="shop__look", arguments={"n": number}) for number in range(7)]
    for call in calls:
        await house.gateway.call(call, viewer=LOCAL_USER)
    first = house.web.changes.number_of("activity")
    assert "activity" in await names_of(house, admin, after, until="activity")
    lines = (await house.gateway.audit_lines(LOCAL_USER, tool="shop", limit=50)).lines
    assert len(lines) >= len(calls)
    assert house.web.changes.number_of("activity") > first


async def test_a_call_and_a_change_of_a_definition_name_what_pages_show_of_them(house: House) -> None:
    admin = Grant(principal="local", role="admin")
    await (await house.person()).get("/ui/")
    after = house.web.changes.position
    await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
    assert {"activity", "today", "server:shop"} <= await names_of(house, admin, after, until="activity")
    after = house.web.changes.position
    await house.change("bank", tool("pay", "Pay another way."))
    assert {"approvals", "tools", "servers"} <= await names_of(house, admin, after)


async def test_who_may_not_see_a_server_does_not_read_its_name_in_the_stream(house: House) -> None:
    after = house.web.changes.position
    await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
    part = Grant(principal="part", role="operator", scope=Scope(servers=frozenset({"bank"})))
    assert not [name for name in await names_of(house, part, after) if "shop" in name]


async def test_who_has_no_screen_for_a_part_does_not_read_when_it_changes(house: House) -> None:
    """What others call, and what waits for a person, is no news for a viewer; other tools are."""
    after = house.web.changes.position
    await house.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
    await house.change("shop", tool("look", f"Looks, and since {after}."))
    house.web.changes.mark("approvals", "activity", "servers")
    operator = await names_of(house, Grant(principal="op", role="operator"), after)
    assert {"today", "approvals", "servers", "server:shop"} <= operator
    assert "activity" not in operator
    assert await names_of(house, Grant(principal="guest", role="viewer"), after) == {"tools"}


async def test_a_principal_has_ten_streams_at_most(house: House) -> None:
    """So one person cannot take all of them; others read on."""
    client = await house.person(Grant(principal="many", role="viewer"))
    async with AsyncExitStack() as stack:
        for _ in range(10):
            answer = await stack.enter_async_context(client.stream("GET", "/ui/events"))
            assert answer.status_code == 200
        refused = await client.get("/ui/events")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "30"
        other = await house.person()
        async with other.stream("GET", "/ui/events") as answer:
            assert answer.status_code == 200


async def test_the_stream_is_for_who_has_entered(house: House, tmp_path: Path) -> None:
    """204, so that the browser of a person who left does not ask again and again."""
    assert (await house.stranger().get("/ui/events")).status_code == 204
