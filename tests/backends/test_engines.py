"""The engine of containers is found, kept, and lost, and the container of a server is made as approved."""

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from maitred.backends.base import ConnectError
from maitred.backends.isolation.container_spec import container_spec
from maitred.backends.isolation.engine_api import (
    GATEWAY,
    SERVER,
    ContainerSummary,
    EngineError,
    EngineGoneError,
    EngineInfo,
    Engines,
    ImageInfo,
    candidates,
)
from maitred.backends.isolation.report import of_engine, of_scan
from maitred.backends.orphans import ClaimRegistry
from maitred.backends.warden import is_gone, start_time
from maitred.config.settings import Isolation
from maitred.extras import install_command
from maitred.model.servers import Cage, MachineAspect, Mount, ServerSpec
from maitred.wiring.isolation import open_engine

pytestmark = pytest.mark.anyio
LOCAL = EngineInfo(address="unix:///run/engine.sock", name="Docker", version="1", socket="/run/engine.sock")
REMOTE = EngineInfo(address="tcp://10.0.0.1:2375", name="Docker", version="1")
SPEC = ServerSpec(name="tool", transport="container", image="localhost/tool:1")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need one."""
    with TemporaryDirectory(prefix="mt-") as name:
        yield Path(name)


def test_the_address_that_was_chosen_is_the_only_one_asked(folder: Path) -> None:
    """The setting before the variable, and that before what is usual."""
    environ = {"DOCKER_HOST": "tcp://10.0.0.1:2375", "XDG_RUNTIME_DIR": str(folder)}

    assert candidates("unix:///mine", environ, folder) == ["unix:///mine"]
    assert candidates("", environ, folder) == ["tcp://10.0.0.1:2375"]


def test_the_sockets_of_engines_without_root_are_found(folder: Path) -> None:
    """Those that are there; a file is no socket."""
    usual = [folder / "docker.sock", folder / "podman" / "podman.sock"]
    (folder / "podman").mkdir()
    (folder / "docker.sock").touch()
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(usual[1]))
        found = candidates("", {"XDG_RUNTIME_DIR": str(folder)}, folder)

    assert f"unix://{usual[1]}" in found
    assert f"unix://{usual[0]}" not in found


async def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.delitem(sys.modules, "maitred.backends.isolation.engine", raising=False)
    monkeypatch.setitem(sys.modules, "docker", None)

    with pytest.raises(ConnectError, match=re.escape(install_command("containers"))):
        await open_engine(Isolation(engine="unix:///nowhere"))


async def test_what_is_no_engine_is_not_taken_for_one(folder: Path) -> None:
    """Nor waited for."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "other.sock"))
        with pytest.raises(ConnectError, match="no engine for containers answers"):
            await open_engine(Isolation(engine=f"unix://{folder}/other.sock"))


@pytest.mark.parametrize(
    ("chosen", "becomes"),
    [
        ("", "65534:65534"),
        ("root", "65534:65534"),
        ("0", "65534:65534"),
        ("0:0", "65534:65534"),
        ("root:app", "65534:65534"),
        ("1000", "1000"),
        ("1000:0", "1000:0"),
        ("app:app", "65534:65534"),
        ("toor", "65534:65534"),
        ("00", "65534:65534"),
        ("+0", "65534:65534"),
        ("-0", "65534:65534"),
    ],
)
def test_a_container_runs_as_the_images_user_but_never_as_root(chosen: str, becomes: str) -> None:
    """By its number; a name may be another one of root's."""
    image = ImageInfo(identity="sha256:1", user=chosen)
    made = container_spec(SPEC, image, LOCAL, labels={}, resolve=str)

    assert made.user == becomes
    assert made.image == "sha256:1"


def test_more_cores_than_there_are_is_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker would refuse more; how many another machine has is not known."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    spec = ServerSpec(name="tool", image="localhost/tool:1", cage=Cage(nano_cpus=4_000_000_000))
    image = ImageInfo(identity="sha256:1")

    assert container_spec(spec, image, LOCAL, labels={}, resolve=str).nano_cpus == 2_000_000_000
    assert container_spec(spec, image, REMOTE, labels={}, resolve=str).nano_cpus == 4_000_000_000


