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
        logs, registered = await self._registry.everything()
        servers = {name: _judged(spec, logs.get(name, ())) for name, spec in settings.servers.items()}
        own = [one for name, one in registered.items() if name not in servers]
        for name in registered.keys() & servers.keys():
            log.warning("a registered server is not used: the configuration has one of its name", server=name)
        if not own and all(servers[name] is spec for name, spec in settings.servers.items()):
            return settings
        choices: dict[ToolKey, ToolChoice] = {}
        if own:
            specs = make_specs()
            for one in own:
                servers[one.server] = _made(one, logs.get(one.server, ()), specs, settings.limits)
                choices |= _hints(one)
        return replace(settings, servers=servers, tools={**choices, **settings.tools})


def _judged(spec: ServerSpec, events: Sequence[Event]) -> ServerSpec:
    """A server of the configuration: it counts as approved, unless a person decided otherwise."""
    state, spec = _state(events), _counted(spec, events)
    if state is None:
        return spec
    if isinstance(state, str):
        return replace(spec, withheld=state)
    refused = state.rejected is not None and state.rejected.manifest == spec.fingerprint
    if state.suspended or (refused and state.state == "rejected"):
        return _kept_out(spec, state, events)
    return spec


def _made(one: Registration, events: Sequence[Event], specs: Specs, limits: Limits) -> ServerSpec:
    try:
        spec = _counted(specs.spec(one.manifest, limits), events)
    except ValueError:
        why = "has a manifest that this version cannot read; register it again"
        return ServerSpec(name=one.server, registered=True, withheld=why)
    state = _state(events)
    if state is None or isinstance(state, str):
        return replace(spec, withheld=state or PENDING)
    return spec if state.state == "approved" else _kept_out(spec, state, events)


def _counted(spec: ServerSpec, events: Sequence[Event]) -> ServerSpec:
    """The specification with the number of times the server was resumed; each change restarts the server."""
    resumed = sum(event.kind == "resumed" for event in events)
    return replace(spec, resumed=resumed) if resumed else spec


def _kept_out(spec: ServerSpec, state: Approval, events: Sequence[Event]) -> ServerSpec:
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
    last = next((one for one in reversed(events) if one.kind == kind), None)
    said = "was suspended" if kind == "suspended" else "was refused"
    by = f" by {last.who}" if last and last.who else ""
    todo = f" (`maitred resume {server}` ends that)" if kind == "suspended" else ""
    why = f": {last.why}" if last and last.why else ""
    return f"{said}{by}{todo}{why}"[:_REASON]


def _hints(one: Registration) -> Mapping[ToolKey, ToolChoice]:
    """The categories and tags in a manifest, as choices for the server's tools."""
    written = json.loads(one.manifest)
    category, tags = written.get("category", ""), tuple(written.get("tags", ()))
    if not category and not tags:
        return {}
    return {ToolKey(server=one.server, name=ANY_TOOL): ToolChoice(category=category, tags=tags)}
