"""Why a container ended is told from what is known of it, and no more is claimed than that."""

from pathlib import Path

import pytest

from maitred.backends.isolation.endings import container_ending, ended_for_memory, memory_count
from maitred.backends.isolation.engine_api import ContainerState

MIB = 2**20
NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("code", "flag", "actions", "by_kernel", "kind", "said"),
    [
        (0, False, {"die"}, False, "exit", "it exited with code 0"),
        (3, False, {"die"}, None, "exit", "it exited with code 3"),
        (139, False, {"die"}, False, "exit", "it was ended by SIGSEGV"),
        (255, False, {"die"}, False, "exit", "it exited with code 255"),
        (143, False, {"die"}, False, "killed", "it was ended by SIGTERM"),
        (137, False, {"kill", "die"}, None, "killed", "its container was ended from outside"),
        (137, False, {"die"}, False, "killed", "it was ended by SIGKILL"),
        (137, True, {"die"}, None, "memory", "the kernel ended it: it needed more memory than its 64 MiB"),
        (137, False, {"oom", "die"}, None, "memory", "the kernel ended it"),
        (137, False, {"die"}, True, "memory", "the kernel ended it"),
        (1, False, {"die"}, True, "memory", "the kernel ended it"),
        (0, False, {"die"}, True, "exit", "it exited with code 0"),
        (137, False, set(), None, "killed", "perhaps since it needed more memory than its 64 MiB"),
    ],
)
def test_the_kind_of_an_end_follows_from_all_that_is_known(
    code: int, flag: bool, actions: set[str], by_kernel: bool | None, kind: str, said: str
) -> None:
    """Exit code, the engine's own word, what it did, and what the kernel counted."""
    state = ContainerState(running=False, code=code, out_of_memory=flag)
    ending = container_ending(state, frozenset(actions), by_kernel, 64 * MIB)

    assert ending.kind == kind
    assert said in ending.reason


@pytest.mark.parametrize(
    ("groups", "lines", "file"),
    [
        ("memory/box", "5:memory:/box\n0::/other", "memory/box/memory.oom_control"),
        ("box", "0::/box", "box/memory.events"),
    ],
)
def test_the_kernels_count_is_found_in_both_kinds_of_control_groups(
    tmp_path: Path, groups: str, lines: str, file: str
) -> None:
    """And cannot be told where there is none."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(lines, encoding="utf-8")
    (tmp_path / groups).mkdir(parents=True)
    (tmp_path / file).write_text("under_oom 0\noom_kill 2\n", encoding="utf-8")
    count = memory_count(7, groups=tmp_path, processes=tmp_path)

    assert count == tmp_path / file
    assert ended_for_memory(count) is True
    count.write_text("oom_kill 0\n", encoding="utf-8")
    assert ended_for_memory(count) is False
    count.unlink()
    assert ended_for_memory(count) is None
    assert memory_count(8, groups=tmp_path, processes=tmp_path) is None
