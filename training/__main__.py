"""`python -m training`: from sources to a weights file, stage by stage. See README.md here."""

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console

from maitred.search.static_embedder import WEIGHTS
from training.stages import Stages


def main() -> None:
    """Run all stages; what a stage made before is not made again."""
    options = _options()
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    torch.use_deterministic_algorithms(True)  # noqa: FBT003  # torch takes no keyword here
    console = Console()
    stages = Stages(work=options.work, data=options.data, real=options.real, console=console)
    bare = stages.trained(steps=options.steps, with_labels=False)
    models = {"self-supervised": bare}
    if not options.without_labels:
        weights = stages.blended(steps=options.steps)
        labelled = stages.trained(steps=options.steps, with_labels=True)
        models = {"shipped": weights, "before blending": labelled} | models
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_bytes(weights.read_bytes())
        console.print(f"wrote {options.out} ({weights.stat().st_size / 1e6:.1f} MB)")
    if options.no_report:
        return
    shown, found = stages.report(models)
    console.print(shown)
    lines = {ranking: {name: asdict(f) for name, f in sets.items()} for ranking, sets in found.items()}
    (options.work / "report.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    shared = Path("../shared/data")
    parser.add_argument(
        "--work", type=Path, default=Path("build/training"), help="folder for what stages make"
    )
    parser.add_argument("--data", type=Path, default=shared / "search", help="folder of the labelled sets")
    parser.add_argument(
        "--real", type=Path, default=shared / "real_servers/servers.jsonl", help="recorded servers"
    )
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where the weights go")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--without-labels", action="store_true", help="only the self-supervised variant")
    parser.add_argument("--no-report", action="store_true", help="do not measure at the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
