"""What the figures were taken on, and how steady it was: a fixed piece of work, timed before and after."""

import hashlib
import os
import platform
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.values import Spread, spread

_PACKAGES = ("maitred", "mcp", "fastmcp", "pydantic", "anyio")
_ROUNDS = 15
_WORK = b"\0" * 2_000_000


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine. `steady_ms` is a fixed piece of work: what it varies by, other figures may vary by too."""

    cores: int
    processor: str
    memory_gib: float
    system: str
    python: str
    load_before: float
    versions: dict[str, str]
    steady_ms: Spread


def describe() -> Machine:
    """Describe this machine now."""
    load = os.getloadavg()[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        cores=os.cpu_count() or 1,
        processor=_processor(),
        memory_gib=round(memory, 1),
        system=platform.platform(),
        python=sys.version.split()[0],
        load_before=load,
        versions={name: _version(name) for name in _PACKAGES},
        steady_ms=steadiness(),
    )


def steadiness() -> Spread:
    """Milliseconds that a fixed piece of work takes."""
    taken = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        hashlib.sha256(_WORK).digest()
        taken.append((time.perf_counter() - started) * 1e3)
    return spread(taken)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
