"""Compute from a server's log of events whether it is approved, and which of its parts are withheld.

An approval is no flag. It is computed by comparing hashes: the approved ones, the refused ones, and the
present ones. So no order of events can leave a server approved with a manifest or an image that no person
approved. These are pure functions; `maitred.admission.registry` reads and writes the log.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from maitred.admission.definition import Definition, DefinitionChange, PartKey, ShadowLookup, diff, no_shadow
from maitred.model.approvals import Binding, Event, EventKind, name_and_identity

ApprovalState = Literal["pending", "approved", "rejected", "suspended", "withdrawn"]
Pinning = Literal["quarantine", "warn"]
"""What happens after a harmless change of a definition; one that adds power is always withheld."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """The decisions about a server, and its present state.

    Args:
        seen: The present hashes.
        approved: The hashes of the last approval.
        rejected: The hashes of the last refusal. It survives a withdrawal, as a suspension does, so that a
            new registration does not undo it.
        vouched: The hash of the definition that a person last looked at and approved.
        pinned: The hash of the definition that was last approved by a person or a rule. It survives a
            withdrawal, so that a new registration does not let a change in.
        image: The image that was last approved; it survives a withdrawal for the same reason.
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
        """The state of the server. `approved` does not cover parts whose definition changed since."""
        if self.withdrawn:
            return "withdrawn"
        if self.suspended:
            return "suspended"
        if _same_source(self.approved, self.seen):
            return "approved"
        return "rejected" if _same_source(self.rejected, self.seen) else "pending"

    @property
    def awaits_decision(self) -> bool:
        """Whether a person has to decide about the server, or about a change of its definition."""
        if self.state == "approved":
            return self.seen not in (self.approved, self.rejected)
        return self.state == "pending"


@dataclass(frozen=True, kw_only=True)
class ForbiddenEvent:
    """An event that is impossible in a state, with the reason for its sender."""

    reason: str


def step(state: Approval | None, event: Event) -> Approval | ForbiddenEvent:
    """The state after an event; a state of `None` is a server that was never registered.

    If the new state equals the old one, nothing happened, and the event must not be logged.
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
    """The state after all events of a log; `None` for an empty log.

    Raises:
        ValueError: An event of the log is impossible, so the log was altered.
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


def _same_source(decision: Binding | None, seen: Binding) -> bool:
    return decision is not None and (decision.manifest, decision.image) == (seen.manifest, seen.image)


_STALE: Final = ForbiddenEvent(reason="it has changed since it was shown; look at it again")


def _on_registered(_: Approval, __: Event) -> Approval | ForbiddenEvent:
    return ForbiddenEvent(reason="it is registered already")


def _on_auto_approved(state: Approval, event: Event) -> Approval | ForbiddenEvent:
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
    """The definition that an automatic approval covers: a new manifest approves no changed definition."""
    if state.approved is not None:
        return state.approved.definition
    return state.pinned or ("" if state.rejected is not None else state.seen.definition)


def _with_approval(state: Approval, definition: str) -> Approval:
    approved = replace(state.seen, definition=definition)
    image = approved.image if name_and_identity(approved.image)[1] else state.image
    return replace(state, approved=approved, pinned=definition or state.pinned, image=image)


