"""The benchmark's tables of calls, page tools and web pages, with few calls, and what they are made of."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench import calls, pages, token_table, web
from bench.__main__ import BENCHES
from bench.calls import DIRECT, FLOOR
from bench.output import Markdown, Page
from bench.replicas import replicate_servers
from bench.report import show_calls, show_pages, show_token_table, show_web
from bench.stage import Stage
from bench.values import QUICK
from tests.support import corpus
from tests.support.chromium import chromium

from maitred.surfaces.web.screens import SCREENS

SIZE = replace(QUICK, links=("alone",), variants=(), rounds=1, warm_up_calls=1, calls={1: 4, 8: 16})


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="mb-") as run:  # paths of sockets have to be short
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, run)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        yield Stage(tmp_path, SIZE)


def test_a_table_of_calls_has_the_floor_and_says_what_is_not_installed(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every way answers as the server does; a peer that is missing is a row. Source: docs/benchmarks.md."""
    report = calls.measure(stage, SIZE)

    show_calls(Markdown(), report)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    ways = [DIRECT, FLOOR, "maitred, alone", "mcp-proxy", "mcp-hub"]
    assert report.comparisons[0].failures == []
    assert [row[0].removeprefix("| ") for row in rows[2:]] == ways
    assert {tuple(row[1:3]) for row in rows[5:]} == {("not installed", "python -m bench --install-peers")}
    for way in report.comparisons[0].ways[1:]:
        assert all(level.cpu_ms > 0 and level.p95_ms >= level.p50_ms > 0 for level in way.levels)


@pytest.mark.processor_s(300, "two browsers and four gateways are measured")
@pytest.mark.xdist_group("browsers")
def test_a_table_of_page_tools_has_all_ways_into_both_kinds_of_pages(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way answers with the sum that the page computes. Source: issue 19, latency."""
    chromium()
    report = pages.measure(stage, SIZE)

    show_pages(Markdown(), report)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    ways = ["| way", "| ---", f"| {DIRECT}", f"| {pages.INTO_PAGE}", "| maitred, alone"]
    assert report.failures == []
    assert [row[0] for row in rows] == 4 * ways
    assert [(one.reach, one.wait_ms) for one in report.comparisons] == [
        (reach, wait_ms) for reach in ("native", "injected") for wait_ms in pages.WAITS_MS
    ]
    for one in report.comparisons:
        assert all(way.p95_ms >= way.p50_ms > one.wait_ms for way in one.ways)
        assert one.ways[-1].cpu_ms > 0


@pytest.mark.processor_s(300, "a catalog is made, and a gateway with its pages is measured")
def test_a_table_of_web_pages_has_every_page_of_every_screen(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each answers with 200, also those of one tool, server or held call. Source: docs/benchmarks.md."""
    report = web.measure(stage, SIZE)

    show_web(Markdown(), report)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    names = [row[0].removeprefix("| ") for row in rows[2:]]
    assert report.failures == []
    assert names[0] == web.FLOOR
    assert {f"/ui/{page.path}" for screen in SCREENS for page in screen.pages} <= set(names)
    assert all(one.p95_ms >= one.p50_ms > 0 for one in report.pages)
    assert all(one.bytes > report.pages[0].bytes for one in report.pages[1:])
    assert 0 < report.static_bytes <= web.MOST_BYTES


def test_the_table_of_tokens_has_the_words_of_the_document_beside_what_was_counted(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """97, 87 and 0 % stand in the rows for which the document says so. Source: design document 000."""
    report = token_table.measure(stage, SIZE)

    show_token_table(Markdown(), report)
    rows = [
        line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if "50 tools, " in line
    ]
    words = {(row[0], row[1]): (row[7], row[9]) for row in rows}
    assert words["50 tools, none opened", "handshake"] == ("97 %", "97 %")
    assert words["50 tools, 1 category of 5 opened", "handshake"] == ("87 %", "87 %")
    assert words["50 tools, all opened", "stateless"][1] == "-"
    assert all(row.total == row.listed + row.answers for row in report.rows)


def test_a_run_replaces_the_part_of_its_bench_in_a_page_and_nothing_else(tmp_path: Path) -> None:
    """What follows and what precedes the table stays. Source: docs/benchmarks.md."""
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- bench calls -->\nold\n<!-- end -->\nafter\n<!-- bench start -->\n<!-- end -->\n"
    )

    Page(page).replace("calls", ["", "| new |", ""])

    assert Page(page).without(["calls", "start", "growth"]) == ["growth"]
    assert page.read_text() == (
        "before\n<!-- bench calls -->\n| new |\n<!-- end -->\nafter\n<!-- bench start -->\n<!-- end -->\n"
    )


def test_the_page_of_benchmarks_has_a_part_for_each_bench_or_says_where_its_table_is() -> None:
    """No bench prints a table that no page has."""
    page = Path(__file__).parents[2] / "docs" / "benchmarks.md"

    assert Page(page).without(list(BENCHES)) == [
        *("token-table", "deferral", "quality", "ablation", "usage", "page-tokens", "fleet"),
    ]
    assert Page(page.with_name("menu.md")).without(["token-table"]) == []
    assert Page(page.with_name("connect.md")).without(["deferral"]) == []
    assert Page(page.with_name("scale.md")).without(["fleet"]) == []
    assert "--only quality ablation usage" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("tools", "servers"), [(10, 3), (200, 7)])
def test_copies_make_as_many_servers_and_tools_as_are_asked_for(tools: int, servers: int) -> None:
    """No two tools of a server have the same name, and no two servers."""
    made = replicate_servers(corpus.generate(servers=4, tools=60), tools, servers)

    assert len({one["server"] for one in made}) == servers
    assert [len({tool["name"] for tool in one["tools"]}) for one in made] == [
        len(one["tools"]) for one in made
    ]
    assert sum(len(one["tools"]) for one in made) == tools
