"""What the log says of a fault: where it was, and neither what variables held nor known credentials."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.surfaces.cli.rig import runner

from maitred.surfaces.cli import server_logs

_PROGRAM = """
import structlog
from maitred.surfaces.cli.logs import set_up_logging
set_up_logging(verbose=False)
def fail(token):
    raise ValueError("it failed")
try:
    fail("hush-" + "hush")
except ValueError:
    structlog.get_logger().exception("a fault")
"""


def test_a_logged_fault_shows_its_place_and_no_values() -> None:
    """Arguments of calls and tokens are such values."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    assert "in fail" in done.stderr
    assert "it failed" in done.stderr
    assert "hush-hush" not in done.stderr


_LEARNED = """
import logging, os, structlog
from maitred.config.interpolate import resolve
from maitred.surfaces.cli.logs import set_up_logging
set_up_logging(verbose=False)
secret = resolve("${SECRET}", os.environ)
ours, library = structlog.get_logger(), logging.getLogger("some.library")
"""
_TELLING = {
    "a value of a record": 'ours.warning("it failed", reason=f"401 for {secret}")',
    "a list in a record": 'ours.warning("it failed", names=[secret])',
    "a record of a library": 'library.warning("401 for %s", secret)',
    "the error of a record": 'try:\n raise ValueError(secret)\nexcept ValueError:\n ours.exception("no")',
    "the error of a library": 'try:\n raise ValueError(secret)\nexcept ValueError:\n library.exception("no")',
    "what ends the program": "raise ValueError(secret)",
}


@pytest.mark.parametrize("telling", _TELLING)
def test_no_record_tells_a_credential_that_was_resolved(telling: str) -> None:
    """Whoever writes it, and if it is a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", _LEARNED + _TELLING[telling]],
        capture_output=True,
        text=True,
        check=False,
        env={"SECRET": "k7Qe1zR9mW8Lp4vT"},
    )

    assert "***" in done.stderr
    assert "k7Qe1zR9mW8Lp4vT" not in done.stderr


def test_a_value_is_no_line_of_its_own() -> None:
    """A server could write records in our name otherwise."""
    program = _LEARNED + 'ours.warning("it failed", reason="lost\\n12:00:00 [error] all is gone")'
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"SECRET": "x"}
    )

    assert len(done.stderr.splitlines()) == 1
    assert r"lost\n12:00:00 [error] all is gone" in done.stderr


@pytest.mark.parametrize("writer", ['ours.warning("x")', 'library.warning("x")'])
def test_a_log_that_cannot_be_written_ends_nothing(writer: str) -> None:
    """As on a full disk: the gateway goes on, and what is lost is a log."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        done = subprocess.run(
            [sys.executable, "-c", f"{_LEARNED}{writer}\nprint('goes on')"],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
            env={"SECRET": "x"},
        )

    assert done.stdout == "goes on\n"


_WARNING = """
import structlog
from maitred.surfaces.cli.log_filter import warn_once
from maitred.surfaces.cli.logs import set_up_logging
set_up_logging(verbose={verbose})
warn_once()
for _ in range(3):
    structlog.get_logger().warning("the catalog cannot be read", reason="no space")
structlog.get_logger().warning("server failed", server="bad")
"""


@pytest.mark.parametrize(("verbose", "times"), [(False, [1, 0]), (True, [3, 1])])
def test_a_command_warns_once_and_not_of_what_its_answer_says(verbose: bool, times: list[int]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WARNING.format(verbose=verbose)], capture_output=True, text=True, check=True
    )
    assert [done.stderr.count(text) for text in ("cannot be read", "server failed")] == times


def test_a_line_that_is_written_while_the_log_is_shown_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a line of which a part was there already: it is shown as a whole."""
    log, shown = tmp_path / "gateway.log", list[str]()
    log.write_text("first\nhal")
    (tmp_path / "maitred.yaml").write_text("servers: {}\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(server_logs, "log_path", lambda _: log)

    def show(lines: list[str], *_: Any, **__: Any) -> None:
        if not shown:
            log.write_text(f"{log.read_text()}f\nbetween\n")
        shown.extend(lines)

    def run(go: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            with anyio.move_on_after(2):
                await go()

        anyio.run(limited)

    monkeypatch.setattr(server_logs, "_print", show)
    monkeypatch.setattr(server_logs, "run", run)
    runner(tmp_path, monkeypatch, capsys)("logs", "-f")

    assert shown == ["first", "half", "between"]
