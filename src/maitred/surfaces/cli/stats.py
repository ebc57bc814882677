"""`maitred stats`, `tiers` and `budget`: usage of tools, the cost of finding them, and their tiers.

`budget` measures each answer of the menu over your own tools, and compares it with its limit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from maitred.config.settings import Settings
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.model.usage import Level, Spending, ToolStanding, Usage
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    err,
    known_gateway,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
    visible,
    wait_for_vectors,
)
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway.usage_shares import ShareKind
    from maitred.usage.prices import UsageShare

LEVELS: Final[tuple[Level, ...]] = ("hot", "warm", "standard", "cold")

_TOP_TOOLS = 15
_TOP_TIERS = 50
_FIGURES = ("calls", "succeeded", "mean ms", "p95 ms")
_TOKENS = ("spent", "raw", "saved")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(stats)
    app.command()(tiers)
    app.command()(budget)


def stats(
    config: ConfigOption = None,
    days: Annotated[int, typer.Option(min=1, max=90, help="How many days, with today as the last.")] = 30,
    by: Annotated[
        Literal["", "principal", "role", "team"],
        typer.Option(metavar="principal|role", help="Who used how much, and what it cost, instead."),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show how tools were used and what it cost to find them, by all gateways on the catalog."""
    settings, viewer = prepare(config)
    if by:
        _show_shares(settings, viewer, days, by, as_json=as_json)
        return

    async def go() -> Any:
        async with known_gateway(settings) as gateway:
            return await gateway.stats(days, viewer=viewer)

    found = run(go)
    if as_json:
        print_json(found.to_json())
        return
    if found.used:
        _show_used(
            f"tools, last {count_of(days, 'day')}", "tool", dict(list(found.used.items())[:_TOP_TOOLS])
        )
        _show_used("servers", "server", found.by_server)
    if found.spending:
        _show_spending(found.spending)
    out.print(
        f"{count_of(found.calls, 'call')} in {count_of(days, 'day')}; {count_of(found.tools, 'tool')} on"
        f" {count_of(found.servers, 'server')}, {found.raw_tokens:,} tokens raw"
    )
    out.print(_levels(found.levels, found.tiers_at))


def _show_spending(spending: Sequence[Spending]) -> None:
    rows = [
        (
            *(row.day, row.principal),
            *(f"{n:,}" for n in (row.spent, row.raw_tokens, row.raw_tokens - row.spent)),
            "passed" if row.break_even else "",
        )
        for row in spending
    ]
    headings = ("day", "principal", *_TOKENS, "break-even")
    print_table(make_table("tokens for finding tools", headings, rows, numbers=_TOKENS))


def _show_shares(settings: Settings, viewer: Viewer, days: int, by: "ShareKind", *, as_json: bool) -> None:
    """Print who used how much, and what it cost by the prices of the configuration."""

    async def go() -> "Sequence[UsageShare]":
        async with known_gateway(settings) as gateway:
            return await gateway.usage_shares(days, by, viewer)

    found, currency = run(go), settings.usage.currency
    if as_json:
        print_json({"days": days, "by": by, "currency": currency, "shares": [asdict(one) for one in found]})
        return
    numbers = ("calls", "read", "written", "raw", currency)
    rows = [
        (
            visible(one.name),
            *(f"{n:,}" for n in (one.calls, one.read_tokens, one.argument_tokens, one.raw_tokens)),
            f"{one.cost:,.2f}",
        )
        for one in found
    ]
    print_table(make_table(f"use, last {count_of(days, 'day')}", (by, *numbers), rows, numbers=numbers))
    out.print(f"{sum(one.cost for one in found):,.2f} {currency} in {count_of(days, 'day')}")


def _show_used(title: str, what: str, used: Mapping[str, Usage]) -> None:
    rows = [(name, *_figures(usage)) for name, usage in used.items()]
    print_table(make_table(title, (what, *_FIGURES), rows, numbers=_FIGURES))


def _figures(usage: Usage) -> tuple[str, str, str, str]:
    """Calls, the share that succeeded, and latencies; empty texts where there were no calls."""
    if not usage.calls:
        return "0", "", "", ""
    return f"{usage.calls:,}", f"{usage.success_rate:.1%}", f"{usage.mean_ms:,.0f}", f"{usage.p95_ms:,.0f}"


