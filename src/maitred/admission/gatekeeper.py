"""Compare what servers publish with what was approved, and withhold the rest from the catalog.

It implements the discoverer's `Admitter`. A server of the operator's configuration counts as approved; a
registered one has its manifest's review behind it. Decisions are in the registry's log, so every process
comes to the same judgement.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import structlog

from maitred.admission.approval import Approval, ForbiddenEvent, replay, step
from maitred.admission.definition import Definition, PartKey, define
from maitred.admission.judgement import ApprovalRules, ApprovedState, Judgement, ServerJudge
from maitred.admission.registry import Registry
from maitred.admission.waiting import with_approved_parts
from maitred.backends.listing import clean
from maitred.catalog.live import LiveCatalog
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.stages import PublishedDefinition, WithheldParts, withholding_change
from maitred.config.settings import Admission
from maitred.errors import AdmissionError
from maitred.model.approvals import Binding, Event, EventKind
from maitred.model.resources import OfferKey
from maitred.model.servers import ServerRecord, ServerSpec
from maitred.model.tools import Tool, ToolKey, canonical, content_hash
from maitred.model.transports import is_judged
from maitred.poisoning.tool_index import OtherTools, ToolNameIndex

log = structlog.get_logger(__name__)

CONFIGURATION: Final = "configuration"
"""The principal that approves the configuration's servers, and their origin."""

_JUDGED: Final = 2
"""Raise it when the same definition might be judged differently."""
_MAX_INSTRUCTIONS = 100_000
_SHORT: Final = 32
_MOST_JUDGING: Final = 2
"""Judgements at a time. They compute without a pause: with more, each takes longer, and so do all calls."""
_MOST_OTHERS: Final = 1_000
"""So many tools of a server are remembered that it does not list now, and that no person approved."""
_LEAST_JUDGED: Final = 64
"""The cache holds at least so many judgements, and one for each known server."""

MakeJudge = Callable[[str, ToolNameIndex], ServerJudge]


def now() -> str:
    """The present time in the form that logs use."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class ServerApproval:
    """All that is known of a server's approval, and the judgement that follows."""

    log: Sequence[Event]
    state: Approval
    live: Definition | None
    judgement: Judgement = field(default_factory=Judgement)


@dataclass(frozen=True, kw_only=True)
class _CachedJudgement:
    """A judgement, what it is about, and what it asked about other servers; it is valid while these agree."""

    definition: str
    state: Approval
    rules: ApprovalRules
    others: OtherTools
    judgement: Judgement


