"""What programs run below a process, told without stumbling over those that end meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import psutil


def below(pid: int | None = None) -> Iterator[tuple[psutil.Process, str, list[str]]]:
    """Each process below `pid` (this one by default), its name and command line.

    One that has ended is left out; one that has ended and was not waited for is still there, without a line.
    """
    for process in psutil.Process(pid).children(recursive=True):
        try:
            name = process.name()
        except psutil.NoSuchProcess:
            continue
        yield process, name, _command(process)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def named(names: Collection[str]) -> list[psutil.Process]:
    """The processes below this one that have one of these names."""
    return [process for process, name, _ in below() if name in names]


def kill_named(names: Collection[str]) -> None:
    """Kill those processes below this one; one that has just ended needs no more."""
    for process in named(names):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
