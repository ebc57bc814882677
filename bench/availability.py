"""A month's uptime in small: which share of requests is answered, or refused with a reason, in time.

Clients of both eras ask the gateway that clients on stdio share, and one over HTTP, 15 times a second in all:
searches, definitions, lists, and calls of real servers. Meanwhile, after a timetable with a seed, servers are
killed or hang, gateways are killed or restarted, and the catalog is locked by another program.

Each request counts once, by what its first sending came to. So one that a client had to repeat, since the
gateway over HTTP went away under it or did not listen, is counted as lost; how many of those were answered on
a repeat in time is a figure of its own. On stdio the client's program repeats what changes nothing by itself.
"""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from tests.support.real_servers import SERVERS

from bench.askers import LIMIT_S, Asked, Asker, Question, here, load, questions, ways
from bench.listening import START_S
from bench.outages import FAULTS, LABEL, Fault, Scene, Service, Touched
from bench.stage import CURRENT, Stage, discover
from bench.values import Failure, PeerError, Size
from maitred.evaluation.metrics import percentile

AIM: Final = 0.999
_MIX: Final = {"search": 0.25, "info": 0.15, "list": 0.1, "call": 0.5}
_SEED: Final = 21
_TELL_S: Final = 60.0
_FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_FEWEST: Final = 12
"""So many faults there are in a short run as well, about."""

_SHARES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of it. `clients` is how many there are of each link and era."""

    seconds: float
    clients: int = 2
    per_s: float = 15.0
    fault_every_s: float = _EVERY_S
    servers: Sequence[str] = ()
    faults: Sequence[Fault] = FAULTS
    settle_s: float = 20.0
    """So long before the end there is no fault any more, so that the effects of the last are seen."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Requests of some kind by how they ended; times in milliseconds, over all that were answered.

    `mended` are those of `lost` that were answered on a repeat in time.
    """

    what: str
    asked: int
    answered: int
    refused: int
    late: int
    lost: int
    wrong: int
    mended: int
    ms: Mapping[str, float]

    @property
    def availability(self) -> float:
        """The share that was answered, or refused with a reason, in time, at the first sending."""
        return (self.answered + self.refused) / self.asked if self.asked else 1.0

    @property
    def with_repeats(self) -> float:
        """The same, with those that were answered on a repeat in time."""
        return (self.answered + self.refused + self.mended) / self.asked if self.asked else 1.0


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A kind of fault and what clients saw of it, of the requests that it could touch.

    `outage_s` has for each fault the time after which no request was sent that was not answered; `wait_s` the
    longest that a request took which was answered.
    """

    fault: str
    times: int
    refused: int
    late: int
    lost: int
    outage_s: Sequence[float]
    wait_s: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Availability:
    """What came of it. `reasons` are those of requests that were not answered, with how often each came."""

    minutes: float
    clients: int
    servers: Sequence[str]
    faults: int
    total: Counted
    ways: Sequence[Counted]
    kinds: Sequence[Counted]
    outages: Sequence[Outage]
    reasons: Sequence[tuple[str, str, int]]
    starts: int
    limit_s: float
    failures: Sequence[Failure]


@dataclass(kw_only=True)
class _Happened:
    """One fault that was brought about."""

    fault: str
    touched: Touched
    began: float
    hit: list[Asked] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def touches(self, one: Asked) -> bool:
        """Whether a request was under way or sent after it, and is one that it may touch."""
        touched = self.touched
        return (
            one.ended >= self.began and touched.link in ("", one.link) and touched.server in ("", one.server)
        )


def measure(stage: Stage, size: Size) -> Availability:
    """As many minutes as the size says."""
    seconds = size.minutes * 60
    plan = Plan(seconds=seconds, servers=here(), fault_every_s=min(_EVERY_S, seconds / _FEWEST))
    return anyio.run(available, stage, plan)


