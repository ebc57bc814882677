"""`maitred eval scan`: recall and false positives of the scan on labelled texts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.errors import ConfigError
from maitred.surfaces.cli.console import JsonOption, make_table, out, print_json, print_table
from maitred.surfaces.cli.eval_search import show_progress
from maitred.surfaces.cli.tables import PlainTable
from maitred.wording import count_of

if TYPE_CHECKING:  # it brings the rules, which `--help` need not wait for
    from maitred.evaluation.intervals import Interval
    from maitred.evaluation.scan import ScanEvaluation, ScanShares

_NUMBERS = ("found", "recall", "held", "false positives")


def scan(
    places: Annotated[
        list[Path], typer.Argument(metavar="FILE|FOLDER...", help="Labelled texts, one JSON object a line.")
    ],
    save: Annotated[
        Path | None, typer.Option(help="Write what was held of each text, and by which rules, to this file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the scan on labelled texts: attacks that it finds, and honest texts that it holds."""
    from maitred.evaluation.labelled_texts import read_labelled_texts  # noqa: PLC0415  # as above
    from maitred.evaluation.scan import GROUPS, evaluate  # noqa: PLC0415  # as above

    texts = read_labelled_texts(places)
    with show_progress("scanning", len(texts)) as advance:
        found = evaluate(texts, advance)
    if save is not None:
        _save(save, found)
    if as_json:
        print_json(found.to_json())
        return
    for group in GROUPS:
        if shares := found.by(group):
            print_table(_table(group, shares))
    print_table(_table("rule", found.by_rule()))
    everything = found.all
    out.print(
        Text(
            f"{count_of(everything.attacks + everything.honest, 'text')}:"
            f" recall {_share(everything.recall)} %, false positives {_share(everything.false_positives)} %"
        )
    )


def _save(path: Path, found: "ScanEvaluation") -> None:
    lines = [json.dumps(line, ensure_ascii=False) for line in found.lines()]
    try:
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror}"]) from error


def _table(group: str, shares: "dict[str, ScanShares]") -> PlainTable:
    rows = [(name, *_cells(one)) for name, one in shares.items()]
    return make_table(f"by {group} (x100, with 95 % intervals)", (group, *_NUMBERS), rows, numbers=_NUMBERS)


def _cells(one: "ScanShares") -> tuple[str, ...]:
    found, held = _of(one.found, one.attacks), _of(one.mistaken, one.honest)
    return found, _share(one.recall), held, _share(one.false_positives)


def _of(part: int, of: int) -> str:
    return f"{part:,} of {of:,}" if of else "-"


def _share(share: "Interval | None") -> str:
    if share is None:
        return "-"
    return f"{100 * share.mean:.1f} ({100 * share.low:.0f}-{100 * share.high:.0f})"