class Gatekeeper:
    """Judges servers by the present settings."""

    def __init__(self, registry: Registry, catalog: LiveCatalog, make_judge: MakeJudge) -> None:
        self.registry = registry
        self._catalog = catalog
        self._make_judge = make_judge
        self._section = Admission()
        self._own_turns = 0
        self._counting = anyio.Lock()
        self._judging = anyio.CapacityLimiter(_MOST_JUDGING)
        self._judgements: dict[str, _CachedJudgement] = {}
        self._listed: Mapping[str, Sequence[Tool]] = {}
        self._tools = ToolNameIndex()

    def use(self, section: Admission) -> None:
        """Apply new settings."""
        self._section = section

    def rules(self, *, registered: bool) -> ApprovalRules:
        """The consequences of changes and findings, for a registered server or one of the configuration."""
        own = self._section
        if registered:
            return ApprovalRules(pinning="quarantine", scan=own.scan_registered)
        return ApprovalRules(pinning=own.pinning, scan=own.scan)

    async def admit(self, spec: ServerSpec, published: PublishedDefinition) -> WithheldParts:
        """Record what a server publishes, and say which parts are withheld; see `Admitter`."""
        if not is_judged(spec.transport):
            return WithheldParts()
        about = {"title": published.title, "instructions": published.instructions}
        look = partial(define, published.tools, published.offers, **about)
        live = await anyio.to_thread.run_sync(look)
        if published.is_part:
            live = _with_known_tools(*await self._last_definitions(spec.name), live)
        state, events = await self._log_changes(spec, live)
        rules = self.rules(registered=spec.is_distrusted)
        judgement = await self._judgement(spec.name, live, state, rules)
        if judgement.withheld:
            message = "parts of what a server publishes are withheld; `maitred approvals` shows them"
            log.warning(message, server=spec.name, parts=len(judgement.withheld))
        by = _judged_by(len(events), rules, live.digest)
        withheld = _withheld(spec.name, judgement, by)
        if not published.brought:
            return withheld
        index = (await self._index()).with_server(spec.name, _tools(live))
        judge = self._make_judge(spec.name, index)
        result_tools = await anyio.to_thread.run_sync(judge.judge_result_tools, published.brought, rules)
        return replace(withheld, tools={**withheld.tools, **result_tools})

    async def holds(self, spec: ServerSpec, withheld: WithheldParts) -> bool:
        """Whether there is no decision since; see `Admitter`."""
        if not is_judged(spec.transport):
            return True
        turns, digest = len(await self.registry.log(spec.name)), withheld.judged_by[:_SHORT]
        return withheld.judged_by == self.judged_by(turns, registered=spec.is_distrusted, definition=digest)

    async def _log_changes(self, spec: ServerSpec, live: Definition) -> tuple[Approval, Sequence[Event]]:
        """Log what is new about a server; returns its state and its log."""
        digest = await anyio.to_thread.run_sync(lambda: live.digest)
        while True:
            events, state = await self.standing(spec.name)
            fresh = _fresh(state, spec, digest)
            if not fresh:
                if state is None:  # its log was deleted while it ran
                    raise AdmissionError(spec.name, "it is not registered")
                return state, events
            instead = _takes_place_of_last(events, fresh)
            definition = (digest, await anyio.to_thread.run_sync(live.to_bytes))
            async with self._counting:
                is_written = await self.registry.append(
                    spec.name,
                    fresh,
                    after=len(events) - instead,
                    last=events[-1] if events else None,
                    instead=instead,
                    definition=definition,
                )  # look again: another process may have been first
                self._own_turns += (len(fresh) - instead) if is_written else 0

    async def turns_of_others(self) -> int:
        """How many events all servers have, without those that this process logged for what servers publish.

        No other task need read the latter again. None is logged while they are counted: an own event that one
        of the two counts lacks would hide the next decision of another process.

        Raises:
            StoreError: They cannot be counted.
        """
        async with self._counting:
            return await self.registry.turns() - self._own_turns

    async def _last_definitions(self, server: str) -> tuple[Definition, Definition]:
        """What a server published last, and what was approved of it; empty if nothing is known."""
        _, state = await self.standing(server)
        last = await self._definition(state.seen.definition) if state else None
        approved = state.approved.definition if state and state.approved else ""
        return last or Definition(), await self._definition(approved) or Definition()

    async def standing(
        self, server: str, events: Sequence[Event] | None = None
    ) -> tuple[Sequence[Event], Approval | None]:
        """The log of a server, and its state; the log is read unless it is given.

        Raises:
            AdmissionError: The log was altered.
        """
        if events is None:
            events = await self.registry.log(server)
        try:
            return events, replay(events)
        except ValueError as error:
            raise AdmissionError(server, f"its log of approvals was altered: {error}") from error

    async def suspend(self, spec: ServerSpec, *, who: str, why: str) -> bool:
        """Log that a server must not run until an operator resumes it; false if it is suspended already.

        For a server of the configuration that was never listed, this starts its log.
        """
        while True:
            events, state = await self.standing(spec.name)
            state, first_events = _first_events(state, spec)
            _, suspension = apply_events(state, [event("suspended", who=who, why=why)])
            if not suspension:
                return False
            last = events[-1] if events else None
            if await self.registry.append(
                spec.name, [*first_events, *suspension], after=len(events), last=last
            ):
                return True

    async def rejudge(self, server: str, *, registered: bool) -> None:
        """Judge a server again, and let the catalog withhold what follows.

        No other task waits for the judgement. If settings or decisions change meanwhile, it judges again.
        """
        again = True

        async def plan(snapshot: Snapshot) -> Change:
            nonlocal again
            again = rules != self.rules(registered=registered) or await self.standing(server) != basis
            record = snapshot.servers.get(server)
            if again or record is None or approval is None:
                return Change()
            return _withholding_change(snapshot, record, approval, rules)

        while again:
            rules = self.rules(registered=registered)
            approval = await self.look(server, registered=registered)
            if approval is None or approval.live is None:
                return
            basis = (approval.log, approval.state)
            await self._catalog.change(plan)

    async def look(
        self, server: str, *, registered: bool, events: Sequence[Event] | None = None
    ) -> ServerApproval | None:
        """The state of a server, with a judgement of what it published last; `None` if it is unknown.

        `events` is its log where the caller has it already.
        """
        events, state = await self.standing(server, events)
        if state is None:
            return None
        live = await self._definition(state.seen.definition)
        if live is None:
            return ServerApproval(log=events, state=state, live=None)
        judgement = await self._judgement(server, live, state, self.rules(registered=registered))
        return ServerApproval(log=events, state=state, live=live, judgement=judgement)

    async def with_approved(self, found: ServerApproval, parts: Sequence[PartKey]) -> Definition:
        """The definition that is approved once some parts of the present one are, too."""
        live = found.live or Definition()
        memory = await self.memory(found.state)
        approving = partial(with_approved_parts, memory.approved, live, parts, found.judgement.withheld)
        return await anyio.to_thread.run_sync(approving)

    async def memory(self, state: Approval) -> ApprovedState:
        """The decisions about a server, with the definitions that they are about."""
        digest = state.approved.definition if state.approved else ""
        return ApprovedState(
            approved=await self._definition(digest),
            vouched=await self._definition(state.vouched),
            refused=_is_refused(state),
        )

    def judged_by(self, turns: int, *, registered: bool, definition: str) -> str:
        """Identifies a judgement by its definition, decisions and rules; see `listed_digest_of`."""
        return _judged_by(turns, self.rules(registered=registered), definition)

    async def _judgement(
        self, server: str, live: Definition, state: Approval, rules: ApprovalRules
    ) -> Judgement:
        """The judgement of a definition; the last one of each server is cached."""
        digest = await anyio.to_thread.run_sync(lambda: live.digest)
        index = await self._index()
        cached = self._judgements.pop(server, None)
        if (
            cached is None
            or (cached.definition, cached.state, cached.rules) != (digest, state, rules)
            or not cached.others.agrees(index)
        ):
            judge = self._make_judge(server, index.with_server(server, _tools(live)))
            memory = await self.memory(state)
            judgement = await anyio.to_thread.run_sync(
                judge.judge, live, memory, rules, limiter=self._judging
            )
            cached = _CachedJudgement(
                definition=digest, state=state, rules=rules, others=judge.others, judgement=judgement
            )
        self._judgements[server] = cached
        if len(self._judgements) > max(_LEAST_JUDGED, len(index.names)):
            del self._judgements[next(iter(self._judgements))]
        return cached.judgement

    async def _index(self) -> ToolNameIndex:
        """The names of all tools in the catalog."""
        listed = self._catalog.snapshot.by_server
        before, index = self._listed, self._tools
        if listed is before:
            return index

        def now() -> ToolNameIndex:
            names = {
                server: index.names[server] if tools is before.get(server) else [t.key.name for t in tools]
                for server, tools in listed.items()
            }
            return index.with_names(names)

        index = await anyio.to_thread.run_sync(now)
        self._listed, self._tools = listed, index
        return index

    async def _definition(self, digest: str) -> Definition | None:
        body = await self.registry.definition(digest) if digest else None
        return await anyio.to_thread.run_sync(Definition.from_bytes, body) if body is not None else None


