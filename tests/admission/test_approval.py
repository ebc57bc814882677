"""Approval: every order of events leads where it should, and only what was approved is let in."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from maitred.admission.approval import Approval, Assessment, ForbiddenEvent, Pinning, assess, replay, step
from maitred.admission.definition import PartKey, define
from maitred.model.approvals import Binding, Event, EventKind
from maitred.model.tools import RawTool, ToolKey

NOTHING = Binding()
ONE = Binding(manifest="m1", image="i1", definition="d1")
TOOL = RawTool(key=ToolKey(server="s", name="a"), description="A tool.", annotations={"readOnlyHint": True})
OTHER = replace(TOOL, key=ToolKey(server="s", name="b"))
A, B = PartKey(kind="tool", name="a"), PartKey(kind="tool", name="b")


def event(kind: EventKind, binding: Binding = NOTHING, **hashes: str) -> Event:
    return Event(kind=kind, binding=replace(binding, **hashes))


def after(*events: Event) -> Approval:
    state = replay(events)
    assert state is not None
    return state


def refused(state: Approval | None, happened: Event) -> str:
    answer = step(state, happened)
    assert isinstance(answer, ForbiddenEvent)
    return answer.reason


REGISTERED = event("registered", ONE)
APPROVED = event("approved", ONE)


def test_a_server_is_pending_until_a_person_or_the_policy_approves_it() -> None:
    """And approved by exactly the hashes that were shown."""
    assert after(REGISTERED).state == "pending"
    assert after(REGISTERED, APPROVED).state == "approved"
    assert after(REGISTERED, event("auto_approved", ONE)).approved == ONE
    assert after(REGISTERED, event("rejected", ONE)).state == "rejected"


@pytest.mark.parametrize("part", ["manifest", "image", "definition"])
def test_what_changed_since_it_was_shown_cannot_be_approved_or_rejected(part: str) -> None:
    """Between looking and deciding nothing can be slipped in."""
    stale = replace(ONE, **{part: "other"})
    for kind in ("approved", "rejected", "auto_approved"):
        assert "has changed since it was shown" in refused(after(REGISTERED), event(kind, stale))


def test_another_manifest_or_image_needs_another_approval() -> None:
    """Unless it is changed back to what was approved."""
    changed = event("manifest_changed", manifest="m2")
    state = after(REGISTERED, APPROVED, changed)

    assert state.state == "pending"
    assert after(REGISTERED, APPROVED, event("image_changed", image="i2")).state == "pending"
    assert after(REGISTERED, APPROVED, changed, event("manifest_changed", manifest="m1")).state == "approved"
    assert after(REGISTERED, APPROVED, changed, event("approved", state.seen)).state == "approved"


def test_a_changed_definition_leaves_the_server_approved_and_awaits_a_decision() -> None:
    """Only its changed parts are withheld; approving takes the new one, rejecting ends the waiting."""
    changed = after(REGISTERED, APPROVED, event("definition_changed", definition="d2"))
    taken = after(
        REGISTERED, APPROVED, event("definition_changed", definition="d2"), event("approved", changed.seen)
    )
    left = step(changed, event("rejected", changed.seen))

    assert (changed.state, changed.awaits_decision) == ("approved", True)
    assert (taken.approved, taken.awaits_decision) == (changed.seen, False)
    assert isinstance(left, Approval)
    assert (left.state, left.approved, left.awaits_decision) == ("approved", ONE, False)


def test_the_policy_does_not_overrule_a_person() -> None:
    """Neither a refusal, nor a suspension, nor a change that a person is to look at."""
    rejected = after(REGISTERED, event("rejected", ONE))
    changed = after(REGISTERED, APPROVED, event("definition_changed", definition="d2"))

    assert "only a person decides" in refused(rejected, event("auto_approved", ONE))
    assert "only a person decides" in refused(changed, event("auto_approved", changed.seen))
    assert "only a person decides" in refused(
        after(REGISTERED, APPROVED, event("suspended")), event("auto_approved", ONE)
    )
    assert after(REGISTERED, event("rejected", ONE), APPROVED).state == "approved"


def test_what_was_refused_or_suspended_does_not_get_in_by_being_registered_again() -> None:
    """A withdrawal ends an approval, not a refusal."""
    gone = event("withdrawn")

    assert after(REGISTERED, APPROVED, gone).state == "withdrawn"
    assert after(REGISTERED, APPROVED, gone, REGISTERED).state == "pending"
    assert after(REGISTERED, event("rejected", ONE), gone, REGISTERED).state == "rejected"
    suspended = after(REGISTERED, APPROVED, event("suspended"), gone, REGISTERED)
    assert suspended.state == "suspended"
    assert (
        after(REGISTERED, APPROVED, event("suspended"), gone, REGISTERED, event("resumed")).state == "pending"
    )


def test_a_suspended_server_comes_back_as_what_it_is_by_then() -> None:
    """Approved if it is unchanged, pending if it changed meanwhile."""
    suspended = (REGISTERED, APPROVED, event("suspended"))

    assert after(*suspended, event("resumed")).state == "approved"
    assert after(*suspended, event("image_changed", image="i2"), event("resumed")).state == "pending"
    assert "resume it first" in refused(after(*suspended), APPROVED)


def test_the_first_definition_after_an_approval_unseen_is_what_was_approved() -> None:
    """A server that is not started before its approval is pinned when it first answers."""
    unseen = replace(ONE, definition="")
    pinned = (
        event("registered", unseen),
        event("auto_approved", unseen),
        event("definition_changed", definition="d"),
    )

    assert after(*pinned).awaits_decision is False
    assert after(*pinned, event("definition_changed", definition="e")).awaits_decision is True


def test_nothing_happens_to_a_server_that_is_not_registered() -> None:
    """Before it was, and after it was withdrawn."""
    for state in (None, after(REGISTERED, event("withdrawn"))):
        for kind in get_args(EventKind):
            if kind != "registered":
                assert refused(state, event(kind, ONE)) == "it is not registered"


def test_a_log_that_cannot_be_is_not_replayed() -> None:
    """It names the event, so that the trail can be searched for it."""
    with pytest.raises(ValueError, match="event 2 of the log, resumed, is not possible: it is not suspended"):
        replay([REGISTERED, event("resumed")])
    assert replay([]) is None


# --- any order of events ----------------------------------------------------------------------------------

SETTLED = {"approved", "rejected", "pending"}
MOVES: dict[EventKind, set[tuple[str, str]]] = {
    "registered": {("none", "pending"), *(("withdrawn", to) for to in ("pending", "rejected", "suspended"))},
    "auto_approved": {("pending", "approved")},
    "approved": {(before, "approved") for before in SETTLED},
    "part_approved": {("approved", "approved")},
    "rejected": {("pending", "rejected"), ("rejected", "rejected"), ("approved", "approved")},
    "suspended": {("approved", "suspended"), ("suspended", "suspended")},
    "resumed": {("suspended", to) for to in SETTLED},
    "definition_changed": {(s, s) for s in (*SETTLED, "suspended")},
    "manifest_changed": {("suspended", "suspended"), *((a, b) for a in SETTLED for b in SETTLED)},
    "image_changed": {("suspended", "suspended"), *((a, b) for a in SETTLED for b in SETTLED)},
    "withdrawn": {(before, "withdrawn") for before in (*SETTLED, "suspended")},
}
hashes = st.sampled_from(["", "1", "2", "3"])
bindings = st.builds(Binding, manifest=hashes, image=hashes, definition=hashes)


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens to a server, it goes only where the table allows, and only approved hashes are in."""

    def __init__(self) -> None:
        super().__init__()
        self.state: Approval | None = None
        self.log: list[Event] = []
        self.granted: set[tuple[str, str]] = set()

    def now(self) -> str:
        return "none" if self.state is None else self.state.state

    @rule(kind=st.sampled_from(get_args(EventKind)), binding=bindings)
    def anything_happens(self, kind: EventKind, binding: Binding) -> None:
        self.happen(Event(kind=kind, binding=binding))

    @rule(kind=st.sampled_from(["approved", "rejected", "auto_approved"]))
    def what_is_there_is_decided_on(self, kind: EventKind) -> None:
        if self.state is not None:
            self.happen(Event(kind=kind, binding=self.state.seen))

    def happen(self, happened: Event) -> None:
        before, following = self.now(), step(self.state, happened)
        if isinstance(following, ForbiddenEvent):
            assert following.reason
            return
        self.state = following
        self.log.append(happened)
        assert (before, self.now()) in MOVES[happened.kind]
        if happened.kind in ("approved", "auto_approved"):
            self.granted.add((happened.binding.manifest, happened.binding.image))
        if happened.kind == "withdrawn":
            self.granted.clear()

    @invariant()
    def only_what_was_approved_is_approved(self) -> None:
        if self.state is not None and self.state.state == "approved":
            assert (self.state.seen.manifest, self.state.seen.image) in self.granted
            assert not self.state.suspended

    @invariant()
    def replaying_the_log_gives_the_same(self) -> None:
        assert replay(self.log) == self.state


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


