"""Stands between what servers publish and the catalog: remembers what was approved, withholds what was not.

It is the keeper's `Admitter`. A server of the operator's configuration is approved by standing there; one
that was registered by a manifest is known already when it is started for the first time. What was decided is
kept in the registry's log, so that every process comes to the same judgement.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio.to_thread
import structlog

from maitred.admission.approval import Approval, ForbiddenEvent, replay, step
from maitred.admission.definition import Definition, PartKey, define
from maitred.admission.judgement import ApprovalRules, ApprovedState, Judgement, ServerJudge
from maitred.admission.registry import Registry
from maitred.backends.listing import clean
from maitred.catalog.live import LiveCatalog
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.stages import PublishedDefinition, WithheldParts, rejudged
from maitred.config.settings import Admission
from maitred.errors import AdmissionError
from maitred.model.approvals import Binding, Event, EventKind
from maitred.model.resources import OfferKey
from maitred.model.servers import ServerRecord, ServerSpec
from maitred.model.tools import ToolKey, canonical, content_hash

log = structlog.get_logger(__name__)

CONFIGURATION: Final = "configuration"
"""Who approves the servers that the operator wrote down, and where they come from."""

_JUDGED: Final = 2
"""Raised when the same definition may be judged otherwise than before."""
_MAX_INSTRUCTIONS = 100_000
_SHORT: Final = 32
_LEAST_JUDGED: Final = 64
"""How many judgements are kept, of how few servers there may be; else one of each server."""

MakeJudge = Callable[[Mapping[str, Collection[str]]], ServerJudge]


def now() -> str:
    """The time as logs have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class ServerApproval:
    """All that is known of a server, and what follows from it."""

    log: Sequence[Event]
    state: Approval
    live: Definition | None
    judgement: Judgement = field(default_factory=Judgement)


