"""The order in which tests run, and what becomes of one that takes too long."""

import os
import time

import pytest
from tests.support.arrangement import ALONE, CONTAINERS, LONGEST, bounded, longest, weight


def test_the_longest_files_are_there_and_sorted() -> None:
    """A file that was moved would start late, and nobody notice."""
    seconds = list(longest().values())

    assert [path for path in longest() if not (LONGEST.parent / path).exists()] == []
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.xdist_group("grouped")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="it concerns runs with several workers")
def test_tests_of_a_group_run_on_one_worker(request: pytest.FixtureRequest) -> None:
    """xdist reads the group from the id of a test; without it, each worker makes what a file shares again."""
    assert request.node.nodeid.endswith("@grouped")


def test_containers_come_first_then_the_longest_files_and_what_measures_time_last() -> None:
    """All others keep their order."""
    seconds = {"long.py": 9.0, "longer.py": 20.0}
    tests = [("a.py", ALONE), ("b.py", ""), ("long.py", "x"), ("a.py", "x"), ("longer.py", "")]
    tests.append(("z.py", CONTAINERS))

    tests.sort(key=lambda test: weight(test[0], test[1], seconds))

    assert [file for file, _ in tests] == ["z.py", "longer.py", "long.py", "b.py", "a.py", "a.py"]
    assert tests[-1] == ("a.py", ALONE)


def test_a_part_that_takes_too_long_fails_and_says_so(request: pytest.FixtureRequest) -> None:
    """By processor time, which hardly depends on who else works."""
    mark = pytest.mark.processor_s(0.05, "to see what becomes of it")
    request.node.add_marker(mark, append=False)

    with pytest.raises(pytest.fail.Exception, match=r"of processor time; it may take 0\.05 s"):
        spend(request.node)

    request.node.own_markers.pop(0)


def spend(item: pytest.Item) -> None:
    with bounded(item):
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