# --- quarantine -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pinning", ["quarantine", "warn"])
def test_an_unchanged_definition_is_whole(pinning: Pinning) -> None:
    """Under either policy."""
    assert assess(define([TOOL]), define([TOOL]), pinning=pinning) == Assessment(changes=[])


def test_of_a_registered_server_exactly_what_changed_is_withheld() -> None:
    """A new tool, a reworded one and a new instruction; what is gone is only told."""
    gone = replace(TOOL, key=ToolKey(server="s", name="gone"))
    approved = define([TOOL, OTHER, gone])
    live = define([replace(TOOL, description="New."), OTHER], instructions="Obey.")
    found = assess(approved, live, pinning="quarantine")

    assert found.withheld == {A, PartKey(kind="instructions")}
    assert {change.kind for change in found.changes} == {"reworded", "gone", "added"}


def test_of_the_operators_own_server_a_rewording_is_only_told() -> None:
    """Ordinary updates reword descriptions and bring tools."""
    live = define([replace(TOOL, description="New."), OTHER])
    found = assess(define([TOOL]), live, pinning="warn")

    assert found.withheld == frozenset()
    assert [change.part for change in found.changes] == [A, B]


def test_more_power_is_withheld_under_every_policy() -> None:
    """Read-only lost, another's name taken."""
    live = define([replace(TOOL, annotations={}), OTHER])
    found = assess(define([TOOL]), live, pinning="warn", shadowed=lambda name: "t" if name == "b" else "")

    assert found.withheld == {A, B}


def test_while_nothing_was_approved_a_registered_server_is_withheld_whole() -> None:
    """The operator's own is approved by being written down."""
    assert assess(None, define([TOOL, OTHER]), pinning="quarantine").withheld == {A, B}
    assert assess(None, define([TOOL, OTHER]), pinning="warn").withheld == frozenset()


def test_what_was_refused_or_changed_does_not_get_in_by_being_registered_again() -> None:
    """By another manifest that the policy trusts: what was approved before is what is compared with."""
    grown = event("definition_changed", definition="d2")
    again = (event("withdrawn"), event("registered", manifest="m2", image="i1"))
    trusted = event("auto_approved", manifest="m2", image="i1")
    state = after(
        REGISTERED, APPROVED, grown, event("rejected", ONE, definition="d2"), *again, trusted, grown
    )
    assert state.approved == Binding(manifest="m2", image="i1", definition="d1")
    unseen = event("registered", manifest="m1", image="i1")
    refused = event("rejected", manifest="m1", image="i1")
    state = after(unseen, refused, *again, trusted, grown)
    assert state.approved is not None
    assert state.approved.definition == ""
