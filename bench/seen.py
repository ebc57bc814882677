"""What runs on this machine of some servers and some gateways, seen in /proc and not by a gateway's word.

A server is known by a label among its arguments, which it has in a cage as well; what gateways started is
known by their marks.
"""

import os
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Self

from maitred.backends.warden import MARK

_LOOK_S: Final = 0.1


class Watch:
    """Looks again and again whether a server runs twice, in a thread, for as long as the context is open."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._found: set[tuple[str, frozenset[int]]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def doubled(self) -> int:
        """How many times a server was found with two processes or more."""
        return len(self._found)

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            suspects = {name: pids for name, pids in running(self._labels).items() if len(pids) > 1}
            if suspects:  # one may have ended, and its successor begun, while all were looked at
                again = running(self._labels)
                both = {name: frozenset(pids & again.get(name, set())) for name, pids in suspects.items()}
                self._found |= {(name, pids) for name, pids in both.items() if len(pids) > 1}


def running(labels: Mapping[str, str]) -> Mapping[str, set[int]]:
    """The processes of servers that run now, by the labels among their arguments."""
    names = {label: name for name, label in labels.items()}
    found: dict[str, set[int]] = defaultdict(set)
    for pid in _pids():
        argv = _words(pid, "cmdline")
        if argv and Path(argv[0]).name.startswith("python"):  # the shell and the jailer have it as well
            for word in argv:
                if word in names:
                    found[names[word]].add(pid)
    return found


def marked(catalog: str) -> Collection[tuple[int, str, str]]:
    """Processes that gateways of a catalog started, wardens among them: number, mark, command line."""
    found = []
    for pid in _pids():
        argv = _words(pid, "cmdline")
        own = [word.removeprefix(f"{MARK}=") for word in _words(pid, "environ")]
        marks = [word for word in (*argv, *own) if re.fullmatch(rf"{catalog}-\d+-\d*-\w+", word)]
        if marks:
            found.append((pid, marks[-1], " ".join(argv)[-80:]))
    return found


def is_of(mark: str, gateway: int) -> bool:
    """Whether a mark, or what begins with one, is that of a gateway."""
    return mark.split("-")[1] == str(gateway)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # many times a second


def _words(pid: int, file: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return []
    return text.decode("utf-8", "replace").rstrip("\0").split("\0") if text else []
