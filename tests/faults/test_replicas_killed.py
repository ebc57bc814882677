"""Replicas that are killed under load: no change is lost without an error, none is made twice, none hangs.

`MAITRED_KILLS=50` kills so many; `MAITRED_OUTAGE=30` stops PostgreSQL for so many seconds.
"""

import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import psutil
import pytest
from tests.interaction.harness import Output
from tests.support import prefork
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

ADMIN: Final = "a-token-of-the-operator"
KEY: Final = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
LEDGER: Final = Path(__file__).with_name("ledger_server.py")
SERVERS: Final = ("a", "b", "c")
KILLS: Final = int(os.environ.get("MAITRED_KILLS", "10"))
OUTAGE_S: Final = float(os.environ.get("MAITRED_OUTAGE", "0"))
BETWEEN_S: Final = 2.0
"""From a start to the next kill: calls run, and leases of replicas that were killed have not ended yet."""
HUNG_S: Final = 30.0
ROLES: Final = ("gateway", "runner", "both")


class ReplicaProcess:
    """A replica in a process of its own, which may be killed at any time."""

    def __init__(self, config: Path, role: str, state: Path) -> None:
        self.role = role
        read, write = os.pipe()
        errors = os.fdopen(read, encoding="utf-8", errors="replace")
        with os.fdopen(write, "w") as told, Path(os.devnull).open("r+", encoding="utf-8") as nothing:
            env = {name: value for name, value in os.environ.items() if not name.startswith("MAITRED_")}
            env |= {"XDG_STATE_HOME": str(state), "MAITRED_KEY": KEY, "MAITRED_ROLE": role}
            options = ["--config", str(config), "--transport", "http", "--port", "0"]
            self.process = prefork.start(["serve", *options], [nothing, nothing, told], env=env)
        self._errors = errors
        self.output = Output(errors)
        self.url = ""

    def wait(self) -> None:
        """Wait until it takes clients."""
        said = self.output.wait_for("maitred listens on ")
        self.url = said.rpartition(" ")[2].removesuffix("/mcp")

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.close()
        self.output.join()
        self._errors.close()


@dataclass
class Outcomes:
    """What callers heard of each change, by its id, and the longest that any of them waited."""

    answered: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def __str__(self) -> str:
        return f"{len(self.answered)} answered, failed {dict(self.reasons)}, longest {self.longest_s:.1f} s"


class Fleet:
    """Replicas of each role on one database, with callers at those that take clients."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.ledgers = {name: folder / f"{name}.txt" for name in SERVERS}
        self._config = folder / "maitred.yaml"
        servers = {
            name: {
                "command": sys.executable,
                "args": ["-I", "-S", str(LEDGER), str(path)],
                "era": "handshake",
            }
            for name, path in self.ledgers.items()
        }
        document = {
            "catalog": {"url": url},
            "http": {"token": ADMIN},
            "isolation": {"jail": "none"},
            "servers": servers,
        }
        self._config.write_text(json.dumps(document), encoding="utf-8")
        self.replicas = [ReplicaProcess(self._config, role, folder / "state") for role in ROLES]
        for one in self.replicas:
            one.wait()
        self.outcomes = Outcomes()
        self._ids = itertools.count(1)

    def replace(self, number: int) -> None:
        """Kill a replica, and start another one with its role."""
        old = self.replicas[number]
        old.kill()
        self.replicas[number] = ReplicaProcess(self._config, old.role, self.folder / "state")
        self.replicas[number].wait()

    def close(self) -> None:
        for one in self.replicas:
            one.process.terminate()
        for one in self.replicas:
            one.process.wait(60)
            one.close()

    async def call_for_ever(self) -> None:
        """Make one change after the other, at replicas that take clients."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=2 * HUNG_S) as client:
            while True:
                await self._call(client)

    async def _call(self, client: httpx2.AsyncClient) -> None:
        server, number = random.choice(SERVERS), next(self._ids)
        name, fronts = (
            f"{server}-{number}",
            [one for one in self.replicas if one.role != "runner" and one.url],
        )
        begun = time.monotonic()
        try:
            front = random.choice(fronts)
            path = f"{front.url}/api/v1/tools/{server}/add/call"
            answer = await client.post(path, json={"arguments": {"id": name}})
            if answer.status_code == 200 and not answer.json().get("isError"):
                self.outcomes.answered.append(name)
            else:
                self.outcomes.failed.append(name)
                self.outcomes.reasons[answer.json().get("error", "isError")] += 1
        except httpx2.HTTPError as error:
            self.outcomes.failed.append(name)
            self.outcomes.reasons[type(error).__name__] += 1
            await anyio.sleep(0.05)
        self.outcomes.longest_s = max(self.outcomes.longest_s, time.monotonic() - begun)

    def said(self) -> list[str]:
        """What the replicas wrote last, for who has to find out why a test failed."""
        return [f"{one.role}: {line}" for one in self.replicas for line in one.output.lines[-20:]]

    def check(self) -> None:
        """Compare what was answered with what was done."""
        done = Counter(
            line for path in self.ledgers.values() for line in path.read_text("utf-8").splitlines()
        )
        assert done.pop("overlap", 0) == 0, "two processes of one server ran at the same time"
        assert [name for name, times in done.items() if times > 1] == []
        assert [name for name in self.outcomes.answered if name not in done] == []
        assert self.outcomes.longest_s < HUNG_S

    def processes(self) -> list[psutil.Process]:
        """The processes of its servers, whoever started them."""
        return [one for one in psutil.process_iter(["cmdline"]) if str(self.folder) in _last_of(one)]


