"""One gateway in the background for all clients: real processes, started, killed and counted."""

import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.backends.rig import is_gone
from tests.daemon.home import WAIT_S, Home, Stateless, at_home, spied, starts
from tests.faults.client import Client
from tests.interaction.harness import cli, faulty, opened, text_of

from maitred.config.paths import state_folder
from maitred.surfaces.daemon.handshake import GatewayConnection
from maitred.surfaces.daemon.liveness import answers, end_gateway
from maitred.surfaces.daemon.session_replay import LOST
from maitred.surfaces.daemon.sockets import address_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with at_home(tmp_path) as made:
        yield made


async def pid_of(client: Client, server: str) -> int:
    return int(await client.call(f"{server}__pid"))


async def test_five_clients_share_one_process_of_each_server_until_the_last_has_gone(
    home: Home, tmp_path: Path
) -> None:
    """Of both eras, started at once, killed in random order; every call is answered. Source: issue 8."""
    logs = [tmp_path / name for name in ("one", "two")]
    home.write({log.name: spied(log) for log in logs}, daemon={"idle_timeout": 0.5})
    clients: list[Client] = []
    pids: dict[str, set[int]] = {log.name: set() for log in logs}

    async def start(kind: type[Client]) -> None:
        clients.append(await home.started_as(kind))

    async def use(client: Client) -> None:
        for name, found in pids.items():
            found.add(await pid_of(client, name))

    async with anyio.create_task_group() as tasks:
        for kind in (Client, Stateless, Client, Stateless, Client):
            tasks.start_soon(start, kind)
    [daemon] = home.daemons()
    for name in pids:  # only the older era is told by itself what is new
        await next(client for client in clients if type(client) is Client).echo(name)
    assert [told["clients"] for told in await home.told()] == [5]

    random.shuffle(clients)
    while clients:
        victim = clients.pop()
        await victim.send("tools/call", name="call_tool", arguments={"name": "one__pid", "arguments": {}})
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(use, client)
            victim.signal(signal.SIGKILL)
        await home.end(victim)
        assert home.daemons() in ([daemon], [])

    await home.gone(daemon, *pids["one"], *pids["two"])
    assert {name: len(found) for name, found in pids.items()} == {"one": 1, "two": 1}
    assert [starts(log) for log in logs] == [1, 1]
    assert home.seats() == []


