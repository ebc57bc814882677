"""What can be called is exactly what the log of approvals allows, whatever servers and persons do."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import mcp_types as types
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.catalog.databases import execute
from tests.gateway.allowed import allowed, parts_of
from tests.gateway.rig import SCHEMA, settings_of
from tests.gateway.shifting import Shifting, tool

from maitred.admission.registry import Registry
from maitred.config.settings import Admission
from maitred.errors import AdmissionError, ToolNotFoundError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.gateway.admission import Verdict
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.storage.sqlite import SqliteDatabase
from maitred.wiring import open_gateway

MOST_STARTS: Final = 3
DECISIONS: Final[tuple[Verdict, ...]] = ("approve", "approve", "reject", "suspend", "resume", "resume")


class Deciding(RuleBasedStateMachine):
    """A gateway over one server that changes, and a person who decides on it; both start again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(TemporaryDirectory()))
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._server = Shifting("notes", tool("read_note"), tool("write_note"))
        self._pinning: Any = "warn"
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        opening = open_gateway(self._settings(), in_process={"notes": self._server.sdk()})
        self._open: AbstractContextManager[Gateway] = self._portal.wrap_async_context_manager(opening)
        self._gateway = self._open.__enter__()
        assert self._portal.call(self._gateway.settled, 30.0)

    def _settings(self) -> Any:
        return settings_of(self._folder, "notes", admission=Admission(pinning=self._pinning))

    def teardown(self) -> None:
        self._open.__exit__(None, None, None)
        self._stack.close()

    # --- what happens -------------------------------------------------------------------------------------

    @rule(said=st.integers(0, 1), more=st.booleans(), reads=st.booleans(), extra=st.booleans())
    def the_server_changes(self, *, said: int, more: bool, reads: bool, extra: bool) -> None:
        """In wording, in what it requires, in what it says of its effects, and in what there is."""
        schema = {**SCHEMA, "required": ["path", "key"] if more else ["path"]}
        hints = types.ToolAnnotations(read_only_hint=True) if reads else None
        first = tool("read_note", f"Version {said}.", input_schema=schema, annotations=hints)
        self._server.tools = [first, tool("write_note"), *([tool("send_note")] if extra else [])]
        self._portal.call(partial(self._gateway.sync, ["notes"], viewer=LOCAL_USER))

    @rule(verdict=st.sampled_from(DECISIONS))
    def somebody_decides(self, *, verdict: Verdict) -> None:
        """What is not possible as things stand changes nothing."""
        decide = self._gateway.decide
        with suppress(AdmissionError):
            self._portal.call(lambda: decide("notes", verdict, viewer=LOCAL_USER, again=True))
        self._portal.call(
            partial(self._gateway.sync, ["notes"], viewer=LOCAL_USER)
        )  # it may have changed while it was suspended

    @rule(pinning=st.sampled_from(("warn", "quarantine")))
    def the_policy_changes(self, *, pinning: str) -> None:
        """In the configuration, while the gateway runs."""
        self._pinning = pinning
        self._portal.call(partial(self._gateway.configure, self._settings(), viewer=LOCAL_USER))

    @precondition(lambda self: self._starts < MOST_STARTS)
    @rule()
    def the_gateway_starts_again(self) -> None:
        """On the same catalog."""
        self._open.__exit__(None, None, None)
        self._start()

    # --- what holds ---------------------------------------------------------------------------------------

    @invariant()
    def what_is_shown_and_called_is_what_the_log_allows(self) -> None:
        """No more and no less; what was called reached the server."""
        expected = self._allowed()
        assert {one.key.name for one in self._gateway.visible_tools(LOCAL_USER)} == expected
        self._server.calls.clear()
        reached = {one.name for one in self._server.tools if self._can_be_called(one.name)}
        assert reached == set(self._server.calls) == expected

    def _can_be_called(self, name: str) -> bool:
        call = ToolCall(name=f"notes__{name}", arguments={"path": "/", "key": "x"})
        try:
            self._portal.call(lambda: self._gateway.call(call, viewer=LOCAL_USER))
        except (ToolWithheldError, ToolNotFoundError):  # while it is suspended, what is new is not known
            return False
        return True

    def _allowed(self) -> set[str]:
        path = self._folder / "c.db"
        one = allowed(self._portal.call(Registry(SqliteDatabase(path)).log, "notes"))
        assert one.approved is not None
        if one.suspended:
            return set()
        now, before = self._said(one.now.definition), self._said(one.approved.definition)
        strict = self._pinning == "quarantine" or one.refused == one.now
        return {name for name in now if _may(before.get(name), now[name], strict=strict)}

    def _said(self, definition: str) -> Mapping[str, Any]:
        [(body,)] = execute(self._folder / "c.db", "SELECT body FROM definitions WHERE hash = ?", definition)
        return {name: said for (kind, name), said in parts_of(body).items() if kind == "tool"}


def _may(before: Any, now: Any, *, strict: bool) -> bool:
    """Whether a tool may be used that was approved so, or not at all."""
    if now == before:
        return True
    if strict:
        return False
    if before is None:
        return True
    grew = set(now["input"]["required"]) - set(before["input"]["required"])
    return not grew and now["annotations"] == before["annotations"]


test_what_can_be_called_is_what_the_log_allows = Deciding.TestCase
test_what_can_be_called_is_what_the_log_allows.settings = settings(
    max_examples=5,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
