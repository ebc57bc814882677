"""A small disk of its own for a test that fills it, or mounts it read-only; only root may mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_BLOCK = 4_096


class Disk:
    """A disk in memory that is mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no room for a single byte."""
        for size in (_BLOCK, 1):
            with self._ballast.open("ab", buffering=0) as file:
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()

    def remount(self, how: str) -> None:
        """Mount it again, `ro` or `rw`."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, size: str = "8m") -> Iterator[Disk]:
    """A disk of a few megabytes at a path; the test is skipped where none may be mounted."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "maitred-test", str(path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk, and not everywhere")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