def say(text: str) -> None:
    """Show a figure to who runs the test with `-s`."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _last_of(process: psutil.Process) -> str:
    return str((process.info["cmdline"] or [""])[-1])


@contextmanager
def fleet_in(folder: Path, postgres: Postgres) -> Iterator[Fleet]:
    fleet = Fleet(folder, postgres.new_database())
    try:
        yield fleet
    finally:
        fleet.close()


async def test_killed_replicas_lose_and_double_no_change(tmp_path: Path, postgres: Postgres) -> None:
    """Whatever is killed, a gateway or a runner, each call ends, and each answer is true."""
    with fleet_in(tmp_path, postgres) as fleet:
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(fleet.call_for_ever)
            await eventually(lambda: len(fleet.outcomes.answered) > 20)
            for number in range(KILLS):
                await anyio.to_thread.run_sync(fleet.replace, random.randrange(len(ROLES)))
                await anyio.sleep(BETWEEN_S)
                say(f"{number}: {fleet.outcomes}")
            answered = len(fleet.outcomes.answered)
            await eventually(lambda: len(fleet.outcomes.answered) > answered + 50, HUNG_S)
            tasks.cancel_scope.cancel()
        say(f"{KILLS} kills: {fleet.outcomes}")
    await eventually(lambda: not fleet.processes(), HUNG_S)
    fleet.check()


@pytest.mark.skipif(not OUTAGE_S, reason="takes long: MAITRED_OUTAGE=30 runs it")
async def test_servers_go_on_reading_while_the_database_is_away(tmp_path: Path, postgres: Postgres) -> None:
    """Changes are refused and not made; all is well at once when it is back."""
    headers: dict[str, Any] = {"Authorization": f"Bearer {ADMIN}"}
    with fleet_in(tmp_path, postgres) as fleet:
        front = next(one for one in fleet.replicas if one.role == "gateway")
        async with httpx2.AsyncClient(
            base_url=f"{front.url}/api/v1/tools", headers=headers, timeout=60
        ) as client:

            async def call(tool: str) -> httpx2.Response:
                return await client.post(f"/{tool}/call", json={"arguments": {"id": "x"}})

            for server in SERVERS:
                assert (await call(f"{server}/read")).status_code == 200
            postgres.stop()
            until, reads = time.monotonic() + OUTAGE_S, 0
            while time.monotonic() < until:
                for server in SERVERS:
                    read = await call(f"{server}/read")
                    assert read.status_code == 200, "\n".join([read.text, *fleet.said()])
                    refused = await call(f"{server}/add")
                    assert (refused.status_code, refused.json()["error"]) == (503, "store_failed")
                    reads += 1
            await anyio.to_thread.run_sync(postgres.start)
            back = time.monotonic()
            while (answer := await call("a/add")).status_code != 200:
                assert time.monotonic() < back + HUNG_S, answer.text
            say(f"{reads} reads while it was away; the first change {time.monotonic() - back:.1f} s after")
    assert [path.exists() for path in fleet.ledgers.values()] == [True, False, False]
    assert fleet.ledgers["a"].read_text("utf-8").splitlines() == ["x"]
