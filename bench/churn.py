"""Many clients over supervised servers of which a random one is killed every second: is every call answered?

Each client calls random servers, with short pauses, and notes for every call how it ended and after how long.
A call that ends with a clear error, since its server was killed under it, is fine; one that gets no answer, a
foreign one, or none within its limit is not. Half of the servers run always, half are started on demand.
The budget of restarts is the default one, and none is killed more often than that allows for: one that is
suspended all the same is a failure.

Here the clients are those of the SDK, of both eras, over HTTP, with a gateway in a process of its own.
`tests/faults/test_churn.py` has a gateway in its own process stand in.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from urllib.request import urlopen

import anyio
import psutil
from mcp import Client

from bench.listening import START_S, Program, listening
from bench.stage import CURRENT, ROOT, Stage, discover
from bench.values import Failure, Size
from maitred.config.settings import Supervision
from maitred.evaluation.metrics import percentile

ANSWER: Final = "answer"
LOST: Final = "no answer"
WRONG: Final = "foreign answer"
_CALL_S: Final = 5.0
_START_CALL_S: Final = 5.0
LIMIT_S: Final = _START_CALL_S + _CALL_S
"""The longest that a call may take: its server is started, and the call runs into its own limit."""
_LABEL: Final = "CHURN_SERVER"
_OURS: Final = f"{os.getpid()}/"
_LONGEST_WAIT_S: Final = 0.2
_LOOK_S: Final = 0.2
_SETTLE_S: Final = 30.0
_SEED: Final = 13
_SAID: Final[Mapping[str, str]] = {
    "went away before": "connection lost",
    "is not available": "server unavailable",
    "did not answer": "timeout",
    "cannot be called": "withheld",
}
"""What the errors that an agent reads are known by."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of it: each client pauses for `pause_s` in the middle between two calls."""

    clients: int
    servers: int
    seconds: float
    kill_every_s: float = 1.0
    pause_s: float = 2.0
    fewest_kills: int = 0
    """It goes on longer until so many were killed."""


_FULL: Final = Plan(clients=100, servers=20, seconds=60.0)
_QUICK: Final = Plan(clients=20, servers=6, seconds=6.0, kill_every_s=0.5, pause_s=0.3)


@dataclass(frozen=True, kw_only=True)
class Churn:
    """What came of it; times in milliseconds, `limit_s` is the longest that a call might have taken.

    `starts` counts processes of servers, `doubled` the moments in which a server had two, and `left` what ran
    when the gateway had ended. `missing` are servers that should run always and did not in the end.
    `unexplained` are errors of servers that had answered since they were last killed, and were not again.
    """

    plan: Plan
    kills: int
    asked: int
    ended: Mapping[str, int]
    answers_ms: Mapping[str, float]
    errors_ms: Mapping[str, float]
    limit_s: float
    starts: int
    suspended: int
    missing: int
    doubled: int
    unexplained: int
    left: int = 0
    failures: Sequence[Failure] = ()


