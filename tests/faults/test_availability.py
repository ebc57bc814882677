"""Gateways and servers are killed under clients; the bench of the same name, in half a minute."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.askers import here
from bench.availability import Plan, available
from bench.outages import FAULTS
from bench.output import Markdown
from bench.report import show_availability
from bench.stage import Stage
from bench.values import QUICK

pytestmark = pytest.mark.anyio

KINDS = ("a server is killed", "the shared gateway is killed", "the gateway over HTTP is killed")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="mb-") as run:  # paths of sockets have to be short
        for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, run)
        yield Stage(tmp_path, QUICK)


@pytest.mark.skipif(
    "MAITRED_AVAILABILITY" not in os.environ, reason="on demand, it takes minutes: MAITRED_AVAILABILITY=1"
)
@pytest.mark.processor_s(300, "a dozen gateways and servers are started")
async def test_requests_are_answered_or_refused_with_a_reason_while_gateways_and_servers_are_killed(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stdio none is lost; over HTTP only what was under way when the gateway was killed.

    How long each took is a matter of the machine. Source: issue 21, a month's uptime in small.
    """
    if not (servers := [name for name in here() if name in ("time", "calculator")]):
        pytest.skip("no real server is installed")
    faults = [fault for fault in FAULTS if fault.name in KINDS]
    plan = Plan(seconds=30, clients=1, per_s=8, fault_every_s=4, settle_s=10, servers=servers, faults=faults)

    found = await available(stage, plan)
    show_availability(Markdown(), found)

    assert found.failures == []
    assert found.total.asked > 50
    assert found.total.answered > 0
    by_fault = {outage.fault: outage for outage in found.outages}
    assert [by_fault[name].times > 0 for name in KINDS] == [True, True, True]
    assert by_fault["the shared gateway is killed"].lost == 0
    assert found.starts > 1
    lost = [reason for outcome, reason, _ in found.reasons if outcome == "lost"]
    assert [reason for reason in lost if not reason.startswith("it ended during ")] == []
    said = capsys.readouterr().out
    assert all(f"| {name} |" in said for name in KINDS)
    assert "The aim of 99.9% is " in said