class Gatekeeper:
    """Judges by the settings that it was given last."""

    def __init__(self, registry: Registry, catalog: LiveCatalog, make_judge: MakeJudge) -> None:
        self.registry = registry
        self._catalog = catalog
        self._make_judge = make_judge
        self._section = Admission()
        self.turns_taken = 0
        """How many events came to the logs by what servers publish; nobody need look at them again."""
        self._judged: dict[str, tuple[object, Judgement]] = {}

    def use(self, section: Admission) -> None:
        """Take over new settings."""
        self._section = section

    def rules(self, *, registered: bool) -> ApprovalRules:
        """What changes and findings lead to, for a server that came by a manifest or one that did not."""
        own = self._section
        if registered:
            return ApprovalRules(pinning="quarantine", scan=own.scan_registered)
        return ApprovalRules(pinning=own.pinning, scan=own.scan)

    # --- when a server is listed --------------------------------------------------------------------------

    async def admit(self, spec: ServerSpec, published: PublishedDefinition) -> WithheldParts:
        """Take note of what a server publishes, and say which parts are withheld; see `Admitter`."""
        if spec.transport == "chain":  # each saved chain was reviewed, and is checked against its own hash
            return WithheldParts()
        about = {"title": published.title, "instructions": published.instructions}
        look = partial(define, published.tools, published.offers, **about)
        live = await anyio.to_thread.run_sync(look)
        state, events = await self._noted(spec, live)
        rules = self.rules(registered=spec.registered)
        judgement = await self._judgement(spec.name, live, state, rules)
        if judgement.withheld:
            said = "parts of what a server publishes are withheld; `maitred approvals` shows them"
            log.warning(said, server=spec.name, parts=len(judgement.withheld))
        by = _judged_by(len(events), rules, live.digest)
        withheld = _withheld(spec.name, judgement, by)
        if not published.brought:
            return withheld
        judge = self._make_judge(self._names(spec.name, live))
        brought = await anyio.to_thread.run_sync(judge.brought, spec.name, published.brought, rules)
        return replace(withheld, tools={**withheld.tools, **brought})

    async def holds(self, spec: ServerSpec, withheld: WithheldParts) -> bool:
        """Whether nobody decided anything since; see `Admitter`."""
        if spec.transport == "chain":
            return True
        turns, digest = len(await self.registry.log(spec.name)), withheld.judged_by[:_SHORT]
        return withheld.judged_by == self.judged_by(turns, registered=spec.registered, definition=digest)

    async def _noted(self, spec: ServerSpec, live: Definition) -> tuple[Approval, Sequence[Event]]:
        """Write down what is new about a server, and return where it stands then."""
        digest = await anyio.to_thread.run_sync(lambda: live.digest)
        while True:
            events, state = await self.standing(spec.name)
            fresh = _fresh(state, spec, digest)
            if not fresh:
                if state is None:  # its log went while it ran
                    raise AdmissionError(spec.name, "it is not registered")
                return state, events
            instead = _takes_place_of_last(events, fresh)
            written = await self.registry.append(
                spec.name,
                fresh,
                after=len(events) - instead,
                last=events[-1] if events else None,
                instead=instead,
                definition=(digest, await anyio.to_thread.run_sync(live.to_bytes)),
            )  # and look again: somebody else may have come first
            self.turns_taken += (len(fresh) - instead) if written else 0

    async def standing(self, server: str) -> tuple[Sequence[Event], Approval | None]:
        """The log of a server, and the state that it leads to.

        Raises:
            AdmissionError: The log is not one that could have been written.
        """
        events = await self.registry.log(server)
        try:
            return events, replay(events)
        except ValueError as error:
            raise AdmissionError(server, f"its log of approvals was altered: {error}") from error

    # --- when somebody decided ----------------------------------------------------------------------------

    async def suspend(self, spec: ServerSpec, *, who: str, why: str) -> bool:
        """Write down that a server is not to run until somebody resumes it; false where that is so already.

        The log of a server of the configuration begins here if it was never listed.
        """
        while True:
            events, state = await self.standing(spec.name)
            state, made = _opened(state, spec)
            _, suspended = taken(state, [event("suspended", who=who, why=why)])
            if not suspended:
                return False
            last = events[-1] if events else None
            if await self.registry.append(spec.name, [*made, *suspended], after=len(events), last=last):
                return True

    async def rejudge(self, server: str, *, registered: bool) -> None:
        """Judge anew what is known of a server, and have the catalog withhold what follows.

        Nobody else waits for the judging; what changed meanwhile is judged anew.
        """
        again = True

        async def planned(snapshot: Snapshot) -> Change:
            nonlocal again
            again = rules != self.rules(registered=registered) or await self.standing(server) != stood
            record = snapshot.servers.get(server)
            if again or record is None or found is None:
                return Change()
            return _rejudged(snapshot, record, found, rules)

        while again:
            rules = self.rules(registered=registered)
            found = await self.look(server, registered=registered)
            if found is None or found.live is None:
                return
            stood = (found.log, found.state)
            await self._catalog.change(planned)

    async def look(self, server: str, *, registered: bool) -> ServerApproval | None:
        """Where a server stands, with a judgement of what it published last; `None` if it is not known."""
        events, state = await self.standing(server)
        if state is None:
            return None
        live = await self._definition(state.seen.definition)
        if live is None:
            return ServerApproval(log=events, state=state, live=None)
        judgement = await self._judgement(server, live, state, self.rules(registered=registered))
        return ServerApproval(log=events, state=state, live=live, judgement=judgement)

    async def memory(self, state: Approval) -> ApprovedState:
        """What was decided about a server, with the definitions that were decided on."""
        approved = state.approved.definition if state.approved else ""
        return ApprovedState(
            approved=await self._definition(approved),
            vouched=await self._definition(state.vouched),
            refused=_is_refused(state),
        )

    def judged_by(self, turns: int, *, registered: bool, definition: str) -> str:
        """Which definition was judged, and by what; see `listed_as`."""
        return _judged_by(turns, self.rules(registered=registered), definition)

    async def _judgement(
        self, server: str, live: Definition, state: Approval, rules: ApprovalRules
    ) -> Judgement:
        """The judgement of a definition; the last of each server is kept, since the same is asked often."""
        names = self._names(server, live)
        digests = await anyio.to_thread.run_sync(lambda: (live.digest, _names_hash(names)))
        about = (digests, state, rules)
        kept, judgement = self._judged.pop(server, (None, Judgement()))
        if kept != about:
            judge = self._make_judge(names).judge
            memory = await self.memory(state)
            judgement = await anyio.to_thread.run_sync(judge, server, live, memory, rules)
        self._judged[server] = (about, judgement)
        if len(self._judged) > max(_LEAST_JUDGED, len(names)):
            del self._judged[next(iter(self._judged))]
        return judgement

    def _names(self, server: str, live: Definition) -> Mapping[str, Collection[str]]:
        """The names of all tools, those of one server as it publishes them now."""
        snapshot = self._catalog.snapshot
        known = {other: [t.key.name for t in found] for other, found in snapshot.by_server.items()}
        return {**known, server: _tools(live)}

    async def _definition(self, digest: str) -> Definition | None:
        body = await self.registry.definition(digest) if digest else None
        return await anyio.to_thread.run_sync(Definition.from_bytes, body) if body is not None else None


