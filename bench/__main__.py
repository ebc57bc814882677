"""`python -m bench [--json] [--quick] [--only NAME...] [--work DIR]`: run benches and print what they found.

Ends with 1 when maitred itself could not be measured, or left processes behind.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import (
    ablation,
    cages,
    calls,
    chains,
    churn,
    faults,
    machine,
    memory,
    quality,
    scale,
    search,
    start,
    tiers,
    tokens,
)
from bench.logs import quiet
from bench.processes import adopt_orphans, end_all
from bench.report import SHOW, show_failures, show_machine
from bench.stage import Stage
from bench.values import FULL, QUICK, Failure, PeerError, Size, leaf

BENCHES: Mapping[str, Callable[[Stage, Size], Any]] = {
    "calls": calls.measure,
    "start": start.measure,
    "cages": cages.measure,
    "memory": memory.measure,
    "tokens": tokens.measure,
    "search": search.measure,
    "scale": scale.measure,
    "quality": quality.measure,
    "ablation": ablation.measure,
    "tiers": tiers.measure,
    "chains": chains.measure,
    "churn": churn.measure,
    "faults": faults.measure,
}

_WIDTH = 150


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure maitred beside its peers.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--quick", action="store_true", help="few rounds and a small corpus, under a minute")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES), metavar="NAME",
                        help=f"only these: {', '.join(BENCHES)}")  # fmt: skip
    parser.add_argument("--work", type=Path, help="keep corpora and catalogs here, and use them again")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    size = QUICK if options.quick else FULL
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    aside = Console(stderr=True)
    quiet()
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    this = machine.describe()
    found: dict[str, Any] = {"quick": size.quick, "machine": asdict(this), "failures": []}
    if not options.json:
        show_machine(console, this)
    with ExitStack() as cleanup:
        folder = options.work or Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="maitred-bench-"))
        )
        cleanup.callback(end_all)
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(folder.resolve(), size)
        for name in options.only:
            _run(name, stage, size, found, aside, None if options.json else console)
    found["steady_ms_after"] = asdict(machine.steadiness())
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    return 1 if any(failure["what"].startswith("maitred") for failure in found["failures"]) else 0


def _run(
    name: str, stage: Stage, size: Size, found: dict[str, Any], aside: Console, console: Console | None
) -> None:
    """Run one bench into `found`; one that cannot be run at all is reported and the others go on."""
    started = time.perf_counter()
    aside.print(f"{name} ...", style="dim")
    try:
        report = BENCHES[name](stage, size)
    except Exception as error:  # noqa: BLE001  # a bench must not take the figures of the others with it
        if not isinstance(error, PeerError):
            aside.print_exception()
        failure = Failure(what="maitred, or the bench itself", why=leaf(error))
        found["failures"].append({"bench": name, **asdict(failure)})
        show_failures(console or aside, [failure])
    else:
        found[name] = asdict(report)
        found["failures"] += [{"bench": name, **failure} for failure in _failures(found[name])]
        if console is not None:
            SHOW[name](console, report)
    if left := end_all():
        failure = Failure(what="maitred or a peer left processes", why=f"ended after {name}: {left[:5]}")
        found["failures"].append({"bench": name, **asdict(failure)})
        show_failures(console or aside, [failure])
    aside.print(f"{name}: {time.perf_counter() - started:.0f} s", style="dim")


def _failures(report: Any) -> list[dict[str, str]]:
    """Every failure anywhere in a report."""
    if isinstance(report, dict):
        own: list[dict[str, str]] = list(report.get("failures", ()))
        return own + [one for key, value in report.items() if key != "failures" for one in _failures(value)]
    if isinstance(report, list | tuple):
        return [one for value in report for one in _failures(value)]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