def _on_approved(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if state.suspended:
        return ForbiddenEvent(reason="it is suspended; resume it first")
    if event.binding != state.seen:
        return _STALE
    seen = state.seen.definition
    return replace(_with_approval(state, seen or state.pinned), vouched=seen, rejected=None)


def _on_part_approved(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    """Pin a definition of which some parts are the present ones; the others wait as before."""
    if state.state != "approved":
        return ForbiddenEvent(reason=f"it is {state.state}; parts are approved only of what is approved")
    if not event.binding.definition or not _same_source(event.binding, state.seen):
        return _STALE
    digest = event.binding.definition
    rejected = None if event.binding == state.seen else state.rejected
    return replace(state, approved=event.binding, vouched=digest, pinned=digest, rejected=rejected)


def _on_rejected(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if state.suspended:
        return ForbiddenEvent(reason="it is suspended; resume it first, or withdraw it")
    if event.binding != state.seen:
        return _STALE
    if state.approved == state.seen:
        return ForbiddenEvent(reason="it is approved and unchanged; suspend it, or withdraw it")
    return replace(state, rejected=state.seen)


def _on_suspended(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    if state.state not in ("approved", "suspended"):
        return ForbiddenEvent(reason=f"it is {state.state}; only what is approved can be suspended")
    return replace(state, suspended=True)


def _on_resumed(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    if not state.suspended:
        return ForbiddenEvent(reason="it is not suspended")
    return replace(state, suspended=False)


def _on_definition_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    """Pin the first definition of a server that was approved before it published anything.

    Not if a person has refused a definition of it, and no person has approved one since.
    """
    if not (digest := event.binding.definition):
        return ForbiddenEvent(reason="a change of the definition needs its hash")
    after = replace(state, seen=replace(state.seen, definition=digest))
    unseen = state.state == "approved" and state.approved is not None and not state.approved.definition
    return _with_approval(after, digest) if unseen and state.rejected is None else after


def _on_manifest_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    if not event.binding.manifest:
        return ForbiddenEvent(reason="a change of the manifest needs its hash")
    return replace(state, seen=replace(state.seen, manifest=event.binding.manifest))


def _on_image_changed(state: Approval, event: Event) -> Approval | ForbiddenEvent:
    """Pin the first image of a server whose image was approved by name alone.

    Not if the name meant another image before, or if a person refused this one. A registration gives the name
    alone. If the name is unchanged, the approved image stays until the next start checks it.
    """
    image = event.binding.image
    name, identity = name_and_identity(image)
    if not identity:
        images = [binding.image for binding in (state.approved, state.seen) if binding is not None]
        same = next((other for other in images if name_and_identity(other)[0] == name), image)
        return replace(state, seen=replace(state.seen, image=same))
    after = replace(state, seen=replace(state.seen, image=image))
    if state.state != "approved" or state.approved is None or state.approved.image != name:
        return after
    was_other = name_and_identity(state.image)[0] == name and state.image != image
    if was_other or (state.rejected is not None and state.rejected.image == image):
        return after
    return replace(_with_approval(after, state.approved.definition), rejected=state.rejected)


def _on_withdrawn(state: Approval, _: Event) -> Approval | ForbiddenEvent:
    return replace(state, seen=Binding(), approved=None, vouched="", withdrawn=True)


_STEPS: Final[Mapping[EventKind, Callable[[Approval, Event], Approval | ForbiddenEvent]]] = {
    "registered": _on_registered,
    "auto_approved": _on_auto_approved,
    "approved": _on_approved,
    "part_approved": _on_part_approved,
    "rejected": _on_rejected,
    "suspended": _on_suspended,
    "resumed": _on_resumed,
    "definition_changed": _on_definition_changed,
    "manifest_changed": _on_manifest_changed,
    "image_changed": _on_image_changed,
    "withdrawn": _on_withdrawn,
}


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The differences between a server's present and its approved definition, and the withheld parts."""

    changes: Sequence[DefinitionChange] = ()
    withheld: frozenset[PartKey] = frozenset()


def assess(
    approved: Definition | None,
    live: Definition,
    *,
    pinning: Pinning,
    shadowed: ShadowLookup = no_shadow,
) -> Assessment:
    """Find the parts of a live definition to withhold; `approved` is `None` if none was approved.

    With `quarantine` (registered servers) every new or changed part is withheld; with `warn` (the operator's
    own servers) only a part with more power than before.
    """
    if approved is None:
        return Assessment(withheld=frozenset(live.parts) if pinning == "quarantine" else frozenset())
    changes = diff(approved, live, shadowed=shadowed)
    if pinning == "quarantine":
        withheld = {key for key, part in live.parts.items() if approved.digest_of(key) != part.digest}
    else:
        withheld = {change.part for change in changes if change.weight == "power"}
    return Assessment(changes=changes, withheld=frozenset(withheld & live.parts.keys()))
