"""Which tests run first, and which run on one worker; how much processor time one may take.

The order: tests of containers, then files by how long they take (`tests/longest.txt`), then all others, then
tests that measure time. Files stay together, so that what a file makes for its tests is made once; so do the
tests that need packages which take seconds to import.

Two limits bound a test. `timeout` in `pyproject.toml` is time on the wall, and ends what hangs: ten minutes,
since on a busy machine a test takes ten times as long as on a free one. The other is processor time, of this
process and of those that it waited for, which hardly depends on who else works: a minute, unless the mark
`processor_s` allows more.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

CONTAINERS = "podman"
ALONE = "alone"
PACKAGES = "llm_packages"
"""A fixture that imports what few tests need; they are on one worker."""
PROCESSOR_S = 60.0
LONGEST = Path(__file__).parents[1] / "longest.txt"
_SHARED = frozenset({"module", "package", "class"})
_OF_PYTEST = ("_xunit", "xunit", "anyio_backend")


def arrange(items: list[pytest.Item]) -> None:
    """Group and sort the tests of a session, in place; each worker comes to the same order."""
    for item in items:
        if item.get_closest_marker(ALONE):
            item.add_marker(pytest.mark.xdist_group(ALONE), append=False)
        elif not _group(item) and PACKAGES in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(PACKAGES))
        elif not _group(item) and _shares(item):
            item.add_marker(pytest.mark.xdist_group(_file(item)))
    seconds = longest()
    items.sort(key=lambda item: weight(_file(item), _group(item), seconds))


def longest() -> Mapping[str, float]:
    """The seconds of the files that take most, by their path below `tests`."""
    lines = (line.split() for line in LONGEST.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {path: float(seconds) for seconds, path in lines}


def weight(file: str, group: str, seconds: Mapping[str, float]) -> tuple[int, float]:
    """What tests are sorted by; those that weigh the same stay as they are."""
    if group == CONTAINERS:
        return (0, 0)
    return (2, 0) if group == ALONE else (1, -seconds.get(file, 0))


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _file(item: pytest.Item) -> str:
    return item.path.relative_to(LONGEST.parent).as_posix()


def _shares(item: pytest.Item) -> bool:
    """Whether a test uses something that is made once for the tests of its file."""
    info = getattr(item, "_fixtureinfo", None)
    found: Mapping[str, Sequence[pytest.FixtureDef[object]]] = info.name2fixturedefs if info else {}
    return any(
        one.scope in _SHARED
        for name, those in found.items()
        if not name.startswith(_OF_PYTEST)
        for one in those
    )


@contextmanager
def bounded(item: pytest.Item) -> Iterator[None]:
    """Fail if a part of a test costs more processor time than the test may take."""
    mark = item.get_closest_marker("processor_s")
    most = float(mark.args[0]) if mark else PROCESSOR_S
    before = _spent()
    yield
    spent = _spent() - before
    if spent > most:
        pytest.fail(f"it took {spent:.0f} s of processor time; it may take {most:g} s", pytrace=False)


def _spent() -> float:
    return sum(os.times()[:4])
