"""The figures as tables for a person. Nothing is computed here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.ablation import Ablation
from bench.cages import Cages
from bench.calls import Calls
from bench.chains import INNER, OURS, PEER, Chains
from bench.churn import Churn
from bench.faults import Faults
from bench.machine import Machine
from bench.memory import Memory
from bench.probe import CHANGED, Took
from bench.processes import Held
from bench.quality import Found, Quality
from bench.scale import Scale, Skipped
from bench.search import Latency, Search
from bench.start import YARDSTICK, Starts
from bench.tiers import CLIENTS, EVERY_S, Tiers
from bench.tokens import Tokens
from bench.values import Failure, Spread

_LEFT = ("", "way", "program", "corpus", "set", "children", "fault", "answer to a caller meanwhile")


def show_machine(console: Console, machine: Machine) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    console.print(
        f"{machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB, Python {machine.python},"
        f" {machine.system}\n{versions}\nload before: {machine.load_before:.2f}; a fixed piece of work took"
        f" {_ranged(machine.steady_ms, 2)} ms"
    )


def show_calls(console: Console, calls: Calls) -> None:
    for one in calls.comparisons:
        title = f"calls: {one.backend} server, client mode={one.client_mode!r}"
        caption = (
            f"{calls.rounds} rounds in turn, each {calls.sequential_calls} calls one by one and"
            f" {calls.concurrent_calls} with {calls.workers} at once; medians; x = ratio to direct within"
            " a round (lowest-highest); CPU of the process talked to, its server not included"
        )
        rows = [
            (
                way.name, way.protocol_version, f"{way.p50_ms:.2f}", _times(way.p50_ratio),
                f"{way.p95_ms:.2f}", _times(way.p95_ratio), f"{way.calls_per_s:.0f}",
                _times(way.throughput_ratio), f"{way.cpu_ms:.2f}",
            )
            for way in one.ways
        ]  # fmt: skip
        heads = (
            "way",
            "protocol",
            "p50 ms",
            "x direct",
            "p95 ms",
            "x direct",
            "calls/s",
            "x direct",
            "CPU ms",
        )
        console.print(_table(title, heads, rows, caption))
        show_failures(console, one.failures)


def show_start(console: Console, starts: Starts) -> None:
    rows = [
        (
            start.name, str(start.servers), f"{start.tools_behind:,}", f"{start.tools_listed:,}",
            _ranged(start.seconds, 2), _times(start.to_yardstick), f"{start.cpu_s.median:.2f}",
            _times(start.cpu_to_yardstick), str(len(start.children)),
        )
        for start in starts.starts
    ]  # fmt: skip
    heads = ("program", "servers", "behind", "listed", "seconds", "x import", "CPU s", "x import", "started")
    yardstick_s = _ranged(starts.yardstick_s, 2)
    caption = (
        f"{starts.rounds} starts in turn; import = python -c {YARDSTICK!r}, {yardstick_s} s; behind and"
        " listed are tools, started are processes; CPU of the program itself"
    )
    console.print(_table("start to the first tools/list, catalog known", heads, rows, caption))
    show_failures(console, starts.failures)


def show_cages(console: Console, cages: Cages) -> None:
    means = "; ".join(cages.means) or "no cages"
    caption = (
        f"{cages.rounds} rounds in turn, each {cages.calls} calls one by one, a start and a stop; medians of"
        " the rounds (lowest-highest), of calls those of each round's p50; x = ratio to plain within a round;"
        f" {means}"
    )
    heads = ("way", "start ms", "x plain", "stop ms", "call p50 ms", "x plain", "p95 ms")
    for one in cages.servers:
        rows = [
            (
                way.name, _ranged(way.start_ms, 0), _times(way.start_ratio), _ranged(way.stop_ms, 0),
                _ranged(way.call_ms, 2), _times(way.call_ratio), f"{way.call_p95_ms:.2f}",
            )
            for way in one.ways
        ]  # fmt: skip
        console.print(_table(f"cages: {one.server} server", heads, rows, caption))
    _show_skipped(console, cages.skipped)
    show_failures(console, cages.failures)


def show_memory(console: Console, memory: Memory) -> None:
    rows = [("bare SDK, imported", "", "", _held(memory.bare), "", "", "")]
    for one in memory.footprints:
        searched = _held(one.after_search) if one.after_search else ""
        rows.append(
            (
                one.name, str(one.servers), f"{one.tools:,}", _held(one.after_list), searched,
                str(one.children), f"{one.below_mib:.0f}",
            )
        )  # fmt: skip
    heads = (
        "program",
        "servers",
        "tools",
        "after the list",
        "after a search",
        "processes below",
        "MiB below",
    )
    caption = f"MiB resident (PSS) of the process itself; the middle of {memory.samples} samples"
    console.print(_table("memory", heads, rows, caption))
    show_failures(console, memory.failures)


def show_tokens(console: Console, tokens: Tokens) -> None:
    rows = [
        (
            cost.corpus, str(cost.servers), f"{cost.tools:,}", f"{cost.raw_tokens:,}",
            f"{cost.given_tokens:,}",
            "/".join(str(count) for count in cost.menu_tokens.values()), f"{cost.menu_share:.4%}",
            f"{cost.definition.p50:.0f} / {cost.definition.p95:.0f}",
            f"{cost.search_answer.p50:.0f} / {cost.search_answer.p95:.0f}",
            f"{cost.find_and_call.p50:.0f} / {cost.find_and_call.p95:.0f}",
            f"{cost.call_alone.p50:.0f} / {cost.call_alone.p95:.0f}",
        )
        for cost in tokens.costs
    ]  # fmt: skip
    heads = (
        "corpus", "servers", "tools", "raw", "given", "menu", "menu of raw", "a definition",
        "a search's answer", "find and call", "the call alone",
    )  # fmt: skip
    said = "; ".join(
        f"{cost.corpus}: {cost.search_answer.samples} searches, {cost.find_and_call.samples} calls"
        f" of which {cost.refused} refused"
        for cost in tokens.costs
    )
    caption = f"o200k; pairs are p50 / p95; menu in the handshake/stateless era; {said}"
    console.print(_table("tokens", heads, rows, caption))


def show_search(console: Console, search: Search) -> None:
    rows = [
        (
            one.corpus, str(one.servers), f"{one.tools:,}", f"{one.first_ms:.0f}",
            _took(one.one_phrase), _took(one.three_phrases), f"{one.list_tools.p50_ms:.1f}", str(one.empty),
        )
        for one in search.searched
    ]  # fmt: skip
    heads = (
        "corpus",
        "servers",
        "tools",
        "first",
        "one phrase",
        "three phrases",
        "tools/list",
        "found nothing",
    )
    counted = search.searched[0].one_phrase.samples if search.searched else 0
    caption = f"milliseconds through MCP, p50 / p95 / largest; {counted} searches of one phrase a corpus"
    console.print(_table("search_tools", heads, rows, caption))


def show_scale(console: Console, scale: Scale) -> None:
    rows = [
        (
            one.program, f"{one.probed.tools:,}", str(one.probed.servers), str(one.probed.queries),
            _both(one.probed.p50), _both(one.probed.p95), _both(one.probed.build, 0),
            _both(one.probed.discovery, 0) if one.probed.discovery else "-",
            _both(one.probed.update, 0), f"{one.probed.mib:.0f}",
        )
        for one in scale.results
    ]  # fmt: skip
    heads = (
        "program", "tools", "servers", "queries", "p50", "p95", "build",
        f"discover {CHANGED} changed", "update", "MiB",
    )  # fmt: skip
    caption = (
        f"copies of the {scale.corpus} corpus; milliseconds of one phrase as wall (processor, all threads);"
        " MiB resident that the index added, vectors and words"
    )
    console.print(_table("search by size of the catalog", heads, rows, caption))
    _show_notes(console, [f"{one.program}: {one.probed.note}" for one in scale.results if one.probed.note])
    _show_skipped(console, scale.skipped)
    show_failures(console, scale.failures)


def show_quality(console: Console, quality: Quality) -> None:
    ways = [found.way for found in quality.sets[0].found] if quality.sets else []
    rows = [
        (
            one.name, f"{one.tools:,}", f"{one.queries:,}",
            *(_figures(found) for found in one.found),
        )
        for one in quality.sets
    ]  # fmt: skip
    caption = "R@5 / NDCG@10, x100, means over the same queries; answers of ten"
    console.print(_table("what search finds", ("set", "tools", "queries", *ways), rows, caption))
    _show_notes(
        console, [f"{found.way}: {found.note}" for one in quality.sets for found in one.found if found.note]
    )
    _show_skipped(console, quality.skipped)


def show_ablation(console: Console, ablation: Ablation) -> None:
    rows = [(name, *(_figures(one) for one in found)) for name, found in ablation.variants]
    caption = "hybrid search with one part changed; R@5 / NDCG@10, x100"
    console.print(_table("what each part brings", ("part", *ablation.sets), rows, caption))
    _show_skipped(console, ablation.skipped)


def show_tiers(console: Console, tiers: Tiers) -> None:
    rows = [
        (
            one.name, f"{one.bytes:,}",
            f"{one.ours.p50_ms.median:.2f}", _ranged(one.ours.p95_ms, 2),
            f"{one.bare.p50_ms.median:.2f}", _ranged(one.bare.p95_ms, 2),
            _times(one.p95_ratio), f"{one.ours.cpu_ms:.2f} / {one.bare.cpu_ms:.2f}",
        )
        for one in tiers.tiers
    ]  # fmt: skip
    heads = ("tier", "bytes", "p50 ms", "p95 ms", "bare p50", "bare p95", "x bare p95", "CPU ms / bare")
    caption = (
        f"{tiers.tools:,} tools of the {tiers.corpus} corpus on {tiers.servers} servers; {CLIENTS} clients on"
        f" open connections, each asking every {EVERY_S * 1e3:.0f} ms whatever the answers do; milliseconds"
        f" from the time set for asking; {tiers.rounds} rounds, each maitred, then a bare FastAPI route that"
        " answers as many constant bytes; T3-first: every tool for the first time; T2: 30 tools of the"
        " largest category"
    )
    console.print(_table("tiers over HTTP", heads, rows, caption))
    show_failures(console, tiers.failures)


def _figures(found: Found) -> str:
    return f"{_share(found.recall_at_5)} / {_share(found.ndcg_at_10)}"


def show_chains(console: Console, chains: Chains) -> None:
    caption = (
        f"{chains.rounds} rounds in turn, each program {chains.runs} times; p50 is the median of the rounds"
        " (lowest-highest), p95 that of all runs; x = ratio of p50 within a round\n"
        f"a plain call_tool: p50 {_ranged(chains.direct.p50_ms, 2)}, p95 {chains.direct.p95_ms:.2f} ms;"
        f" each of {INNER} calls inside: {_ranged(chains.inner_ms, 2)} ms, x call_tool"
        f" {_times(chains.inner_ratio)}"
    )
    if chains.peer_inner_ms:
        caption += f"; {PEER}: {_ranged(chains.peer_inner_ms, 2)} ms"
    rows = [
        (
            row.name, _ranged(row.ours.p50_ms, 2), f"{row.ours.p95_ms:.2f}",
            _ranged(row.peer.p50_ms, 2) if row.peer else "-", f"{row.peer.p95_ms:.2f}" if row.peer else "-",
            _times(row.ratio) if row.ratio else "-",
        )
        for row in chains.rows
    ]  # fmt: skip
    heads = ("program", f"{OURS} p50 ms", "p95 ms", f"{PEER} p50 ms", "p95 ms", "x")
    console.print(_table("chains", heads, rows, caption))
    show_failures(console, chains.failures)


def show_churn(console: Console, churn: Churn) -> None:
    plan = churn.plan
    kinds = "; ".join(f"{count:,} {kind}" for kind, count in churn.ended.items())
    caption = (
        f"{plan.clients} clients over {plan.servers} servers for {plan.seconds:g} s, one server killed every"
        f" {plan.kill_every_s:g} s: {churn.kills} kills, {churn.starts} processes started,"
        f" {churn.suspended} servers suspended (the budget of restarts is the default one)\n"
        f"{churn.asked:,} calls: {kinds}; the longest allowed {churn.limit_s:g} s; moments with two processes"
        f" of a server {churn.doubled}, processes left {churn.left}"
    )
    heads = ("calls that ended with", "p50 ms", "p95 ms", "p99 ms", "max ms")
    rows = [
        (name, *(f"{ms[figure]:.1f}" for figure in ("p50", "p95", "p99", "max")))
        for name, ms in (("an answer", churn.answers_ms), ("an error", churn.errors_ms))
        if ms
    ]
    console.print(_table("servers that are killed", heads, rows, caption))
    show_failures(console, churn.failures)


def show_faults(console: Console, faults: Faults) -> None:
    caption = (
        f"{faults.kills} times SIGKILL, {faults.early} before all was ready, {faults.unguarded} together with"
        " the warden; seconds from a start to the desired state\n"
        f"servers that ran twice {faults.doubled}, left of killed gateways {faults.orphans}, decisions lost"
        f" {faults.lost} of {faults.decided}"
    )
    figures = [f"{faults.restart(share):.2f}" for share in (0.5, 0.95, 1.0)]
    heads: Sequence[str] = ("restarts", "p50 s", "p95 s", "max s")
    row = (str(len(faults.restart_s)), *figures)
    console.print(_table("gateways that are killed", heads, [row], caption))
    rows = [
        (one.fault, one.answer, f"{one.recovered_s:.2f}", str(one.doubled), str(one.orphans))
        for one in faults.rows
    ]
    heads = ("fault", "answer to a caller meanwhile", "desired after s", "twice", "left")
    caption = "seconds from when it was there again, or the container was killed, to the desired state"
    console.print(_table("what cages need is taken away", heads, rows, caption))
    _show_skipped(console, faults.skipped)
    show_failures(console, faults.failures)


SHOW: Mapping[str, Callable[[Console, Any], None]] = {
    "calls": show_calls,
    "start": show_start,
    "cages": show_cages,
    "memory": show_memory,
    "tokens": show_tokens,
    "search": show_search,
    "scale": show_scale,
    "quality": show_quality,
    "ablation": show_ablation,
    "tiers": show_tiers,
    "chains": show_chains,
    "churn": show_churn,
    "faults": show_faults,
}


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> Table:
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head in _LEFT else "right")
    for row in rows:
        table.add_row(*row)
    return table


def show_failures(console: Console, failures: Sequence[Failure]) -> None:
    for failure in failures:
        console.print(f"FAILED {failure.what}: {failure.why}", style="red", markup=False)


def _show_skipped(console: Console, skipped: Sequence[Skipped]) -> None:
    for one in skipped:
        console.print(f"skipped {one.what}: {one.why}", style="yellow", markup=False)


def _show_notes(console: Console, notes: Sequence[str]) -> None:
    for note in dict.fromkeys(notes):
        console.print(f"note: {note}", style="yellow", markup=False)


def _times(value: Spread) -> str:
    return f"{value.median:.2f} ({value.low:.2f}-{value.high:.2f})"


def _ranged(value: Spread, digits: int) -> str:
    return f"{value.median:.{digits}f} ({value.low:.{digits}f}-{value.high:.{digits}f})"


def _took(latency: Latency) -> str:
    return f"{latency.p50_ms:.1f} / {latency.p95_ms:.1f} / {latency.largest_ms:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _both(took: Took, digits: int = 1) -> str:
    return f"{took.wall_ms:,.{digits}f} ({took.cpu_ms:,.{digits}f})"


def _held(held: Held) -> str:
    return f"{held.rss_mib:.0f}" + (f" ({held.pss_mib:.0f})" if held.pss_mib is not None else "")
