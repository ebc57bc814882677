"""`maitred eval`: the quality of search, of the placement of tools, and of mediation.

`maitred eval poison`: how well the poisoning scan separates malicious definitions from honest ones.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.evaluation.categories import BANDS, PlacementAgreement, judge, read_labels
from maitred.model.access import Viewer
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    check_servers,
    known_gateway,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
)
from maitred.surfaces.cli.eval_search import percent, search, show_progress
from maitred.surfaces.cli.eval_traps import traps
from maitred.surfaces.cli.options import server_option
from maitred.surfaces.cli.tables import PlainTable
from maitred.wording import count_of

if TYPE_CHECKING:  # it brings the rules, which `--help` need not wait for
    from maitred.evaluation.poison import HalfResult, HeldShare, PoisonResult

RECALL = 0.95
FALSE_POSITIVES = 0.02

_SEVERAL = 5
_NUMBERS = ("development half", "unseen half")


def poison(
    folder: Annotated[
        Path,
        typer.Argument(help="Where malicious.yaml and benign.yaml are, and again in its folder `unseen`."),
    ],
    recorded: Annotated[
        Path | None, typer.Option(help="Recorded tools of real servers, one JSON object a server and line.")
    ] = None,
    fresh: Annotated[
        Path | None, typer.Option(help="More of them that nothing was made by; all are in the unseen half.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the scan for poisoned definitions, on what its rules were written by and on an unseen half."""
    from maitred.evaluation.poison import evaluate, read_corpora, read_recorded  # noqa: PLC0415  # as above

    said = [
        *(read_recorded(recorded) if recorded else ()),
        *(read_recorded(fresh, fresh=True) if fresh else ()),
    ]
    found = evaluate(*read_corpora(folder), said)
    if as_json:
        print_json(found.to_json())
        return
    halves = (found.development, found.unseen)
    rows = [(name, *(_of(part) for part in parts)) for name, parts in _parts(halves)]
    print_table(make_table("held by the poisoning scan", ("", *_NUMBERS), rows, numbers=_NUMBERS))
    title = f"evil, by pattern (of those that {_SEVERAL} or more of a half have)"
    print_table(make_table(title, ("pattern", *_NUMBERS), _patterns(found), numbers=_NUMBERS))
    for name, ids in (
        ("missed", found.development.missed),
        ("held though honest", found.development.mistaken),
    ):
        if ids:
            out.print(Text(f"{name} in the development half: {', '.join(ids)}"))
    out.print(_verdict(found.unseen))


def _parts(halves: "tuple[HalfResult, HalfResult]") -> "list[tuple[str, list[HeldShare]]]":
    return [
        ("evil (recall)", [half.evil for half in halves]),
        ("evil, the subtle ones among them", [half.subtle for half in halves]),
        ("honest, looking suspicious", [half.honest for half in halves]),
        ("honest, twenty tools of each recorded server", [half.sampled for half in halves]),
        ("honest, all that was recorded", [half.recorded for half in halves]),
        ("honest or sampled, with any finding", [half.told for half in halves]),
    ]


def _patterns(found: "PoisonResult") -> list[tuple[str, str, str]]:
    """The patterns that several definitions of a half have, and the sum of the rest: most are rare."""
    halves = (found.development.patterns, found.unseen.patterns)
    names = {name for half in halves for name, share in half.items() if share.of >= _SEVERAL}
    development, unseen = halves
    rows = [(name, _of(development.get(name)), _of(unseen.get(name))) for name in sorted(names)]
    rest = [[share for name, share in half.items() if name not in names] for half in halves]
    if any(rest):
        rows.append(("others", _of_all(rest[0]), _of_all(rest[1])))
    return rows


def _verdict(half: "HalfResult") -> Text:
    recall, mistakes = half.recall or 0.0, half.false_positives
    told = f"unseen half: recall {100 * recall:.1f} % (wanted {100 * RECALL:.0f} %)"
    if mistakes is None:
        return Text(
            f"{told}; false positives are counted over recorded tools only: give them with --recorded"
        )
    fits = recall >= RECALL and mistakes <= FALSE_POSITIVES
    wanted = f"wanted {100 * FALSE_POSITIVES:.0f} % at most"
    return Text(
        f"{told}, false positives {100 * mistakes:.1f} % ({wanted}): {'as' if fits else 'not as'} wanted"
    )


