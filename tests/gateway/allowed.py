"""What a log of approvals allows, told a second time in the fewest words, to hold the product against.

It looks at nothing of the product but the events, and knows only what the tests do: manifests and images are
compared whole, and the parts of a definition by what they say.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from maitred.model.approvals import Binding, Event

Parts = Mapping[tuple[str, str], object]
"""What a definition says, by kind and name of its parts."""


@dataclass
class Allowed:
    """What is there, what of it was approved last, and what stands against it."""

    there: bool = False
    now: Binding = field(default_factory=Binding)
    approved: Binding | None = None
    refused: Binding | None = None
    suspended: bool = False
    seen: str = ""
    """The definition that a person approved last, and not the policy."""
    pinned: str = ""
    """The definition that was approved last, also before a withdrawal."""

    @property
    def usable(self) -> bool:
        """Whether a registered server may be used at all."""
        return self.there and not self.suspended and self.approved is not None and self._is_source

    @property
    def _is_source(self) -> bool:
        known, now = self.approved, self.now
        return known is not None and (known.manifest, known.image) == (now.manifest, now.image)


def allowed(log: Sequence[Event]) -> Allowed:
    """What a log comes to; a decision about something that was not there then is a fault of the log."""
    one = Allowed()
    for event in log:
        if event.kind in ("approved", "auto_approved", "rejected"):
            assert event.binding == one.now, f"it was not there then: {event}"
            _decided(one, event)
        elif event.kind in ("suspended", "resumed"):
            one.suspended = event.kind == "suspended"
        elif event.kind == "withdrawn":
            one.there, one.now, one.approved, one.seen = False, Binding(), None, ""
        else:
            _changed(one, event)
    return one


def _decided(one: Allowed, event: Event) -> None:
    if event.kind == "approved":
        one.refused, one.seen = None, one.now.definition
        one.approved = replace(one.now, definition=one.now.definition or one.pinned)
    elif event.kind == "rejected":
        one.refused = one.now
    else:
        unseen = one.pinned or ("" if one.refused else one.now.definition)
        one.approved = replace(one.now, definition=one.approved.definition if one.approved else unseen)
    if one.approved and one.approved.definition:
        one.pinned = one.approved.definition


def _changed(one: Allowed, event: Event) -> None:
    if event.kind == "registered":
        assert not one.there
        one.there, one.now = True, event.binding
    elif event.kind == "manifest_changed":
        one.now = replace(one.now, manifest=event.binding.manifest)
    elif event.kind == "image_changed":
        one.now = replace(one.now, image=event.binding.image)
    else:
        unseen = one.usable and one.approved is not None and not one.approved.definition and not one.refused
        one.now = replace(one.now, definition=event.binding.definition)
        if unseen:
            one.approved, one.pinned = one.now, event.binding.definition


def parts_of(body: bytes | str) -> Parts:
    """A definition as the catalog's file keeps it."""
    return {(kind, name): content for kind, name, content in json.loads(body)}