async def available(stage: Stage, plan: Plan) -> Availability:
    """Let clients ask while there are faults.

    Raises:
        PeerError: No real server is installed, or one does not answer before there are faults.
    """
    if not plan.servers:
        raise PeerError("no real server is installed; run `make servers` first")
    run = f"{os.getpid()}-{random.randrange(1 << 32)}"
    folder = stage.folder / "availability"
    folder.mkdir(exist_ok=True)
    servers = _entries(plan, run, stage)
    config = stage.configure("availability", {}, servers=servers, supervision={"check_every_s": 5})
    discover(config, {})
    service = Service(config=config, log=folder / "service.log")
    scene = Scene(
        config=config,
        catalog=config.with_suffix(".db"),
        run=run,
        servers=plan.servers,
        service=service,
        rng=random.Random(_SEED),
    )
    noted: list[Asked] = []
    happened: list[_Happened] = []
    clients = [Asker(way=way, noted=noted) for way in ways(config, service.port) for _ in range(plan.clients)]
    try:
        async with anyio.create_task_group() as keeping:
            keeping.start_soon(service.keep)
            for client in clients:
                keeping.start_soon(client.keep_open)
            with anyio.fail_after(START_S):
                for client in clients:
                    await client.opened()
            await _prepare(clients, plan, stage)
            noted.clear()
            await _disturb(plan, scene, clients, stage, noted, happened)
            keeping.cancel_scope.cancel()
    finally:
        CURRENT.stop(config)
    return _concluded(plan, clients, service, noted, happened)


def _entries(plan: Plan, run: str, stage: Stage) -> Mapping[str, Mapping[str, Any]]:
    """The servers as a configuration has them; every second one runs always."""
    folder = stage.folder / "availability"
    found: dict[str, Mapping[str, Any]] = {}
    for number, name in enumerate(plan.servers):
        entry = SERVERS[name].entry(folder)
        found[name] = {
            **entry,
            "env": {**entry.get("env", {}), LABEL: f"{run}/{name}"},
            "start": "on_demand" if number % 2 else "always",
            "start_timeout_s": 10,
            "call_timeout_s": 5,
        }
    return found


async def _prepare(clients: Sequence[Asker], plan: Plan, stage: Stage) -> None:
    """Make each call once, until it is answered, so that there is something to read."""
    async with anyio.create_task_group() as tasks:
        for number, client in enumerate(clients):
            tasks.start_soon(_prepare_one, client, _asks(plan, stage, number)["call"])


async def _prepare_one(client: Asker, calls: Sequence[Question]) -> None:
    until = time.monotonic() + START_S
    for call in calls:
        while (asked := await client.ask(call)).outcome != "answered":
            if asked.outcome == "wrong" or time.monotonic() > until:
                raise PeerError(f"{call.arguments} is {asked.outcome}: {asked.reason}")


def _asks(plan: Plan, stage: Stage, number: int) -> Mapping[str, Sequence[Question]]:
    return questions(plan.servers, stage.folder / "availability", number)


async def _disturb(
    plan: Plan,
    scene: Scene,
    clients: Sequence[Asker],
    stage: Stage,
    noted: Sequence[Asked],
    happened: list[_Happened],
) -> None:
    """Ask and disturb for as long as the plan says, then let all requests end."""
    async with anyio.create_task_group() as tasks:
        for number, client in enumerate(clients):
            rng = random.Random(_SEED * 1_000 + number)
            every_s = len(clients) / plan.per_s
            tasks.start_soon(load, client, _MIX, _asks(plan, stage, number), every_s, plan.seconds, rng)
        tasks.start_soon(_timetable, plan, scene, happened)
        tasks.start_soon(_tell, plan, noted, happened)


async def _timetable(plan: Plan, scene: Scene, happened: list[_Happened]) -> None:
    """Bring faults about, until so long before the end that their effects are seen."""
    until = time.monotonic() + plan.seconds - plan.settle_s
    await anyio.sleep(_FIRST_S)
    for fault in _order(plan.faults, scene.rng):
        pause_s = plan.fault_every_s * scene.rng.uniform(0.8, 1.2)
        if time.monotonic() + fault.lasts_s > until:
            return
        started = time.monotonic()
        async with fault.cause(scene) as touched:
            if touched is not None:
                happened.append(_Happened(fault=fault.name, touched=touched, began=started))
            await anyio.sleep(fault.lasts_s)
        await anyio.sleep(max(0.0, started + pause_s - time.monotonic()))


