"""`maitred eval traps`: how well mediation refuses the answers of a model that misreads a tool."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.text import Text

from maitred.surfaces.cli.console import (
    COLUMNS,
    JsonOption,
    err,
    make_table,
    out,
    print_json,
    print_table,
    run,
)

if TYPE_CHECKING:  # it takes a second to import, which `--help` need not wait for
    from maitred.evaluation.traps import TrapEvaluation, TrapResult, TrapShare

_NUMBERS = ("traps", "through", "used", "held back", "through (held back)", "used (held back)")


def traps(
    folder: Annotated[Path, typer.Argument(help="Where servers.jsonl and traps.jsonl are.")],
    as_json: JsonOption = False,
) -> None:
    """Measure how many wrong answers of a language model are used, and how many right ones."""
    from maitred.evaluation.traps import evaluate, read_traps  # noqa: PLC0415  # brings the gateway
    from maitred.wiring import bundled_embedder  # noqa: PLC0415  # as above

    trap_set = read_traps(folder)

    async def go() -> "TrapEvaluation":
        with Progress(*COLUMNS, console=err, transient=True) as bars:
            task = bars.add_task("setting traps", total=len(trap_set.traps))
            return await evaluate(
                trap_set, embedder=bundled_embedder(), step=lambda: bars.update(task, advance=1)
            )

    found = run(go)
    if as_json:
        print_json(found.to_json())
    else:
        print_table(
            make_table(
                "wrong answers through, right answers used",
                ("kind", *_NUMBERS),
                _rows(found),
                numbers=_NUMBERS,
            )
        )
        _say("through", [one for one in found.tuned if one.wrong_is_used])
        _say("right, but not used", [one for one in found.tuned if not one.right_is_used])
        out.print(_summary(found))
    if not found.passes:
        raise typer.Exit(1)


def _rows(found: "TrapEvaluation") -> list[tuple[str, ...]]:
    from maitred.evaluation.traps import by_kind, share_of  # noqa: PLC0415  # as above

    parts = [by_kind(part) for part in (found.tuned, found.held_back)]
    kinds = sorted({kind for part in parts for kind in part})
    rows = [(kind, *(cell for part in parts for cell in _cells(part.get(kind)))) for kind in kinds]
    return [
        *rows,
        ("all", *(cell for part in (found.tuned, found.held_back) for cell in _cells(share_of(part)))),
    ]


def _cells(share: "TrapShare | None") -> tuple[str, ...]:
    return ("", "", "") if share is None else (f"{share.traps:,}", f"{share.through:,}", f"{share.used:,}")


def _say(title: str, results: "list[TrapResult]") -> None:
    if results:
        names = ", ".join(f"{one.trap.server}/{one.trap.tool} ({one.trap.kind})" for one in results)
        out.print(Text(f"{title}: {names}"))


def _summary(found: "TrapEvaluation") -> Text:
    from maitred.evaluation.traps import ALLOWED_THROUGH, WANTED_USED, share_of  # noqa: PLC0415  # as above

    parts = []
    for name, part in (("tuned", found.tuned), ("held back", found.held_back)):
        if share := share_of(part) if part else None:
            through, used = 100 * share.through / share.traps, 100 * share.used / share.traps
            parts.append(
                f"{name}: {through:.1f} % through, {used:.1f} % used: {'pass' if share.passes else 'FAIL'}"
            )
    wanted = f"wanted: at most {100 * ALLOWED_THROUGH:.0f} % through, at least {100 * WANTED_USED:.0f} % used"
    return Text(f"{'; '.join(parts)} ({wanted})")
