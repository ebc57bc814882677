"""The gateway on PostgreSQL: real clients and servers, decisions of another process, and a restart."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from anyio import to_thread
from tests.interaction.harness import cli, listed, over_stdio, serving
from tests.interaction.listening import Listener, listening
from tests.support.jails import isolation
from tests.support.postgres import Postgres
from tests.support.real_servers import Place, require, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.xdist_group("postgres")]

SECRET = "orange-kettle"


class Commands:
    """Commands of other processes, which have the address of the database by a variable."""

    def __init__(self, config: Path, env: Mapping[str, str]) -> None:
        self._run = partial(cli, None, env={**env, "MAITRED_CONFIG": str(config)})
        self.printed: list[str] = []

    async def run(self, *words: str) -> str:
        """What a command prints that must not fail."""
        done: subprocess.CompletedProcess[str] = await to_thread.run_sync(partial(self._run, *words))
        assert done.returncode == 0, done.stderr
        self.printed += [done.stdout, done.stderr]
        return done.stdout


def with_password(url: str) -> str:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{SECRET}@{host}"))


def files_in(folder: Path, pattern: str) -> Sequence[Path]:
    return list(folder.rglob(pattern))


async def offers(listener: Listener, name: str) -> None:
    """Wait until a client lists a tool; it lists again whenever the gateway announces a change."""
    while True:
        heard = len(listener.told)
        if name in {tool.name for tool in await listed(listener.client)}:
            return
        await listener.hears("tools", heard)


async def test_a_catalog_in_postgresql_serves_clients_hears_of_decisions_and_outlives_the_gateway(
    tmp_path: Path, postgres: Postgres
) -> None:
    """Search, calls, registration, approval, tokens, audit trail and usage; the password is never shown."""
    git, files, time = require("git", "filesystem", "time")
    env = {"CATALOG_URL": with_password(postgres.new_database())}
    env["XDG_STATE_HOME"] = os.environ["XDG_STATE_HOME"]
    config = write_config(
        tmp_path,
        [git, files],
        catalog={"url": "${env:CATALOG_URL}"},
        disclosure={"mode": "all"},
        isolation={"jail": isolation().jail},
    )
    manifest = tmp_path / "time.yml"
    manifest.write_text(json.dumps({"name": "time", **time.entry(tmp_path)}), encoding="utf-8")
    commands = Commands(config, env)
    place = Place(folder=tmp_path)

    with serving(config, env=env) as gateway:
        async with listening(partial(gateway.connect, "auto"), "auto") as listener:
            for server in (git, files):
                for one in server.calls(place):
                    answer = await listener.client.call_tool(f"{server.name}__{one.tool}", one.arguments)
                    one.assert_answered(answer)

            await commands.run("register", str(manifest))
            await commands.run("approve", "time", "--yes")
            await offers(listener, "time__convert_time")
            for one in time.calls(place):
                one.assert_answered(await listener.client.call_tool(f"time__{one.tool}", one.arguments))
        await commands.run("tokens", "create", "ann", "--role", "agent")
        status = await commands.run("status", "--json")
        log = gateway.output.lines

    assert "postgres" in json.loads(status)[0]["catalog"]["path"]
    assert "ann" in await commands.run("tokens", "list")
    assert "time/convert_time" in await commands.run("audit")
    assert "each is as it was written" in await commands.run("audit", "verify")
    used = json.loads(await commands.run("stats", "--json"))["used"]
    assert {"git__git_log", "filesystem__write_file", "time__convert_time"} <= used.keys()

    async with over_stdio(config, "legacy", env=env) as client:
        names = {tool.name for tool in await listed(client)}
        assert {"git__git_log", "filesystem__write_file", "time__convert_time"} <= names
        for one in time.calls(place):
            one.assert_answered(await client.call_tool(f"time__{one.tool}", one.arguments))
    assert "time__convert_time" in await commands.run("search", "convert time between zones")
    again = json.loads(await commands.run("stats", "--json"))["used"]
    assert again["time__convert_time"]["calls"] == used["time__convert_time"]["calls"] + 1
    assert SECRET not in "\n".join([*commands.printed, *log, (tmp_path / "stdio.log").read_text("utf-8")])
    assert not files_in(tmp_path, "*.db")