def _order(faults: Sequence[Fault], rng: random.Random) -> Iterator[Fault]:
    """Round after round, each with every kind of fault as often as it comes."""
    while True:
        turn = [fault for fault in faults for _ in range(fault.often)]
        rng.shuffle(turn)
        yield from turn


async def _tell(plan: Plan, noted: Sequence[Asked], happened: Sequence[_Happened]) -> None:
    """Say every minute how it goes, on standard error."""
    minutes = int(plan.seconds // _TELL_S)
    for minute in range(1, minutes + 1):
        await anyio.sleep(_TELL_S)
        ended = Counter(one.outcome for one in noted)
        print(
            f"  {minute} of {minutes} min: {len(happened)} faults, {dict(ended)}", file=sys.stderr, flush=True
        )


# --- what came of it --------------------------------------------------------------------------------------


def _concluded(
    plan: Plan,
    clients: Sequence[Asker],
    service: Service,
    noted: Sequence[Asked],
    happened: Sequence[_Happened],
) -> Availability:
    unexplained = _attribute(noted, happened)
    reasons = Counter((one.outcome, one.reason) for one in noted if one.outcome != "answered")
    total = _count("all", noted)
    return Availability(
        minutes=plan.seconds / 60,
        clients=len(clients),
        servers=plan.servers,
        faults=len(happened),
        total=total,
        ways=[
            _count(f"{link}, {era}", [one for one in noted if (one.link, one.era) == (link, era)])
            for link, era in dict.fromkeys((client.way.link, client.way.era) for client in clients)
        ],
        kinds=[
            _count(kind, [one for one in noted if one.kind == kind])
            for kind in sorted({o.kind for o in noted})
        ],
        outages=_outages(plan, happened),
        reasons=[(outcome, reason, count) for (outcome, reason), count in reasons.most_common()],
        starts=service.starts,
        limit_s=LIMIT_S,
        failures=_failures(noted, unexplained),
    )


def _attribute(noted: Sequence[Asked], happened: Sequence[_Happened]) -> Sequence[Asked]:
    """Give each request to the last fault before its end that touches it.

    Returns those that were not answered though no fault touches them.
    """
    unexplained = []
    for one in noted:
        touching = [fault for fault in happened if fault.touches(one)]
        if one.outcome == "answered":
            if touching:
                touching[-1].waits.append(one.ended - one.started)
        elif touching:
            touching[-1].hit.append(one)
        else:
            unexplained.append(one)
    return unexplained


def _outages(plan: Plan, happened: Sequence[_Happened]) -> Sequence[Outage]:
    found = []
    for fault in plan.faults:
        every = [one for one in happened if one.fault == fault.name]
        hit = [asked for one in every for asked in one.hit]
        found.append(
            Outage(
                fault=fault.name,
                times=len(every),
                refused=sum(one.outcome == "refused" for one in hit),
                late=sum(one.outcome == "late" for one in hit),
                lost=sum(one.outcome == "lost" for one in hit),
                outage_s=[max([0.0, *(a.started - one.began for a in one.hit)]) for one in every],
                wait_s=[max([0.0, *one.waits]) for one in every],
            )
        )
    return found


def _count(what: str, asked: Sequence[Asked]) -> Counted:
    ended = Counter(one.outcome for one in asked)
    ms = [(one.ended - one.started) * 1e3 for one in asked if one.outcome == "answered"]
    return Counted(
        what=what,
        asked=len(asked),
        answered=ended["answered"],
        refused=ended["refused"],
        late=ended["late"],
        lost=ended["lost"],
        wrong=ended["wrong"],
        mended=sum(not one.is_good and one.is_good_at_last for one in asked),
        ms={name: percentile(ms, share) for name, share in _SHARES.items()} if ms else {},
    )


def _failures(noted: Sequence[Asked], unexplained: Sequence[Asked]) -> Sequence[Failure]:
    """What must not be, however many faults there are."""
    counts = {
        "answers to other requests": sum(one.outcome == "wrong" for one in noted),
        "requests of clients on stdio without an answer": sum(
            one.outcome == "lost" and one.link == "stdio" for one in noted
        ),
        f"requests that were not answered before any fault ({unexplained[:1]})": len(unexplained),
    }
    return [Failure(what="maitred", why=f"{count} {what}") for what, count in counts.items() if count]
