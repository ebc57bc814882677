"""Control groups: their limits, what the kernel counts, how they are entered, and that none is left."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.backends.rig import is_gone as has_ended
from tests.support.jails import means

from maitred.backends.isolation import cgroups
from maitred.backends.isolation.cgroups import ControlGroup, Tree, find_tree, sweep
from maitred.model.servers import Cage

CAGE = Cage(memory=64 * 2**20, nano_cpus=1_500_000_000, cpu_shares=512, pids=7)
MARK = f"c0ffee00-{os.getpid()}-0-test"


# --- the kernel's own -------------------------------------------------------------------------------------


@pytest.fixture
def tree() -> Tree:
    if (found := means().groups) is None:
        pytest.skip(f"no control groups here: {means().why_no_groups}")
    return found


@pytest.fixture
def group(tree: Tree) -> Iterator[ControlGroup]:
    """A group that was made."""
    made = tree.group(f"{MARK}.1")
    made.make(CAGE)
    yield made
    assert made.remove()


def enter(group: ControlGroup, *argv: str) -> "subprocess.Popen[str]":
    """A program in a group; it runs when it has written its first line."""
    process = subprocess.Popen(group.entering(argv), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_who_enters_is_bounded_and_the_kernel_counts(group: ControlGroup) -> None:
    """A program that takes more memory than its group may have is ended, and the group tells."""
    hog = [sys.executable, "-IS", "-c", f"b'x' * {2 * CAGE.memory}"]

    assert not group.ended_for_memory()
    assert subprocess.run(group.entering(hog), check=False).returncode == -9
    assert group.ended_for_memory()


def test_a_group_is_removed_with_all_that_runs_in_it(tree: Tree) -> None:
    """A process that has left its parent and its session is still in it."""
    group = tree.group(f"{MARK}.2")
    group.make(CAGE)
    with enter(group, "/bin/sh", "-c", "setsid sleep 60 >/dev/null & echo $!; wait") as process:
        (child,) = psutil.Process(process.pid).children()
        assert group.remove()
        assert process.wait(120) == -9

    assert has_ended(child.pid)
    assert not [name for name in tree.names() if name.startswith(MARK)]


def test_groups_of_gateways_that_are_gone_are_swept_and_no_others(group: ControlGroup, tree: Tree) -> None:
    """Each gateway is asked about by its mark; one that runs keeps its groups, and their processes."""
    left = tree.group("c0ffee00-1-2-gone.3")
    left.make(CAGE)
    with enter(left, "/bin/sh", "-c", "echo; exec sleep 60") as process:
        asked: list[str] = []

        def is_gone(mark: str) -> bool:
            asked.append(mark)
            return mark == "c0ffee00-1-2-gone"

        swept = sweep(is_gone)
        process.wait(120)

    assert swept == ["c0ffee00-1-2-gone.3"]
    assert MARK in asked
    assert f"{MARK}.1" in tree.names()


def test_one_that_was_never_made_is_removed_already(tree: Tree) -> None:
    """So whatever failed can be cleared up after."""
    assert tree.group(f"{MARK}.never").remove()


# --- both versions, on folders that look like the kernel's ------------------------------------------------


def system(folder: Path, lines: str, *places: str) -> tuple[Path, Path]:
    """Control groups as a kernel shows them: where they are, and the file that says which are ours."""
    for place in places:
        (folder / place).mkdir(parents=True)
    (folder / "own").write_text(lines, encoding="utf-8")
    return folder, folder / "own"


def second(folder: Path, own: str = "/user.slice/app.slice/ours.scope") -> tuple[Path, Path]:
    root, file = system(folder, f"0::{own}\n", own.lstrip("/"))
    (root / "cgroup.controllers").write_text("cpu memory pids\n", encoding="utf-8")
    return root, file


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that are removed with their files, as those of the kernel are."""
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)


@pytest.mark.usefixtures("pretended")
def test_of_the_second_version_groups_are_beside_ours_with_all_limits_in_one_folder(tmp_path: Path) -> None:
    """Ours holds processes, and such a group hands no limits on."""
    root, own = second(tmp_path)
    tree, why = find_tree(MARK, root=root, own=own)
    assert (why, tree is not None) == ("", True)
    assert tree is not None
    tree.group("x.1").make(CAGE)
    (made,) = (root / "user.slice" / "app.slice").glob("maitred-*")
    values = {file.name: file.read_text() for file in made.iterdir()}

    assert values == {
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "pids.max": "7",
        "cpu.max": "150000 100000",
        "cpu.weight": "50",
    }
    assert (made.parent / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert tree.names() == ["x.1"]


@pytest.mark.usefixtures("pretended")
def test_of_the_first_version_each_limit_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """Each below the group that is ours there."""
    lines = "4:memory:/app\n3:cpu,cpuacct:/\n2:pids:/a/b\n1:name=systemd:/\n0::/\n"
    root, own = system(tmp_path, lines, "memory/app", "cpu", "pids/a/b")
    tree, why = find_tree(MARK, root=root, own=own)
    assert (why, tree is not None) == ("", True)
    assert tree is not None
    tree.group("x.1").make(CAGE)
    values = {str(file.relative_to(root)): file.read_text() for file in root.glob("**/maitred-x.1/*")}

    assert values == {
        "memory/app/maitred-x.1/memory.limit_in_bytes": "67108864",
        "memory/app/maitred-x.1/memory.memsw.limit_in_bytes": "67108864",
        "pids/a/b/maitred-x.1/pids.max": "7",
        "cpu/maitred-x.1/cpu.cfs_period_us": "100000",
        "cpu/maitred-x.1/cpu.cfs_quota_us": "150000",
        "cpu/maitred-x.1/cpu.shares": "512",
    }


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", "this system has no control groups for memory, processes and cores"),
        ("2:memory:/\n1:cpuset:/\n", "this system has no control groups for memory, processes and cores"),
        ("0::/ours/here\n", "control groups cannot be made here: No such file or directory"),
    ],
)
def test_where_there_are_none_it_is_said_why(lines: str, told: str, tmp_path: Path) -> None:
    """No kernel support, an incomplete one, or a tree that is not to be seen from here."""
    root, own = system(tmp_path, lines)
    (root / "cgroup.controllers").write_text("", encoding="utf-8")
    tree, why = find_tree(MARK, root=root, own=own)

    assert tree is None
    assert why.startswith(told)
    assert find_tree(MARK, root=root, own=root / "missing")[1].startswith("this system has no")


def test_groups_that_may_be_made_but_not_entered_are_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where systemd gave us a part of the tree, and we are in another part."""
    monkeypatch.setattr(cgroups, "_ENTER", "echo 'Permission denied' >&2; exit 125")
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    root, own = second(tmp_path)

    assert find_tree(MARK, root=root, own=own) == (
        None,
        "control groups cannot be made here: Permission denied",
    )
