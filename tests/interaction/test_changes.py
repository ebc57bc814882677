"""Changes while clients are connected: of the configuration, of a server's tools, and a broken edit.

A legacy and a modern client watch one gateway over HTTP at the same time; each has to be told in its own way.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from tests.interaction.harness import (
    WAIT_S,
    HttpGateway,
    Mode,
    call,
    cli,
    faulty,
    listed,
    over_stdio,
    serving,
    text_of,
    write_settings,
)
from tests.interaction.requirements import requirement

from maitred.meta_tools.menu import META_TOOLS

pytestmark = pytest.mark.anyio

ALL = {"mode": "all"}
ONE = {"counter": faulty("count")}
TWO = {"counter": faulty("count"), "second": faulty("changing-tools")}


class Bell:
    """Rings when a client is told of a change; `heard` are the rings that a test has dealt with."""

    def __init__(self) -> None:
        self.rung = 0
        self.heard = 0
        self._next = anyio.Event()

    def ring(self) -> None:
        self.rung += 1
        self._next.set()
        self._next = anyio.Event()

    def next(self) -> anyio.Event:
        """Set by the next ring; ask before looking at what may have changed."""
        return self._next


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """A client and the bell that its notices ring."""

    client: Client
    bell: Bell

    async def told(self, change: Callable[[set[str]], bool]) -> set[str]:
        """The names in the list, once the client was told of a change that makes them fit."""
        while True:
            ring, rung = self.bell.next(), self.bell.rung
            names = {tool.name for tool in await listed(self.client)}
            if change(names) and rung > self.bell.heard:
                self.bell.heard = self.bell.rung
                return names
            await ring.wait()


@asynccontextmanager
async def watching(open_client: Callable[..., Any], mode: Mode) -> AsyncIterator[Watcher]:
    """Open a client of one era that is told of changes: by notifications, or by a stream that it opens."""
    bell = Bell()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            bell.ring()

    async def follow(client: Client, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with client.listen(tools_list_changed=True) as subscription:
            task_status.started()
            async for _ in subscription:
                bell.ring()

    handler = on_message if mode == "legacy" else None
    async with open_client(mode, message_handler=handler) as client, anyio.create_task_group() as tasks:
        if mode == "auto":
            await tasks.start(follow, client)
        yield Watcher(client=client, bell=bell)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def both_eras(gateway: HttpGateway) -> AsyncIterator[list[Watcher]]:
    async with watching(gateway.connect, "legacy") as legacy, watching(gateway.connect, "auto") as modern:
        for watcher in (legacy, modern):
            await listed(watcher.client)
            watcher.bell.heard = watcher.bell.rung
        yield [legacy, modern]


async def all_told(watchers: Iterable[Watcher], change: Callable[[set[str]], bool]) -> None:
    """Wait until every client was told, whatever the order."""
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            for watcher in watchers:
                tasks.start_soon(watcher.told, change)


@requirement("change:announced")
async def test_both_eras_are_promised_change_notices(tmp_path: Path) -> None:
    """Without `listChanged` in the capabilities a client would not listen. Source: specification, tools."""
    with serving(write_settings(tmp_path, ONE, disclosure=ALL)) as gateway:
        for mode in ("legacy", "auto"):
            async with gateway.connect(mode) as client:
                assert client.server_capabilities.tools is not None
                assert client.server_capabilities.tools.list_changed


@requirement("change:added", "change:removed")
async def test_a_server_added_to_or_removed_from_the_file_reaches_both_eras(tmp_path: Path) -> None:
    """The gateway follows its configuration file while it serves. Source: issue 2."""
    config = write_settings(tmp_path, ONE, disclosure=ALL)
    with serving(config) as gateway:
        async with both_eras(gateway) as watchers:
            write_settings(tmp_path, TWO, disclosure=ALL)
            await all_told(watchers, lambda names: "second__add_tool" in names and "counter__add" in names)
            result = await watchers[0].client.call_tool("second__echo", {"text": "new here"})
            assert text_of(result) == "new here"

            write_settings(tmp_path, {"second": TWO["second"]}, disclosure=ALL)
            await all_told(watchers, lambda names: all(name.startswith("second__") for name in names))
            assert not [line for line in gateway.servers() if line.endswith(" count")]


@requirement("change:cli")
async def test_the_commands_add_and_remove_reach_a_running_gateway(tmp_path: Path) -> None:
    """`maitred add` says that a running gateway takes the server over at once. Source: its help text."""
    config = write_settings(tmp_path, ONE, disclosure=ALL)
    added = TWO["second"]
    with serving(config) as gateway:
        async with both_eras(gateway) as watchers:
            done = await run_cli(config, "add", "second", "--", added["command"], *added["args"])
            assert done.returncode == 0, done.stderr
            await all_told(watchers, lambda names: "second__echo" in names)

            assert (await run_cli(config, "remove", "second")).returncode == 0
            await all_told(watchers, lambda names: not any(name.startswith("second__") for name in names))


@requirement("change:tools")
async def test_a_server_that_changes_its_tools_reaches_both_eras(tmp_path: Path) -> None:
    """A backend's own list_changed is passed on, to clients that did not cause it too. Source: issue 2."""
    config = write_settings(tmp_path, {"second": TWO["second"]}, disclosure=ALL)
    with serving(config) as gateway:
        async with both_eras(gateway) as watchers:
            await watchers[0].client.call_tool("second__add_tool", {"name": "fresh"})
            await all_told(watchers, lambda names: "second__fresh" in names)
            assert text_of(await watchers[1].client.call_tool("second__fresh", {})) == "called fresh"

            await watchers[1].client.call_tool("second__remove_tool", {"name": "fresh"})
            await all_told(watchers, lambda names: "second__fresh" not in names)


