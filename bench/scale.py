"""How search grows with the catalog: time and processor of a search, of building and updating, and memory.

Definitions of real servers where they are at hand, else generated ones, are copied under other names until
there are enough (`replicas.py`). Each index is measured in a process of its own (`probe.py`), maitred through
`Gateway.search`, FastMCP through what its search tool calls.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.probe import Probed, Took
from bench.stage import ROOT, Stage
from bench.values import Failure, PeerError, Size

_LIMIT_S = 1_800


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What was left out on purpose, and why."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """One program at one size."""

    program: str
    probed: Probed


@dataclass(frozen=True, kw_only=True)
class Scale:
    """All programs at all sizes, over copies of one corpus."""

    corpus: str
    results: Sequence[Scaled]
    skipped: Sequence[Skipped]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> Scale:
    """Measure each size with all programs before the next."""
    corpus, path = stage.definitions()
    results: list[Scaled] = []
    failures: list[Failure] = []
    skipped: list[Skipped] = []
    for tools in size.scale_tools:
        plan = [(f"maitred {mode}", mode, size.scale_queries) for mode in size.scale_modes]
        if tools <= size.scale_peer_tools:
            plan.append(("fastmcp bm25", "bm25", size.scale_peer_queries))
        else:
            why = "it reads every text anew for each search, which takes seconds here"
            skipped.append(Skipped(what=f"fastmcp bm25, {tools:,} tools", why=why))
        for program, mode, queries in plan:
            try:
                probed = _probe(program, mode, tools, queries, path)
            except PeerError as error:
                failures.append(Failure(what=f"{program}, {tools:,} tools", why=str(error)))
            else:
                results.append(Scaled(program=program, probed=probed))
    return Scale(corpus=corpus, results=results, skipped=skipped, failures=failures)


def _probe(program: str, mode: str, tools: int, queries: int, path: Path) -> Probed:
    command = [
        sys.executable,
        "-m",
        "bench.probe",
        program.split(maxsplit=1)[0],
        mode,
        str(tools),
        str(queries),
        str(path),
    ]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"it took longer than {_LIMIT_S} s") from None
    if done.returncode:
        raise PeerError(f"it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for key in ("build", "discovery", "update", "p50", "p95"):
        value[key] = Took(**value[key]) if value[key] else None
    return Probed(**value)
