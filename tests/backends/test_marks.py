"""Marks: whose they are, whether their gateway is gone, and what is ended for it."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from maitred.backends import orphans, warden
from maitred.backends.orphans import ClaimRegistry
from maitred.backends.process import Warden
from maitred.surfaces.daemon.discovery import environment_of_gateway

CATALOG = hashlib.sha256(__file__.encode()).hexdigest()[
    :8
]  # of this copy alone: another may be tested beside it
GONE = f"{CATALOG}-4194305-1-feed"  # a number that no process has
WAITS = "import signal, sys; print(flush=True); sys.stdin.read()"
DEAF = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print(flush=True); s.pause()"
SWEEP = """
import sys, anyio
from pathlib import Path
from maitred.wiring.orphans import ending_processes
anyio.run(ending_processes(Path(sys.argv[1])))
"""


class Programs:
    """Starts programs with an environment of their own, and ends them whatever becomes of them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, mark: str, code: str = WAITS) -> subprocess.Popen[bytes]:
        env: Mapping[str, str] = {warden.MARK: mark} if mark else {}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        return process


@pytest.fixture
def programs() -> Iterator[Programs]:
    with ExitStack() as stack:
        yield Programs(stack)


def test_a_mark_names_the_catalog_and_this_process_and_no_other_mark_is_the_same(tmp_path: Path) -> None:
    """So whoever comes later can tell whether the gateway lives."""
    catalog = orphans.catalog_of(tmp_path / "c.db")
    one, other = Warden(catalog), Warden(catalog)
    assert re.fullmatch(rf"{catalog}-{os.getpid()}-\d*-[0-9a-f]{{8}}", one.mark)
    assert one.mark != other.mark
    assert catalog != orphans.catalog_of(tmp_path / "other.db")
    assert not warden.is_gone(one.mark)
    assert warden.is_gone(GONE)


def test_a_catalog_has_one_mark_by_whatever_links_it_is_reached(tmp_path: Path) -> None:
    """Else what a gateway left would not be found by the one that reaches it otherwise."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ways = [tmp_path / "real", tmp_path / "link", tmp_path / "real" / ".." / "link"]
    assert len({orphans.catalog_of(way / "c.db") for way in ways}) == 1


@pytest.mark.parametrize("gone", [CATALOG, GONE, [GONE, ""], [CATALOG]])
def test_what_is_no_list_of_marks_is_refused(gone: Any) -> None:
    """Most processes have no mark at all, and none of them may be taken for an orphan."""
    with pytest.raises(ValueError, match="no marks"):
        orphans.orphans(gone)
    assert orphans.orphans([]) == {}


def test_processes_of_a_gateway_that_is_gone_are_ended_and_no_others(
    programs: Programs, tmp_path: Path
) -> None:
    """Not those of one that lives, of one whose catalog only has the same path, or of nobody.

    What does not want to end is killed.
    """
    claims = ClaimRegistry(tmp_path / "c.db", "processes")
    claims.take(GONE).release(left=True)
    left = [programs.start(GONE), programs.start(GONE, DEAF)]
    others = [Warden(CATALOG, path=tmp_path / "c.db").mark, f"{CATALOG}-4194306-1-feed", ""]
    living = [programs.start(mark) for mark in others]
    command = [sys.executable, "-c", SWEEP, str(tmp_path / "c.db")]
    next_one = subprocess.run(command, capture_output=True, check=True, text=True)
    assert "processes=2" in next_one.stdout
    assert [process.wait(120) for process in left] == [-15, -9]
    assert [process.poll() for process in living] == [None, None, None]
    assert claims.gone() == []


def test_this_process_is_nobodys_orphan_whatever_it_inherited(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway may have been started by a server of the gateway whose place it takes."""
    monkeypatch.setattr(orphans, "_mark_of", lambda _: GONE)
    child = programs.start("")
    found = orphans.orphans([GONE])
    assert not {os.getpid(), os.getppid(), child.pid} & found.keys()


def test_what_a_gateway_starts_for_itself_or_for_others_has_no_mark_of_another_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server of a gateway may start `maitred`: when that gateway ends, what others share goes on."""
    monkeypatch.setenv(warden.MARK, GONE)
    assert warden.MARK not in environment_of_gateway(os.environ)
    own = Warden(CATALOG)
    own.start()
    try:
        assert own._process is not None
        assert own._process.pid not in warden.processes_with_mark(GONE)
    finally:
        own.close()
