"""`maitred eval poison`: how well the poisoning scan tells evil definitions from honest ones."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.surfaces.cli.common import JsonOption, out, print_json
from maitred.surfaces.cli.tables import make_table, print_table

if TYPE_CHECKING:  # it brings the rules, which `--help` need not wait for
    from maitred.evaluation.poison import HalfResult, PoisonResult, Share

RECALL = 0.95
FALSE_POSITIVES = 0.02

_SEVERAL = 5
_NUMBERS = ("development half", "unseen half")


def register(app: typer.Typer) -> None:
    """Add the command to those of `maitred eval`."""
    app.command("poison")(poison)


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


def _parts(halves: "tuple[HalfResult, HalfResult]") -> "list[tuple[str, list[Share]]]":
    return [
        ("evil (recall)", [half.evil for half in halves]),
        ("evil, the subtle ones among them", [half.subtle for half in halves]),
        ("honest, looking suspicious", [half.honest for half in halves]),
        ("honest, twenty tools of each recorded server", [half.sampled for half in halves]),
        ("honest, all that was recorded", [half.recorded for half in halves]),
        ("honest or sampled, told of at all", [half.told for half in halves]),
    ]


def _patterns(found: "PoisonResult") -> list[tuple[str, str, str]]:
    """The patterns that several definitions of a half have, the rest summed: most have names of their own."""
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
        return Text(f"{told}; false positives are counted of recorded tools: name them with --recorded")
    fits = recall >= RECALL and mistakes <= FALSE_POSITIVES
    wanted = f"wanted {100 * FALSE_POSITIVES:.0f} % at most"
    return Text(
        f"{told}, false positives {100 * mistakes:.1f} % ({wanted}): {'as' if fits else 'not as'} wanted"
    )


def _of(share: "Share | None") -> str:
    return "" if share is None or not share.of else _told(share.held, share.of)


def _of_all(shares: "Collection[Share]") -> str:
    return _told(sum(one.held for one in shares), sum(one.of for one in shares)) if shares else ""


def _told(held: int, of: int) -> str:
    return f"{held:,} of {of:,} = {100 * held / of:.1f} %"
