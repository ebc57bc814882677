"""Which clients share a process of a server: real processes, behind the socket of a gateway and over HTTP."""

import json
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.backends.rig import eventually, is_gone
from tests.daemon.home import at_home
from tests.daemon.visitors import Place, Visitor, place_of, stateless
from tests.interaction.harness import Mode, cli, over_http, serving, write_settings
from tests.interaction.harness import text_of as text_of_blocks
from tests.support.real_servers import NPM, OWN
from tests.support.share_server import URI

from maitred.access.tokens import TokenRequest
from maitred.backends import instances
from maitred.config.load import load
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, Scope, Viewer
from maitred.model.servers import Share
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "support" / "share_server.py"
SHARES: tuple[Share, ...] = ("all", "project", "client", "principal")


def entry(name: str, **keys: Any) -> dict[str, Any]:
    """A server that keeps a state in its process."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), name], "era": "handshake", **keys}


@asynccontextmanager
async def sharing(
    folder: Path, servers: Mapping[str, Any], **sections: Any
) -> AsyncIterator[tuple[Gateway, Place]]:
    """A gateway that knows its servers, with its socket."""
    config = folder / "maitred.yaml"
    config.write_text(json.dumps({"servers": servers, "catalog": {"path": "c.db"}, **sections}))
    with anyio.fail_after(120):
        async with open_gateway(load(config)) as gateway, place_of(gateway) as place:
            assert await gateway.settled(60)
            yield gateway, place


def text_of(result: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


class User:
    """One client, over the socket."""

    def __init__(self, visitor: Visitor, *, is_stateless: bool = False) -> None:
        self.visitor = visitor
        self._is_stateless = is_stateless

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.visitor.ask(method, **(stateless(**params) if self._is_stateless else params))

    async def call(self, tool: str, **arguments: Any) -> str:
        return text_of((await self.ask("tools/call", name=tool, arguments=arguments))["result"])

    async def listen(self, uri: str) -> None:
        """Open a stream of the stateless era, and wait until it is acknowledged."""
        params = stateless(notifications={"resourceSubscriptions": [uri]})
        await self.visitor.say({"id": "stream", "method": "subscriptions/listen", "params": params})
        assert (await self.visitor.hear())["method"] == "notifications/subscriptions/acknowledged"

    async def updated(self) -> str:
        """The resource of the next notice of a change."""
        while (message := await self.visitor.hear()).get("method") != "notifications/resources/updated":
            pass
        return str(message["params"]["uri"])

    async def pid(self, server: str) -> int:
        return int(json.loads(await self.call(f"{server}__where"))["pid"])

    async def folder(self, server: str) -> str:
        return str(json.loads(await self.call(f"{server}__where"))["folder"])


class Users:
    """Clients that come and go."""

    def __init__(self, place: Place, stack: AsyncExitStack) -> None:
        self._place = place
        self._stack = stack

    async def come(
        self, client: str, folder: Path | str = "", *, token: str = "", is_stateless: bool = False
    ) -> User:
        start = {"client": client, "folder": str(folder)}
        visitor = await self._stack.enter_async_context(self._place.client(start=start, token=token))
        if not is_stateless:
            await visitor.shake_hands()
        return User(visitor, is_stateless=is_stateless)


@asynccontextmanager
async def users(place: Place) -> AsyncIterator[Users]:
    async with AsyncExitStack() as stack:
        yield Users(place, stack)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "one", tmp_path / "two $HOME"
    for folder in made:
        folder.mkdir()
    return made


async def token_of(gateway: Gateway, name: str) -> str:
    request = TokenRequest(name=name, role="agent", scope=Scope())
    return (await gateway.make_token(request, LOCAL_USER)).token


async def test_clients_share_a_process_as_the_server_says(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    """Two clients in one folder, a third in another, a fourth with a token in the first."""
    one, two = folders
    servers: dict[str, Any] = {share: entry("state", share=share) for share in SHARES}
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        ann = await token_of(gateway, "ann")
        clients = [
            await come.come("a", one),
            await come.come("b", one, is_stateless=True),
            await come.come("c", two),
            await come.come("d", one, token=ann),
        ]
        pids = {share: [await client.pid(share) for client in clients] for share in SHARES}
        assert len(set(pids["all"])) == 1
        a, b, c, d = pids["project"]
        assert a == b
        assert len({a, c, d}) == 3
        assert len(set(pids["client"])) == 4
        a, b, c, d = pids["principal"]
        assert a == b == c != d

        found = await place.door.status(LOCAL_GRANT)
        told = {server["name"]: server for server in found["servers"]}
        assert [told[share]["share"] for share in SHARES] == list(SHARES)
        assert [len(told[share]["instances"]) for share in SHARES] == [0, 3, 4, 1]
        assert {one["folder"] for one in told["project"]["instances"]} == set(map(str, folders))
        assert {one["pid"] for one in told["client"]["instances"]} == set(pids["client"])
        assert told["client"]["share_reason"] == "it is configured so"


async def test_an_instance_runs_in_the_folder_of_its_client_unless_it_has_one_of_its_own(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """A folder with a dollar sign is no reference. A root is the folder, too."""
    own = tmp_path / "own"
    own.mkdir()
    servers = {
        "project": entry("state", share="project"),
        "fixed": entry("state", share="client", cwd=str(own)),
        "all": entry("state"),
    }
    async with sharing(tmp_path, servers) as (_, place), users(place) as come:
        for number, folder in enumerate(folders):
            client = await come.come(str(number), folder)
            assert await client.folder("project") == str(folder)
            assert await client.folder("fixed") == str(own)
            assert await client.folder("all") == str(Path.cwd())
            assert json.loads(await client.call("project__roots")) == [folder.as_uri()]
            assert json.loads(await client.call("fixed__roots")) == [folder.as_uri()]
            assert await client.call("all__roots") == "[]"  # it may ask, and this client has none
        nowhere = await come.come("n", Path.home())
        assert await nowhere.folder("project") == str(Path.cwd())


MATES: Mapping[str, Sequence[str]] = {
    "all": ["abcd"],
    "project": ["ab", "c", "d"],
    "client": ["a", "b", "c", "d"],
    "principal": ["abc", "d"],
}
"""Which of four clients share: `a` and `b` are in one folder, and `d` is another principal."""


class Steps:
    """What four clients do, and what each of them may see of it."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], set[int]] = {}
        self._begun: set[tuple[str, str]] = set()
        self._done: set[tuple[str, str]] = set()
        self.pids: dict[tuple[str, str], set[int]] = {}

    async def work(self, name: str, client: User, shares: Sequence[str]) -> None:
        for number, share in enumerate(shares):
            group = next(group for group in MATES[share] if name in group)
            await (self.remember, self.recall, self.touch, self.count, self.count)[number % 5](
                client, share, group, f"{name}{number}"
            )

    async def remember(self, client: User, share: str, group: str, name: str) -> None:
        assert await client.call(f"{share}__remember", name=name, text=group) == "noted"

    async def recall(self, client: User, share: str, group: str, name: str) -> None:
        facts = json.loads((await client.call(f"{share}__recall")).removesuffix("[cached]"))
        assert set(facts.values()) <= {group}, (name, share, facts)

    async def touch(self, client: User, share: str, group: str, name: str) -> None:
        """It is visible once something was counted, by this client if all share the process."""
        at = (share, name[0] if share == "all" else group)
        was_done = at in self._done
        answer = await client.call(f"{share}__touch")
        if was_done:
            assert answer == "touched", (name, share)
        elif at not in self._begun:
            assert "touched" not in answer, (name, share)

    async def count(self, client: User, share: str, group: str, name: str) -> None:
        at = (share, name[0] if share == "all" else group)
        self._begun.add(at)
        pid, count = map(int, (await client.call(f"{share}__count")).split()[:2])
        self._done.add(at)
        self.pids.setdefault((share, group), set()).add(pid)
        seen = self._counted.setdefault((share, group), set())
        assert count not in seen
        seen.add(count)

    def check(self) -> None:
        """No count was lost, and each group had one process of its own."""
        for share, groups in MATES.items():
            pids = [self.pids[share, group] for group in groups]
            assert all(len(found) == 1 for found in pids)
            assert len(set().union(*pids)) == len(groups)
            for group in groups:
                counts = self._counted[share, group]
                assert counts == set(range(1, len(counts) + 1))


