"""Gateways are killed, and what cages need goes away; the bench of the same name, with few kills.

One run of it serves all tests here: programs are started often, and each test looks at another side of it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from bench import faults
from bench.faults import Faults, Row
from bench.lives import READY_S, Process
from bench.values import Skipped
from tests.support import prefork
from tests.support.podman import Podman

pytestmark = [pytest.mark.xdist_group("podman"), pytest.mark.processor_s(300, "one run serves all tests")]

KILLS = 6
NO_JAIL = r"may only run in a jail, and there is none here: bubblewrap \(bwrap\) is not installed"
ROWS = {
    "its container is killed": r"an answer|its container was ended from outside",
    "its image is removed, and there again": r"is not on this machine.* fetch it with podman pull",
    "the engine is killed, and started again": r"engine .* does not answer any more|no engine .* answers",
    "bubblewrap is removed while it runs, and there again": NO_JAIL,
    "bubblewrap is not there at the start, and then is": NO_JAIL,
}
FULL = r"a decision: 503 store_failed: (.|\n)*\na call: 503 audit_failed: The call was not made"


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    """What came of it in the cages that this machine has; gateways are forks, whose imports are done."""
    podman: Podman | None = None
    skipped = []
    try:
        podman = request.getfixturevalue("podman")
    except pytest.skip.Exception as error:
        skipped.append(Skipped(what="a server in a container", why=str(error)))
    with ExitStack() as stack:

        def start(arguments: Sequence[str], said: IO[str], env: Mapping[str, str]) -> Process:
            nothing = stack.enter_context(Path(os.devnull).open(encoding="utf-8"))
            command = prefork.start(arguments, [nothing, said, said], env=env)
            stack.callback(command.close)
            return command

        folder = tmp_path_factory.mktemp("faults")
        found = faults.faults(folder, kills=KILLS, podman=podman, skipped=skipped, start=start)
    print(found)  # noqa: T201  # the figures for the closing note
    return found


def came_back(row: Row) -> bool:
    """Whether all ran again by itself, once."""
    return row.recovered_s < READY_S and (row.doubled, row.orphans) == (0, 0)


def test_after_every_kill_all_runs_again_and_nothing_twice(found: Faults) -> None:
    """Also where the next kill comes before all is ready, or the warden is killed; nothing is left."""
    assert found.failures == []
    assert (found.kills, found.doubled, found.orphans) == (KILLS, 0, 0)
    assert found.early
    assert found.unguarded
    assert max(found.restart_s) < READY_S


def test_what_a_killed_gateway_had_confirmed_stays_decided(found: Faults) -> None:
    """Each decision that somebody was told is in the log once."""
    assert found.decided
    assert found.lost == 0


@pytest.mark.parametrize("fault", ROWS)
def test_what_a_cage_needs_may_go_away_and_come_back(fault: str, found: Faults) -> None:
    """A caller is told what is missing; once it is there again the server runs again, once, by itself."""
    rows = {row.fault: row for row in found.rows}
    if fault not in rows:
        pytest.skip("; ".join(f"{one.what}: {one.why}" for one in found.skipped))
    assert re.search(ROWS[fault], rows[fault].answer)
    assert came_back(rows[fault])


def test_a_full_disk_is_told_and_nothing_is_lost_by_it(found: Faults) -> None:
    """Decisions and calls are refused while servers run on; with room again all is as before."""
    rows = [row for row in found.rows if row.answer.startswith("a decision")]
    assert rows
    for row in rows:
        assert re.search(FULL, row.answer)
        assert came_back(row)