class Stand(Protocol):
    """A gateway and its clients."""

    async def ask(self, client: int, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Make a call as one of the clients: `ANSWER` and its text, or the kind of the error and its text."""
        ...

    async def state(self, server: str) -> Mapping[str, Any]:
        """A server as the gateway tells it: `state`, `desired` and `starts`."""
        ...


def servers_of(plan: Plan) -> Mapping[str, Mapping[str, Any]]:
    """The servers as a configuration has them; every second one runs always."""
    faulty = str(ROOT / "tests/support/faulty_server.py")
    return {
        f"s{number}": {
            "command": sys.executable,
            "args": ["-I", "-S", faulty, "slow-call"],
            "env": {_LABEL: f"{_OURS}s{number}"},
            "era": "handshake",
            "start": "always" if number % 2 else "on_demand",
            "start_timeout_s": _START_CALL_S,
            "call_timeout_s": _CALL_S,
        }
        for number in range(plan.servers)
    }


SECTIONS: Final[Mapping[str, Any]] = {
    "supervision": {"check_every_s": 1, "check_timeout_s": 5},
    "limits": {"max_starting": 8},
    "disclosure": {"mode": "menu"},
}
"""What else stands in the configuration."""


@dataclass(kw_only=True)
class _Tally:
    """What is noted while it goes on."""

    asked: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    back: dict[str, int] = field(default_factory=dict)
    """For each server that has answered a call: how often it had been killed when that call began."""
    doubled: int = 0
    unexplained: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    ms: dict[bool, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, kind: str, started: float) -> None:
        self.ended[kind] += 1
        self.ms[kind == ANSWER].append((time.perf_counter() - started) * 1e3)

    def was_up(self, server: str) -> bool:
        """Whether it has answered a call that began after it was last killed."""
        return self.back.get(server) == self.killed[server]


async def churn(plan: Plan, stand: Stand) -> Churn:
    """Let the clients call while servers are killed; the gateway has to be there and know its servers."""
    tally, over = _Tally(), anyio.Event()
    async with anyio.create_task_group() as others:
        others.start_soon(_kill, plan, tally)
        others.start_soon(_look, tally)
        async with anyio.create_task_group() as tasks:
            for number in range(plan.clients):
                tasks.start_soon(_client, number, plan, stand, tally, over)
            await anyio.sleep(plan.seconds)
            while tally.killed.total() < plan.fewest_kills:  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(_LOOK_S)
            over.set()
        others.cancel_scope.cancel()
    states = await _settled(plan, stand)
    return Churn(
        plan=plan,
        kills=tally.killed.total(),
        asked=tally.asked,
        ended=dict(tally.ended.most_common()),
        answers_ms=_figures(tally.ms[True]),
        errors_ms=_figures(tally.ms[False]),
        limit_s=LIMIT_S,
        starts=sum(state["starts"] for state in states.values()),
        suspended=sum(state["state"] == "suspended" for state in states.values()),
        missing=len(_missing(states)),
        doubled=tally.doubled,
        unexplained=tally.unexplained,
    )


def concluded(found: Churn, left: Sequence[psutil.Process]) -> Churn:
    """With what was wrong, now that the gateway has ended; `left` are processes of its servers."""
    counts = {
        "calls that were never answered": found.ended.get(LOST, 0) + found.asked - sum(found.ended.values()),
        "answers to other calls": found.ended.get(WRONG, 0),
        "errors of servers that had answered since they were last killed": found.unexplained,
        "moments in which a server had two processes": found.doubled,
        "servers that were suspended": found.suspended,
        "servers that should run always and did not in the end": found.missing,
        "processes that were left": len(left),
    }
    wrong = [f"{count} {what}" for what, count in counts.items() if count]
    slowest = max(found.answers_ms.get("max", 0.0), found.errors_ms.get("max", 0.0))
    if slowest > found.limit_s * 1e3:
        wrong.append(f"a call took {slowest / 1e3:.1f} s")
    return replace(found, left=len(left), failures=[Failure(what="maitred", why=why) for why in wrong])


async def _client(number: int, plan: Plan, stand: Stand, tally: _Tally, over: anyio.Event) -> None:
    """One client: every call has a text or a time of its own, by which its answer is known."""
    rng = random.Random(_SEED * 1_000 + number)
    while not await _pause(over, rng.expovariate(1 / plan.pause_s)):
        server = f"s{rng.randrange(plan.servers)}"
        arguments: dict[str, Any]
        if rng.getrandbits(1):
            text = f"{number}/{tally.asked}"
            tool, arguments, expected = "echo", {"text": text}, text
        else:
            seconds = round(rng.uniform(0.01, _LONGEST_WAIT_S), 4)
            tool, arguments, expected = "wait", {"seconds": seconds}, f"waited {seconds:g} s"
        tally.asked += 1
        kills, up, started = tally.killed[server], tally.was_up(server), time.perf_counter()
        kind, text = LOST, ""
        with anyio.move_on_after(LIMIT_S + _SETTLE_S):
            kind, text = await stand.ask(number, f"{server}__{tool}", arguments)
        if kind == ANSWER:
            tally.back[server] = max(kills, tally.back.get(server, 0))
        elif up and tally.killed[server] == kills:
            tally.unexplained += 1
        tally.note(WRONG if kind == ANSWER and text != expected else kind, started)


async def _pause(over: anyio.Event, seconds: float) -> bool:
    """Wait for so long; whether it was over before."""
    with anyio.move_on_after(seconds):
        await over.wait()
    return over.is_set()


async def _kill(plan: Plan, tally: _Tally) -> None:
    rng, most = random.Random(_SEED), Supervision().restarts
    while True:
        await anyio.sleep(plan.kill_every_s)
        if here := [(server, process) for server, process in running() if tally.killed[server] < most]:
            server, process = rng.choice(here)
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
                tally.killed[server] += 1


async def _look(tally: _Tally) -> None:
    """Look again and again whether a server has two processes."""
    while True:
        counted = Counter(server for server, _ in running())
        tally.doubled += any(count > 1 for count in counted.values())
        await anyio.sleep(_LOOK_S)


def running() -> Iterator[tuple[str, psutil.Process]]:
    """The processes of our servers that run now, wherever they hang, each with the server that it is."""
    for process in psutil.process_iter():
        try:
            server = process.environ().get(_LABEL, "")
            if server.startswith(_OURS) and process.status() != psutil.STATUS_ZOMBIE:
                yield server.removeprefix(_OURS), process
        except psutil.Error:
            continue


async def _settled(plan: Plan, stand: Stand) -> Mapping[str, Mapping[str, Any]]:
    """How the servers are once all that should run does, or when that takes too long."""
    states: dict[str, Mapping[str, Any]] = {}
    with anyio.move_on_after(_SETTLE_S):
        while True:
            states = {f"s{number}": await stand.state(f"s{number}") for number in range(plan.servers)}
            if not _missing(states):
                break
            await anyio.sleep(_LOOK_S)
    return states


def _missing(states: Mapping[str, Mapping[str, Any]]) -> list[str]:
    always = [name for name, state in states.items() if state["desired"] == "always"]
    return [name for name in always if states[name]["state"] != "ready"]


def _figures(ms: Sequence[float]) -> Mapping[str, float]:
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: percentile(ms, share) for name, share in shares.items()} if ms else {}


# --- over HTTP, with clients of the SDK -------------------------------------------------------------------


def measure(stage: Stage, size: Size) -> Churn:
    """Churn with a gateway of its own."""
    return anyio.run(_measure, stage, _QUICK if size.quick else _FULL)


async def _measure(stage: Stage, plan: Plan) -> Churn:
    path = stage.folder / "churn.yaml"
    catalog = {"path": str(path.with_suffix(".db"))}
    document = {"servers": servers_of(plan), "catalog": catalog, **SECTIONS}
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    discover(path, {name: [] for name in servers_of(plan)})
    left: list[psutil.Process] = []
    async with (
        listening(CURRENT.serve_http(path)) as ours,
        _clients(ours, plan) as clients,
    ):
        found = await churn(plan, _OverHttp(ours, clients))
    with anyio.move_on_after(_SETTLE_S):
        while left := [process for _, process in running()]:  # noqa: ASYNC110  # nobody tells
            await anyio.sleep(_LOOK_S)
    return concluded(found, left)


@asynccontextmanager
async def _clients(ours: Program, plan: Plan) -> AsyncIterator[Sequence[Client]]:
    """Clients of both eras in turn; each has an owner task, in which it has to be left."""
    over = anyio.Event()
    url = f"http://127.0.0.1:{ours.port}/mcp"

    async def own(mode: Any, *, task_status: anyio.abc.TaskStatus[Client]) -> None:
        async with Client(url, mode=mode) as client:
            task_status.started(client)
            await over.wait()

    async with anyio.create_task_group() as tasks:
        modes = ["legacy" if number % 2 else "auto" for number in range(plan.clients)]
        try:
            yield [await tasks.start(own, mode) for mode in modes]
        finally:
            over.set()


class _OverHttp:
    """A gateway that listens, and its clients."""

    def __init__(self, ours: Program, clients: Sequence[Client]) -> None:
        self._port = ours.port
        self._clients = clients

    async def ask(self, client: int, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        asked = {"name": tool, "arguments": dict(arguments)}
        result = await self._clients[client].call_tool("call_tool", asked)
        text = str(getattr(result.content[0], "text", "")) if result.content else ""
        if not result.is_error:
            return ANSWER, text
        return next((kind for said, kind in _SAID.items() if said in text), "another error"), text

    async def state(self, server: str) -> Mapping[str, Any]:
        return await anyio.to_thread.run_sync(self._state, server)

    def _state(self, server: str) -> Mapping[str, Any]:
        where = f"http://127.0.0.1:{self._port}/api/v1/servers/{server}"
        with urlopen(where, timeout=START_S) as answer:
            found: Mapping[str, Any] = json.loads(answer.read())
            return found