def listed_as(record: ServerRecord) -> str:
    """The beginning of the hash of the definition that the catalog has of a server."""
    return record.judged_by[:_SHORT]


def event(kind: EventKind, binding: Binding = Binding(), *, who: str, why: str = "") -> Event:  # noqa: B008  # frozen
    """Something that happens now."""
    return Event(kind=kind, binding=binding, who=who, why=why, at=now())


def taken(state: Approval | None, events: Sequence[Event]) -> tuple[Approval | None, list[Event]]:
    """Take those of some events that are possible and change something, in their order."""
    done = []
    for one in events:
        after = step(state, one)
        if not isinstance(after, ForbiddenEvent) and after != state:
            state = after
            done.append(one)
    return state, done


def _opened(state: Approval | None, spec: ServerSpec) -> tuple[Approval | None, list[Event]]:
    """What has to be written down first of a server of the configuration: that it stands there."""
    if spec.registered:
        return state, []
    source = Binding(manifest=spec.fingerprint)
    fresh = state is None or state.withdrawn
    kind: EventKind = "registered" if fresh else "manifest_changed"
    state, made = taken(state, [event(kind, source, who=CONFIGURATION)])
    if state is not None:
        approved = event("auto_approved", state.seen, who=CONFIGURATION)
        state, more = taken(state, [approved])
        made += more
    return state, made


def _fresh(state: Approval | None, spec: ServerSpec, digest: str) -> list[Event]:
    """What has to be written down before a server's definition can be judged."""
    state, made = _opened(state, spec)
    _, more = taken(state, [event("definition_changed", Binding(definition=digest), who=spec.name)])
    return made + more


def _is_refused(state: Approval) -> bool:
    """Whether a person refused the definition that there is now, by whatever manifest it came then."""
    refused = state.rejected.definition if state.rejected else ""
    return refused != "" and refused == state.seen.definition


def _takes_place_of_last(events: Sequence[Event], fresh: Sequence[Event]) -> bool:
    """Whether a change follows on one that nobody decided on, so that the log need not have both.

    Else a server that is another one at every look would fill the disk. A change that was pinned, since its
    server was approved unseen, stays.
    """
    if [one.kind for one in fresh] != ["definition_changed"]:
        return False
    if not events or events[-1].kind != "definition_changed":
        return False
    before = replay(events[:-1])
    return before is not None and (before.approved is None or before.approved.definition != "")


def _names_hash(names: Mapping[str, Collection[str]]) -> str:
    """Stands for all names where a judgement is kept; the names themselves would be kept once a server."""
    return content_hash(canonical({server: sorted(tools) for server, tools in names.items()}))


def _tools(live: Definition) -> Collection[str]:
    return {part.name for part in live.parts if part.kind == "tool"}


def _judged_by(turns: int, rules: ApprovalRules, definition: str) -> str:
    return definition[:_SHORT] + content_hash(canonical([_JUDGED, turns, rules.pinning, rules.scan]))


def _rejudged(
    snapshot: Snapshot, record: ServerRecord, found: ServerApproval, rules: ApprovalRules
) -> Change:
    """What a judgement changes in the catalog."""
    if found.live is None:
        return Change()
    listed = listed_as(record)
    told = found.live.parts.get(PartKey(kind="instructions"))
    title = clean(str(told.content.get("title", "")) if told else "")
    instructions = clean(str(told.content.get("description", "")) if told else "")
    withheld = _withheld(record.name, found.judgement, _judged_by(len(found.log), rules, listed))
    of = _tools(found.live) if listed == found.live.digest[:_SHORT] else None  # killed before it was listed
    said = instructions[:_MAX_INSTRUCTIONS]
    return rejudged(snapshot, record.name, withheld, said, title=title, of=of)


def _withheld(server: str, judgement: Judgement, judged_by: str) -> WithheldParts:
    """A judgement as the catalog keeps it."""
    why = judgement.withheld
    told = [f for f in judgement.findings if f.severity != "warn"]
    count = "1 finding" if len(told) == 1 else f"{len(told)} findings"
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
        notes=(note,) if told else (),
    )
