"""Run benches and print what they found: `python -m bench --help` names the options.

Ends with 1 when maitred itself could not be measured, or left processes behind.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import (
    ablation,
    availability,
    browsing,
    cages,
    calls,
    chains,
    churn,
    deferral,
    faults,
    fleet,
    growth,
    hits,
    machine,
    page_tokens,
    pages,
    quality,
    shell,
    start,
    tiers,
    token_table,
    tokens,
    usage,
    web,
)
from bench.logs import quiet
from bench.output import Markdown, Output, Page, Terminal
from bench.packages import PACKAGES
from bench.processes import adopt_orphans, end_all
from bench.report import SHOW, show_failures, show_machine
from bench.stage import Checkout, Stage
from bench.values import FULL, QUICK, Failure, PeerError, Size, leaf

BENCHES: Mapping[str, Callable[[Stage, Size], Any]] = {
    "calls": calls.measure,
    "start": start.measure,
    "shell": shell.measure,
    "growth": growth.measure,
    "cages": cages.measure,
    "tokens": tokens.measure,
    "token-table": token_table.measure,
    "deferral": deferral.measure,
    "quality": quality.measure,
    "ablation": ablation.measure,
    "usage": usage.measure,
    "tiers": tiers.measure,
    "hits": hits.measure,
    "chains": chains.measure,
    "churn": churn.measure,
    "faults": faults.measure,
    "availability": availability.measure,
    "browsing": browsing.measure,
    "page-tokens": page_tokens.measure,
    "pages": pages.measure,
    "web": web.measure,
    "fleet": fleet.measure,
}

_WIDTH = 190


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure maitred beside its peers.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    form.add_argument("--markdown", action="store_true", help="print tables as the documentation has them")
    form.add_argument("--update", type=Path, metavar="PAGE",
                      help="as --markdown, and put the tables into this page")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="few rounds and small sizes")
    parser.add_argument("--only", nargs="+", choices=list(BENCHES), default=list(BENCHES), metavar="NAME",
                        help=f"only these: {', '.join(BENCHES)}")  # fmt: skip
    parser.add_argument("--work", type=Path, help="keep corpora, catalogs and peers here, and use them again")
    parser.add_argument("--against", type=_checkout, metavar="PATH",
                        help="another checkout with its .venv, in turn: `maitred (before)`")  # fmt: skip
    parser.add_argument("--install-peers", action="store_true",
                        help=f"first install {' and '.join(PACKAGES)} below --work")  # fmt: skip
    parser.add_argument("--minutes", type=float, help="how long availability and a fleet are measured")
    parser.add_argument("--sessions", type=int, help="how many sessions of a fleet are open")
    options = parser.parse_args(arguments)
    if options.update:
        if not options.update.is_file():
            parser.error(f"--update: there is no file {str(options.update)!r}")
        if lacking := Page(options.update).without(options.only):
            parser.error(f"--update: {options.update} has no part `<!-- bench {lacking[0]} -->`")
    return options


def _checkout(text: str) -> Checkout:
    """Another checkout, by its folder."""
    python = Path(text).absolute() / ".venv" / "bin" / "python"
    if not python.with_name("maitred").exists():
        raise argparse.ArgumentTypeError(
            f"{text!r} has no .venv/bin/maitred; run `make .venv/dev` there first"
        )
    return Checkout(name="maitred (before)", python=python, suffix="-before")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    size = QUICK if options.quick else FULL
    if options.minutes:
        size = replace(size, minutes=options.minutes)
    if options.sessions is not None:
        size = replace(size, sessions=options.sessions)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    in_markdown = options.markdown or options.update
    out = None if options.json else Markdown() if in_markdown else Terminal(console)
    aside = Console(stderr=True)
    quiet()
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    this = machine.describe()
    found: dict[str, Any] = {"quick": size.quick, "machine": asdict(this), "failures": []}
    if out is not None:
        show_machine(out, this)
    with ExitStack() as cleanup:
        folder = options.work or Path(
            cleanup.enter_context(tempfile.TemporaryDirectory(prefix="maitred-bench-"))
        )
        _prepare(cleanup)
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(folder.resolve(), size, options.against)
        if options.install_peers:
            for package in PACKAGES.values():
                package.install(stage.peers)
        for name in options.only:
            if isinstance(out, Markdown):
                out.lines.clear()
            _run(name, stage, size, found, aside, out)
            if isinstance(out, Markdown) and options.update and name in found:
                Page(options.update).replace(name, [*out.lines, "", _where(this, options)])
    found["steady_ms_after"] = asdict(machine.steadiness())
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    return 1 if any(failure["what"].startswith("maitred") for failure in found["failures"]) else 0


def _where(this: machine.Machine, options: argparse.Namespace) -> str:
    """What a table was measured on, as a line below it."""
    quick = " with `--quick`" if options.quick else ""
    return (
        f"Measured{quick} on {this.cores} cores ({this.processor}) with Python {this.python}; load before"
        f" {this.load_before:.1f}."
    )


def _prepare(cleanup: ExitStack) -> None:
    """Let gateways find each other in a folder of this run alone, and open as many files as they may."""
    run = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="mb-"))
    os.environ |= {"XDG_RUNTIME_DIR": run, "XDG_STATE_HOME": run}
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    cleanup.callback(end_all)


def _run(
    name: str, stage: Stage, size: Size, found: dict[str, Any], aside: Console, out: Output | None
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
        show_failures(out or Terminal(aside), [failure])
    else:
        found[name] = asdict(report)
        found["failures"] += [{"bench": name, **failure} for failure in _failures(found[name])]
        if out is not None:
            SHOW[name](out, report)
    if left := end_all():
        failure = Failure(what="maitred or a peer left processes", why=f"ended after {name}: {left[:5]}")
        found["failures"].append({"bench": name, **asdict(failure)})
        show_failures(out or Terminal(aside), [failure])
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
