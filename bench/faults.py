"""What becomes of servers when the gateway is killed, and when what their cages need goes away.

Rounds: the gateway is killed by SIGKILL at a random moment, in every fourth round together with its warden,
and started again at once; the next is the next to be killed. Half of the moments are drawn from what a start
takes, the other half from as long after the desired state was reached. Those alone say how long a restart
took, so that no slow one is left out. Meanwhile somebody decides on a server, again and again.

Then the single faults, each on a gateway that runs: something is taken away, a caller asks, it is put back.
Programs are real ones; `tests/faults/test_cages_survive.py` runs the same with few kills.
"""

import errno
import os
import random
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from tests.support.podman import IMAGE, Podman, podman_service

from bench.lives import CAGED, JAILED, NEEDED, TAG, Begin, GoneError, House, HttpAnswer, Life, begin
from bench.seen import Watch
from bench.stage import Stage
from bench.values import Failure, PeerError, Size, Skipped, leaf
from maitred.backends.isolation.jail import find_means
from maitred.evaluation.metrics import percentile

_SEED: Final = 15
_EARLY: Final = 0.5
_WITH_WARDEN: Final = 0.25
_FIRST_S: Final = 2.0
_BETWEEN_S: Final = 0.1
_MOST_TRIES: Final = 200
_DISK: Final = "16m"
_BLOCK: Final = 65_536
_SHORT: Final = 400
_FAILED: Final = 500


@dataclass(frozen=True, kw_only=True)
class Row:
    """One single fault: the answer that a caller got during it, and the state after it."""

    fault: str
    answer: str
    recovered_s: float
    doubled: int
    orphans: int


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What came of it. `early` kills hit a gateway before all was ready, `unguarded` ones its warden as well.

    `restart_s` are seconds from a start to the desired state, `doubled` the times that a server ran twice,
    `orphans` what was left of a killed gateway, `lost` confirmed decisions that are not there.
    """

    kills: int
    early: int
    unguarded: int
    restart_s: Sequence[float]
    decided: int
    doubled: int
    orphans: int
    lost: int
    rows: Sequence[Row]
    skipped: Sequence[Skipped]
    failures: Sequence[Failure]

    def restart(self, share: float) -> float:
        """A percentile of the restarts."""
        return percentile(self.restart_s, share)


@dataclass(kw_only=True)
class _Tally:
    """What is noted while it goes on."""

    early: int = 0
    unguarded: int = 0
    lost: int = 0
    restart_s: list[float] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def measure(stage: Stage, size: Size) -> Faults:
    """Faults with gateways of their own, on this machine's cages."""
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="mt-", dir=stage.folder) as folder:
        skipped = []
        podman = None
        try:
            podman = stack.enter_context(podman_service())
        except pytest.skip.Exception as error:
            skipped.append(Skipped(what="a server in a container", why=str(error)))
        return faults(Path(folder), kills=10 if size.quick else 50, podman=podman, skipped=skipped)


def faults(
    folder: Path,
    *,
    kills: int,
    podman: Podman | None,
    skipped: Sequence[Skipped] = (),
    start: Begin = begin,
) -> Faults:
    """Kill gateways so many times, and try the single faults."""
    tally = _Tally(skipped=[*skipped])
    means = find_means(f"faults-{os.getpid()}")
    if means.why_not:
        tally.skipped.append(Skipped(what="a server in a jail", why=means.why_not))
    if podman is not None:
        podman.run("tag", IMAGE, TAG)
    house = House(
        folder=folder / "house", podman=podman, jail=not means.why_not, begin=start, groups=means.groups
    )
    house.offer("bwrap", there=True)
    with closing(house), Watch(house.labels) as watch:
        life = _rounds(house, kills, tally)
        for name, fault in _SINGLE.items():
            if name in house.labels:
                life = _single(fault, house, life, watch, tally)
        tally.lost = max(tally.lost, life.lost())
        if not house.orphans(0):
            raise PeerError("what the gateway started is not seen")
        life.leave()
        tally.left += house.settled(0)
    if podman is not None:
        podman.run("rmi", TAG)
    doubled = watch.doubled + _on_a_full_disk(folder / "full", start, tally)
    return _concluded(house, kills, doubled, tally)