def test_a_home_that_the_image_or_the_manifest_names_is_left() -> None:
    """Else it is where it can write."""
    image = ImageInfo(identity="sha256:1", env={"HOME": "/app"})
    own = ServerSpec(name="tool", image="localhost/tool:1", env={"HOME": "/data"})

    assert container_spec(SPEC, image, LOCAL, labels={}, resolve=str).env == {}
    assert container_spec(own, ImageInfo(identity="sha256:1"), LOCAL, labels={}, resolve=str).env == {
        "HOME": "/data"
    }


def test_volumes_of_the_image_are_kept_in_memory_unless_a_folder_was_granted_there(tmp_path: Path) -> None:
    """Else the engine gives it the disk of the machine; what is below a granted folder is one more."""
    cage = Cage(mounts=(Mount(path=str(tmp_path), at="/data", writable=True),))
    spec = ServerSpec(name="tool", image="localhost/tool:1", cage=cage)
    image = ImageInfo(identity="sha256:1", volumes=("/data/", "/data/sub", "logs"))

    assert container_spec(spec, image, LOCAL, labels={}, resolve=str).in_memory == [
        *("/tmp", "/var/tmp", "/data/sub", "/logs")
    ]


def test_a_folder_to_read_with_another_file_system_in_it_is_not_granted() -> None:
    """Engines make only the one that was named read-only."""
    cage = Cage(mounts=(Mount(path="/dev", at="/data"),))
    spec = ServerSpec(name="tool", image="localhost/tool:1", cage=cage)

    with pytest.raises(ConnectError, match=r"/dev, which .* has another file system at /dev/\w+"):
        container_spec(spec, ImageInfo(identity="sha256:1"), LOCAL, labels={}, resolve=str)


def test_what_another_server_could_turn_into_a_link_is_not_granted(tmp_path: Path) -> None:
    """That is, what lies in a folder where it may write; the folder itself is no such thing."""
    folder = tmp_path / "sub"
    folder.mkdir()

    def of(name: str, path: Path, *, writable: bool = False) -> ServerSpec:
        cage = Cage(mounts=(Mount(path=str(path), at="/data", writable=writable),))
        return ServerSpec(name=name, image="localhost/tool:1", cage=cage)

    def granted(spec: ServerSpec, *others: ServerSpec) -> int:
        image = ImageInfo(identity="sha256:1")
        return len(container_spec(spec, image, LOCAL, labels={}, resolve=str, others=others).mounts)

    writer = of("writer", tmp_path, writable=True)
    said = f"{folder}, which it was granted, lies in {tmp_path}, where writer may write"
    with pytest.raises(ConnectError, match=re.escape(said)):
        granted(of("tool", folder), writer)
    assert granted(of("tool", folder), of("reader", tmp_path)) == 1
    assert granted(of("tool", tmp_path), writer) == 1
    assert granted(writer, writer) == 1


def test_folders_of_this_machine_are_not_granted_to_an_engine_elsewhere(tmp_path: Path) -> None:
    """There they would be other folders, which nobody looked at."""
    cage = Cage(mounts=(Mount(path=str(tmp_path), at="/data"),))
    spec = ServerSpec(name="tool", image="localhost/tool:1", cage=cage)

    with pytest.raises(ConnectError, match=r"the engine at tcp://10\.0\.0\.1:2375 may be on another"):
        container_spec(spec, ImageInfo(identity="sha256:1"), REMOTE, labels={}, resolve=str)


def test_the_doctor_tells_which_engine_answers_or_why_none_does() -> None:
    """And what that means."""
    assert of_engine(LOCAL) == MachineAspect(
        name="engine", works=True, told="Docker 1 at unix:///run/engine.sock"
    )
    assert of_engine(REMOTE).told.endswith("may be on another machine, so no folders can be granted")
    missing = of_engine(ConnectError("no engine answers"))
    assert (missing.works, missing.told) == (
        False,
        "no engine answers; registered images are not started",
    )


def test_the_doctor_tells_whether_images_are_looked_at_for_faults() -> None:
    """By what is installed, and by what the operator wants."""
    assert of_scan("off", None).told == "Trivy is not installed; no scan looks for known faults"
    assert of_scan("block", None).told == "Trivy is not installed; registered images are not started"
    assert of_scan("off", "/usr/bin/trivy") == MachineAspect(
        name="scan", works=False, told="Trivy at /usr/bin/trivy; switched off"
    )
    assert of_scan("warn", "/usr/bin/trivy").works