def _levels(levels: Mapping[Level, int], at: str) -> str:
    counts = ", ".join(f"{levels.get(level, 0):,} {level}" for level in LEVELS)
    return f"tiers ({f'computed {at}' if at else 'never computed'}): {counts}"


def tiers(
    action: Annotated[
        Literal["", "update"], typer.Argument(metavar="update", help="`update` computes them now.")
    ] = "",
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="All tools, also those never called.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the tools by tier, with the score and the figures behind it. `update` computes tiers now."""
    settings, viewer = prepare(config)

    async def go() -> tuple[Any, int]:
        async with known_gateway(settings) as gateway:
            before = gateway.whole_catalog(viewer).standings
            if action == "update":
                await gateway.update_tiers(viewer)
            snapshot = gateway.whole_catalog(viewer)
            return snapshot, _moved(before, snapshot.standings)

    snapshot, moved = run(go)
    unused = ToolStanding()
    found = [(tool, snapshot.standings.get(tool.key, unused)) for tool in snapshot.tools]
    found.sort(key=lambda pair: (-pair[1].score, pair[0].name))
    levels = Counter(standing.level for _, standing in found)
    wanted = found if every else [pair for pair in found if pair[1].usage.calls]
    if as_json:
        tools = [{"name": tool.name, **_standing_json(standing)} for tool, standing in wanted]
        moves = {"moved": moved} if action == "update" else {}
        print_json({"computed": snapshot.tiers_at, "levels": dict(levels), "tools": tools} | moves)
        return
    shown = wanted if every else wanted[:_TOP_TIERS]
    if shown and action != "update":
        rows = [(s.level, f"{s.score:.3f}", tool.name, *_figures(s.usage)) for tool, s in shown]
        numbers = ("score", *_FIGURES)
        print_table(make_table("", ("tier", "score", "tool", *_FIGURES), rows, numbers=numbers))
        if left := len(wanted) - len(shown):
            out.note(f"({left:,} more: --all)")
    out.print(_levels(levels, snapshot.tiers_at))
    if action == "update":
        out.note(f"{count_of(moved, 'tool')} moved to another tier")


def _moved(before: Mapping[ToolKey, ToolStanding], after: Mapping[ToolKey, ToolStanding]) -> int:
    """How many tools have another level. A tool without a stored tier is cold."""
    cold = ToolStanding()
    return sum(before.get(key, cold).level != after.get(key, cold).level for key in {**before, **after})


def _standing_json(standing: ToolStanding) -> dict[str, Any]:
    usage = standing.usage
    return {
        "tier": standing.level,
        "score": round(standing.score, 4),
        "calls": usage.calls,
        "success_rate": round(usage.success_rate, 4),
        "mean_ms": round(usage.mean_ms, 1),
        "p95_ms": round(usage.p95_ms, 1),
        "calls_7d": usage.calls_7d,
        "calls_30d": usage.calls_30d,
        "last_used": usage.last_used,
    }


if TYPE_CHECKING:  # it takes a second to import, which `--help` need not wait for
    from maitred.evaluation.budget import AnswerCost


def budget(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Measure every answer of the menu in tokens (o200k). Exits with 1 when one is over its limit."""
    settings, viewer = prepare(config)
    found = run(lambda: _measured(settings, viewer))
    over = [one for one in found if not one.ok]
    if as_json:
        print_json({"ok": not over, "measured": [one.to_json() for one in found]})
    else:
        rows = [
            (one.name, f"{one.tokens:,}", f"{one.limit:,}", "" if one.ok else "OVER", one.detail)
            for one in found
        ]
        headings = ("answer", "tokens", "at most", "", "the worst")
        print_table(make_table("", headings, rows, numbers=("tokens", "at most")))
        out.note(f"{len(over)} of {len(found)} over their limit" if over else "All within their limits.")
    if over:
        raise typer.Exit(1)


async def _measured(settings: Settings, viewer: Viewer) -> "Sequence[AnswerCost]":
    # it brings the gateway, see above
    from maitred.evaluation.budget import measure  # noqa: PLC0415

    async with known_gateway(settings) as gateway:
        await wait_for_vectors(gateway)
        with err.status("asking for every page …"):
            return await measure(gateway, viewer)
