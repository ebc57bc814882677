"""What mediation does to search: a poor server gains, no other loses; `maitred eval mediation` says so."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.test_commands import maitred
from tests.support import corpus

from maitred.backends.listing import read_tools
from maitred.errors import ConfigError
from maitred.evaluation.mediation import (
    ALLOWED_LOSS,
    WANTED_GAIN,
    ServerFigures,
    evaluate,
    losses,
    read_queries,
    read_recorded,
    read_server,
)
from maitred.model.tools import RawTool
from maitred.search.static_embedder import StaticEmbedder

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parents[1] / "data" / "mediation"
POOR, QUERIES = DATA / "poor_server.yaml", DATA / "queries.tsv"
EVERY = 8
SMALL = 60
"""Of the recorded servers every eighth of those with so few tools at most is taken; all take minutes."""


def sample() -> list[dict[str, Any]]:
    path = corpus.recorded()
    if path is None:
        pytest.skip(
            "the recorded definitions of real servers are not here (MAITRED_SHARED names their folder)"
        )
    return [entry for entry in corpus.read(path) if len(entry["tools"]) <= SMALL][::EVERY]


def tools_of(entries: Sequence[dict[str, Any]]) -> list[RawTool]:
    return [tool for entry in entries for tool in read_tools(entry["server"], entry["tools"])[0]]


def assert_none_loses(found: Sequence[ServerFigures]) -> None:
    assert [(one.server, one.compared.points) for one in found if not one.passes] == []
    assert all(one.compared.points >= -ALLOWED_LOSS for one in found)


async def test_a_poor_server_is_found_much_better_by_rules_alone() -> None:
    """20 cryptic tools, 100 queries in words that users choose: at least 25 points of R@5."""
    poor = read_server(POOR)
    queries = read_queries(QUERIES, poor)
    found = await evaluate(poor, queries, embedder=StaticEmbedder())

    [alone] = found.gain.compared
    assert (len(poor), len(queries)) == (20, 100)
    assert alone.points >= WANTED_GAIN
    assert alone.after.ndcg_at_10 > alone.before.ndcg_at_10
    assert alone.mended.kept >= 18
    assert found.passes


async def test_no_recorded_server_loses_and_a_poor_one_gains_among_them() -> None:
    """Each is asked for by its own descriptions, among all, with all of them mended."""
    recorded = tools_of(sample())
    poor = read_server(POOR)
    found = await evaluate(poor, read_queries(QUERIES, poor), recorded, embedder=StaticEmbedder())

    assert_none_loses(found.servers)
    assert sum(one.compared.mended.kept for one in found.servers) > 0
    assert found.gain.compared[1].among == len(recorded) + len(poor)
    assert found.gain.compared[1].points >= WANTED_GAIN
    assert found.passes


async def test_no_server_of_our_own_corpus_loses() -> None:
    """Also where no recorded servers are: definitions with the sizes and oddities of real ones."""
    entries = corpus.generate(servers=10, tools=150)
    found = await losses(tools_of(entries), embedder=StaticEmbedder())

    assert_none_loses(found)
    assert len(found) == len({entry["server"] for entry in entries if entry["tools"]})


async def test_every_server_is_counted() -> None:
    """So that a bar gets to its end: the poor one alone and among others, and each of these."""
    poor = read_server(POOR)
    others = tools_of(corpus.generate(servers=3, tools=12))
    steps: list[None] = []
    await evaluate(
        poor,
        read_queries(QUERIES, poor)[:1],
        others,
        embedder=StaticEmbedder(),
        step=lambda: steps.append(None),
    )

    assert len(steps) == 2 + len({tool.key.server for tool in others})


# --- the command ------------------------------------------------------------------------------------------


def write_recorded(folder: Path, *lines: str) -> Path:
    folder.mkdir()
    (folder / "servers.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def test_the_command_prints_both_figures_and_a_verdict_for_each_server(tmp_path: Path) -> None:
    """Source: docs/cli.md."""
    entries = [entry for entry in corpus.generate(servers=3, tools=12) if entry["tools"]]
    folder = write_recorded(tmp_path / "recorded", *(json.dumps(entry) for entry in entries))

    done = maitred("eval", "mediation", POOR, QUERIES, "--recorded", folder)
    as_json = maitred("eval", "mediation", POOR, QUERIES, "--recorded", folder, "--json")

    assert done.returncode == as_json.returncode == 0, done.stderr
    assert "backoffice: 20 tools, before > after" in done.stdout
    assert all(entry["server"] in done.stdout for entry in entries)
    assert "points of R@5: pass; 0 of" in done.stdout
    found = json.loads(as_json.stdout)
    assert found["passes"]
    assert found["gain"]["compared"][0]["points"] >= WANTED_GAIN
    assert [one["passes"] for one in found["servers"]] == [True] * len(entries)


def test_a_server_that_gains_too_little_fails(tmp_path: Path) -> None:
    """Exit code 1, with the figures: one that is well described has nothing to gain."""
    good = {"server": "s", "tools": [{"name": "send_mail", "description": "Send a letter to a customer."}]}
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "q.tsv").write_text("write to a customer\tsend_mail\n")

    done = maitred("eval", "mediation", tmp_path / "good.json", tmp_path / "q.tsv")

    assert done.returncode == 1
    assert "s gains 0.0 points of R@5: FAIL" in done.stdout


@pytest.mark.parametrize(
    ("server", "queries", "says"),
    [
        ("tools: [", "a\tt\n", "is not YAML"),
        ("- a", "a\tt\n", "must be a server with the keys `server` and `tools`"),
        ("{server: s, tools: []}", "a\tt\n", "holds no tool"),
        ("{server: s, tools: [{name: t}]}", "a\tt\nb\tu\nc\n", "line 2: there is no tool 'u'"),
        (
            "{server: s, tools: [{name: t}]}",
            "a\tt\nb\tu\nc\n",
            "line 3: must be a query and the name of a tool",
        ),
        ("{server: s, tools: [{name: t}]}", "\n", "holds no queries"),
    ],
)
def test_faults_of_the_files_are_told(tmp_path: Path, server: str, queries: str, says: str) -> None:
    """With the file, and the line where there is one."""
    (tmp_path / "s.yaml").write_text(server)
    (tmp_path / "q.tsv").write_text(queries)

    with pytest.raises(ConfigError) as caught:
        read_queries(tmp_path / "q.tsv", read_server(tmp_path / "s.yaml"))

    assert says in str(caught.value)
    assert "s.yaml" in str(caught.value) or "q.tsv" in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "holds no file"),
        (['{"server": "a", "tools": []}', "no"], "line 2: is not JSON"),
        (['{"tools": []}'], "line 1: must be a server"),
        (['{"server": "backoffice", "tools": [{"name": "t"}]}'], "records a server 'backoffice' too"),
    ],
)
def test_faults_of_recorded_servers_are_told(tmp_path: Path, lines: Sequence[str], says: str) -> None:
    folder = write_recorded(tmp_path / "recorded", *lines) if lines else tmp_path

    with pytest.raises(ConfigError, match=says):
        read_recorded(folder, besides=read_server(POOR))


def test_files_that_are_not_there_or_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match="cannot be read"):
        read_server(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_server(tmp_path / "s.yaml")