def _with_known_tools(known: Definition, approved: Definition, part: Definition) -> Definition:
    """A known definition with the tools that one instance publishes, changed ones and further ones.

    Tools that are neither published now nor approved would become more and more, such as those of web pages.
    If there are too many, all of them are forgotten: they wait for a person as before when they come again.
    """
    tools = {key: value for key, value in part.parts.items() if key.kind == "tool"}
    others = {
        key: value
        for key, value in known.parts.items()
        if key.kind == "tool" and key not in tools and approved.digest_of(key) != value.digest
    }
    kept = {key: value for key, value in known.parts.items() if key not in others}
    if len(others) > _MOST_OTHERS:
        others = {key: approved.parts[key] for key in others if key in approved.parts}
    return Definition(parts={**kept, **others, **tools})


def listed_digest_of(record: ServerRecord) -> str:
    """The start of the hash of the definition that the catalog has of a server."""
    return record.judged_by[:_SHORT]


def event(kind: EventKind, binding: Binding = Binding(), *, who: str, why: str = "") -> Event:  # noqa: B008  # frozen
    """An event with the present time."""
    return Event(kind=kind, binding=binding, who=who, why=why, at=now())


def apply_events(state: Approval | None, events: Sequence[Event]) -> tuple[Approval | None, list[Event]]:
    """Apply events in order; returns the state, and the events that were possible and changed it."""
    applied_events = []
    for candidate in events:
        after = step(state, candidate)
        if not isinstance(after, ForbiddenEvent) and after != state:
            state = after
            applied_events.append(candidate)
    return state, applied_events


