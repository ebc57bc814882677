"""Builds the distributions by the build backend itself: without an environment for it, in seconds."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
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


def stand_alone(name: str, folder: Path) -> Path:
    """The wheel of an installed package which finds what it needs below `/packages`, not on an index."""
    source = distribution(name)
    own = name.replace("-", "_")
    info = f"{own}-{source.version}.dist-info"
    scripts = "".join(f"{one.name} = {one.value}\n" for one in source.entry_points)
    contents = {
        str(file): Path(str(source.locate_file(file))).read_bytes()
        for file in source.files or ()
        if file.parts[0] == own and file.suffix != ".pyc"
    } | {
        "needs.pth": b"/packages\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {source.version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }
    record = "".join(f"{file},,\n" for file in [*contents, f"{info}/RECORD"])
    wheel = folder / f"{own}-{source.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, data in {**contents, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(file, data)
    return wheel