class OneEngine:
    """An engine with containers of some marks; `faults` are told when one of them is removed."""

    info = LOCAL

    def __init__(self, *marks: str, faults: Mapping[str, EngineError] | None = None) -> None:
        self.left = list(marks)
        self.opened = self.asked = 0
        self._faults = faults or {}

    def close(self) -> None:
        """Nothing is open."""

    async def ping(self) -> None:
        """It is there."""

    async def labelled(self, label: str) -> Sequence[ContainerSummary]:
        self.asked += 1
        key, _, value = label.partition("=")
        assert key == GATEWAY
        labels = {GATEWAY: value, SERVER: "clock"}
        return [ContainerSummary(identity=mark, labels=labels) for mark in self.left if mark == value]

    async def remove(self, name: str) -> None:
        if fault := self._faults.get(name):
            raise fault
        self.left.remove(name)

    def seen_by(self, folder: Path) -> Engines:
        """What a gateway has of it whose catalog is in a folder; all see that folder at the same path."""

        async def opened() -> Any:
            self.opened += 1
            return self

        return Engines(opened, catalog="c0ffee00", claims=ClaimRegistry(folder / "catalog.db", "containers"))


ONE, TWO = (f"c0ffee00-{4194305 + number}-1-feed" for number in range(2))
"""Marks of gateways in containers: here there are no processes of these numbers."""


async def test_of_two_deployments_on_one_engine_none_removes_what_the_other_one_runs(tmp_path: Path) -> None:
    """Their catalogs have the same path, each in a volume of its own; one of a killed gateway it removes."""
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    engine = OneEngine(ONE, TWO)
    living = ClaimRegistry(tmp_path / "other" / "catalog.db", "containers").take(TWO)
    ClaimRegistry(tmp_path / "mine" / "catalog.db", "containers").take(ONE).release(left=True)

    await engine.seen_by(tmp_path / "mine").engine()
    assert engine.left == [TWO]
    await engine.seen_by(tmp_path / "other").engine()
    assert engine.left == [TWO]
    living.release(left=True)
    await engine.seen_by(tmp_path / "mine").engine()
    assert engine.left == [TWO]
    await engine.seen_by(tmp_path / "other").engine()
    assert engine.left == []


async def test_an_engine_is_asked_for_orphans_only_if_a_gateway_left_some(tmp_path: Path) -> None:
    """And once: what is removed need not be looked for again."""
    engine = OneEngine(ONE)
    await engine.seen_by(tmp_path).remove_orphans()
    assert engine.opened == 0
    ClaimRegistry(tmp_path / "catalog.db", "containers").take(ONE).release(left=True)
    for _ in range(2):
        await engine.seen_by(tmp_path).remove_orphans()
    assert (engine.opened, engine.asked, engine.left) == (1, 1, [])


async def test_an_orphan_that_cannot_be_removed_keeps_no_server_from_starting(tmp_path: Path) -> None:
    """The others are removed, and the next gateway tries again; if the engine goes, so does this one."""
    for mark in (ONE, TWO):
        ClaimRegistry(tmp_path / "catalog.db", "containers").take(mark).release(left=True)
    busy = OneEngine(ONE, TWO, faults={ONE: EngineError("device or resource busy")})
    await busy.seen_by(tmp_path).engine()
    assert busy.left == [ONE]

    down = OneEngine(ONE, faults={ONE: EngineGoneError("nobody answers")})
    engines = down.seen_by(tmp_path)
    for _ in range(2):
        with pytest.raises(ConnectError, match="nobody answers"):
            await engines.engine()
    up = OneEngine(ONE)
    await up.seen_by(tmp_path).engine()
    assert up.left == []


def test_a_mark_tells_whether_its_gateway_is_gone() -> None:
    """By its process, and by when that started, since numbers are given away again."""
    pid = 1

    assert not is_gone(f"c0ffee00-{pid}-{start_time(pid)}-0")
    assert is_gone(f"c0ffee00-{pid}-1-0")
    assert is_gone("c0ffee00-99999999-5-0")
    assert is_gone("what is no mark")
