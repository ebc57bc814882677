"""A catalog on a disk of its own, commands that are run on it, and what can go wrong with the disk."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.interaction.harness import Json, cli, write_settings
from tests.support import prefork
from tests.support.disks import Disk

SERVER = Path(__file__).with_name("diary_server.py")
NOBODY = 65_534
BOUND_BY_RIGHTS = Path(__file__).with_name("bound_by_rights.py")
Run = Callable[..., subprocess.CompletedProcess[str]]


def diary(folder: Path) -> Json:
    args = ["-I", "-S", str(SERVER), str(folder / "diary.txt")]
    return {"command": sys.executable, "args": args, "era": "handshake"}


def as_user(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as whoever runs the tests."""
    return cli(None, *words, env={"MAITRED_CONFIG": str(config)})


def bound_by_rights(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command for whom the rights of files hold, as they do not for root."""
    env = {**os.environ, "MAITRED_CONFIG": str(config)}
    return prefork.run(words, env=env, timeout=120, script=BOUND_BY_RIGHTS)


class Place:
    """A configuration, its catalog on another disk, and how commands are run there."""

    def __init__(self, config: Path, catalog: Path, run: Run = as_user) -> None:
        self.config = config
        self.catalog = catalog
        self._run = run

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run(self.config, *words)

    def fine(self, *words: str) -> str:
        """What a command prints that must not fail."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        assert "move it away" not in done.stderr
        return done.stdout

    def refused(self, *words: str) -> str:
        """What a command says that cannot do what it is to do."""
        done = self.run(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "move it away" not in done.stderr
        return done.stderr


def made(folder: Path, state: Path) -> Place:
    """A catalog that knows the diary, somebody with a token, and what was done."""
    catalog = state / "catalog.db"
    config = write_settings(folder, {"diary": diary(folder)}, catalog={"path": str(catalog)})
    place = Place(config, catalog)
    place.fine("call", "diary__write")
    place.fine("tokens", "create", "ann", "--role", "agent")
    return place


# --- what can go wrong with a disk ------------------------------------------------------------------------


@contextmanager
def full(place: Place, disk: Disk) -> Iterator[Place]:
    disk.fill()
    yield place


@contextmanager
def full_after_a_kill(place: Place, disk: Disk) -> Iterator[Place]:
    """What a gateway wrote last stands in the log of the file, and what SQLite needs beside that is gone."""
    leave_log(place.catalog)
    os.truncate(f"{place.catalog}-shm", 3)
    disk.fill()
    yield place


@contextmanager
def read_only(place: Place, disk: Disk) -> Iterator[Place]:
    disk.remount("ro")
    try:
        yield place
    finally:
        disk.remount("rw")


@contextmanager
def read_only_after_a_kill(place: Place, disk: Disk) -> Iterator[Place]:
    leave_log(place.catalog)
    with read_only(place, disk):
        yield place


@contextmanager
def without_rights(place: Place, disk: Disk) -> Iterator[Place]:
    """The folder and the file are somebody else's, or may only be read."""
    for path, mode in ((place.catalog, 0o444), (place.catalog.parent, 0o555)):
        path.chmod(mode)
        if not os.geteuid():
            os.chown(path, NOBODY, NOBODY)
    yield Place(place.config, place.catalog, bound_by_rights)
    place.catalog.parent.chmod(0o755)


FAULTS: Mapping[str, tuple[Callable[[Place, Disk], AbstractContextManager[Place]], str]] = {
    "full": (full, "its disk is full"),
    "full after a kill": (full_after_a_kill, "its disk is full"),
    "read-only": (read_only, "its disk is mounted read-only"),
    "read-only after a kill": (read_only_after_a_kill, "its disk is mounted read-only"),
    "without rights": (without_rights, "this user may not write there"),
}


def leave_log(catalog: Path) -> None:
    """Have a process write, and end without closing the file."""
    columns = "lists, list_tokens, answers, answer_tokens, results, result_tokens, raw_tokens"
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA wal_autocheckpoint=0');"
        f'c.execute("INSERT INTO spending (day, principal, {columns}) VALUES'
        " (date('now'), 'eve', 1, 1, 1, 1, 1, 1, 1)\"); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(catalog)], check=True)
    assert Path(f"{catalog}-wal").stat().st_size