@requirement("change:stdio")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_changes_reach_a_client_over_standard_streams(tmp_path: Path, mode: Mode) -> None:
    """The notices go over the same pipe as the answers, in both eras. Source: issue 2."""
    config = write_settings(tmp_path, {"second": TWO["second"]}, disclosure=ALL)

    def connect(era: Mode, **options: Any) -> Any:
        return over_stdio(config, era, **options)

    async with watching(connect, mode) as watcher:
        assert len(await listed(watcher.client)) == 3
        await watcher.client.call_tool("second__add_tool", {"name": "fresh"})
        await all_told([watcher], lambda names: "second__fresh" in names)


@requirement("change:menu")
async def test_behind_the_menu_a_new_server_can_be_found_and_called(tmp_path: Path) -> None:
    """The list stays the menu; what search finds and what can be called follows the file. Source: issue 2."""
    config = write_settings(tmp_path, ONE, disclosure={"mode": "menu"})
    with serving(config) as gateway:
        async with both_eras(gateway) as watchers:
            write_settings(tmp_path, TWO, disclosure={"mode": "menu"})
            await all_told(watchers, lambda names: set(names) == set(META_TOOLS))
            for watcher in watchers:
                await until_found(watcher, "second__add_tool")
            assert text_of(await call(watchers[1].client, "second__echo", {"text": "hello"})) == "hello"


@requirement("change:broken")
async def test_a_broken_edit_keeps_what_was_served_and_the_next_good_one_counts(tmp_path: Path) -> None:
    """Faults of the file are reported, and nothing that worked is lost. Source: issue 2."""
    config = write_settings(tmp_path, ONE, disclosure=ALL)
    with serving(config) as gateway:
        async with both_eras(gateway) as watchers:
            for broken in ("servers: [", "servers:\n  counter:\n    comand: python\n"):
                seen = len(gateway.output.lines)
                await anyio.Path(config).write_text(broken)
                await gateway.says_after(seen, "the changed configuration is not used")
                for watcher in watchers:
                    assert len(await listed(watcher.client)) == 3
                    result = await watcher.client.call_tool("counter__add", {"a": 2, "b": 40})
                    assert text_of(result) == "42"
            assert any("did you mean `command`" in line for line in gateway.output.lines)

            write_settings(tmp_path, TWO, disclosure=ALL)
            await all_told(watchers, lambda names: "second__echo" in names)


async def until_found(watcher: Watcher, name: str) -> None:
    """Wait until search finds a tool, looking again whenever the client is told of a change."""
    with anyio.fail_after(WAIT_S):
        while True:
            ring = watcher.bell.next()
            asked = {"phrases": ["add a tool"], "server": "second"}  # refused until the server is known
            if name in text_of(await watcher.client.call_tool("search_tools", asked)):
                return
            await ring.wait()


async def run_cli(config: Path, *arguments: str) -> Any:
    return await anyio.to_thread.run_sync(lambda: cli(config, *arguments))
