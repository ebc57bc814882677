"""`maitred eval` as a person or a script runs it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.evaluation.makers import QUERIES, TOOLS, write_set
from tests.interaction.harness import faulty, write_settings
from tests.support import prefork

TIME_S = 400


def maitred(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return prefork.run(
        [str(argument) for argument in arguments], env={**os.environ, "COLUMNS": "200"}, timeout=TIME_S
    )


def measured(folder: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    tools, queries = write_set(folder)
    return maitred("eval", "search", "--tools", tools, "--queries", queries, *options)


def test_a_set_is_measured_and_printed_as_a_table(tmp_path: Path) -> None:
    """Recall at the places asked for, the other figures, and what they are of. Source: docs/cli.md."""
    done = measured(tmp_path / "small", "--mode", "lexical", "--k", "5,1")

    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.splitlines()
    assert title.startswith("small, all: 4 queries, 5 tools, mode lexical")
    values = {row.split("  ")[0]: row.split("  ")[1:] for row in rows if row.strip()}
    assert list(values)[:7] == ["R@1", "R@5", "hit@1", "hit@5", "NDCG@10", "MRR", "needs met"]
    assert "100.0" in " ".join(values["R@5"])
    assert {"false answers", "false silence", "milliseconds", "tokens"} <= values.keys()


def test_a_set_is_measured_as_json(tmp_path: Path) -> None:
    """Every figure is there, from 0 to 1, with the set, the part and the mode. Source: docs/cli.md."""
    done = measured(tmp_path / "small", "--mode", "lexical", "--removed", "1", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["set"], found["split"], found["mode"]) == ("small", "all", "lexical")
    assert (found["queries"], found["tools"]) == (len(QUERIES), len(TOOLS))
    assert found["quality"]["recall"] == {"1": 1.0, "3": 1.0, "5": 1.0, "10": 1.0}
    assert found["quality"]["intervals"]["R@5"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert done.stderr == ""  # no word about servers, which do not exist
    assert found["silence"]["nothing_relevant"] == 1
    assert found["removal"]["tools_removed"] == 1


def test_two_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    """Saved measures are what the next run is compared with. Source: docs/cli.md."""
    saved = tmp_path / "saved.jsonl"
    first = measured(tmp_path / "small", "--mode", "lexical", "--save", saved)
    done = measured(
        tmp_path / "small", "--mode", "lexical", "--perturbed", "typos", "--against", saved, "--json"
    )

    assert (first.returncode, done.returncode) == (0, 0), first.stderr + done.stderr
    assert len(saved.read_text().splitlines()) == 3
    gain = json.loads(done.stdout)["against"]["MRR"]
    assert gain["low"] <= gain["mean"] <= gain["high"] <= 0


def test_a_file_of_another_set_is_no_run_to_compare_with(tmp_path: Path) -> None:
    """The file is named, and nothing is measured."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "of another set", "measures": {"MRR": 1.0}}\n')

    done = measured(tmp_path, "--against", other)

    assert done.returncode == 2
    assert "other.jsonl" in done.stderr
    assert "has no query of this run" in done.stderr


@pytest.mark.parametrize("part", ["train", "held-back"])
def test_a_part_of_a_set_can_be_asked_alone(tmp_path: Path, part: str) -> None:
    """The parts are those of `maitred.evaluation.labelled_queries`. Source: docs/cli.md."""
    queries = [{**QUERIES[0], "id": str(number)} for number in range(20)]
    tools, path = write_set(tmp_path / "any", queries=queries)

    options = ("--mode", "lexical", "--split", part, "--json")
    done = maitred("eval", "search", "--tools", tools, "--queries", path, *options)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["split"] == part
    assert 0 < found["queries"] < len(queries)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--k", "0,5"], "numbers from 1 to 20"),
        (["--k", "five"], "numbers from 1 to 20"),
        (["--split", "some"], "--split"),
        (["--perturbed", "badly"], "--perturbed"),
        (["--mode", "magic"], "--mode"),
    ],
)
def test_a_mistake_in_an_option_is_refused(tmp_path: Path, options: list[str], says: str) -> None:
    """Exit code 2 and a message, before anything is measured."""
    done = measured(tmp_path, *options)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_faults_of_the_files_are_listed(tmp_path: Path) -> None:
    """The file, the line and the fault."""
    tools, queries = write_set(tmp_path, queries=[{**QUERIES[0], "relevant": ["gone"]}])

    done = maitred("eval", "search", "--tools", tools, "--queries", queries)

    assert done.returncode == 2
    assert f"{queries}: 1 fault" in done.stderr
    assert "line 1: relevant: there is no tool 'gone'" in done.stderr


def test_the_own_catalog_is_checked(tmp_path: Path) -> None:
    """Its servers are met first if need be; the table ends in a summary. Source: docs/server-authors.md."""
    config = write_settings(tmp_path, {"counter": faulty("count")})

    done = maitred("eval", "self", "--config", config)
    as_json = maitred("eval", "self", "--config", config, "--server", "counter", "--json")

    assert done.returncode == 0, done.stderr
    assert " tools asked for in " in done.stdout
    found = json.loads(as_json.stdout)
    assert found["tools"] > 0
    assert {one["server"] for one in found["hard"]} <= {"counter"}


def test_a_server_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Exit code 2 and its name."""
    config = write_settings(tmp_path, {"counter": faulty("count")})

    done = maitred("eval", "self", "--config", config, "--server", "gone")

    assert done.returncode == 2
    assert "there is no server 'gone'" in done.stderr
