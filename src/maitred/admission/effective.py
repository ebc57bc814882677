"""Combine the servers of the configuration and the registered ones, with the decision about each.

A decision is the field `withheld` of a specification. So the pool, the discoverer and the menu leave such a
server alone and can say why.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import structlog

from maitred.admission.approval import Approval, replay
from maitred.admission.registry import Registry
from maitred.config.settings import Limits, Settings
from maitred.model.approvals import Event, Registration
from maitred.model.categories import ANY_TOOL, ToolChoice
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolKey

log = structlog.get_logger(__name__)

PENDING: Final = "waits for a person's approval: `maitred approvals` shows it"
_ALTERED: Final = "has a log of approvals that was altered"
_REASON: Final = 300
_APPROVALS: Final = frozenset({"auto_approved", "approved"})
_OTHER_SERVER: Final = frozenset({"registered", "manifest_changed", "image_changed", "withdrawn"})


class Specs(Protocol):
    """Makes specifications from manifests."""

    def spec(self, normal: str, limits: Limits) -> ServerSpec:
        """The specification of a server, from the normal form of its manifest."""
        ...


class RegisteredServers:
    """The registered servers and the decisions about all servers, read from the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def joined(self, settings: Settings, make_specs: Callable[[], Specs]) -> Settings:
        """Settings with all servers and the decision about each.

        A server of the configuration has precedence over a registered one of the same name.
        """
        logs, registrations = await self._registry.everything()
        servers = {name: _with_decision(spec, logs.get(name, ())) for name, spec in settings.servers.items()}
        own = [registration for name, registration in registrations.items() if name not in servers]
        for name in registrations.keys() & servers.keys():
            log.warning("a registered server is not used: the configuration has one of its name", server=name)
        if not own and all(servers[name] is spec for name, spec in settings.servers.items()):
            return settings
        choices: dict[ToolKey, ToolChoice] = {}
        if own:
            specs = make_specs()
            for registration in own:
                servers[registration.server] = _registered_spec(
                    registration, logs.get(registration.server, ()), specs, settings.limits
                )
                choices |= _hints(registration)
        return replace(settings, servers=servers, tools={**choices, **settings.tools})


def _with_decision(spec: ServerSpec, events: Sequence[Event]) -> ServerSpec:
    """A server of the configuration: it counts as approved, unless a person decided otherwise."""
    state, spec = _state(events), _with_resume_count(spec, events)
    if state is None:
        return spec
    if isinstance(state, str):
        return replace(spec, withheld=state)
    is_refused = state.rejected is not None and state.rejected.manifest == spec.fingerprint
    if state.suspended or (is_refused and state.state == "rejected"):
        return _withhold(spec, state, events)
    return spec


def _registered_spec(
    registration: Registration, events: Sequence[Event], specs: Specs, limits: Limits
) -> ServerSpec:
    try:
        spec = _with_resume_count(specs.spec(registration.manifest, limits), events)
    except ValueError:
        why = "has a manifest that this version cannot read; register it again"
        return ServerSpec(name=registration.server, registered=True, withheld=why)
    state = _state(events)
    if state is None or isinstance(state, str):
        return replace(spec, withheld=state or PENDING)
    if state.state != "approved":
        return _withhold(spec, state, events)
    return replace(spec, approved_at=_approved_at(events))


def _approved_at(events: Sequence[Event]) -> str:
    """When what the server is now was approved first; a changed definition counts by its tools."""
    at = ""
    for event in events:
        if event.kind in _OTHER_SERVER:
            at = ""
        elif event.kind in _APPROVALS:
            at = at or event.at
    return at


def _with_resume_count(spec: ServerSpec, events: Sequence[Event]) -> ServerSpec:
    """The specification with the number of times the server was resumed; each change restarts the server."""
    count = sum(event.kind == "resumed" for event in events)
    return replace(spec, resumed=count) if count else spec


def _withhold(spec: ServerSpec, state: Approval, events: Sequence[Event]) -> ServerSpec:
    return replace(spec, withheld=_why(spec.name, state, events), suspended=state.state == "suspended")


def _state(events: Sequence[Event]) -> Approval | str | None:
    """Approval state of a server; a reason if its log was altered, `None` if the log is empty."""
    try:
        return replay(events)
    except ValueError:
        return _ALTERED


def _why(server: str, state: Approval, events: Sequence[Event]) -> str:
    """Why a server is withheld; the action comes first, since long reasons are cut."""
    kind = state.state
    if kind not in ("suspended", "rejected"):
        return PENDING
    last = next((event for event in reversed(events) if event.kind == kind), None)
    verb = "was suspended" if kind == "suspended" else "was refused"
    by = f" by {last.who}" if last and last.who else ""
    todo = f" (`maitred resume {server}` ends that)" if kind == "suspended" else ""
    why = f": {last.why}" if last and last.why else ""
    return f"{verb}{by}{todo}{why}"[:_REASON]


def _hints(registration: Registration) -> Mapping[ToolKey, ToolChoice]:
    """The categories and tags in a manifest, as choices for the server's tools."""
    manifest = json.loads(registration.manifest)
    category, tags = manifest.get("category", ""), tuple(manifest.get("tags", ()))
    if not category and not tags:
        return {}
    return {ToolKey(server=registration.server, name=ANY_TOOL): ToolChoice(category=category, tags=tags)}
