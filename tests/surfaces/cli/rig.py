"""Runs commands of `maitred` in this process, as `main` does: a process for each would take a second."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from maitred.surfaces.cli import logs
from maitred.surfaces.cli.app import main

Json = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def fine(self) -> str:
        """What it printed; fails if the command did."""
        assert self.code == 0, self.err + self.out
        return self.out

    @property
    def refused(self) -> str:
        """What it said when it refused; fails if it did not."""
        assert self.code == 2, self.out
        return self.err


Run = Callable[..., Done]


def runner(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs commands in a folder, with its `maitred.yaml`."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MAITRED_CONFIG", str(folder / "maitred.yaml"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(logs, "set_up_logging", lambda **_: None)  # it outlives the test's streams

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["maitred", *words])
        with capture_logs(), pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Done(code=int(ended.value.code or 0), out=printed.out, err=printed.err)

    return run


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by their names."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
