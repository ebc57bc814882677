"""Whether a server is approved, worked out from the log of what happened to it, and which parts are not.

An approval is not a mark but a memory: of the hashes that were approved, of those that were refused, and of
those that are there now. The state follows from comparing them, so no order of events can leave a server
approved whose manifest or image nobody approved. Nothing here reads or writes; `catalog.registry` does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from maitred.admission.definition import Definition, DefinitionChange, PartKey, Shadowed, diff, no_shadow
from maitred.model.approvals import Binding, Event, EventKind, name_and_identity

ApprovalState = Literal["pending", "approved", "rejected", "suspended", "withdrawn"]
Pinning = Literal["quarantine", "warn"]
"""What a change of a definition leads to that gives it no more power; one that does is always withheld."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What was decided about a server, and what it is now.

    `seen` is what is there now, `approved` what was last approved, `rejected` what was last refused. A
    refusal and a suspension outlive a withdrawal, so that nothing gets in by being registered again.
    `vouched` is the hash of the definition that a person approved last, having seen it, `pinned` that of the
    one that was approved last by whomever; it outlives a withdrawal, too, so that what changed cannot get in
    by being registered again. So does `image`, which is what the image was that was approved last.
    """

    seen: Binding
    approved: Binding | None = None
    vouched: str = ""
    pinned: str = ""
    image: str = ""
    rejected: Binding | None = None
    suspended: bool = False
    withdrawn: bool = False

    @property
    def state(self) -> ApprovalState:
        """Where the server stands. `approved` says nothing of parts whose definition changed since."""
        if self.withdrawn:
            return "withdrawn"
        if self.suspended:
            return "suspended"
        if _same_source(self.approved, self.seen):
            return "approved"
        return "rejected" if _same_source(self.rejected, self.seen) else "pending"

    @property
    def awaits_decision(self) -> bool:
        """Whether a person is to decide: on the server, or on a change of its definition."""
        if self.state == "approved":
            return self.seen not in (self.approved, self.rejected)
        return self.state == "pending"


@dataclass(frozen=True, kw_only=True)
class ForbiddenEvent:
    """An event that cannot happen in a state, and why, for whoever wanted it."""

    reason: str


def step(state: Approval | None, event: Event) -> Approval | ForbiddenEvent:
    """What follows from an event; `None` is a server nobody ever registered.

    A state equal to the one before means that nothing happened, and that nothing is to be written down.
    """
    if state is not None and not state.withdrawn:
        return _STEPS[event.kind](state, event)
    if event.kind != "registered":
        return ForbiddenEvent(reason="it is not registered")
    if not event.binding.manifest:
        return ForbiddenEvent(reason="a registration needs a manifest")
    if state is None:
        return Approval(seen=event.binding)
    return replace(state, seen=event.binding, withdrawn=False)


def replay(log: Iterable[Event]) -> Approval | None:
    """The state that a log leads to; `None` for an empty one.

    Raises:
        ValueError: An event of the log could not have happened: the log was altered.
    """
    state: Approval | None = None
    for number, event in enumerate(log, start=1):
        after = step(state, event)
        if isinstance(after, ForbiddenEvent):
            raise ValueError(  # noqa: TRY004  # the value of an event is wrong, not its type
                f"event {number} of the log, {event.kind}, is not possible: {after.reason}"
            )
        state = after
    return state


def _same_source(decided: Binding | None, seen: Binding) -> bool:
    return decided is not None and (decided.manifest, decided.image) == (seen.manifest, seen.image)


_STALE: Final = ForbiddenEvent(reason="it has changed since it was shown; look at it again")


def _registered(_: Approval, __: Event) -> Approval | ForbiddenEvent:
    return ForbiddenEvent(reason="it is registered already")


def _auto_approved(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if event.binding != state.seen:
        return _STALE
    if state.state != "pending":
        return ForbiddenEvent(reason=f"it is {state.state}, and only a person decides on that")
    if name_and_identity(state.seen.image)[1] and state.seen.image != state.image:
        return ForbiddenEvent(
            reason="its image is another one than was approved; only a person decides on that"
        )
    return _with_approval(state, _kept_definition(state))


def _kept_definition(state: Approval) -> str:
    """What an approval without a person holds for: a new manifest is no word on a changed definition."""
    if state.approved is not None:
        return state.approved.definition
    return state.pinned or ("" if state.rejected is not None else state.seen.definition)


def _with_approval(state: Approval, definition: str) -> Approval:
    approved = replace(state.seen, definition=definition)
    image = approved.image if name_and_identity(approved.image)[1] else state.image
    return replace(state, approved=approved, pinned=definition or state.pinned, image=image)


def _approved(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if state.suspended:
        return ForbiddenEvent(reason="it is suspended; resume it first")
    if event.binding != state.seen:
        return _STALE
    seen = state.seen.definition
    return replace(_with_approval(state, seen or state.pinned), vouched=seen, rejected=None)


def _rejected(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if state.suspended:
        return ForbiddenEvent(reason="it is suspended; resume it first, or withdraw it")
    if event.binding != state.seen:
        return _STALE
    if state.approved == state.seen:
        return ForbiddenEvent(reason="it is approved and unchanged; suspend it, or withdraw it")
    return replace(state, rejected=state.seen)


def _suspended(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    if state.state not in ("approved", "suspended"):
        return ForbiddenEvent(reason=f"it is {state.state}; only what is approved can be suspended")
    return replace(state, suspended=True)


def _resumed(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    if not state.suspended:
        return ForbiddenEvent(reason="it is not suspended")
    return replace(state, suspended=False)


def _definition_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    """What a server publishes first, after it was approved unseen, is what was approved.

    Not so where a person once refused something of it, and nobody has approved it since.
    """
    if not (digest := event.binding.definition):
        return ForbiddenEvent(reason="a change of the definition needs its hash")
    after = replace(state, seen=replace(state.seen, definition=digest))
    unseen = state.state == "approved" and state.approved is not None and not state.approved.definition
    return _with_approval(after, digest) if unseen and state.rejected is None else after


def _manifest_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if not event.binding.manifest:
        return ForbiddenEvent(reason="a change of the manifest needs its hash")
    return replace(state, seen=replace(state.seen, manifest=event.binding.manifest))


def _image_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    """What an image is first that was approved by its name alone is what was approved.

    Not so where it was another one before, or where a person refused this one. By a registration the name
    alone is known: if it is the same as before, what was approved may still be there, which its next start
    will tell.
    """
    image = event.binding.image
    name, identity = name_and_identity(image)
    if not identity:
        known = [one.image for one in (state.approved, state.seen) if one is not None]
        same = next((one for one in known if name_and_identity(one)[0] == name), image)
        return replace(state, seen=replace(state.seen, image=same))
    after = replace(state, seen=replace(state.seen, image=image))
    if state.state != "approved" or state.approved is None or state.approved.image != name:
        return after
    was_other = name_and_identity(state.image)[0] == name and state.image != image
    if was_other or (state.rejected is not None and state.rejected.image == image):
        return after
    return replace(_with_approval(after, state.approved.definition), rejected=state.rejected)


def _withdrawn(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    return replace(state, seen=Binding(), approved=None, vouched="", withdrawn=True)


_STEPS: Final[Mapping[EventKind, Callable[[Approval, Event], Approval | ForbiddenEvent]]] = {
    "registered": _registered,
    "auto_approved": _auto_approved,
    "approved": _approved,
    "rejected": _rejected,
    "suspended": _suspended,
    "resumed": _resumed,
    "definition_changed": _definition_changed,
    "manifest_changed": _manifest_changed,
    "image_changed": _image_changed,
    "withdrawn": _withdrawn,
}


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """How what a server publishes now differs from what was approved, and which parts are withheld for it."""

    changes: Sequence[DefinitionChange] = ()
    withheld: frozenset[PartKey] = frozenset()


def assess(
    approved: Definition | None,
    live: Definition,
    *,
    pinning: Pinning,
    shadowed: Shadowed = no_shadow,
) -> Assessment:
    """Which parts of a live definition are quarantined; `approved` is `None` while nothing was approved.

    With `quarantine` (registered servers) every part that is new or not as approved is withheld; with `warn`
    (the operator's own servers) only those with more power than before.
    """
    if approved is None:
        return Assessment(withheld=frozenset(live.parts) if pinning == "quarantine" else frozenset())
    changes = diff(approved, live, shadowed=shadowed)
    if pinning == "quarantine":
        withheld = {key for key, part in live.parts.items() if approved.digest_of(key) != part.digest}
    else:
        withheld = {change.part for change in changes if change.weight == "power"}
    return Assessment(changes=changes, withheld=frozenset(withheld & live.parts.keys()))