def _first_events(state: Approval | None, spec: ServerSpec) -> tuple[Approval | None, list[Event]]:
    """The state and first events of a server of the configuration: registered and approved there."""
    if spec.registered:
        return state, []
    source = Binding(manifest=spec.fingerprint)
    fresh = state is None or state.withdrawn
    kind: EventKind = "registered" if fresh else "manifest_changed"
    state, events = apply_events(state, [event(kind, source, who=CONFIGURATION)])
    if state is not None:
        approval = event("auto_approved", state.seen, who=CONFIGURATION)
        state, approvals = apply_events(state, [approval])
        events += approvals
    return state, events


def _fresh(state: Approval | None, spec: ServerSpec, digest: str) -> list[Event]:
    """The events to log before a server's definition can be judged."""
    state, events = _first_events(state, spec)
    _, changes = apply_events(state, [event("definition_changed", Binding(definition=digest), who=spec.name)])
    return events + changes


def _is_refused(state: Approval) -> bool:
    """Whether a person refused the present definition, under any manifest."""
    digest = state.rejected.definition if state.rejected else ""
    return digest != "" and digest == state.seen.definition


def _takes_place_of_last(events: Sequence[Event], fresh: Sequence[Event]) -> bool:
    """Whether a change may replace the one before it in the log, since there is no decision on that.

    Otherwise a server with a new definition at every look would fill the disk. A change that was pinned,
    since its server was approved unseen, stays.
    """
    if [new_event.kind for new_event in fresh] != ["definition_changed"]:
        return False
    if not events or events[-1].kind != "definition_changed":
        return False
    before = replay(events[:-1])
    return before is not None and (before.approved is None or before.approved.definition != "")


def _tools(live: Definition) -> Collection[str]:
    return {part.name for part in live.parts if part.kind == "tool"}


def _judged_by(turns: int, rules: ApprovalRules, definition: str) -> str:
    return definition[:_SHORT] + content_hash(canonical([_JUDGED, turns, rules.pinning, rules.scan]))


def _withholding_change(
    snapshot: Snapshot, record: ServerRecord, approval: ServerApproval, rules: ApprovalRules
) -> Change:
    """The change of the catalog that follows from a judgement."""
    if approval.live is None:
        return Change()
    listed_digest = listed_digest_of(record)
    part = approval.live.parts.get(PartKey(kind="instructions"))
    title = clean(str(part.content.get("title", "")) if part else "")
    instructions = clean(str(part.content.get("description", "")) if part else "")
    withheld = _withheld(record.name, approval.judgement, _judged_by(len(approval.log), rules, listed_digest))
    is_listed = listed_digest == approval.live.digest[:_SHORT]  # not if it was killed before that
    of = _tools(approval.live) if is_listed else None
    text = instructions[:_MAX_INSTRUCTIONS]
    return withholding_change(snapshot, record.name, withheld, text, title=title, of=of)


def _withheld(server: str, judgement: Judgement, judged_by: str) -> WithheldParts:
    """A judgement in the catalog's form."""
    why = judgement.withheld
    serious = [f for f in judgement.findings if f.severity != "warn"]
    count = "1 finding" if len(serious) == 1 else f"{len(serious)} findings"
    note = f"its texts raise {count}; `maitred approvals` shows them"
    return WithheldParts(
        judged_by=judged_by,
        tools={ToolKey(server=server, name=p.name): why[p] for p in why if p.kind == "tool"},
        offers={
            OfferKey(server=server, kind=p.kind, key=p.name): why[p]
            for p in why
            if p.kind in ("prompt", "template")
        },
        instructions=why.get(PartKey(kind="instructions"), ""),
        notes=(note,) if serious else (),
    )
