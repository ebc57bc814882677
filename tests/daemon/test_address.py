"""Where gateways are found: names, rights and locks, and what is left of those that are gone."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maitred.errors import DaemonError
from maitred.surfaces.daemon.discovery import opened_log
from maitred.surfaces.daemon.sockets import Address, EndpointLock, address_of, is_ours, run_folder

CONFIG = Path("/somewhere/maitred.yaml")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a folder that is short enough, and gone afterwards."""
    return {"XDG_RUNTIME_DIR": str(_short(tmp_path))}


def _short(path: Path) -> Path:
    """Another name of a folder."""
    link = Path(os.environ["XDG_RUNTIME_DIR"]) / f"t{os.getpid()}-{path.stat().st_ino}"
    link.symlink_to(path)
    return link


@pytest.fixture
def address(environ: dict[str, str]) -> Address:
    return address_of(CONFIG, environ)


@pytest.fixture
def held(address: Address) -> Iterator[EndpointLock]:
    made = EndpointLock(address, "daemon")
    yield made
    made.leave()


def test_only_the_user_can_reach_what_is_in_the_folder(address: Address, held: EndpointLock) -> None:
    """The folder, the socket and the lock are the owner's alone."""
    with held.listen():
        modes = [path.stat().st_mode & 0o777 for path in (address.folder, held.seat.socket, held.seat.lock)]
    assert modes == [0o700, 0o600, 0o600]


@pytest.mark.parametrize(("mode", "said"), [(0o777, "written by others"), (0o720, "written by others")])
def test_a_folder_that_others_can_write_is_refused(environ: dict[str, str], mode: int, said: str) -> None:
    """It is not corrected: who could write may have put something there."""
    folder = run_folder(environ)
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(DaemonError, match=said):
        address_of(CONFIG, environ)


def test_a_folder_of_somebody_else_and_a_link_to_one_are_refused(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(environ)
    folder.symlink_to(tmp_path)
    with pytest.raises(DaemonError, match="is not a folder of this user"):
        address_of(CONFIG, environ)
    folder.unlink()
    folder.mkdir(mode=0o700)
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(DaemonError, match="is not a folder of this user"):
        address_of(CONFIG, environ)


def test_a_folder_that_others_can_read_is_closed_to_them(environ: dict[str, str]) -> None:
    folder = run_folder(environ)
    folder.mkdir()
    folder.chmod(0o755)
    assert address_of(CONFIG, environ).folder.stat().st_mode & 0o777 == 0o700


def test_a_path_too_long_for_a_socket_gives_way_to_a_short_one_of_the_same_user() -> None:
    """The same for every process; where nothing is said, it stands in the user's state."""
    long = {"XDG_RUNTIME_DIR": "/" + 90 * "x"}
    assert run_folder(long) == run_folder(long)
    assert run_folder(long).parent == Path("/tmp")
    assert f"-{os.getuid()}-" in run_folder(long).name
    assert run_folder({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/maitred")
    assert run_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/maitred/run")


def test_each_configuration_has_gateways_of_its_own(environ: dict[str, str], held: EndpointLock) -> None:
    """Another file, and another installation, are never confused with it; paths are made absolute."""
    address = address_of(CONFIG, environ)
    assert address.seats(of_build=True) == [held.seat]
    assert address_of(CONFIG.with_name("other.yaml"), environ).seats() == []
    assert address._replace(build="000000").seats(of_build=True) == []
    assert address._replace(build="000000").seats() == [held.seat]
    here = Path(os.path.relpath(CONFIG))
    assert address_of(Path.cwd() / CONFIG, environ) == address
    assert address_of(here, environ).config.is_absolute()


def test_what_a_killed_gateway_left_is_told_from_what_lives_and_removed(
    address: Address, held: EndpointLock
) -> None:
    """By its lock, which dies with it."""
    held.listen().close()
    assert held.seat.lives()
    assert held.seat.pid() == os.getpid()
    copy = held.seat._replace(name=held.seat.name + "0")
    copy.socket.touch()
    copy.lock.write_text("1")
    assert len(address.seats()) == 2
    assert not copy.lives()
    assert not copy.socket.exists()
    assert address.seats() == [held.seat]


def test_a_gateway_that_leaves_is_found_no_more(address: Address) -> None:
    held = EndpointLock(address, "http")
    held.listen().close()
    assert not held.seat.is_daemon
    held.hide()
    assert held.seat.lives()
    held.leave()
    assert not held.seat.lives()
    assert list(address.folder.iterdir()) == []


def test_who_is_at_the_other_end_is_asked_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert is_ours(one)
        own = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: own + 1)
        assert not is_ours(one)


def test_the_log_is_moved_aside_when_it_has_become_long(tmp_path: Path) -> None:
    """What was started from the gateway goes on writing into the same file, from its beginning."""
    log = tmp_path / "log"
    code = (
        "import os, sys, pathlib; from maitred.surfaces.daemon.background import shorten;"
        "os.write(2, b'x' * 500); shorten(pathlib.Path(sys.argv[1]), 1000);"
        "os.write(2, b'y' * 600); shorten(pathlib.Path(sys.argv[1]), 1000); os.write(2, b'z')"
    )
    with opened_log(log) as errors:
        done = subprocess.run([sys.executable, "-c", code, str(log)], stderr=errors, check=False)
        errors.write(b"!")
    assert done.returncode == 0
    assert log.read_bytes() == b"z!"
    assert (tmp_path / "log.1").read_bytes() == b"x" * 400 + b"y" * 600
    assert log.stat().st_mode & 0o777 == 0o600
