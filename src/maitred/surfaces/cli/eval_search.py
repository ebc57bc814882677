"""`maitred eval search`: the quality of search on labelled queries, also against another run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import Progress
from rich.text import Text

from maitred.config.settings import Search
from maitred.errors import ConfigError
from maitred.evaluation.intervals import Interval, Measures, differences
from maitred.evaluation.labelled_queries import Split, read_queries, read_tools, set_name, take
from maitred.evaluation.perturbations import Perturbation, perturb
from maitred.evaluation.runner import MAX_K, Cost, Evaluation, Quality, SilenceShares, evaluate
from maitred.surfaces.cli.console import JsonOption, err, make_table, out, print_json, print_table, run
from maitred.surfaces.cli.tables import PlainTable
from maitred.wording import count_of

Mode = Literal["hybrid", "lexical", "dense"]


def search(
    tools: Annotated[Path, typer.Option(help="The tools, one JSON object a line.")],
    queries: Annotated[Path, typer.Option(help="The queries with the ids of the tools that serve them.")],
    k: Annotated[str, typer.Option(help="At which places recall is taken.")] = "1,3,5,10",
    mode: Annotated[Mode, typer.Option(help="How to search.")] = "hybrid",
    split: Annotated[Split, typer.Option(help="Which part of the queries to ask.")] = "all",
    perturbed: Annotated[
        Perturbation, typer.Option(help="Ask with values appended, or with typing errors.")
    ] = "none",
    removed: Annotated[
        int, typer.Option(min=0, help="Ask so many queries again without the tools that serve them.")
    ] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the measures of each query to this file.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with the measures that another run saved, query by query.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure search on labelled queries: what it finds, how fast, at what cost, and when it is silent."""
    ks, known = _places(k), read_tools(tools)
    name = set_name(queries)
    asked = perturb(take(read_queries(queries, {tool.id for tool in known}), split, name), perturbed)
    if not asked:
        raise ConfigError(str(queries), [f"no query is in the part {split!r}"])
    former = _former(against, {query.id for query in asked})

    with show_progress("asking", len(asked) + removed) as step:
        asking = partial(evaluate, known, asked, ks=ks, search=Search(mode=mode), removed=removed, step=step)
        found = run(asking)
    by_query = found.quality.by_query if found.quality else {}
    gains = differences(by_query, former)
    if save:
        _write_measures(save, by_query)
    if as_json:
        about = {"set": name, "split": split, "perturbed": perturbed, "queries": len(asked)}
        print_json({**about, **_plain(found, gains)})
        return
    part = f"{name}, {split}" + ("" if perturbed == "none" else f" with {perturbed}")
    left = len(by_query.keys() - former.keys()) if former else 0
    notes = [f"{count_of(left, 'query')} of this run not in {against}" if left else "", found.note]
    _show(found, gains, f"{part}: {count_of(len(asked), 'query')}", notes)


def _show(found: Evaluation, gains: Mapping[str, Interval], title: str, notes: Sequence[str]) -> None:
    print_table(_table(found, gains, f"{title}, {count_of(found.tools, 'tool')}"))
    for note in filter(None, notes):
        out.print(Text(f"({note})"))


def _former(path: Path | None, asked: AbstractSet[str]) -> Mapping[str, Measures]:
    """The measures of the run to compare with; none without one."""
    former = read_measures(path) if path else {}
    if path and not asked & former.keys():
        raise ConfigError(str(path), ["has no query of this run"])
    return former


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error while a task runs; a file or a pipe gets none."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def _places(text: str) -> list[int]:
    """The places of `--k`, in rising order."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= MAX_K for part in parts):
        raise ConfigError("--k", [f"{text!r} must be numbers from 1 to {MAX_K} with commas between"])
    return sorted({int(part) for part in parts})


def read_measures(path: Path) -> dict[str, Measures]:
    """Read the measures of each query that `--save` wrote.

    Raises:
        ConfigError: The file cannot be read, or a line is not of this form.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    measures: dict[str, Measures] = {}
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            measures[str(value["id"])] = {str(key): float(one) for key, one in value["measures"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fault = f"line {number}: is not a query with its measures, as --save writes them"
            raise ConfigError(str(path), [fault]) from error
    return measures


def _write_measures(path: Path, by_query: Mapping[str, Measures]) -> None:
    lines = [json.dumps({"id": id_, "measures": measures}) for id_, measures in by_query.items()]
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror}"]) from error


def _plain(found: Evaluation, gains: Mapping[str, Interval]) -> dict[str, Any]:
    """The figures for programs; those of single queries are what `--save` is for."""
    figures = asdict(found)
    if figures["quality"]:
        del figures["quality"]["by_query"]
    return {**figures, "against": {name: asdict(gain) for name, gain in gains.items()}}


def _table(found: Evaluation, gains: Mapping[str, Interval], title: str) -> PlainTable:
    rows = [*_quality_rows(found.quality, gains), *_silence_rows(found.silence, ""), *_cost_rows(found.cost)]
    if found.removal:
        gone = count_of(found.removal.tools_removed, "tool")
        rows += _silence_rows(found.removal.silence, f", {gone} taken out")
    how = f"mode {found.mode}" + (f", {found.embedder}" if found.embedder else "")
    heads = ["measure", "value", "95 %", "above it (95 %)" if gains else "of"]
    unused = 4 if gains else 3  # the table of two runs fits 80 columns without what the figures are of
    return make_table(f"{title}, {how}", heads, [row[:unused] + row[unused + 1 :] for row in rows])


_Row = tuple[str, ...]


def _quality_rows(quality: Quality | None, gains: Mapping[str, Interval]) -> list[_Row]:
    if quality is None:
        return []
    return [
        (
            name,
            percent(one.mean),
            f"{percent(one.low)} to {percent(one.high)}",
            _gain(gains[name]) if name in gains else "",
            count_of(quality.queries, "query"),
        )
        for name, one in quality.intervals.items()
    ]


def _gain(gain: Interval) -> str:
    return f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def _silence_rows(silence: SilenceShares, where: str) -> list[_Row]:
    rows: list[_Row] = []
    if silence.false_answers is not None:
        of = f"{count_of(silence.nothing_relevant, 'query')} that nothing serves{where}"
        rows.append(("false answers", percent(silence.false_answers), "", "", of))
    if silence.false_silence is not None:
        of = f"{count_of(silence.something_relevant, 'query')} that a tool serves{where}"
        rows.append(("false silence", percent(silence.false_silence), "", "", of))
    return rows


def _cost_rows(cost: Cost) -> list[_Row]:
    how = "o200k" if cost.counted == "o200k" else "an upper estimate"
    ms = f"{cost.p50_ms:.1f} / {cost.p95_ms:.1f}"
    tokens = f"{cost.p50_tokens:.0f} / {cost.p95_tokens:.0f}"
    return [
        ("milliseconds", ms, "", "", "a search, p50 / p95"),
        ("tokens", tokens, "", "", f"an answer of five, p50 / p95, {how}"),
    ]


def percent(share: float) -> str:
    """A share as a number of a hundred."""
    return f"{100 * share:.1f}"