def _of(share: "HeldShare | None") -> str:
    return "" if share is None or not share.of else _told(share.held, share.of)


def _of_all(shares: "Collection[HeldShare]") -> str:
    return _told(sum(one.held for one in shares), sum(one.of for one in shares)) if shares else ""


def _told(held: int, of: int) -> str:
    return f"{held:,} of {of:,} = {100 * held / of:.1f} %"


if TYPE_CHECKING:  # they take a second to import, which `--help` need not wait for
    from maitred.evaluation.mediation import BeforeAndAfter
    from maitred.evaluation.mediation import MediationEvaluation as OfMediation
    from maitred.evaluation.selfcheck import SelfCheck

eval_app = typer.Typer(
    help="Measure how well search finds, and how well tools are placed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    eval_app.command("search")(search)
    eval_app.command("poison")(poison)
    eval_app.command("traps")(traps)
    app.add_typer(eval_app, name="eval")


@eval_app.command("self")
def self_command(
    config: ConfigOption = None,
    server: Annotated[str, server_option("Check only the tools of this server, among all.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Find the tools of your own catalog that are hard to find or easily confused, and what to change."""
    settings, viewer = prepare(config)
    found = run(lambda: _check(settings, server, viewer))
    if as_json:
        print_json(_check_json(found))
        return
    for table in _check_tables(found):
        print_table(table)
    out.print(_summary(found))


@eval_app.command("categories")
def categories_command(
    labels: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="server, tool, category and alternative, with tabs between."),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the categories of your tools by labels that a person gave."""
    known = read_labels(labels)
    settings, viewer = prepare(config)

    async def go() -> PlacementAgreement:
        async with known_gateway(settings) as gateway:
            return judge(known, {tool.key: tool.placement for tool in gateway.whole_catalog(viewer).tools})

    found = run(go)
    if as_json:
        print_json(found.to_json())
        return
    if found.tools:
        for table in _verdict_tables(found):
            print_table(table)
    strictly, leniently = percent(found.strict_share), percent(found.lenient_share)
    out.print(
        f"{count_of(found.tools, 'labelled tool')}, {found.missing:,} more not there: {strictly} % right,"
        f" {leniently} % with alternatives"
    )


@eval_app.command("mediation")
def mediation_command(
    server_file: Annotated[
        Path, typer.Argument(metavar="SERVER_FILE", help="A poor server as YAML or JSON: `server`, `tools`.")
    ],
    queries: Annotated[
        Path,
        typer.Argument(metavar="QUERIES", help="A query and the tool that serves it, with a tab between."),
    ],
    recorded: Annotated[
        Path | None, typer.Option(help="A folder of recorded servers, one a line in *.jsonl.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what mediation by rules gains a poor server, and that no recorded server loses by it."""
    from maitred.evaluation import mediation  # noqa: PLC0415  # brings the gateway, see above
    from maitred.wiring import bundled_embedder  # noqa: PLC0415  # as above

    poor = mediation.read_server(server_file)
    asked = mediation.read_queries(queries, poor)
    others = mediation.read_recorded(recorded, besides=poor) if recorded else []
    steps = 1 + (1 + len({tool.key.server for tool in others}) if others else 0)

    async def go() -> "OfMediation":
        with show_progress("mending", steps) as advance:
            return await mediation.evaluate(poor, asked, others, embedder=bundled_embedder(), step=advance)

    found = run(go)
    if as_json:
        print_json(found.to_json())
    else:
        for table in _mediation_tables(found):
            print_table(table)
        out.print(_mediation_summary(found))
    if not found.passes:
        raise typer.Exit(1)


async def _check(settings: Settings, server: str, viewer: Viewer) -> "SelfCheck":
    from maitred.evaluation.selfcheck import check  # noqa: PLC0415  # brings the gateway, see above

    async with known_gateway(settings) as gateway:
        check_servers(gateway.settings, [server] if server else [])  # those that are registered, too
        count = len([t for t in gateway.visible_tools(viewer) if not server or t.server == server])
        with show_progress("asking for each tool", count) as advance:
            return await check(gateway, viewer, server, advance)


def _check_tables(found: "SelfCheck") -> list[PlainTable]:
    tables = []
    if found.hard:
        rows = [
            (
                tool.name,
                f"{tool.found} of {len(tool.asked)}",
                tool.instead[0] if tool.instead else "",
                "; ".join(tool.advice),
            )
            for tool in found.hard
        ]
        tables.append(make_table("hard to find", ("tool", "found", "first instead", "what to change"), rows))
    if found.confusable:
        pairs = [(pair.first, pair.second, pair.why) for pair in found.confusable]
        tables.append(make_table("easily confused", ("tool", "with", "why"), pairs))
    return tables


def _verdict_tables(found: PlacementAgreement) -> list[PlainTable]:
    numbers = ("labelled", "placed", "right", "precision", "recall", "times", "tools", "with alternatives")
    categories = [
        (
            *(one.category, f"{one.labelled:,}", f"{one.placed:,}", f"{one.right:,}"),
            *("" if share is None else percent(share) for share in (one.precision, one.recall)),
        )
        for one in found.categories
    ]
    confusions = [(labelled, was, f"{count:,}") for labelled, was, count in found.confusions]
    ends = [*BANDS[1:], 1.0]
    bands = [
        (
            *(f"{band.start:.2f} to {end:.2f}", f"{band.tools:,}"),
            *(percent(right / band.tools) if band.tools else "" for right in (band.right, band.lenient)),
        )
        for band, end in zip(found.bands, ends, strict=True)
    ]
    of_each = ("category", *numbers[:5])
    tables = [make_table("by category (strictly)", of_each, categories, numbers=numbers)]
    if confusions:
        pairs = ("labelled", "placed in", "times")
        tables.append(make_table("wrong, even with alternatives", pairs, confusions, numbers=("times",)))
    shares = ("confidence", "tools", "right", "with alternatives")
    return [*tables, make_table("by confidence", shares, bands, numbers=numbers)]


def _mediation_tables(found: "OfMediation") -> list[PlainTable]:
    compared = found.gain.compared
    gains = [(count_of(one.among, "tool"), f"{one.queries:,}", *_mended_cells(one)) for one in compared]
    heads = ("among", "queries", "mended", "taken back", "R@1", "R@5", "NDCG@10", "R@5 points")
    title = f"{found.gain.server}: {count_of(found.gain.tools, 'tool')}, before > after"
    tables = [make_table(title, heads, gains, numbers=heads)]
    if found.servers:
        rows = [
            (one.server, f"{one.compared.queries:,}", *_mended_cells(one.compared), _passed(one.passes))
            for one in found.servers
        ]
        columns = ("server", *heads[1:], "verdict")
        title = f"recorded servers, among {count_of(found.servers[0].compared.among, 'tool')}"
        tables.append(make_table(title, columns, rows, numbers=heads))
    return tables


def _mended_cells(one: "BeforeAndAfter") -> tuple[str, ...]:
    pairs = (
        (one.before.recall_at_1, one.after.recall_at_1),
        (one.before.recall_at_5, one.after.recall_at_5),
        (one.before.ndcg_at_10, one.after.ndcg_at_10),
    )
    figures = (f"{percent(before)} > {percent(after)}" for before, after in pairs)
    return f"{one.mended.kept:,}", f"{one.mended.taken_back:,}", *figures, f"{one.points:+.1f}"


def _mediation_summary(found: "OfMediation") -> Text:
    gain = found.gain.compared[0]
    text = f"{found.gain.server} gains {gain.points:.1f} points of R@5: {_passed(found.gain.passes)}"
    if found.servers:
        worst = min(found.servers, key=lambda one: one.compared.points)
        failed = sum(not one.passes for one in found.servers)
        text += (
            f"; {failed:,} of {count_of(len(found.servers), 'recorded server')} lose too much, the worst is"
            f" {worst.server} with {worst.compared.points:+.1f}: {_passed(not failed)}"
        )
    return Text(text)


def _passed(passes: bool) -> str:
    return "pass" if passes else "FAIL"


def _summary(found: "SelfCheck") -> Text:
    asked = f"{count_of(found.tools, 'tool')} asked for in {count_of(found.phrases, 'phrase')}"
    return Text(
        f"{asked}: {percent(found.at_first)} %"
        f" at first, {percent(found.among_five)} % among the first five; {len(found.hard):,} hard to find,"
        f" {count_of(len(found.confusable), 'pair')} easily confused"
    )


def _check_json(found: "SelfCheck") -> Mapping[str, Any]:
    hard = [asdict(tool) | {"found": tool.found} for tool in found.hard]
    return asdict(found) | {"hard": hard}
