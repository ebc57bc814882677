"""The Podman of the tests keeps to its own folder, whatever the environment of the run says."""

import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from tests.support.podman import Podman

pytestmark = [pytest.mark.xdist_group("podman")]

PLACES = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR")


def test_an_image_of_the_tests_lands_in_no_folder_of_its_runner(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where such a folder exists and can be written to by the tests."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for place in PLACES:
        monkeypatch.setenv(place, str(theirs))

    with tempfile.TemporaryDirectory(prefix="mt-", dir="/tmp") as folder:
        other = Podman(Path(folder))
        try:
            other.start()
            other.run("import", str(_archive(tmp_path)), "localhost/tiny:1")
            images = other.run("images", "--quiet").split()
        finally:
            other.close()

    assert len(images) == 1
    assert list(theirs.rglob("*")) == []


def _archive(folder: Path) -> Path:
    """A root filesystem with one file."""
    path = folder / "root.tar"
    with tarfile.open(path, "w") as archive:
        file = tarfile.TarInfo("hello")
        file.size = 2
        archive.addfile(file, io.BytesIO(b"hi"))
    return path