def _concluded(house: House, kills: int, doubled: int, tally: _Tally) -> Faults:
    counts = {
        "times that a server ran twice": doubled,
        f"things left of killed gateways ({tally.left[:3]})": len(tally.left),
        "decisions lost": tally.lost,
    }
    wrong = [*tally.wrong, *(f"{count} {what}" for what, count in counts.items() if count)]
    return Faults(
        kills=kills,
        early=tally.early,
        unguarded=tally.unguarded,
        restart_s=tally.restart_s,
        decided=len(house.decided),
        doubled=doubled,
        orphans=len(tally.left),
        lost=tally.lost,
        rows=tally.rows,
        skipped=tally.skipped,
        failures=[Failure(what="maitred", why=why) for why in wrong],
    )


# --- the gateway ------------------------------------------------------------------------------------------


def _rounds(house: House, kills: int, tally: _Tally) -> Life:
    """Kill gateways, one after the other; the last one lives."""
    rng = random.Random(_SEED)
    life = house.start()
    life.listen()
    life.register()
    life.settle()
    takes_s = _FIRST_S
    for number in range(kills):
        early = bool(number) and rng.random() < _EARLY
        unguarded = rng.random() < _WITH_WARDEN
        if early:
            tally.early += 1
        elif number:
            takes_s = _reached(house, life, tally)
        _live_on(life, rng.uniform(0, takes_s), unguarded=unguarded)
        tally.unguarded += life.unguarded
        life = house.start()
    _reached(house, life, tally)
    return life


def _reached(house: House, life: Life, tally: _Tally) -> float:
    """See that a gateway comes to what is desired, and that nothing is left of those before it."""
    took_s = life.settle()
    tally.restart_s.append(took_s)
    tally.left += house.settled(life.pid)
    tally.wrong += house.miscounted()
    tally.lost = max(tally.lost, life.lost())
    return took_s


def _live_on(life: Life, seconds: float, *, unguarded: bool) -> None:
    """Let a gateway live on for so long, with decisions being taken, and kill it whatever it does then."""
    killer = threading.Timer(seconds, life.kill, kwargs={"warden": unguarded})
    killer.start()
    while killer.is_alive():
        with suppress(GoneError):
            life.decide()
        killer.join(_BETWEEN_S)
    life.end()


# --- single faults ----------------------------------------------------------------------------------------

Taken = Iterator[tuple[str, HttpAnswer | str, Life, float]]
"""Its name, the answer that a caller got, the gateway, and the time at which the fault was removed."""
Fault = Callable[[House, Life], "Taken"]


def _single(fault: Fault, house: House, life: Life, watch: Watch, tally: _Tally) -> Life:
    """Run the parts of a fault. Each yields the answer that a caller got, once the fault is removed."""
    before = watch.doubled
    for name, answer, now, since in fault(house, life):
        life = now
        try:
            recovered_s = life.settle(since)
        except PeerError as error:
            tally.wrong.append(f"after {name}: {leaf(error)}")
            recovered_s = float("inf")
        left = house.settled(life.pid)
        tally.left += left
        tally.rows.append(
            Row(
                fault=name,
                answer=str(answer)[:_SHORT],
                recovered_s=recovered_s,
                doubled=watch.doubled - before,
                orphans=len(left),
            )
        )
        before = watch.doubled
    return life


def _of_containers(house: House, life: Life) -> Taken:
    podman = house.podman
    assert podman is not None
    podman.run("kill", *_containers(podman))
    since = time.monotonic()
    yield "its container is killed", life.hello(CAGED), life, since
    podman.run("rmi", TAG)
    podman.run("kill", *_containers(podman))
    answer = _insisted(life, CAGED, TAG)
    podman.run("tag", IMAGE, TAG)
    yield "its image is removed, and there again", answer, life, time.monotonic()
    podman.kill()
    answer = _insisted(life, CAGED, "engine")
    podman.start()
    yield "the engine is killed, and started again", answer, life, time.monotonic()


