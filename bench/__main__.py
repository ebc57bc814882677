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

from bench import calls, machine, memory, search, start, tokens
from bench.processes import adopt_orphans, end_all
from bench.report import SHOW, show_machine
from bench.stage import Stage
from bench.values import FULL, QUICK, Size, leaf

BENCHES: Mapping[str, Callable[[Stage, Size], Any]] = {
    "calls": calls.measure,
    "start": start.measure,
    "memory": memory.measure,
    "tokens": tokens.measure,
    "search": search.measure,
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
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found: dict[str, Any] = {"quick": size.quick, "machine": asdict(machine.describe()), "failures": []}
    if not options.json:
        show_machine(console, machine.describe())
    with ExitStack() as cleanup:
        cleanup.callback(end_all)
        folder = options.work or Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="maitred-bench-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(folder.resolve(), size)
        for name in options.only:
            _run(name, stage, size, found, aside, None if options.json else console)
    found["steady_ms_after"] = asdict(machine.steadiness())
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    return 1 if any("maitred" in failure for failure in found["failures"]) else 0


def _run(
    name: str, stage: Stage, size: Size, found: dict[str, Any], aside: Console, console: Console | None
) -> None:
    """Run one bench into `found`; one that cannot be run at all is reported and the others go on."""
    started = time.perf_counter()
    aside.print(f"{name} ...", style="dim")
    try:
        report = BENCHES[name](stage, size)
    except Exception as error:  # noqa: BLE001  # a bench must not take the figures of the others with it
        aside.print_exception()
        found["failures"].append(f"{name}: maitred or its bench failed: {leaf(error)}")
    else:
        found[name] = asdict(report)
        found["failures"] += [f"{name}: {text}" for text in _failures(found[name])]
        if console is not None:
            SHOW[name](console, report)
    if left := end_all():
        found["failures"].append(f"{name}: left behind: {left[:5]}")
        aside.print(f"left behind after {name}: {left}", style="red", markup=False)
    aside.print(f"{name}: {time.perf_counter() - started:.0f} s", style="dim")


def _failures(report: Any) -> list[str]:
    """Every failure anywhere in a report, as text."""
    if isinstance(report, dict):
        own = [f"{entry['what']}: {entry['why']}" for entry in report.get("failures", ())]
        return own + [text for key, value in report.items() if key != "failures" for text in _failures(value)]
    if isinstance(report, list | tuple):
        return [text for value in report for text in _failures(value)]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
