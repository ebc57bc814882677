"""Builds the distributions by the build backend itself: without an environment for it, in seconds."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"


@dataclass(frozen=True, kw_only=True)
class Distributions:
    """The two files of a release."""

    wheel: Path
    sdist: Path

    def in_wheel(self) -> Mapping[str, bytes]:
        """The files of the wheel by their names."""
        with zipfile.ZipFile(self.wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def in_sdist(self) -> set[str]:
        """The names of the files of the sdist, without its top folder."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}


def build(source: Path, folder: Path) -> Distributions:
    """Build both from a folder with the source."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel=wheel, sdist=sdist)


def without_needs(wheel: Path, folder: Path) -> Path:
    """A copy of a wheel that requires only the packages of its extras; pipx looks for each other one."""
    lean = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(lean, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith(".dist-info/METADATA"):
                lines = data.splitlines(keepends=True)
                is_need = [line.startswith(b"Requires-Dist:") and b"extra ==" not in line for line in lines]
                data = b"".join(line for line, skipped in zip(lines, is_need, strict=True) if not skipped)
            new.writestr(item, data)
    return lean
