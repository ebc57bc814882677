"""What was decided about servers outlives the gateway, at whatever moment that was killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.catalog.databases import execute, new_catalog
from tests.gateway.allowed import Allowed, allowed
from tests.gateway.rig import opened, settings_of
from tests.gateway.shifting import Shifting

from maitred.admission.registry import Registry
from maitred.audit.log import AuditLog
from maitred.model.access import LOCAL_USER
from maitred.model.approvals import Binding, Event
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

KILLS = 50
ROOT = Path(__file__).parent.parent.parent
LATEST_S = 0.03
START = '{"what": '
EVENTS = {
    "sync": (),
    "register": ("registered", "manifest_changed", "auto_approved"),
    "approve": ("approved",),
    "reject": ("rejected",),
    "suspend": ("suspended",),
    "resume": ("resumed",),
    "withdraw": ("withdrawn",),
}
Logs = Mapping[str, Sequence[Event]]


@contextmanager
def forking(command: Sequence[str]) -> "Iterator[subprocess.Popen[str]]":
    """The process that forks; it ends with its children when the context is left, also by a failure."""
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, text=True, cwd=ROOT, start_new_session=True, **options)
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_gateway_that_is_killed_at_any_moment_loses_and_doubles_no_decision(tmp_path: Path) -> None:
    """At random, 50 times: what was told is there once, in order, and it alone decides what can be called.

    Source: issue "Admission", 2.
    """
    random.seed(11)
    command = [sys.executable, "-m", "tests.faults.decider", str(tmp_path / "c.db")]
    with forking(command) as process:
        witness = Witness(process, tmp_path / "c.db")
        for number in range(1, KILLS + 1):
            witness.watch(number, 1_000, lines=random.choice((0, 1, 2, 2, 3, 4, 5, 6)))
        witness.watch(KILLS + 1, 0)

    assert witness.killed == KILLS
    assert len(witness.decided) >= KILLS / 5
    assert execute(tmp_path / "c.db", "PRAGMA integrity_check") == [("ok",)]
    anyio.run(witness.is_audited)


async def test_a_log_that_was_altered_stops_its_server_and_nothing_else(tmp_path: Path) -> None:
    """Nothing of that server may be used, all can be looked at, and the others go on."""
    servers = [Shifting("notes"), Shifting("other")]
    settings = settings_of(tmp_path, "notes", "other")
    async with opened(settings, *servers) as gateway:  # type: ignore[arg-type]
        await gateway.decide("notes", "suspend", viewer=LOCAL_USER)
        await gateway.decide("notes", "resume", viewer=LOCAL_USER)
    execute(tmp_path / "c.db", "DELETE FROM approvals WHERE kind = 'suspended'")

    async with opened(settings, *servers) as gateway:  # type: ignore[arg-type]
        assert {tool.server for tool in gateway.visible_tools(LOCAL_USER)} == {"other"}
        told = {case.server: case.withheld for case in await gateway.cases(LOCAL_USER)}
        assert "was altered" in told["notes"]
        assert told["other"] == ""
        await gateway.decide("other", "suspend", viewer=LOCAL_USER)
        assert (await gateway.case("other", viewer=LOCAL_USER)).state == "suspended"


async def test_a_decision_on_what_was_replaced_meanwhile_is_not_written(tmp_path: Path) -> None:
    """A change that nobody decided on gives way to the next, and the log is no longer for it."""
    registry = Registry(SqliteDatabase(new_catalog(tmp_path)))
    first, second = (Event(kind="definition_changed", binding=Binding(definition=d)) for d in "12")
    await registry.append("s", [Event(kind="registered", binding=Binding(manifest="m")), first], after=0)
    assert await registry.append("s", [second], after=1, last=first, instead=True)
    decision = Event(kind="approved", binding=Binding(manifest="m", definition="1"))
    assert not await registry.append("s", [decision], after=2, last=first)
    assert not await registry.append("s", [first], after=1, last=first, instead=True)
    assert [event.binding.definition for event in await registry.log("s")] == ["", "2"]


class Witness:
    """Hears what gateways tell, kills them, and holds what they find against what was told before."""

    def __init__(self, process: "subprocess.Popen[str]", path: Path) -> None:
        self._process = process
        self._path = path
        self._logs: Logs = {}
        self._definitions: dict[str, Mapping[str, object]] = {}
        self._begun: Mapping[str, Any] | None = None
        self.decided: list[tuple[str, str, str]] = []
        self.killed = 0
        while self._heard()["what"] != "ready":
            pass

    def watch(self, number: int, times: int, *, lines: int | None = None) -> None:
        """Have a gateway work, and kill it soon after it told so many lines; never, if that is not said."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number} {times}\n")
        self._process.stdin.flush()
        pid, heard = int(self._heard()["pid"]), 0
        while True:
            if heard == lines:
                self._kill(pid)
            told = self._heard()
            heard += 1
            if told["what"] == "ended":
                return
            self._take(told)

    def _kill(self, pid: int) -> None:
        until = time.perf_counter() + random.random() * LATEST_S
        while time.perf_counter() < until:
            pass
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.killed += 1

    def _heard(self) -> Mapping[str, Any]:
        """The next thing that is told; what somebody told as he was killed may have no end."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if (at := line.rfind(START)) >= 0:
                told: Mapping[str, Any] = json.loads(line[at:])
                assert told["what"] != "crashed", told["how"]
                return told
        raise AssertionError("the process that forks has ended")

    def _take(self, told: Mapping[str, Any]) -> None:
        if told["what"] == "begin":
            self._begun = told
            return
        logs = {name: [_event(one) for one in log] for name, log in told["logs"].items()}
        added = {name: self._added(name, log) for name, log in logs.items()}
        assert logs.keys() >= self._logs.keys()
        self._is_one_thing_at_most(added)
        self._logs = logs
        self._begun = None
        if told["what"] == "opened":
            self._definitions |= told["definitions"]
            self._agrees(told)
        elif told["doing"] not in ("", "sync") and added[told["server"]]:
            self.decided.append((told["doing"], told["server"], str(told["number"])))

    def _added(self, name: str, log: Sequence[Event]) -> Sequence[Event]:
        """What was decided since; all that was decided before is there, and what that was about."""
        known = self._logs.get(name, [])
        while known and known[-1].kind == "definition_changed":
            known = known[:-1]  # nobody decided on it, and another may have taken its place
        assert log[: len(known)] == known, f"of {name} something was lost"
        fresh = log[len(known) :]
        return [e for e in fresh if e.kind != "definition_changed" and e.who != "configuration"]

    def _is_one_thing_at_most(self, added: Logs) -> None:
        """What was decided is all of what was begun, or nothing of it."""
        begun = self._begun or {"doing": "sync", "server": "", "number": 0}
        for name, log in added.items():
            if name != begun["server"]:
                assert log == [], f"nobody decided on {name}"
                continue
            assert {e.kind for e in log} <= set(EVENTS[begun["doing"]])
            assert len(log) == len({e.kind for e in log})
            assert all(e.why == str(begun["number"]) for e in log if begun["doing"] != "register")

    # --- what follows from the logs -----------------------------------------------------------------------

    def _agrees(self, told: Mapping[str, Any]) -> None:
        standing = {name: _replayed(log) for name, log in self._logs.items()}
        registered = {name for name, one in standing.items() if one.there and name != "notes"}
        assert told["registered"].keys() == registered
        for name, (manifest, _) in told["registered"].items():
            assert manifest == standing[name].now.manifest
        for server, name, said, visible in told["tools"]:
            one = standing[server]
            if server == "notes":
                anew = server in told["to_be_listed"]
                self._shows_what_was_approved(one, name, said, visible=visible, anew=anew)
            else:
                assert not visible or one.usable, f"{server} is not approved"
        if "notes" in standing:
            self._calls_what_was_approved(standing["notes"], told)

    def _calls_what_was_approved(self, one: Allowed, told: Mapping[str, Any]) -> None:
        """The first call of a gateway goes by what the server publishes now, not by what is shown yet.

        A tool that is withheld still, but is again what was approved, answers once the server was listed.
        """
        definition = one.approved.definition if one.approved else ""
        approved = {n for n, said in told["publishes"].items() if said == self._said(definition, n)}
        shown = {name for server, name, _, visible in told["tools"] if visible and server == "notes"}
        called = {name.removeprefix("notes__") for name in told["called"]}
        assert shown & approved <= called <= approved

    def _shows_what_was_approved(
        self, one: Allowed, name: str, said: str, *, visible: bool, anew: bool
    ) -> None:
        """A tool is shown as it was approved, or not at all if it is another one now, or may be."""
        assert one.approved is not None
        was = self._said(one.approved.definition, name)
        if visible:
            assert not one.suspended
            assert said == was, "a definition is shown that nobody approved"
        elif not one.suspended and not anew:
            assert not was == said == self._said(one.now.definition, name)

    def _said(self, definition: str, name: str) -> object:
        return self._definitions.get(definition, {}).get(name)

    async def is_audited(self) -> None:
        """Every decision that was told stands in the audit trail, whose chain is whole."""
        lines = [json.loads(body) for (body,) in execute(self._path, "SELECT body FROM audit")]
        found = [(one["action"], one["server"], one.get("detail", "")) for one in lines if "server" in one]
        for one in self.decided:
            assert found.count(one) == 1
        async with AuditLog(SqliteDatabase(self._path)) as trail:
            assert (await trail.verify()).faults == ()


def _event(told: Sequence[Any]) -> Event:
    kind, manifest, image, definition, who, why = told
    binding = Binding(manifest=manifest, image=image, definition=definition)
    return Event(kind=kind, binding=binding, who=who, why=why)


def _replayed(log: Sequence[Event]) -> Allowed:
    """Where a log leads; every decision in it changes something."""
    before = allowed([])
    for end in range(1, len(log) + 1):
        after, kind = allowed(log[:end]), log[end - 1].kind
        assert after != before or kind == "definition_changed", f"{kind} stands there twice"
        before = after
    return before
