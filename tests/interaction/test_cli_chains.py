"""The commands for chains as an operator runs them."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.interaction.harness import WAIT_S, cli, faulty, know_as, write_settings
from tests.interaction.test_cli import fine, read_json, refused

SUM = "import counter\nawait counter.add(a=2, b=3)\n"
SAVED = """\
description: Add one to a number.
parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
code: |
  import counter
  await counter.add(a=n, b=1)
"""
HELD_UP = """
import asyncio, runpy, sys, threading, time

class Last:  # taken apart with the modules, which takes a while
    def __del__(self, sleep=time.sleep):
        sleep(1)

told = asyncio.BaseEventLoop.call_soon_threadsafe

def tell(*arguments, **named):
    handle = told(*arguments, **named)
    until = time.monotonic() + 60
    while isinstance(threading.current_thread(), threading._DummyThread) and time.monotonic() < until:
        time.sleep(0.01)  # a thread that Python did not start gets no further
    return handle

sys.modules["last"] = Last()
asyncio.BaseEventLoop.call_soon_threadsafe = tell
runpy.run_module("maitred", run_name="__main__", alter_sys=True)
"""
"""Runs `maitred` on a machine that has no time for the threads of the engine."""


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    return lambda folder: write_settings(folder, {"counter": faulty("count")})


@pytest.fixture
def own(tmp_path: Path, config: Path) -> Path:
    know_as(config, tmp_path)
    return write_settings(tmp_path, {"counter": faulty("count")})


def test_a_program_is_run_from_a_file_or_from_standard_input(config: Path, tmp_path: Path) -> None:
    """Text for persons, JSON for programs. Source: docs/cli.md."""
    file = tmp_path / "sum.py"
    file.write_text(SUM)

    text = fine(cli(config, "chain", "run", str(file)))
    told = read_json(cli(config, "chain", "run", "-", "--json", stdin=SUM))

    assert "counter__add" in text
    assert told["ok"]
    assert len(told["calls"]) == 1


def test_a_program_that_fails_exits_with_1_and_a_dry_run_calls_nothing(config: Path) -> None:
    """The line with the fault is quoted. Source: docs/cli.md."""
    failed = cli(config, "chain", "run", "-", stdin="1 / 0\n")
    checked = cli(config, "chain", "run", "-", "--dry-run", stdin=SUM)
    faults = cli(config, "chain", "run", "-", "--dry-run", stdin="import counter\ncounter.ad(a=1)\n")

    assert failed.returncode == 1
    assert "1 / 0" in failed.stdout
    assert "No tool was called" in fine(checked)
    assert faults.returncode == 1
    assert "cannot be read" in refused(cli(config, "chain", "run", "no-such-file"))


@pytest.mark.parametrize("options", [("--dry-run",), ("--json",)])
def test_a_command_that_ran_a_chain_ends_well_while_the_engine_is_at_work(
    config: Path, options: Sequence[str]
) -> None:
    """As on a busy machine: a thread of the engine has told its result, and does not get on.

    Source: issue "What broke", a suite to trust: the command printed its answer and ended with SIGABRT.
    """
    program = "import counter\nprint('x' * 3000)\nreturn 'y' * 60000\n"

    done = subprocess.run(
        [sys.executable, "-c", HELD_UP, "chain", "run", "--config", str(config), "-", *options],
        input=program,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "No tool was called" in done.stdout if "--dry-run" in options else read_json(done)["ok"]


def test_a_reviewed_chain_is_a_tool_until_its_file_changes(own: Path) -> None:
    """Saved, called, changed and withheld, saved again, removed. Source: docs/cli.md."""
    file = own.parent / "plus.yaml"
    file.write_text(SAVED)

    assert "chains__plus" in fine(cli(own, "chains", "add", "plus", str(file)))
    told = read_json(cli(own, "call", "chains__plus", "n=4", "--json"))
    assert told["structuredContent"]["ok"]
    assert "plus.yaml" in fine(cli(own, "chains"))

    file.write_text(SAVED.replace("b=1", "b=2"))
    assert "changed since it was reviewed" in refused(cli(own, "call", "chains__plus", "n=4"))
    (row,) = read_json(cli(own, "chains", "list", "--json"))
    assert "changed since it was reviewed" in row["withheld"]

    assert "--replace" in refused(cli(own, "chains", "add", "plus", str(file)))
    fine(cli(own, "chains", "add", "plus", str(file), "--replace"))
    fine(cli(own, "call", "chains__plus", "n=4"))

    fine(cli(own, "chains", "remove", "plus"))
    assert "No chain is saved" in fine(cli(own, "chains"))
    assert file.exists()


def test_a_chain_with_faults_is_not_saved(own: Path) -> None:
    """All faults are named, and the configuration stays as it was. Source: docs/cli.md."""
    before = own.read_bytes()
    file = own.parent / "bad.yaml"
    file.write_text("describtion: x\n")

    said = refused(cli(own, "chains", "add", "bad", str(file)))

    assert "describtion" in said
    assert "code: must be a text" in said
    assert "needs a NAME and a FILE" in refused(cli(own, "chains", "add"))
    assert own.read_bytes() == before
