"""One browser has one connection and belongs to one principal, also while it starts, opens or ends."""

import socket
from typing import Any

import anyio
import pytest
from tests.support.chromium import OPTIONS, Hub, Running, chromium

from maitred.browser.attach import find_address
from maitred.browser.browsers import Browser, Owner
from maitred.browser.errors import AttachError

pytestmark = pytest.mark.anyio


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_clients_that_connect_at_once_by_different_addresses_share_a_connection(
    clients: Hub, running: Running
) -> None:
    """A user would be asked for consent at each connection, and tabs would have two owners."""
    places = [
        {"port": running.port, "host": "localhost"},
        {"port": running.port, "host": "127.0.0.1"},
        {"address": running.address},
        {"address": f"{running.address}?x=1"},
        {"address": running.address.replace("127.0.0.1", "localhost")},
        {"address": str(running.profile)},
    ]
    many = [clients.client() for _ in places]
    async with anyio.create_task_group() as tasks:
        for client, place in zip(many, places, strict=True):

            async def connect(client: Any = client, place: Any = place) -> None:
                await client.do("chrome_connect", **place)

            tasks.start_soon(connect)
    browsers = {id(client.toolbox._workspace.find().browser) for client in many}  # type: ignore[union-attr]
    assert len(browsers) == 1


async def test_two_that_come_while_a_connection_ends_share_the_next_one(
    clients: Hub, running: Running
) -> None:
    browsers = clients.browsers

    async def use(owner: Owner) -> Browser:
        return await browsers.attach(running.address, 0, "", OPTIONS, owner)

    first = browsers.new_owner()
    ending = await use(first)
    next_ones: list[tuple[Browser, Owner]] = []

    async def come() -> None:
        owner = browsers.new_owner()
        await ending.released.wait()
        next_ones.append((await use(owner), owner))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(come)
        tasks.start_soon(come)
        tasks.start_soon(ending.leave, first)
    (one, one_owner), (other, other_owner) = next_ones
    assert one is other is not ending
    assert not one.connection.closed
    await one.leave(one_owner)
    assert not one.connection.closed
    await other.leave(other_owner)


async def test_a_browser_that_starts_is_its_principals_from_its_first_moment(clients: Hub) -> None:
    """Another principal who tries the port all the time is refused, also before the start is over."""
    chromium()
    port, answers, started = free_port(), list[str](), anyio.Event()
    ann, bob = clients.client(), clients.client()

    async def start() -> None:
        made = await ann.toolbox.call(
            "chrome_launch", {"headless": True, "debug_port": port}, principal="ann"
        )
        assert not made["isError"], made
        started.set()

    async def intrude() -> None:
        is_last = False
        while not is_last:
            is_last = started.is_set()
            result = await bob.toolbox.call("chrome_connect", {"port": port}, principal="bob")
            answers.append(result["content"][0]["text"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        tasks.start_soon(intrude)
    assert "another principal started this browser" in answers[-1]
    assert [one for one in answers if one.startswith("Connected")] == []


async def test_clients_that_come_and_go_leave_nothing_at_a_browser_that_stays(
    clients: Hub, running: Running
) -> None:
    ann, bob = clients.client(), clients.client()
    await ann.do("chrome_connect", port=running.port)
    browser = ann.toolbox._workspace.find().browser  # type: ignore[union-attr]
    before = (len(browser.on_end), len(browser.users), len(browser.connection._handlers), len(browser.tabs))
    for _ in range(3):
        await bob.do("chrome_connect", port=running.port)
        await bob.do("chrome_disconnect", connection_id="default")
    after = (len(browser.on_end), len(browser.users), len(browser.connection._handlers), len(browser.tabs))
    assert after == before


async def test_the_address_of_a_page_is_refused_with_what_to_use(running: Running) -> None:
    page = running.address.replace("/devtools/browser/", "/devtools/page/")
    with pytest.raises(AttachError, match="use the `port` of its browser"):
        await find_address(page, 0, "", OPTIONS)
