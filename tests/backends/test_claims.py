"""Claims: a gateway is gone only for those who have its catalog, wherever they run, and once it has ended."""

import shutil
import subprocess
import sys
from pathlib import Path

from structlog.testing import capture_logs

from maitred.backends.orphans import ClaimRegistry
from maitred.backends.process import Warden

ELSEWHERE = "0123abcd-4194305-1-feed"
"""The mark of a gateway in another space of process numbers: here that number means nothing."""

_GATEWAY = f"""
import sys
from pathlib import Path
from maitred.backends.orphans import ClaimRegistry
ClaimRegistry(Path(sys.argv[1]), "processes").take("{ELSEWHERE}")
print(flush=True)
sys.stdin.read()
"""


def claims(folder: Path) -> ClaimRegistry:
    return ClaimRegistry(folder / "c.db", "processes")


def test_a_gateway_in_another_container_lives_until_it_is_killed(tmp_path: Path) -> None:
    """Whoever comes next finds what it left, once; the kernel tells them, not a process number."""
    command = [sys.executable, "-c", _GATEWAY, str(tmp_path / "c.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        gateway.stdout.readline()
        assert claims(tmp_path).gone() == []
        gateway.kill()
    assert claims(tmp_path).gone() == [ELSEWHERE]
    assert ClaimRegistry(tmp_path / "c.db", "containers").gone() == []
    claims(tmp_path).forget(ELSEWHERE)
    assert claims(tmp_path).gone() == []
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_of_the_same_path_elsewhere_and_one_beside_it_are_others(tmp_path: Path) -> None:
    """Each deployment has a volume of its own, though all of them see it at one path."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    claims(tmp_path / "one").take(ELSEWHERE).release(left=True)
    assert claims(tmp_path / "one").gone() == [ELSEWHERE]
    assert claims(tmp_path / "other").gone() == []
    assert ClaimRegistry(tmp_path / "one" / "c.db2", "processes").gone() == []


def test_a_copy_of_a_folder_says_nothing_of_the_gateways_of_the_original(tmp_path: Path) -> None:
    """A lock is not copied with its file; links to the catalog lead to the same claims."""
    (tmp_path / "one").mkdir()
    claim = claims(tmp_path / "one").take(ELSEWHERE)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "linked.db").symlink_to(tmp_path / "one" / "c.db")
    claim.release(left=True)
    assert claims(tmp_path / "copy").gone() == []
    assert ClaimRegistry(tmp_path / "linked.db", "processes").gone() == [ELSEWHERE]


def test_a_gateway_whose_process_runs_is_not_gone_though_its_lock_is_free(tmp_path: Path) -> None:
    """As in a clone of the whole file system, or where locks do not hold."""
    claims(tmp_path).take(Warden("0123abcd").mark).release(left=True)
    assert claims(tmp_path).gone() == []


def test_one_that_is_being_made_or_is_no_claim_is_left_alone(tmp_path: Path) -> None:
    """It is seen from the moment on that it is locked."""
    (tmp_path / f"c.db-processes-{ELSEWHERE}.new").touch()
    (tmp_path / "c.db-processes-notes.txt").touch()
    stray = tmp_path / "stray"
    stray.touch()
    stray.rename(tmp_path / f"c.db-processes-.{stray.stat().st_ino}")
    assert claims(tmp_path).gone() == []


def test_a_gateway_claims_what_it_starts_and_leaves_no_file_when_it_ends(tmp_path: Path) -> None:
    """But for what it was still watching, which the next one looks for."""
    own = Warden("0123abcd", path=tmp_path / "c.db")
    assert list(tmp_path.iterdir()) == []
    own.start()
    own.hold("", "maitred-clock")
    assert kinds(tmp_path) == ["containers", "processes"]
    own.close()
    assert kinds(tmp_path) == []

    own.start()
    own.hold(str(tmp_path / "no.sock"), "maitred-clock")
    own.close()
    assert kinds(tmp_path) == ["containers"]


def kinds(folder: Path) -> list[str]:
    return sorted(one.name.split("-")[1] for one in folder.iterdir())


def test_without_a_place_for_claims_servers_are_started_and_it_is_said(tmp_path: Path) -> None:
    """A full or read-only disk is no reason to serve nobody."""
    place = tmp_path / "file"
    place.touch()
    own = Warden("0123abcd", path=place / "c.db")
    with capture_logs() as logged:
        own.start()
    own.close()
    assert [line["what"] for line in logged] == ["processes"]
    assert ClaimRegistry(place / "c.db", "processes").gone() == []


def test_claims_need_no_file_of_a_catalog(tmp_path: Path) -> None:
    """A catalog in PostgreSQL has none, and nothing else makes its folder."""
    own = Warden("0123abcd", path=tmp_path / "state" / "maitred" / "c.db")
    with capture_logs() as logged:
        own.start()
    claims = list((tmp_path / "state" / "maitred").iterdir())
    own.close()
    assert (len(claims), logged) == (1, [])
