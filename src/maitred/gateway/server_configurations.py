"""The configurations of approved servers, for a program that runs servers itself and takes them from here.

A revision names all of them together: it is the same as long as no server came, went or was changed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maitred.admission.approval import Approval, replay
from maitred.model.approvals import Event, Registration
from maitred.model.tools import canonical, content_hash


@dataclass(frozen=True, kw_only=True)
class ServerConfiguration:
    """One approved server.

    Attributes:
        server: Its name.
        manifest: The normal form of its manifest.
        manifest_hash: What its approval binds to, in 64 hexadecimal digits.
        image: The image as it was approved, with its digest as far as it is known; empty without an image.
        approved_by: The principal or rule that approved it last.
        approved_at: When that was, in UTC.
    """

    server: str
    manifest: Mapping[str, Any]
    manifest_hash: str
    image: str
    approved_by: str
    approved_at: str

    def to_json(self) -> dict[str, Any]:
        """The configuration as the API gives it."""
        return {
            "server": self.server,
            "manifest_hash": self.manifest_hash,
            "image": self.image,
            "approved_by": self.approved_by,
            "approved_at": self.approved_at,
            "manifest": dict(self.manifest),
        }


@dataclass(frozen=True, kw_only=True)
class ServerConfigurations:
    """All approved servers by name."""

    servers: Sequence[ServerConfiguration]

    @property
    def revision(self) -> str:
        """The name of this state, in 32 hexadecimal digits."""
        return content_hash(canonical([[one.server, one.manifest_hash, one.image] for one in self.servers]))

    def to_json(self) -> dict[str, Any]:
        """All configurations as the API gives them."""
        return {"revision": self.revision, "servers": [one.to_json() for one in self.servers]}


def approved_configurations(
    logs: Mapping[str, Sequence[Event]],
    registered: Mapping[str, Registration],
    is_shown: Callable[[str], bool],
) -> ServerConfigurations:
    """Those of the registered servers that are approved and not suspended."""
    found = [
        _configuration(entry, state, logs[name])
        for name, entry in sorted(registered.items())
        if is_shown(name) and (state := _approved(logs.get(name, ()))) is not None
    ]
    return ServerConfigurations(servers=found)


def _approved(events: Sequence[Event]) -> Approval | None:
    """The state of an approved server; a server whose log was altered is not approved."""
    try:
        state = replay(events)
    except ValueError:
        return None
    return state if state is not None and state.state == "approved" else None


def _configuration(entry: Registration, state: Approval, events: Sequence[Event]) -> ServerConfiguration:
    last = next(one for one in reversed(events) if one.kind in ("approved", "auto_approved"))
    return ServerConfiguration(
        server=entry.server,
        manifest=json.loads(entry.manifest),
        manifest_hash=entry.manifest_hash,
        image=state.seen.image,
        approved_by=last.who,
        approved_at=last.at,
    )