def _containers(podman: Podman) -> Sequence[str]:
    return [name for name in podman.containers() if name.startswith(f"maitred-{CAGED}-")]


def _of_jails(house: House, life: Life) -> Taken:
    house.offer("bwrap", there=False)
    _kill_server(house, JAILED)
    answer = _insisted(life, JAILED, "bubblewrap")
    house.offer("bwrap", there=True)
    yield "bubblewrap is removed while it runs, and there again", answer, life, time.monotonic()
    house.offer("bwrap", there=False)
    life.end(kill=True)
    life = house.start()
    life.listen()
    answer = life.hello(JAILED)
    house.offer("bwrap", there=True)
    yield "bubblewrap is not there at the start, and then is", answer, life, time.monotonic()


def _insisted(life: Life, server: str, word: str) -> HttpAnswer:
    """Call until an answer contains a word; right after an end, the first answers only say how it ended."""
    for _ in range(_MOST_TRIES):
        answer = life.hello(server)
        if word in str(answer):
            break
        time.sleep(_BETWEEN_S)
    return answer


def _kill_server(house: House, name: str) -> None:
    for pid in house.running().get(name, ()):
        os.kill(pid, 9)


_SINGLE: Final[Mapping[str, Fault]] = {CAGED: _of_containers, JAILED: _of_jails}


# --- the disk ---------------------------------------------------------------------------------------------


def _on_a_full_disk(folder: Path, start: Begin, tally: _Tally) -> int:
    """A gateway whose catalog is on a disk that gets full; how many times a server ran twice."""
    with _disk(folder / "catalog") as disk:
        house = House(folder=folder, begin=start)
        with closing(house), Watch(house.labels) as watch:
            life = house.start()
            life.settle()
            life = _single(disk.full, house, life, watch, tally)
            tally.lost += life.lost()
            life.leave()
            tally.left += house.settled(0)
        return watch.doubled


class _Mounted:
    """A small disk of its own."""

    def __init__(self, at: Path) -> None:
        self._filler = at / "filler"

    def _fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (_BLOCK, 1):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def full(self, house: House, life: Life) -> Taken:
        """It is full for one that runs, and for one that is started then."""
        life.decide()
        answer = _refused(life, self._fill)
        self._filler.unlink()
        yield "the catalog's disk is full, and has room again", answer, life, time.monotonic()
        self._fill()
        life.end(kill=True)
        life = house.start()
        life.settle(keeping=True)
        answer = _refused(life, self._fill)
        self._filler.unlink()
        yield "it is full at a start, and has room again", answer, life, time.monotonic()


class _Limited:
    """Where no disk can be mounted: no file may grow."""

    def full(self, _: House, life: Life) -> Taken:
        """It is full for one that runs."""
        life.decide()
        most = resource.prlimit(life.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (_BLOCK, most[1]))
        answer = _refused(life, lambda: None)
        resource.prlimit(life.pid, resource.RLIMIT_FSIZE, most)
        yield "the catalog's files may not grow, and may again", answer, life, time.monotonic()


@contextmanager
def _disk(at: Path) -> Iterator[_Mounted | _Limited]:
    at.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "faults", str(at)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        yield _Limited()
        return
    try:
        yield _Mounted(at)
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def _refused(life: Life, fill: Callable[[], None]) -> str:
    """The answers to the first decision and to the first call that are refused.

    A refused write gives room back, since its connection is closed. So the disk is filled before each.
    """
    fill()
    decision = _first_refusal(life.decide)
    fill()
    return f"a decision: {decision}\na call: {_first_refusal(lambda: life.hello(NEEDED))}"


def _first_refusal(ask: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Ask until an answer is a refusal, which needs a few writes; returns the last answer."""
    for _ in range(_MOST_TRIES):
        answer = ask()
        if answer.status >= _FAILED:
            break
    return answer