async def test_a_gateway_that_is_killed_while_calls_run_is_replaced_and_each_call_answered_once(
    home: Home,
) -> None:
    """In both eras, without the clients' doing; what it had started is gone. Source: issue 8."""
    home.write({"slow": faulty("slow-call"), "counter": faulty("count")})
    stateless = StdioServerParameters(command=sys.executable, args=home.command()[1:], env=dict(os.environ))
    async with home.client() as old, opened(stdio_client(stateless), "auto") as new:
        await old.echo("counter")
        [daemon] = home.daemons()
        server = await pid_of(old, "counter")
        lost: list[Any] = []

        async def call() -> None:
            arguments = {"name": "slow__wait", "arguments": {"seconds": 1000}}
            lost.append(await new.call_tool("call_tool", arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await home.running("slow")
            arguments = {"name": "counter__add", "arguments": {"a": 1, "b": 2}}
            await old.send("tools/call", name="call_tool", arguments=arguments)
            assert (await old.answer())["result"]["content"][0]["text"] == "3"
            number = await old.send(
                "tools/call",
                name="call_tool",
                arguments={"name": "slow__wait", "arguments": {"seconds": 999}},
            )
            await home.running("slow", 2)
            listing = await old.send("tools/list")
            os.kill(daemon, signal.SIGKILL)
            answers = {answer["id"]: answer["result"] for answer in [await old.answer(), await old.answer()]}

        assert answers[number]["isError"]
        assert answers[number]["content"][0]["text"] == LOST
        assert answers[listing]["tools"]
        assert text_of(lost[0]) == LOST
        assert lost[0].is_error
        assert [tool.name for tool in (await new.list_tools(cache_mode="refresh")).tools]
        [another] = home.daemons()
        assert another != daemon
        assert await pid_of(old, "counter") != server
        result = await new.call_tool("call_tool", {"name": "counter__add", "arguments": {"a": 2, "b": 40}})
        assert text_of(result) == "42"
        await home.gone(daemon, server)


async def test_clients_with_other_credentials_do_not_share_and_each_gateway_can_be_seen_and_stopped(
    home: Home,
) -> None:
    """A variable that the configuration refers to decides. `stop` ends both; the next request starts one."""
    home.write({"counter": faulty("count") | {"env": {"TOKEN": "${WHO:-nobody}"}}})
    clients: dict[str, Client] = {}

    async def start(name: str, **environment: str) -> None:
        clients[name] = await home.started(**environment)

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(start, "ann", WHO="ann"))
            tasks.start_soon(partial(start, "bob", WHO="bob"))
            tasks.start_soon(partial(start, "again", WHO="ann", OTHER="x"))
        ann, bob, again = (clients[name] for name in ("ann", "bob", "again"))
        for client in (ann, bob):
            await client.echo("counter")
        servers = [await pid_of(client, "counter") for client in (ann, bob, again)]
        assert servers[0] == servers[2] != servers[1]
        assert sorted(told["clients"] for told in await home.told()) == [1, 2]
        daemons = home.daemons()

        shown = await anyio.to_thread.run_sync(cli, home.config, "status")
        assert shown.returncode == 0
        for words in (
            *(f"process {pid}" for pid in daemons),
            *map(str, servers),
            "counter",
            "ready",
            "on demand",
        ):
            assert words in shown.stdout
        stop = await anyio.to_thread.run_sync(cli, home.config, "stop")
        assert stop.returncode == 0, stop.stderr
        assert sorted(stop.stdout.splitlines()) == sorted(
            f"Stopped the gateway in the background (process {pid})." for pid in daemons
        )
        assert home.seats() == []
        assert all(map(is_gone, servers))
        nothing = await anyio.to_thread.run_sync(cli, home.config, "stop")
        assert nothing.returncode == 1
        assert "No gateway runs in the background" in nothing.stdout

        assert await pid_of(bob, "counter") not in servers
        assert len(home.daemons()) == 1


async def test_nothing_that_the_shared_gateway_makes_is_for_others(home: Home) -> None:
    """Neither its socket nor its locks nor its log, whatever the umask allows.

    Source: issue "What broke", 9.
    """
    home.write({"counter": faulty("count")})
    usual = os.umask(0)
    try:
        async with home.client():
            address = address_of(home.config)
            folders = {address.door.parent, state_folder()}
            made = {one: one.stat().st_mode & 0o777 for folder in folders for one in folder.rglob("*")}
    finally:
        os.umask(usual)
    assert address.door in made
    assert {one.name: oct(mode) for one, mode in made.items() if mode & 0o077} == {}


async def test_a_gateway_may_serve_one_client_alone_and_is_seen_all_the_same(home: Home) -> None:
    """By an option, or because the configuration says so."""
    home.write({"counter": faulty("count")}, daemon={"enabled": False})
    async with home.client() as client:
        assert [told["transport"] for told in await home.told()] == ["stdio"]
        assert [seat.pid() for seat in home.seats()] == [client.process.pid]
    home.write({"counter": faulty("count")})
    async with home.client("--no-daemon") as client:
        assert home.daemons() == []
        [told] = await home.told()
        assert (told["pid"], told["clients"]) == (client.process.pid, 1)
        client.signal(signal.SIGTERM)
        with anyio.fail_after(WAIT_S):  # its input stays open, and no thread waits for that
            assert await client.process.wait() == 0
    assert home.seats() == []


async def test_a_broken_configuration_is_named_until_it_is_mended_and_a_gateway_that_hangs_is_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that a gateway was taken from need not be started again. Source: issue 8."""
    home.write({"counter": faulty("count"), "slow": faulty("slow-call")})
    good = home.config.read_text()
    async with home.client() as client:
        [daemon] = home.daemons()
        home.config.write_text(f"# one\n{good.replace('command', 'comand')}")
        os.kill(daemon, signal.SIGKILL)
        await home.gone(daemon)
        await client.send("ping")
        assert "comand" in (await client.answer())["error"]["message"]
        said = await client.call("counter__pid")
        assert f"{home.config}: " in said
        assert "line 2" in said
        assert "comand" in said
        home.config.write_text(good)
        server = await pid_of(client, "counter")

        monkeypatch.setattr("maitred.surfaces.daemon.liveness._ANSWER_S", 0.3)
        [seat] = home.seats()
        talk = GatewayConnection(seat.socket, WAIT_S)
        arguments = {"name": "slow__wait", "arguments": {"seconds": 1000}}
        await client.send("tools/call", name="call_tool", arguments=arguments)
        await home.running("slow")
        os.kill(seat.pid(), signal.SIGSTOP)
        assert not await anyio.to_thread.run_sync(answers, talk)
        assert await anyio.to_thread.run_sync(end_gateway, talk)
        talk.close()
        assert (await client.answer())["result"]["content"][0]["text"] == LOST
        assert await pid_of(client, "counter") != server
        await home.gone(server)
