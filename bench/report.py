"""The figures as tables for a person. Nothing is computed here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.page_tokens import BREAK_EVEN_TOKENS
from tests.support.token_table import DOCUMENT

from bench import fleet
from bench.ablation import Ablation
from bench.availability import AIM, Availability, Counted
from bench.browsing import Browsing, Errand
from bench.cages import Cages
from bench.calls import DIRECT, Calls, Summary, Way
from bench.chains import INNER, OURS, PEER, Chains
from bench.churn import Churn
from bench.deferral import DeferralTable
from bench.faults import Faults
from bench.growth import CHANGED, Growth, Took
from bench.hits import EDITS, Hits
from bench.machine import Machine
from bench.output import Output
from bench.page_tokens import PageTokens
from bench.pages import Pages
from bench.quality import Found, Quality
from bench.shell import CommandTimes
from bench.start import YARDSTICK, Starts
from bench.tiers import CLIENTS, EVERY_S, Tiers
from bench.token_table import TokenTable
from bench.tokens import Tokens
from bench.usage import Lift, UsageLift
from bench.values import Failure, Skipped, Spread
from bench.web import MOST_BYTES, MOST_MS, WebPages
from bench.wire import VERSIONS
from maitred.evaluation.metrics import percentile

_TEN, _HUNDRED = 10, 100


def show_machine(out: Output, machine: Machine) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    out.line(
        f"{machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB, Python {machine.python},"
        f" {machine.system}\n{versions}\nload before: {machine.load_before:.2f}; a fixed piece of work took"
        f" {_ranged(machine.steady_ms, 2)} ms"
    )


def show_calls(out: Output, calls: Calls) -> None:
    for one in calls.comparisons:
        at = " / ".join(str(parallel) for parallel in calls.calls)
        made = " / ".join(str(count) for count in calls.calls.values())
        client = "a lean client" if one.client == "lean" else "the client of the SDK"
        title = f"What a call costs: the server `{one.backend}`, {client}"
        caption = (
            f"Four figures are of {at} calls at once. {calls.rounds} rounds in turn, each of {made} calls;"
            " medians. CPU: of all processes of the gateway, without the server, for a call. x direct: ratio"
            " within a round."
        )
        rows = [
            (
                way.name,
                way.protocol_version,
                "-" if way.name == DIRECT else _each(way, lambda level: level.cpu_ms),
                _each(way, lambda level: level.p50_ms),
                _each(way, lambda level: level.p50_ratio.median),
                _each(way, lambda level: level.p95_ms),
                _each(way, lambda level: level.calls_per_s),
                _each(way, lambda level: level.throughput_ratio.median),
            )
            for way in one.ways
        ]
        absent = [(missing.name, "not installed", missing.how) for missing in one.missing]
        heads = ("way", "protocol", "CPU ms", "p50 ms", "x direct", "p95 ms", "calls/s", "x direct")
        out.table(title, heads, [*rows, *absent], caption)
        show_failures(out, one.failures)


def _each(way: Way, figure: Callable[[Summary], float]) -> str:
    """A figure of each level, to three digits or so."""
    values = [figure(level) for level in way.levels]
    return " / ".join(f"{value:.{2 if value < _TEN else 1 if value < _HUNDRED else 0}f}" for value in values)


def show_start(out: Output, starts: Starts) -> None:
    rows = [
        (
            start.name, str(start.servers), f"{start.tools_behind:,}", f"{start.tools_listed:,}",
            _ranged(start.seconds, 2), _times(start.to_yardstick), f"{start.cpu_s.median:.2f}",
            _times(start.cpu_to_yardstick), f"{start.mib:.0f}", str(len(start.children)),
        )
        for start in starts.starts
    ]  # fmt: skip
    heads = (
        "program",
        "servers",
        "behind",
        "listed",
        "seconds",
        "x import",
        "CPU s",
        "x import",
        "MiB",
        "started",
    )
    yardstick_s = _ranged(starts.yardstick_s, 2)
    caption = (
        f"{starts.rounds} starts in turn; import = python -c {YARDSTICK!r}, {yardstick_s} s; behind and"
        " listed are tools, started are processes; CPU of the program itself"
    )
    out.table("start to the first tools/list, catalog known", heads, rows, caption)
    show_failures(out, starts.failures)


def show_cages(out: Output, cages: Cages) -> None:
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
        out.table(f"cages: {one.server} server", heads, rows, caption)
    _show_skipped(out, cages.skipped)
    show_failures(out, cages.failures)


def show_tokens(out: Output, tokens: Tokens) -> None:
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
    out.table("tokens", heads, rows, caption)


def show_shell(out: Output, times: CommandTimes) -> None:
    rows = [
        (one.name, one.command, _ranged(one.alone_s, 2), _ranged(one.running_s, 2)) for one in times.commands
    ]
    caption = (
        f"Seconds of whole processes; {times.servers} servers with {times.tools:,} tools, known from before."
        f" {times.rounds} rounds in turn; medians, lowest and highest. `call` starts its server if no gateway"
        " runs."
    )
    heads = ("program", "command", "no gateway s", "gateway runs s")
    out.table("How long a command takes", heads, rows, caption)
    show_failures(out, times.failures)


def show_growth(out: Output, growth: Growth) -> None:
    rows = [
        (
            one.program, f"{one.tools:,}", f"{one.servers:,}", _both(one.opened, 0) if one.opened else "-",
            _both(one.indexed, 0), f"{one.p50_ms:.1f}", f"{one.p95_ms:.1f}", f"{one.cpu_ms:.1f}",
            _both(one.changed, 0), f"{one.mib:.0f}",
        )
        for one in growth.sizes
    ]  # fmt: skip
    heads = (
        "program", "tools", "servers", "open", "index", "search p50", "p95", "CPU", "change", "MiB",
    )  # fmt: skip
    caption = (
        f"Copies of the {growth.corpus} corpus. Milliseconds, processor time in brackets. Open: to the first"
        f" tools/list. Index: until a first search is answered and all is idle. Change: of {CHANGED}"
        " tools, with a search after it, until all is idle. MiB: resident in the end, without servers."
    )
    discovered = [
        (
            one.program,
            f"{one.tools:,}",
            f"{one.servers:,}",
            f"{one.took.wall_ms / 1e3:.1f}",
            f"{one.took.cpu_ms / 1e3:.1f}",
        )
        for one in growth.discoveries
    ]
    if discovered:
        out.table(
            "What it costs to get to know servers",
            ("program", "tools", "servers", "seconds", "CPU s"),
            discovered,
            "`maitred list` on an empty catalog; servers are replayed, their processor time is not counted.",
        )
    out.table("How costs grow with the tools and servers that are known", heads, rows, caption)
    crowds = [
        (
            one.program, VERSIONS[one.era], f"{one.clients:,}", f"{one.connect_cpu_ms:.1f}",
            f"{one.kib:.0f}", f"{one.call_p50_ms:.2f}", f"{one.call_cpu_ms:.2f}", _both(one.notified, 0),
        )
        for one in growth.crowds
    ]  # fmt: skip
    crowd_heads = (
        "program", "protocol", "clients", "connect, CPU ms", "KiB a client", "call p50 ms", "CPU ms",
        "notify all",
    )  # fmt: skip
    caption = (
        "Over HTTP, each client with an open stream. Connect and KiB: for each client. A call is made with"
        f" all of them there. Notify: milliseconds from a change of {CHANGED} tools until the last client has"
        " its notice, processor time until the gateway is idle in brackets."
    )
    out.table("How costs grow with the clients", crowd_heads, crowds, caption)
    _show_skipped(out, growth.skipped)
    show_failures(out, growth.failures)


def show_quality(out: Output, quality: Quality) -> None:
    ways = [found.way for found in quality.sets[0].found] if quality.sets else []
    rows = [
        (
            one.name, f"{one.tools:,}", f"{one.queries:,}",
            *(_figures(found) for found in one.found),
        )
        for one in quality.sets
    ]  # fmt: skip
    caption = "R@5 / NDCG@10, x100, means over the same queries; answers of ten"
    out.table("what search finds", ("set", "tools", "queries", *ways), rows, caption)
    _show_notes(
        out, [f"{found.way}: {found.note}" for one in quality.sets for found in one.found if found.note]
    )
    _show_skipped(out, quality.skipped)


def show_ablation(out: Output, ablation: Ablation) -> None:
    rows = [(name, *(_figures(one) for one in found)) for name, found in ablation.variants]
    caption = "hybrid search with one part changed; R@5 / NDCG@10, x100"
    out.table("what each part brings", ("part", *ablation.sets), rows, caption)
    _show_skipped(out, ablation.skipped)


def show_usage(out: Output, usage: UsageLift) -> None:
    rows = [
        (one.name, f"{one.calls:,}", *(text for lift in (one.called, one.others) for text in _lifted(lift)))
        for one in usage.sets
    ]
    heads = ("set", "calls", "of called tools", "R@5", "with use", "of others", "R@5", "with use")
    caption = (
        "the n-th tool of a random order is called 1/n as often as the first; a query of a called tool counts"
        " as often as its tool is likely to be called"
    )
    out.table("what use brings to search", heads, rows, caption)
    _show_skipped(out, usage.skipped)


def _lifted(lift: Lift) -> tuple[str, str, str]:
    return f"{lift.queries:,}", f"{lift.before:.1%}", f"{lift.after:.1%}"


def show_tiers(out: Output, tiers: Tiers) -> None:
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
    out.table("tiers over HTTP", heads, rows, caption)
    show_failures(out, tiers.failures)


def show_hits(out: Output, hits: Hits) -> None:
    rows = [(one.tier, f"{one.read:,}", f"{one.share:.1%}", f"{one.aim:.0%}") for one in hits.tiers]
    caption = (
        f"{hits.tools:,} tools of the {hits.corpus} corpus; one reader, the n-th page of a tier 1/n as often"
        f" as its first; {EDITS} edits of the configuration meanwhile, each of which empties the cache"
    )
    out.table("pages from the cache", ("tier", "pages read", "from the cache", "wanted"), rows, caption)


def _figures(found: Found) -> str:
    return f"{_share(found.recall_at_5)} / {_share(found.ndcg_at_10)}"


def show_chains(out: Output, chains: Chains) -> None:
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
    out.table("chains", heads, rows, caption)
    show_failures(out, chains.failures)


def show_churn(out: Output, churn: Churn) -> None:
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
    out.table("servers that are killed", heads, rows, caption)
    show_failures(out, churn.failures)


def show_faults(out: Output, faults: Faults) -> None:
    caption = (
        f"{faults.kills} times SIGKILL, {faults.early} before all was ready, {faults.unguarded} together with"
        " the warden; seconds from a start to the desired state\n"
        f"servers that ran twice {faults.doubled}, left of killed gateways {faults.orphans}, decisions lost"
        f" {faults.lost} of {faults.decided}"
    )
    figures = [f"{faults.restart(share):.2f}" for share in (0.5, 0.95, 1.0)]
    heads: Sequence[str] = ("restarts", "p50 s", "p95 s", "max s")
    row = (str(len(faults.restart_s)), *figures)
    out.table("gateways that are killed", heads, [row], caption)
    rows = [
        (one.fault, one.answer, f"{one.recovered_s:.2f}", str(one.doubled), str(one.orphans))
        for one in faults.rows
    ]
    heads = ("fault", "answer to a caller meanwhile", "desired after s", "twice", "left")
    caption = "seconds from when it was there again, or the container was killed, to the desired state"
    out.table("what cages need is taken away", heads, rows, caption)
    _show_skipped(out, faults.skipped)
    show_failures(out, faults.failures)


def show_browsing(out: Output, browsing: Browsing) -> None:
    alone = {one.peer: one for one in browsing.errands if one.way == "alone"}
    rows = [
        (
            one.peer, one.way, f"{one.steps} of {browsing.of}", "yes" if one.is_ordered else "no",
            str(one.requests), str(one.questions), f"{one.definitions:,}", f"{one.calls:,}",
            f"{one.answers:,}", f"{one.largest:,}", f"{one.total:,}", _part(one.total, alone.get(one.peer)),
        )
        for one in browsing.errands
    ]  # fmt: skip
    heads = (
        "server", "way", "steps", "ordered", "requests", "questions", "definitions", "calls", "answers",
        "longest answer", "total", "of alone",
    )  # fmt: skip
    lost = "".join(f"\n{one.peer}, {one.way}: {one.lost}" for one in browsing.errands if one.lost)
    caption = (
        "o200k tokens of all that goes into the context; questions are those for words in a stored answer;"
        f" the agent is a script{lost}"
    )
    out.table("browsing: a task in a shop page", heads, rows, caption)
    show_failures(out, browsing.failures)


def _part(total: int, alone: Errand | None) -> str:
    return f"{total / alone.total:.1%}" if alone and alone.total else ""


def show_token_table(out: Output, table: TokenTable) -> None:
    rows = [
        (
            row.scenario, row.era, str(row.tools), f"{row.raw:,}", f"{row.listed:,}", f"{row.answers:,}",
            f"{row.total:,}", _percent(row.saved), _percent(row.whole_saved),
            _percent(DOCUMENT[row.scenario]) if row.scenario in DOCUMENT else "-",
        )
        for row in table.rows
    ]  # fmt: skip
    heads = (
        "tools", "era", "number", "raw", "listed", "answers", "total", "saved", "whole saved", "the document",
    )  # fmt: skip
    caption = (
        "o200k tokens of names, descriptions and input schemas, as the document counts; whole saved: with all"
        " other fields but `_meta`. raw: as the servers define the tools; answers: that open categories."
        " Categories with `mode: categories` and `break_even_tokens: 0`, the other rows with the defaults"
    )
    out.table("the table of tokens", heads, rows, caption)
    _show_skipped(out, table.skipped)


def show_deferral(out: Output, table: DeferralTable) -> None:
    rows = [
        (
            f"{'loaded' if row.loads else 'deferred'}, {'with' if row.instructs else 'without'} instructions",
            row.era, *(f"{count} of {row.tasks}" for count in (row.first, row.second, row.ever)),
        )
        for row in table.rows
    ]  # fmt: skip
    caption = (
        f"{table.tools:,} tools of {table.servers} servers behind the menu; a scripted client that defers"
        " tools, six tasks that were written down before, and for how many it has a right tool in sight, to"
        " be called at once. loaded: it heeds `alwaysLoad`; instructions: its model sees them"
    )
    out.table("a client that defers", ("menu", "era", "first turn", "second turn", "at all"), rows, caption)
    _show_skipped(out, table.skipped)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def show_page_tokens(out: Output, found: PageTokens) -> None:
    rows = [
        (one.page, one.opened, str(one.tools), f"{one.tokens:,}", f"{one.answers:,}", _percent(one.saved))
        for one in found.listed
    ]
    caption = (
        "o200k tokens of the page's definitions in `tools/list`, and of the answers that opened them; saved:"
        " of the same tools without categories;"
        f" labels and few tools with `mode: categories` and `break_even_tokens: {BREAK_EVEN_TOKENS}`"
    )
    out.table(
        "the tools of a page", ("page", "categories", "listed", "tokens", "answers", "saved"), rows, caption
    )
    show_failures(out, found.failures)


def show_pages(out: Output, pages: Pages) -> None:
    caption = (
        f"{pages.rounds} rounds in turn, each of {pages.calls} calls one by one, a quarter of them if the"
        " tool waits; medians, the ratio is of both p50 within a round. CPU: of all processes of the gateway,"
        f" for a call. {pages.browser}"
    )
    heads = ("way", "p50 ms", "x direct", "p95 ms", "CPU ms")
    for one in pages.comparisons:
        rows = [
            (
                way.name, f"{way.p50_ms:.2f}", _times(way.ratio), f"{way.p95_ms:.2f}",
                f"{way.cpu_ms:.2f}" if way.cpu_ms else "-",
            )
            for way in one.ways
        ]  # fmt: skip
        waits = f"waits {one.wait_ms} ms" if one.wait_ms else "answers at once"
        out.table(f"page tools: {one.reach}, a tool that {waits}", heads, rows, caption)
    show_failures(out, pages.failures)


def show_web(out: Output, web: WebPages) -> None:
    slow = sum(one.p95_ms > MOST_MS for one in web.pages)
    caption = (
        f"{web.tools:,} tools on {web.servers:,} servers; {web.sessions:,} work sessions, {web.lines:,} lines"
        f" in the audit trail. Each page {web.loads} times, all in turn, by one client without a browser."
        f" CPU: of the gateway, for a page. {slow} of {len(web.pages)} have a p95 over {MOST_MS} ms."
        f" All scripts and styles together: {web.static_bytes:,} bytes of {MOST_BYTES:,}."
    )
    rows = [
        (one.name, f"{one.bytes:,}", f"{one.p50_ms:.1f}", f"{one.p95_ms:.1f}", f"{one.cpu_ms:.1f}")
        for one in web.pages
    ]
    out.table("web pages", ("page", "bytes", "p50 ms", "p95 ms", "CPU ms"), rows, caption)
    show_failures(out, web.failures)


def show_availability(out: Output, found: Availability) -> None:
    rows: Sequence[Sequence[str]] = [_counted(one) for one in (found.total, *found.ways, *found.kinds)]
    heads: Sequence[str] = (
        "requests", "asked", "answered", "refused", "late", "lost", "on a repeat", "available",
        "with repeats", "p50 ms", "p95", "p99", "max",
    )  # fmt: skip
    caption = (
        f"{found.minutes:g} minutes, {found.clients} clients, {len(found.servers)} servers"
        f" ({', '.join(found.servers)}) of each gateway, {found.faults} faults; in time: within"
        f" {found.limit_s:g} s; on a repeat: lost at first, and a repeat was answered in time; times are of"
        " those that were answered"
    )
    out.table("availability", heads, rows, caption)
    rows = [
        (
            one.fault, str(one.times), str(one.refused), str(one.late), str(one.lost),
            *_median_and_most(one.outage_s), *_median_and_most(one.wait_s),
        )
        for one in found.outages
    ]  # fmt: skip
    heads = ("fault", "times", "refused", "late", "lost", "outage p50 s", "max", "longest wait p50 s", "max")
    caption = (
        "of the requests that the fault could touch; outage: until the last request was sent that was not"
        " answered; longest wait: of a request that was answered"
    )
    out.table("what clients saw of each kind of fault", heads, rows, caption)
    rows = [(f"{outcome}: {reason}", f"{count:,}") for outcome, reason, count in found.reasons]
    out.table("what was not answered, and why", ("reason", "times"), rows, "N: a number")
    verdict = "reached" if found.total.availability >= AIM else "missed"
    out.line(f"The aim of {AIM:.1%} is {verdict}: {found.total.availability:.3%} at the first sending.")
    show_failures(out, found.failures)


def _counted(one: Counted) -> Sequence[str]:
    return (
        one.what, f"{one.asked:,}", f"{one.answered:,}", f"{one.refused:,}", str(one.late), str(one.lost),
        str(one.mended), f"{one.availability:.3%}", f"{one.with_repeats:.3%}",
        *(f"{ms:,.0f}" for ms in one.ms.values()),
    )  # fmt: skip


def _median_and_most(seconds: Sequence[float]) -> Sequence[str]:
    return [f"{percentile(seconds, share):.1f}" for share in (0.5, 1.0)] if seconds else ["-", "-"]


SHOW: Mapping[str, Callable[[Output, Any], None]] = {
    "calls": show_calls,
    "start": show_start,
    "shell": show_shell,
    "growth": show_growth,
    "cages": show_cages,
    "tokens": show_tokens,
    "quality": show_quality,
    "ablation": show_ablation,
    "usage": show_usage,
    "tiers": show_tiers,
    "hits": show_hits,
    "fleet": fleet.show,
    "chains": show_chains,
    "churn": show_churn,
    "faults": show_faults,
    "availability": show_availability,
    "browsing": show_browsing,
    "page-tokens": show_page_tokens,
    "token-table": show_token_table,
    "deferral": show_deferral,
    "pages": show_pages,
    "web": show_web,
}


def show_failures(out: Output, failures: Sequence[Failure]) -> None:
    for failure in failures:
        out.line(f"FAILED {failure.what}: {failure.why}", style="red")


def _show_skipped(out: Output, skipped: Sequence[Skipped]) -> None:
    for one in skipped:
        out.line(f"skipped {one.what}: {one.why}", style="yellow")


def _show_notes(out: Output, notes: Sequence[str]) -> None:
    for note in dict.fromkeys(notes):
        out.line(f"note: {note}", style="yellow")


def _times(value: Spread) -> str:
    return f"{value.median:.2f} ({value.low:.2f}-{value.high:.2f})"


def _ranged(value: Spread, digits: int) -> str:
    return f"{value.median:.{digits}f} ({value.low:.{digits}f}-{value.high:.{digits}f})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _both(took: Took, digits: int) -> str:
    return f"{took.wall_ms:,.{digits}f} ({took.cpu_ms:,.{digits}f})"