async def test_four_clients_never_see_what_is_anothers(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    """1,000 interleaved steps with one server of each kind. Source: issue 17, "Done when"."""
    rules = {
        "facts": {"counted": False},
        "on_success": {"count": {"counted": True}},
        "visible_when": {"touch": "counted"},
    }
    servers: dict[str, Any] = {
        share: entry("state", share=share, visibility=rules, cache_s=60) for share in SHARES
    }
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        clients = {
            "a": await come.come("a", folders[0]),
            "b": await come.come("b", folders[0], is_stateless=True),
            "c": await come.come("c", folders[1]),
            "d": await come.come("d", folders[0], token=await token_of(gateway, "ann")),
        }
        chance, steps = random.Random(17), Steps()
        async with anyio.create_task_group() as tasks:
            for name, client in clients.items():
                tasks.start_soon(steps.work, name, client, [chance.choice(SHARES) for _ in range(250)])
        steps.check()


async def test_a_change_of_a_resource_is_told_to_the_clients_of_that_process_alone(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """Both eras; who shares the process hears of it, and reads what is there."""
    servers = {"notes": entry("state", share="project")}
    uri = f"maitred://resource/notes/{URI}"
    async with sharing(tmp_path, servers) as (_, place), users(place) as come:
        here = [await come.come("a", folders[0]), await come.come("b", folders[0])]
        there = await come.come("c", folders[1])
        modern = [
            await come.come("d", folders[0], is_stateless=True),
            await come.come("e", folders[1], is_stateless=True),
        ]
        for user in (*here, there):
            assert "result" in await user.ask("resources/subscribe", uri=uri)
        for user in modern:
            await user.listen(uri)
        await here[0].call("notes__count")
        await here[0].call("notes__touch")
        assert [await user.updated() for user in (*here, modern[0])] == [uri] * 3
        texts = [
            (await user.ask("resources/read", uri=uri))["result"]["contents"][0]["text"].split()[1]
            for user in (*here, there)
        ]
        assert texts == ["1", "1", "0"]
        await there.call("notes__touch")
        assert [await user.updated() for user in (there, modern[1])] == [uri] * 2
        for user in here:
            await user.ask("ping")
            assert user.visitor.notices.count("notifications/resources/updated") == 0


async def test_at_the_cap_the_longest_idle_process_makes_room_and_no_busy_one_does(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """With all in use a call is refused with the reason; another server has a cap of its own."""
    servers = {"state": entry("state", share="client", share_max=2)}
    async with sharing(tmp_path, servers) as (_, place), users(place) as come:
        a, b, c = [await come.come(name) for name in "abc"]
        first = await a.pid("state")
        second = await b.pid("state")
        third = await c.pid("state")
        assert is_gone(first)
        assert await b.pid("state") == second

        async with anyio.create_task_group() as tasks:
            for user in (b, c):
                tasks.start_soon(partial(user.call, "state__rest", seconds=2))
            await eventually(lambda: in_flight(place) == 2)
            refused = await a.call("state__count")
        assert "each of the 2 that may run for clients is in use by other clients" in refused
        assert "share_max" in refused
        assert await a.pid("state") not in (first, second, third)
        assert len([pid for pid in (second, third) if is_gone(pid)]) == 1


def in_flight(place: Place) -> int:
    [status] = place.gateway.watched_servers(LOCAL_USER)
    return status.health.in_flight


async def test_a_process_ends_soon_after_its_only_client_unless_it_comes_back(
    tmp_path: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a project stays until it has been idle for long enough."""
    monkeypatch.setattr(instances, "GRACE_S", 1.0)
    servers = {"own": entry("state", share="client"), "ours": entry("state", share="project")}
    async with sharing(tmp_path, servers) as (_, place):
        async with users(place) as come:
            user = await come.come("a", folders[0])
            own, ours = await user.pid("own"), await user.pid("ours")
        async with users(place) as come:
            again = await come.come("a", folders[0])
            assert await again.pid("own") == own
            other = await come.come("b", folders[0])
            assert await other.pid("own") != own
        await eventually(lambda: is_gone(own))
        assert not is_gone(ours)


async def test_an_idle_process_of_a_project_is_stopped(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    servers = {"ours": entry("state", share="project", idle_stop_s=0.3)}
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        user = await come.come("a", folders[0])
        pid = await user.pid("ours")
        await eventually(lambda: is_gone(pid))
        await eventually(lambda: gateway.watched_server("ours", LOCAL_USER).health.state == "idle")
        assert gateway.watched_server("ours", LOCAL_USER).instances == []
        assert await user.pid("ours") != pid


async def test_what_ends_for_one_client_is_refused_to_it_and_serves_the_others(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """The budget of restarts counts for each process; the server is not suspended for all."""
    servers = {"state": entry("state", share="project")}
    supervision = {"restarts": 1, "window_s": 60}
    async with sharing(tmp_path, servers, supervision=supervision) as (_, place), users(place) as come:
        unlucky, well = await come.come("a", folders[0]), await come.come("b", folders[1])
        pid = await well.pid("state")
        for _ in range(2):
            assert "exited with code 3" in await unlucky.call("state__die")
        refused = await unlucky.call("state__where")
        assert "had to be started again once within 60 s" in refused
        assert await well.pid("state") == pid
        [server] = (await place.door.status(LOCAL_GRANT))["servers"]
        assert server["withheld"] == ""
        states = {one["folder"]: one["state"] for one in server["instances"]}
        assert states == {str(folders[0]): "failed", str(folders[1]): "ready"}


async def test_a_configuration_that_shares_otherwise_ends_what_no_client_uses_any_more(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """The default process goes on: how it runs has not changed."""
    servers = {"state": entry("state", share="client")}
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        a, b = await come.come("a", folders[0]), await come.come("b", folders[0])
        before = {await a.pid("state"), await b.pid("state")}
        changed = {"state": replace(gateway.settings.servers["state"], share="project")}
        await gateway.configure(replace(gateway.settings, servers=changed), viewer=LOCAL_USER)
        assert all(map(is_gone, before))
        assert await a.pid("state") == await b.pid("state")


async def test_callers_who_are_no_client_get_the_default_process_or_one_of_their_own_principal(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """As those of the HTTP API: never that of a client."""
    servers: dict[str, Any] = {share: entry("state", share=share) for share in SHARES}

    async def pid(gateway: Gateway, share: str, viewer: Viewer) -> int:
        answer = await gateway.call(ToolCall(name=f"{share}__where", arguments={}), viewer=viewer)
        return int(json.loads(text_of(answer))["pid"])

    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        client = await come.come("a", folders[0])
        caller = Viewer(grant=replace(LOCAL_GRANT, principal="ann"), surface="http")
        for share in SHARES:
            taken = await client.pid(share)
            local = await pid(gateway, share, replace(LOCAL_USER, surface="http"))
            assert local == gateway.watched_server(share, LOCAL_USER).health.pid
            assert (local == taken) is (share in ("all", "principal"))
            assert (await pid(gateway, share, caller) in (taken, local)) is (share == "all")


async def test_real_servers_work_in_the_folder_of_each_client(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """They are known, so nothing is configured. The file server works on the root that it gets."""
    for number, folder in enumerate(folders):
        await anyio.run_process(["git", "init", "-q", "-b", f"branch-{number}"], cwd=folder)
    servers = {
        "files": {"command": str(NPM / "mcp-server-filesystem")},
        "git": {"command": str(OWN / "mcp-server-git")},
        "thoughts": {"command": str(NPM / "mcp-server-sequential-thinking"), "share": "client"},
    }
    thought = {"thought": "x", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        shared = {status.name: status.sharing for status in gateway.watched_servers(LOCAL_USER)}
        assert shared["files"] == ("project", "it works on the files of a folder")
        assert shared["git"] == ("project", "it works on a repository")
        clients = [await come.come(str(number), folder) for number, folder in enumerate(folders)]
        for number, (client, folder) in enumerate(zip(clients, folders, strict=True)):
            with anyio.fail_after(60):  # it looks at the folder after it has taken the name in
                while str(folder) not in await client.call("files__list_allowed_directories"):
                    await anyio.lowlevel.checkpoint()
            assert f"branch-{number}" in await client.call("git__git_status", repo_path=".")
            for count in (1, 2):
                answer = json.loads(await client.call("thoughts__sequentialthinking", **thought))
                assert answer["thoughtHistoryLength"] == count


async def test_a_server_that_starts_in_a_project_alone_is_listed_in_that_of_the_first_client(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """In the home folder it exits."""
    script = "import os, runpy, sys; 'one' in os.getcwd() or sys.exit('no project'); sys.argv = sys.argv[1:]"
    run = f"{script}; runpy.run_path(sys.argv[0], run_name='__main__')"
    args = ["-I", "-S", "-c", run, str(SERVER), "state"]
    servers = {"index": {"command": sys.executable, "args": args, "era": "handshake", "share": "project"}}
    async with sharing(tmp_path, servers) as (gateway, place), users(place) as come:
        assert "exited with code 1" in gateway.watched_server("index", LOCAL_USER).error
        client = await come.come("a", folders[0])
        await eventually(lambda: gateway.watched_server("index", LOCAL_USER).tools > 0)
        assert await client.folder("index") == str(folders[0])


async def test_connections_over_http_are_clients_of_their_own(tmp_path: Path) -> None:
    """A session of the handshake era is one client; stateless requests are those of their principal."""
    servers = {"own": entry("state", share="client"), "ours": entry("state", share="project")}
    config = write_settings(tmp_path, servers, disclosure={"mode": "all"})
    cli(config, "doctor")
    with serving(config) as gateway:
        async with AsyncExitStack() as stack:
            kinds: list[Mode] = ["legacy", "legacy", "auto", "auto"]
            clients = [await stack.enter_async_context(over_http(gateway.url, kind)) for kind in kinds]
            pids = {
                name: [
                    json.loads(text_of_blocks(await client.call_tool(f"{name}__where", {})))["pid"]
                    for client in clients
                ]
                for name in servers
            }
        first, second, third, fourth = pids["own"]
        assert third == fourth
        assert len({first, second, third}) == 3
        assert len(set(pids["ours"])) == 1


async def test_real_clients_in_two_folders_share_a_gateway_and_status_shows_their_processes(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """One that serves a client alone has one process, in its folder."""
    servers = {"state": entry("state", share="client")}
    async with at_home(tmp_path) as home:
        home.write(servers, disclosure={"mode": "all"})
        cli(home.config, "doctor")
        clients = [await home.started_in(folder) for folder in folders]
        told = [json.loads(await client.call("state__where")) for client in clients]
        assert [one["folder"] for one in told] == list(map(str, folders))
        assert len(home.daemons()) == 1
        status = await anyio.to_thread.run_sync(cli, home.config, "status")
        text = " ".join(status.stdout.split())
        assert "client: it is configured so" in text
        assert all(f"pid: {one['pid']};" in text for one in told), status.stdout
        for client in clients:
            await home.end(client)
        alone = await home.started_in(folders[1], "--no-daemon")
        assert json.loads(await alone.call("state__where"))["folder"] == str(folders[1])
        [gateway] = [one for one in await home.told() if one["transport"] == "stdio"]
        assert gateway["servers"][0]["instances"] == []
