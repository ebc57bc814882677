"""Registration and approval of servers, as the gateway offers them to viewers.

A decision is an event in the registry's log. Every process that serves the catalog computes from the log
which servers exist, and which parts of them are withheld. So a process that was killed catches up at its next
start.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, Protocol

import anyio
import structlog

from maitred.admission.allow_list import AllowList
from maitred.admission.approval import Approval, ApprovalState, ForbiddenEvent, replay, step
from maitred.admission.effective import RegisteredServers
from maitred.admission.findings import Decision, Finding, LayerReport, ReviewResult
from maitred.admission.gatekeeper import (
    CONFIGURATION,
    Gatekeeper,
    ServerApproval,
    apply_events,
    event,
    listed_digest_of,
    now,
)
from maitred.admission.judgement import LookalikeFinder
from maitred.admission.refusal import check_not_refused, refusal_of
from maitred.admission.registry import Registry
from maitred.admission.waiting import STALE, WaitingOrigin, choose_origin, waiting_origins
from maitred.audit.service import AuditService
from maitred.config.settings import Limits, Settings
from maitred.errors import AdmissionError, MaitredError, ServerNotFoundError, StoreError
from maitred.gateway.cases import Case, DefinitionPair, RegistrationResult, awaits_decision, digest_of
from maitred.gateway.server_configurations import ServerConfigurations, approved_configurations
from maitred.gateway.state import GatewayState
from maitred.model.access import Grant, Viewer, may
from maitred.model.approvals import Binding, Event, EventKind, Registration
from maitred.model.servers import ServerRecord, ServerSpec
from maitred.model.tools import canonical
from maitred.model.transports import is_judged
from maitred.storage.signals import Signals
from maitred.wording import near_names

__all__ = [
    "VERDICTS",
    "AdmissionService",
    "MakeNamesakes",
    "ManifestReviewer",
    "Verdict",
]

log = structlog.get_logger(__name__)

Verdict = Literal["approve", "reject", "suspend", "resume", "withdraw"]
VERDICTS: Final[Mapping[Verdict, EventKind]] = {
    "approve": "approved",
    "reject": "rejected",
    "suspend": "suspended",
    "resume": "resumed",
    "withdraw": "withdrawn",
}
SUPERVISOR: Final = "supervisor"
"""The decider in the log for servers that supervision restarted too often."""
_SUPERVISOR: Final = Viewer(grant=Grant(principal=SUPERVISOR, role="operator"))
_UNKNOWN: Final = -1
_NAMES: Final = "schema"
"""The layer of the finding that a name is taken, or looks like another one."""
_NEVER_STARTED: Final = "it was never started, so there is nothing to decide on yet"
_OTHER_NAME: Final = "choose another name, or take it out there"
MakeNamesakes = Callable[[Mapping[str, Collection[str]]], LookalikeFinder]


class ManifestReviewer(Protocol):
    """Reviews manifests; see `maitred.admission.review`."""

    def look(self, text: str, source: str) -> ReviewResult:
        """Read a manifest and let every layer look at it."""
        ...

    def spec(self, normal: str, limits: Limits) -> ServerSpec:
        """The specification of a server by the normal form of its manifest."""
        ...


class AdmissionService:
    """Registers servers and decides on them.

    `make_front` makes the reviewer of manifests for the present settings. `on_changed` is awaited after a
    decision, of this process or another one, that adds or removes servers or parts of them.
    """

    def __init__(
        self,
        context: GatewayState,
        gatekeeper: Gatekeeper,
        allow_list: AllowList,
        auditing: AuditService,
        *,
        make_front: Callable[[Settings], ManifestReviewer],
        make_namesakes: MakeNamesakes,
        on_changed: Callable[[], Awaitable[None]],
        signals: Signals,
    ) -> None:
        self._context = context
        self._gatekeeper = gatekeeper
        self._allow_list = allow_list
        self._registry: Registry = gatekeeper.registry
        self._make_front = make_front
        self._auditing = auditing
        self._make_namesakes = make_namesakes
        self._on_changed = on_changed
        self._news = signals.subscribe("decisions")
        self._servers = RegisteredServers(self._registry)
        self._turns = _UNKNOWN
        self._last_namesakes: tuple[tuple[object, object], LookalikeFinder | None] = ((None, None), None)
        """The last finder for all servers, which takes a while to make, and what it was made of."""

    # --- what the gateway serves --------------------------------------------------------------------------

    async def effective(self, settings: Settings) -> Settings:
        """The settings with all registered servers, and with the decision on each server.

        Raises:
            ConfigError: The policy in the settings has faults.
            StoreError: The decisions cannot be read.
        """
        self._gatekeeper.use(settings.admission)
        self._turns = await self._gatekeeper.turns_of_others()
        return await self._servers.joined(settings, partial(self._make_front, settings))

    async def catch_up(self) -> None:
        """Judge the servers again that were judged before the last decision on them."""
        logs, _ = await self._registry.everything()
        for name, record in self._context.snapshot.servers.items():
            spec = self._context.settings.servers.get(name)
            if spec is None or not logs.get(name):
                continue
            turns, listed = len(logs[name]), listed_digest_of(record)
            by = self._gatekeeper.judged_by(turns, registered=spec.is_distrusted, definition=listed)
            if record.judged_by == by and not _was_overtaken(record, logs[name]):
                continue
            try:
                await self._gatekeeper.rejudge(name, registered=spec.is_distrusted)
            except AdmissionError as error:  # it is withheld as a whole; the others go on
                log.warning("a server cannot be judged", server=name, reason=error.reason)

    async def changed(self) -> None:
        """Apply new decisions of this process or another one. If that fails, `follow` tries again.

        Raises:
            ConfigError: A file that the settings name, such as the overrides, has faults now.
            StoreError: The decisions cannot be read.
        """
        done = False
        try:
            await self._on_changed()
            done = True
        finally:
            if not done:
                self._turns = _UNKNOWN

    async def follow(self) -> None:
        """Apply the decisions of other processes, at once where the database tells of them; never returns."""
        while True:
            await self._news.wait()
            try:
                if await self._gatekeeper.turns_of_others() != self._turns:
                    await self.changed()
            except MaitredError as error:
                log.warning("what was decided on servers is not taken over yet", reason=str(error))

    # --- registration -------------------------------------------------------------------------------------

    async def check(self, text: str, *, source: str, viewer: Viewer) -> Decision:
        """Check the text of a manifest by all layers, and register nothing.

        `source` names it in messages, and its ending says JSON or YAML.

        Raises:
            NotAllowedError: The viewer may not register.
        """
        self._auditing.require(viewer, "register")
        return (await self._look(text, source)).decision

    async def register(self, text: str, *, source: str, viewer: Viewer) -> RegistrationResult:
        """Register a server, or another manifest of a registered server.

        A registration in the log is valid. If this process cannot apply it now, it does so later.

        Raises:
            NotAllowedError: The viewer may not register.
            StoreError: The log cannot be written, so nothing is registered; or it cannot be read afterwards.
        """
        self._auditing.require(viewer, "register")
        looked = await self._look(text, source)
        decision, server = looked.decision, looked.decision.server
        if decision.outcome == "refused":
            await self._audit(viewer, "register", server, outcome="refused", detail=source)
            return RegistrationResult(happened="refused", decision=decision)
        registration = Registration(
            server=server,
            manifest=looked.normal,
            manifest_hash=decision.manifest_hash,
            source=source,
            who=viewer.principal,
            at=now(),
            record=canonical(decision.record()).decode(),
        )
        with anyio.CancelScope(shield=True):
            happened = await self._written(registration, automatic=decision.outcome == "approved")
            if happened != "unchanged":
                await self._settle(viewer, "register", server, outcome=happened, detail=source)
        return RegistrationResult(happened=happened, decision=decision, case=await self._now(server, viewer))

    async def _written(
        self, made: Registration, *, automatic: bool
    ) -> Literal["registered", "changed", "unchanged"]:
        image = str(json.loads(made.manifest).get("image", ""))
        source = Binding(manifest=made.manifest_hash, image=image[-200:])
        while True:
            events, state = await self._gatekeeper.standing(made.server)
            fresh = state is None or state.withdrawn
            kinds: Sequence[EventKind] = ("registered",) if fresh else ("manifest_changed", "image_changed")
            after, done = apply_events(state, [event(kind, source, who=made.who) for kind in kinds])
            if after is not None and automatic:
                approved = event("auto_approved", after.seen, who="policy")
                done += apply_events(after, [approved])[1]
            if not done:
                return "unchanged"
            last = events[-1] if events else None
            if await self._registry.append(
                made.server, done, after=len(events), last=last, registration=made
            ):
                return "registered" if fresh else "changed"

    async def _look(self, text: str, source: str) -> ReviewResult:
        settings = self._context.settings
        policy = await self._allow_list.joined(settings.admission)
        front = self._make_front(replace(settings, admission=policy))
        looked = await anyio.to_thread.run_sync(front.look, text, source)
        name, decision = looked.decision.server, looked.decision
        known = self._context.settings.servers.get(name)
        if known is not None and not known.registered:
            reason = f"{name!r} is in the operator's configuration"
            found = [Finding(layer=_NAMES, severity="refuse", key="name", reason=reason, fix=_OTHER_NAME)]
        else:
            found = list(await anyio.to_thread.run_sync(self._all_namesakes().of, name)) if name else []
        for one in found:
            decision = _with(decision, replace(one, layer=_NAMES, line=looked.name_line, file=source))
        return replace(looked, decision=decision)

    # --- what there is to decide, and deciding ------------------------------------------------------------

    async def cases(self, viewer: Viewer) -> Sequence[Case]:
        """All configured or registered servers that the viewer may watch, by name.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        logs, registered = await self._registry.everything()
        namesakes = await anyio.to_thread.run_sync(self._namesakes, viewer)
        found = []
        specs = self._context.settings.servers
        names = {
            name for name in {*specs, *registered} if name not in specs or is_judged(specs[name].transport)
        }
        watched = sorted(name for name in names if may(viewer.grant, "watch", server=name))
        if not watched:
            self._auditing.require(viewer, "watch")
        for name in watched:
            try:
                found.append(await self._case(name, registered.get(name), namesakes, logs.get(name, ())))
            except AdmissionError as error:  # its log was altered; the others can be decided on
                source = registered[name].source if name in registered else CONFIGURATION
                why = error.reason
                found.append(Case(server=name, source=source, state="pending", awaits=True, withheld=why))
        return found

    async def registered(self, viewer: Viewer) -> Mapping[str, tuple[str, ApprovalState]]:
        """The registered servers with the source and state of each, without a new judgement.

        A server whose log was altered waits for a person. Servers of the configuration are left out.

        Raises:
            NotAllowedError: The viewer may not register.
        """
        self._auditing.require(viewer, "register")
        logs, registered = await self._registry.everything()
        specs = self._context.settings.servers
        own = [one for name, one in registered.items() if name not in specs or specs[name].registered]
        return {one.server: (one.source, _state(logs.get(one.server, ()))) for one in own}

    async def configurations(self, viewer: Viewer) -> ServerConfigurations:
        """The configurations of the approved servers that the viewer may watch.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        logs, registered = await self._registry.everything()
        watched = {name for name in registered if may(viewer.grant, "watch", server=name)}
        if not watched:
            self._auditing.require(viewer, "watch")
        return approved_configurations(logs, registered, watched.__contains__)

    async def decisions(self) -> int:
        """How many events all servers have; another number means that there are new decisions."""
        return await self._registry.turns()

    async def case(self, server: str, *, viewer: Viewer, to_decide: bool = False) -> Case:
        """One server, to look at or `to_decide` on.

        Raises:
            NotAllowedError: The viewer may not watch it, or not decide on it.
            ServerNotFoundError: It is neither configured nor registered.
        """
        self._auditing.require(viewer, "approve" if to_decide else "watch", server=server)
        return await self._now(server, viewer)

    async def definitions(self, server: str, viewer: Viewer) -> DefinitionPair:
        """The definition of a server that was approved, and the present one, to read side by side.

        Raises:
            NotAllowedError: The viewer may not watch it.
            ServerNotFoundError: It is neither configured nor registered.
            AdmissionError: Its log was altered.
        """
        self._auditing.require(viewer, "watch", server=server)
        await self._found(server, viewer)
        spec = self._context.settings.servers.get(server)
        found = await self._gatekeeper.look(server, registered=spec.is_distrusted if spec else True)
        if found is None:
            return DefinitionPair()
        memory = await self._gatekeeper.memory(found.state)
        return DefinitionPair(approved=memory.approved, live=found.live)

    async def _now(self, server: str, viewer: Viewer) -> Case:
        registration = await self._found(server, viewer)
        namesakes = await anyio.to_thread.run_sync(self._namesakes, viewer)
        return await self._case(server, registration, namesakes)

    async def _found(self, server: str, viewer: Viewer) -> Registration | None:
        """The registration of a server, `None` for one of the configuration.

        Raises:
            ServerNotFoundError: It is neither configured nor registered. The text names the nearest servers
                that the viewer may watch.
        """
        _, registered = await self._registry.everything()
        known = {*self._context.settings.servers, *registered}
        if server not in known:
            watched = sorted(name for name in known if may(viewer.grant, "watch", server=name))
            raise ServerNotFoundError(server, nearest=near_names(server, watched, most=2))
        return registered.get(server)

    async def decide(
        self,
        server: str,
        verdict: Verdict,
        *,
        viewer: Viewer,
        why: str = "",
        seen: str = "",
        origin: str = "",
        again: bool = False,
    ) -> Case:
        """Decide on a server, and on the changes since its approval.

        `seen` is the digest of the case that the viewer looked at. If the case has changed since then, the
        decision is refused. To approve what a person refused needs `again`. With `origin`, only the tools are
        approved that the pages of this origin have now, and `seen` is its digest. `withdraw` needs the
        ability `register`, all other verdicts need `approve`.

        Raises:
            NotAllowedError: The viewer may not decide this.
            ServerNotFoundError: It is neither configured nor registered.
            AdmissionError: This decision is not possible now. The text says why and what to do.
            StoreError: The log cannot be written, so nothing is decided; or it cannot be read afterwards.
        """
        self._auditing.require(viewer, "register" if verdict == "withdraw" else "approve", server=server)
        spec = self._context.settings.servers.get(server)
        registration = await self._found(server, viewer)
        if verdict == "withdraw" and (registration is None or (spec and not spec.registered)):
            raise AdmissionError(server, "it is in the configuration; `maitred remove` takes it out")
        before = (
            await self._now(server, viewer) if verdict == "withdraw" else None
        )  # afterwards there is none
        with anyio.CancelScope(shield=True):
            if origin:
                detail = await self._append_origin(
                    server, verdict, origin, seen, viewer=viewer, why=why, again=again
                )
                await self._settle(viewer, verdict, server, detail=detail)
            elif await self._append(server, verdict, seen, who=viewer.principal, why=why, again=again):
                await self._settle(viewer, verdict, server, detail=why)
        return before or await self._now(server, viewer)

    async def suspend(self, server: str, why: str) -> None:
        """Suspend a server that supervision gave up, if it is still in use.

        Raises:
            AdmissionError: Its log was altered.
            StoreError: The log cannot be written.
        """
        spec = self._context.settings.servers.get(server)
        if spec is not None and spec.usable:
            with anyio.CancelScope(shield=True):
                if await self._gatekeeper.suspend(spec, who=SUPERVISOR, why=why):
                    await self._settle(_SUPERVISOR, "suspend", server, detail=why)

    async def _append(
        self, server: str, verdict: Verdict, seen: str, *, who: str, why: str, again: bool
    ) -> bool:
        """Write a decision into the log; false if it changes nothing."""
        while True:
            events, state = await self._gatekeeper.standing(server)
            done = _decided(server, state, verdict, seen, who=who, why=why)
            if done is None:
                return False
            if state is not None and verdict == "approve" and not again:
                check_not_refused(server, state, events)
            if await self._registry.append(server, [done], after=len(events), last=events[-1]):
                return True

    async def _append_origin(
        self, server: str, verdict: Verdict, origin: str, seen: str, *, viewer: Viewer, why: str, again: bool
    ) -> str:
        """Write the approval of the tools of one origin into the log; returns what the log says of it."""
        if verdict != "approve":
            raise AdmissionError(server, f"{verdict} is for the whole of it; leave the origin out")
        while True:
            found = await self._gatekeeper.look(server, registered=self._is_distrusted(server))
            if found is None or found.live is None:
                raise AdmissionError(server, _NEVER_STARTED)
            chosen = choose_origin(server, _origins(found), origin, seen)
            if not again:
                check_not_refused(server, found.state, found.log)
            definition = await self._gatekeeper.with_approved(found, [tool.part for tool in chosen.tools])
            binding = replace(found.state.seen, definition=definition.digest)
            detail = f"{chosen.origin}: {why}" if why else chosen.origin
            made = event("part_approved", binding, who=viewer.principal, why=detail)
            after = step(found.state, made)
            if isinstance(after, ForbiddenEvent):
                raise AdmissionError(server, after.reason)
            if await self._registry.append(
                server,
                [made],
                after=len(found.log),
                last=found.log[-1],
                definition=(definition.digest, definition.to_bytes()),
            ):
                return detail

    def _is_distrusted(self, server: str) -> bool:
        spec = self._context.settings.servers.get(server)
        return spec.is_distrusted if spec else True

    async def _settle(self, viewer: Viewer, action: str, server: str, **said: Any) -> None:
        """Record a written decision in the audit trail, and apply it. It is valid even if either fails."""
        about = {"action": action, "server": server}
        try:
            await self._audit(viewer, action, server, **said)
        except StoreError as error:
            log.warning("what was decided is not in the audit trail yet", reason=error.reason, **about)
        try:
            await self.changed()
        except MaitredError as error:
            log.warning("what was decided is not taken over yet", reason=str(error), **about)

    async def _audit(self, viewer: Viewer, action: str, server: str, **said: Any) -> None:
        await self._auditing.record(viewer, action, server=server, **said)

    def _namesakes(self, viewer: Viewer) -> LookalikeFinder:
        """What finds similar names, without the names of servers that the viewer may not watch."""
        every, servers = self._all_namesakes(), viewer.grant.scope.server_limit
        return every if servers is None else _Anonymous(every, self._all_namesakes(servers), viewer.principal)

    def _all_namesakes(self, among: Collection[str] | None = None) -> LookalikeFinder:
        by_server, servers = self._context.snapshot.by_server, self._context.settings.servers
        made_of, made = self._last_namesakes
        if made is not None and among is None and made_of[0] is by_server and made_of[1] is servers:
            return made
        known = {name: [t.key.name for t in tools] for name, tools in by_server.items()}
        names = {**dict.fromkeys(servers, ()), **known}
        finder = self._make_namesakes({n: of for n, of in names.items() if among is None or n in among})
        if among is None:
            self._last_namesakes = ((by_server, servers), finder)
        return finder

    async def _case(
        self,
        name: str,
        registration: Registration | None,
        namesakes: LookalikeFinder,
        events: Sequence[Event] | None = None,
    ) -> Case:
        spec = self._context.settings.servers.get(name)
        registered = self._is_distrusted(name)
        found = await self._gatekeeper.look(name, registered=registered, events=events)
        if found is None:  # of the configuration, and never discovered
            withheld = spec.withheld if spec else ""
            return Case(server=name, source=CONFIGURATION, state="approved", awaits=False, withheld=withheld)
        names = await anyio.to_thread.run_sync(namesakes.of, name)
        judged = found.judgement
        return Case(
            server=name,
            source=registration.source if registration and registered else CONFIGURATION,
            state=found.state.state,
            awaits=awaits_decision(found),
            withheld=spec.withheld if spec else "",
            parts=judged.withheld,
            changes=judged.changes,
            findings=[*judged.findings, *names],
            record=json.loads(registration.record) if registration and registered else {},
            manifest=json.loads(registration.manifest) if registration and registered else {},
            origins=_origins(found),
            binding=found.state.seen,
            log=found.log,
            refused=refusal_of(found.state, found.log),
        )


class _Anonymous:
    """Finds all similar names, but names those of some servers only: the others are outside of a scope."""

    def __init__(self, every: LookalikeFinder, visible: LookalikeFinder, principal: str) -> None:
        self._every = every
        self._visible = visible
        self._principal = principal

    def of(self, server: str) -> Sequence[Finding]:
        """Findings about the names of a server and its tools."""
        visible = list(self._visible.of(server))
        reason = f"it is like a name of a server outside of what {self._principal!r} may watch"
        return [one if one in visible else replace(one, reason=reason) for one in self._every.of(server)]


def _was_overtaken(record: ServerRecord, events: Sequence[Event]) -> bool:
    """Whether the catalog has another definition than the log, and does not know it yet."""
    whole = (one.binding for one in reversed(events) if one.kind != "part_approved")
    named = (binding.definition for binding in whole if binding.definition)
    return bool(record.fingerprint) and not next(named, "").startswith(listed_digest_of(record))


def _origins(found: ServerApproval) -> Sequence[WaitingOrigin]:
    """The withheld tools of web pages, by origin."""
    if found.live is None:
        return ()
    return waiting_origins(found.live, found.judgement.withheld, found.state.seen)


def _state(events: Sequence[Event]) -> ApprovalState:
    try:
        found = replay(events)
    except ValueError:
        return "pending"
    return found.state if found else "pending"


def _decided(
    server: str, state: Approval | None, verdict: Verdict, seen: str, *, who: str, why: str
) -> Event | None:
    """The event of a decision; `None` if it changes nothing."""
    if state is None or state.withdrawn:
        raise AdmissionError(server, _NEVER_STARTED)
    if seen and seen != digest_of(state.seen):
        raise AdmissionError(server, STALE)
    binding = state.seen if verdict in ("approve", "reject") else Binding()
    made = event(VERDICTS[verdict], binding, who=who, why=why)
    after = step(state, made)
    if isinstance(after, ForbiddenEvent):
        raise AdmissionError(server, after.reason)
    return None if after == state else made


def _with(decision: Decision, finding: Finding) -> Decision:
    """A decision with one more finding, in its layer."""
    reports: list[LayerReport] = [
        replace(layer, findings=(*layer.findings, finding)) if layer.layer == finding.layer else layer
        for layer in decision.layers
    ]
    return replace(decision, layers=tuple(reports))
