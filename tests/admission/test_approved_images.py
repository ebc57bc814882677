"""An image that is named without a digest: what it was when it first started is what was approved."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.admission.approval import Approval, ForbiddenEvent, replay, step
from maitred.model.approvals import Binding, Event, EventKind, image_with_identity, name_and_identity

NAME = "docker.io/acme/tool:1"
PINNED = "docker.io/acme/tool@sha256:" + "0" * 64
ONE, TWO = image_with_identity(NAME, "sha256:1111"), image_with_identity(NAME, "sha256:2222")
BOUND = Binding(manifest="m", image=NAME)


def event(kind: EventKind, binding: Binding = Binding(), **hashes: str) -> Event:  # noqa: B008  # frozen
    return Event(kind=kind, binding=replace(binding, **hashes))


def after(*events: Event) -> Approval:
    state = replay(events)
    assert state is not None
    return state


REGISTERED, APPROVED = event("registered", BOUND), event("approved", BOUND)
IS_ONE, IS_TWO = event("image_changed", image=ONE), event("image_changed", image=TWO)
AGAIN = event("image_changed", image=NAME)
STARTED = (REGISTERED, APPROVED, IS_ONE)


@pytest.mark.parametrize("name", [NAME, "localhost:5000/acme/tool:1", "docker.io/library/tool:latest"])
def test_what_an_image_turned_out_to_be_is_told_apart_from_its_name(name: str) -> None:
    """And a name with a digest of its own is no other one."""
    assert name_and_identity(image_with_identity(name, "sha256:1111")) == (name, "sha256:1111")
    assert name_and_identity(name) == (name, "")
    assert name_and_identity(PINNED) == (PINNED, "")
    assert name_and_identity("") == ("", "")


def test_the_first_image_after_an_approval_is_what_was_approved() -> None:
    """And the next one waits for a person, who approves that very image."""
    assert after(*STARTED).approved == replace(BOUND, image=ONE)
    assert after(*STARTED).state == "approved"
    changed = after(*STARTED, IS_TWO)
    assert changed.state == "pending"
    assert changed.awaits_decision
    assert after(*STARTED, IS_TWO, event("approved", changed.seen)).state == "approved"
    assert after(*STARTED, IS_TWO, IS_ONE).state == "approved"


def test_before_an_approval_no_image_is_taken_for_approved() -> None:
    """Nor one that was refused before."""
    assert after(REGISTERED, IS_ONE).state == "pending"
    refused = after(*STARTED, IS_TWO, event("rejected", BOUND, image=TWO))
    assert refused.state == "rejected"
    assert after(*STARTED, IS_TWO, event("rejected", BOUND, image=TWO), AGAIN).state == "approved"
    assert after(*STARTED, IS_TWO, event("rejected", BOUND, image=TWO), AGAIN, IS_TWO).state == "rejected"


def test_the_policy_does_not_approve_another_image_under_the_same_name() -> None:
    """However often its manifest is registered, also after it was withdrawn."""
    changed = after(*STARTED, IS_TWO)
    answer = step(changed, event("auto_approved", changed.seen))
    assert isinstance(answer, ForbiddenEvent)
    assert "its image is another one than was approved" in answer.reason

    withdrawn = (*STARTED, event("withdrawn"), REGISTERED, event("auto_approved", BOUND))
    assert after(*withdrawn, IS_ONE).state == "approved"
    assert after(*withdrawn, IS_TWO).state == "pending"


def test_registering_the_same_again_is_no_change() -> None:
    """What was approved may be there still: the next start tells."""
    assert after(*STARTED, AGAIN) == after(*STARTED)
    assert after(*STARTED, IS_TWO, AGAIN).state == "approved"
    assert after(*STARTED, IS_TWO, AGAIN, IS_TWO).state == "pending"


def test_another_name_needs_another_approval() -> None:
    """And what it then is, is what was approved then."""
    other = event("image_changed", image="docker.io/acme/tool:2")
    moved = after(*STARTED, other)
    assert moved.state == "pending"
    approved = (*STARTED, other, event("approved", moved.seen))
    bound = image_with_identity("docker.io/acme/tool:2", "sha256:2222")
    assert after(*approved, event("image_changed", image=bound)).state == "approved"


@given(
    st.lists(
        st.sampled_from(["approve", "policy", "again", "one", "two", "withdraw", "register"]), max_size=12
    )
)
def test_no_two_images_are_approved_without_a_person_between(moves: list[str]) -> None:
    """In any order of starts, registrations and withdrawals."""
    state, person, running = after(REGISTERED), False, ""
    for move in moves:
        event_of: dict[str, Event] = {
            "approve": event("approved", state.seen),
            "policy": event("auto_approved", state.seen),
            "again": AGAIN,
            "one": IS_ONE,
            "two": IS_TWO,
            "withdraw": event("withdrawn"),
            "register": REGISTERED,
        }
        following = step(state, event_of[move])
        if isinstance(following, ForbiddenEvent):
            continue
        state = following
        person = person or move == "approve"
        image = state.seen.image if state.state == "approved" and move in ("one", "two") else ""
        if image:
            assert person or running in ("", image)
            running, person = image, False
