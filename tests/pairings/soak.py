"""Many clients of both eras use servers that ask back, while servers are killed and calls are cancelled.

Every client answers questions with a name of its own, so an answer that went to another client shows. Servers
write down what they carry out (`ledger_server.py`): an id that stands there twice was carried out twice, one
whose call was answered and which does not stand there was lost.

By hand, from the root of the project: `python -m tests.pairings.soak --minutes 15`.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import mcp_types as types
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests.interaction.harness import serving

from maitred.surfaces.daemon.control import stop_gateways

LEDGER: Final = Path(__file__).with_name("ledger_server.py")
SERVERS: Final = {"one": "handshake", "two": "handshake", "three": "stateless"}
KILL_EVERY_S: Final = 40.0
"""Seconds between two kills: more would use up the budget of restarts, and the servers would be suspended."""
STEP_S: Final = 120.0
CANCEL_S: Final = 20.0

Mode = Literal["legacy", "2026-07-28"]
Way = Literal["http", "shared"]


@dataclass(kw_only=True)
class Tally:
    """What came of all steps. `refused` are questions that could not be attributed, `failed` calls that ended
    with an error, as those of a killed server do; `wrong` are answers that no caller should get.
    """

    steps: Counter[str] = field(default_factory=Counter)
    recorded: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    refused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kills: int = 0

    def held_against(self, ledgers: list[Path]) -> dict[str, Any]:
        """The tally with what the servers wrote down."""
        written: dict[str, list[str]] = {}
        stopped: Counter[str] = Counter()
        for line in "".join(path.read_text() for path in ledgers).splitlines():
            kind, identity, *name = line.split(" ")
            if kind == "record":
                written.setdefault(identity, []).append(name[0])
            else:
                stopped[identity] += 1
        return {
            "steps": dict(self.steps),
            "kills": self.kills,
            "failed with a clear error": dict(self.failed),
            "refused, since no client could be named": self.refused,
            "cancelled": len(self.cancelled),
            "cancelled at the server": sum(identity in stopped for identity in self.cancelled),
            "wrong": self.wrong
            + [f"{i} was recorded for {n}" for i, n in self.recorded.items() if written.get(i, [n])[0] != n],
            "twice": [identity for identity, names in written.items() if len(names) > 1],
            "lost": [identity for identity in self.recorded if identity not in written],
        }


class Guest:
    """One client, with a name that it gives whenever it is asked."""

    def __init__(self, name: str, mode: Mode, target: Any, tally: Tally, seed: int) -> None:
        self.name = name
        self.tally = tally
        self._random = random.Random(seed)
        self._count = 0
        self._client = Client(
            target, mode=mode, elicitation_callback=self._elicited, read_timeout_seconds=STEP_S
        )

    async def _elicited(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        await anyio.sleep(self._random.random() * 0.05)  # a person takes a while
        return types.ElicitResult(action="accept", content={"name": self.name})

    async def visit(self, ended: anyio.Event, pause_s: float) -> None:
        """Do one step after the other until the end."""
        async with self._client as client:
            while not ended.is_set():
                server = self._random.choice(list(SERVERS))
                kind = self._random.choices(["ask", "plain", "cancel"], [6, 3, 1])[0]
                self._count += 1
                self.tally.steps[kind] += 1
                await self._step(client, kind, server, f"{self.name}-{self._count}")
                with anyio.move_on_after(self._random.random() * 2 * pause_s):
                    await ended.wait()

    async def _step(self, client: Client, kind: str, server: str, identity: str) -> None:
        if kind == "cancel":
            self.tally.cancelled.add(identity)
            with anyio.move_on_after(0.2):
                await client.call_tool(f"{server}__wait", {"id": identity})
            return
        arguments = {"id": identity, "ask": kind == "ask"}
        try:
            with anyio.fail_after(STEP_S):
                result = await client.call_tool(f"{server}__record", arguments)
        except TimeoutError:
            self.tally.wrong.append(f"{identity} got no answer")
            return
        except Exception as error:  # noqa: BLE001  # what a client may raise is what the soak counts
            self.tally.failed[f"{type(error).__name__}: {error}"[:90]] += 1
            return
        text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        name = self.name if kind == "ask" else "nobody"
        if text == f"recorded {identity} for {name}":
            self.tally.recorded[identity] = name
        elif not result.is_error:
            self.tally.wrong.append(f"{identity} of {self.name} got {text!r}")
        elif text.startswith("refused"):
            self.tally.refused += 1
        else:
            self.tally.failed[text[:90]] += 1


async def kill_servers(
    folder: Path, tally: Tally, ended: anyio.Event, seed: int, kill_every_s: float
) -> None:
    """Kill a random server again and again."""
    choose = random.Random(seed)
    while not ended.is_set():
        with anyio.move_on_after(kill_every_s):
            await ended.wait()
            return
        found = [one for one in psutil.process_iter(["cmdline"]) if _is_ledger(one, folder)]
        if found:
            tally.kills += 1
            os.kill(choose.choice(found).pid, signal.SIGKILL)


def _is_ledger(process: psutil.Process, folder: Path) -> bool:
    command = process.info["cmdline"] or []
    return bool(command) and str(LEDGER) in command and command[-1].startswith(str(folder))


def configure(folder: Path, name: str) -> Path:
    """A gateway with the three servers, which write to the ledgers in the folder."""
    servers = {
        server: {
            "command": sys.executable,
            "args": ["-I", "-S", str(LEDGER), era, str(folder / f"{server}.ledger")],
            "era": era,
        }
        for server, era in SERVERS.items()
    }
    document = {
        "servers": servers,
        "catalog": {"path": f"{name}.db"},
        "disclosure": {"mode": "all"},
        "daemon": {"idle_timeout": 1},
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@asynccontextmanager
async def gateways(folder: Path) -> AsyncIterator[dict[Way, Any]]:
    """One over HTTP, and one that clients share in the background."""
    shared = configure(folder, "shared")
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "maitred", "serve", "--config", str(shared)],
        env={"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]},
    )
    with serving(configure(folder, "http")) as gateway:
        try:
            yield {"http": gateway.url, "shared": command}
        finally:
            stop_gateways(shared, "", all_of_them=False)


async def soak(
    folder: Path, *, seconds: float, clients: int, pause_s: float, kill_every_s: float = KILL_EVERY_S
) -> dict[str, Any]:
    """Run it, and return what was found."""
    tally, ended = Tally(), anyio.Event()
    modes: tuple[Mode, ...] = ("legacy", "2026-07-28")
    async with gateways(folder) as ways, anyio.create_task_group() as tasks:
        tasks.start_soon(kill_servers, folder, tally, ended, clients, kill_every_s)
        for number in range(clients):
            target = ways["shared" if number % 3 == 2 else "http"]
            guest = Guest(f"guest{number}", modes[number % 2], target, tally, number)
            tasks.start_soon(guest.visit, ended, pause_s)
        await anyio.sleep(seconds)
        ended.set()
    found = tally.held_against([folder / f"{name}.ledger" for name in SERVERS])
    found["left"] = [one.pid for one in psutil.process_iter(["cmdline"]) if _is_ledger(one, folder)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        seconds, clients = options.minutes * 60, options.clients
        found = anyio.run(lambda: soak(Path(folder), seconds=seconds, clients=clients, pause_s=1.0))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
