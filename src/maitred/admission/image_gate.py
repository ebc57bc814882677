"""Let a container start only with the image that was approved.

A name and a tag may mean another image tomorrow. The first start of an approved server logs its image, which
counts as approved from then on. Another image is logged too, and the server is withheld until a person
decides. A manifest with the image's digest needs none of this.
"""

from maitred.admission.approval import Approval, ForbiddenEvent, replay, step
from maitred.admission.gatekeeper import event
from maitred.admission.registry import Registry
from maitred.model.approvals import Binding, Event, image_with_identity, name_and_identity

_SHOWN = 19


class ImageGate:
    """Decides by the log of approvals, and logs which images servers start with."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def admit(self, server: str, identity: str) -> str:
        """Why a server may not start with this image; empty if it may.

        Raises:
            StoreError: The log cannot be read or written.
        """
        while True:
            events = await self._registry.log(server)
            try:
                state = replay(events)
            except ValueError as error:
                return f"its log of approvals was altered: {error}"
            if state is None or state.state != "approved" or state.approved is None:
                return "its image is not approved: `maitred approvals` shows it"
            if name_and_identity(state.approved.image)[1] == identity:
                return ""
            change = _image_event(state, server, identity)
            after = step(state, change)
            if isinstance(after, ForbiddenEvent):
                return after.reason
            if await self._registry.append(server, [change], after=len(events), last=events[-1]):
                return "" if after.state == "approved" else _refusal(state, identity)


def _image_event(state: Approval, server: str, identity: str) -> Event:
    name = name_and_identity(state.seen.image)[0]
    was = name_and_identity(state.image)[1]
    why = f"it is {identity} now" + (f", and was {was} when it was approved" if was else "")
    return event("image_changed", Binding(image=image_with_identity(name, identity)), who=server, why=why)


def _refusal(state: Approval, identity: str) -> str:
    """The reason for an image that no person approved."""
    was = name_and_identity(state.image)[1]
    name = name_and_identity(state.seen.image)[0]
    before = f", and was {was[:_SHOWN]} when it was approved" if was else ""
    return (
        f"its image {name} is {identity[:_SHOWN]} now{before}: a person has to approve that;"
        " `maitred approvals` shows it"
    )
