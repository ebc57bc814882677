"""Calls that wait for a person, on their way, and the decisions of viewers about them.

A call is made only with an approval that fits it as it is: the same principal, tool, definition, arguments
and rules. That is checked when the approval is used, and once more when the call goes to its server.
"""

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import anyio
import structlog
from cachetools import TTLCache

from maitred.audit.log import AuditEntry
from maitred.audit.service import AuditService, away_error
from maitred.background import Background
from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call
from maitred.config.settings import HeldCallSettings
from maitred.errors import (
    AuditError,
    BusyError,
    CallerRefusedError,
    CallNotApprovedError,
    DecisionError,
    HeldCallNotFoundError,
    MaitredError,
    NotAllowedError,
    StoreAwayError,
    StoreError,
)
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.held_calls.binding import binding_of, definition_hash, subject_of
from maitred.held_calls.inbox import LOOK_S, Inbox, Waiter
from maitred.held_calls.policy import HoldPolicy, HoldVerdict, values_of
from maitred.held_calls.question import clock_text, decision_of, question_of
from maitred.held_calls.store import MOST_WAITING, HeldCallStore, time_text
from maitred.model.access import LOCAL, Viewer
from maitred.model.asking import ELICIT, check_askable
from maitred.model.held_calls import CallBinding, CallDecision, HeldCall, HeldState
from maitred.model.tools import Tool, canonical
from maitred.wording import one_of, quote_input

log = structlog.get_logger(__name__)

Notify = Callable[[HeldCall, HeldCallSettings], Awaitable[None]]
"""Sends a message about a call that waits; never raises."""

_ITSELF: Final = "maitred"
_REPORT_S: Final = 10.0
_STEP: Final = 1e-9
_RETRY_S: Final = 30.0
_ROUND_S: Final = 900.0
_MOST_ROUNDS: Final = 1_000
_AGAIN: Final = "Make it again if it is still wanted: a person is then asked about it as it is now."


class HeldCallService:
    """Holds calls as the present rules say. `keep_up` must run, or no decision is noticed.

    It looks every `look_s` for decisions of other processes.
    """

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        auditing: AuditService,
        *,
        store: HeldCallStore,
        notify: Notify,
        look_s: float = LOOK_S,
    ) -> None:
        self._context = context
        self._access = access
        self._auditing = auditing
        self._store = store
        self._notify = notify
        self._inbox = Inbox(store, self._note_expired, look_s=look_s)
        self._background = Background()
        self._policy = HoldPolicy(HeldCallSettings())
        self._incarnation = secrets.token_hex(16)
        self._rounds: TTLCache[tuple[str, str], bool] = TTLCache(_MOST_ROUNDS, _ROUND_S)
        self._listeners: list[Callable[[], None]] = []

    @property
    def policy(self) -> HoldPolicy:
        """The rules of the present settings."""
        settings = self._context.settings.held_calls
        if self._policy.settings is not settings:
            self._policy = HoldPolicy(settings)
        return self._policy

    @property
    def has_rules(self) -> bool:
        """Whether a call may be held at all."""
        return bool(self._context.settings.held_calls.rules)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function whenever a call of this process begins to wait, or ends that."""
        self._listeners.append(listener)

    async def keep_up(self) -> None:
        """Notice decisions, and send messages; never returns."""
        if self.has_rules:  # a gateway before this one may have left something
            self._inbox.clean_after(self._store.clock() + timedelta(seconds=self.policy.settings.wait_s))
        async with self._background:
            await self._inbox.keep_up()

    # --- on the way of a call -----------------------------------------------------------------------------

    async def admit(self, call: Call) -> None:
        """Let a call pass, at once or after a person has approved it, which may take `wait_s`.

        Raises:
            CallNotApprovedError: It was refused, or there was no decision, or it is another one by now.
            BusyError: Too many calls of the principal wait.
            AuditError: The audit trail cannot be written.
            StoreError: The database cannot be used, so no decision can be found.
        """
        policy = self.policy
        call.rules_version = policy.version
        try:
            verdict = await self._judge(call, call.tool, policy)
            if verdict is None:
                return
            bound_by = policy.hash_of(verdict, in_chain=call.chain is not None)
            if self._is_next_round(call):
                call.approval = self._binding(call, call.tool, bound_by, alone=True)
                return
            binding = self._binding(call, call.tool, bound_by)
        except ValueError as error:  # a number too long to be written
            raise CallNotApprovedError(call.tool.name, f"its arguments cannot be shown: {error}.") from None
        session = self._session(call.viewer)
        if held_id := await self._store.take(binding, session):
            call.entry.note_wait(0, held_id)  # its line leads to the decision
        else:
            await self._hold(call, self._held_call(call, binding, verdict, session))
            if ended := await self._access.why_ended(call.viewer):
                raise CallNotApprovedError(call.tool.name, f"{ended}, while the call waited.")
        self._check_same(call, binding)
        call.approval = binding

    def _is_next_round(self, call: Call) -> bool:
        """Whether a call goes on with one that was approved, whose server asked for input."""
        request = call.request
        if request.input_responses is None and request.request_state is None:
            return False
        return self._rounds.pop((self._round_of(call), request.request_state or ""), False)

    def _round_of(self, call: Call) -> str:
        """What the rounds of one call have in common, though its approval makes its tool one seen before."""
        verdict = self.policy.judge(self._values(call, call.tool, seen_before=False))
        bound_by = self.policy.hash_of(verdict, in_chain=call.chain is not None)
        return self._binding(call, call.tool, bound_by, alone=True).digest

    def answered(self, call: Call, answer: Answer) -> None:
        """Note an answer that asks for input: the next round of an approved call needs no other approval."""
        asks = call.approval is not None and answer.wire.get("resultType") == "input_required"
        if asks and call.rules_version == self.policy.version:
            state = answer.wire.get("requestState")
            self._rounds[self._round_of(call), state if isinstance(state, str) else ""] = True

    async def recheck(self, call: Call) -> None:
        """Refuse a call, on its way to the server, that is not the approved one, or is to be held by now.

        Raises:
            CallNotApprovedError: The tool or the rules have changed meanwhile.
            StoreError: The database cannot be used, so it is not known whether the call is to be held.
        """
        if call.approval is not None:
            self._check_same(call, call.approval)
            return
        judged = call.tool, call.rules_version
        while self.has_rules and (tool := self._context.snapshot.by_name.get(call.tool.name)) is not None:
            policy = self.policy
            if tool is judged[0] and policy.version == judged[1]:
                return
            await self._judge_again(call, tool, policy)
            judged = tool, policy.version  # which may have changed meanwhile

    async def _judge_again(self, call: Call, tool: Tool, policy: HoldPolicy) -> None:
        try:
            is_held = await self._judge(call, tool, policy) is not None
        except ValueError:  # a number too long to be written
            is_held = True
        if is_held:
            reason = f"its tool or the rules changed, and such a call waits for a person. {_AGAIN}"
            raise CallNotApprovedError(call.tool.name, reason)

    def would_hold(self, tool: Tool, arguments: Mapping[str, Any], viewer: Viewer) -> str:
        """Why a call in a chain would wait for a person; empty if it would not. It counts as the first."""
        if not self.has_rules:
            return ""
        values = values_of(tool, arguments, viewer, in_chain=True, seen_before=False)
        try:
            verdict = self.policy.judge(values)
        except ValueError:  # a number too long to be written; the call itself says so
            return ""
        return verdict.why if verdict else ""

    async def _judge(self, call: Call, tool: Tool, policy: HoldPolicy) -> HoldVerdict | None:
        seen = False
        if policy.reads_history:
            seen = await self._store.is_seen(self._binding(call, tool, "", alone=True))
        return policy.judge(self._values(call, tool, seen_before=seen))

    def _values(self, call: Call, tool: Tool, *, seen_before: bool) -> Mapping[str, Any]:
        in_chain = call.chain is not None
        return values_of(tool, call.arguments, call.viewer, in_chain=in_chain, seen_before=seen_before)

    def _binding(self, call: Call, tool: Tool, bound_by: str, *, alone: bool = False) -> CallBinding:
        return binding_of(
            call.viewer.principal,
            tool,
            subject_of(call.request, alone=alone),
            fingerprint=self._context.spec(tool.server).fingerprint,
            policy=bound_by,
        )

    def _session(self, viewer: Viewer) -> str:
        """The client session of a viewer, by a hash; it ends with the connection, or with this gateway."""
        own = viewer.connection or viewer.start.client
        return _hash([self._incarnation, viewer.principal, own]) if own else ""

    def _held_call(self, call: Call, binding: CallBinding, verdict: HoldVerdict, session: str) -> HeldCall:
        now, viewer = self._store.clock(), call.viewer
        until = now + timedelta(seconds=self.policy.settings.wait_s)
        lasting = verdict.choices if session else _alone(verdict.choices)
        return HeldCall(
            id=secrets.token_hex(6),
            binding=binding,
            name=call.tool.name,
            arguments=canonical(subject_of(call.request)).decode(),
            why=verdict.why,
            by=verdict.by,
            choices=lasting,
            session=session,
            client=viewer.client,
            surface=viewer.surface,
            chain=call.chain.id if call.chain else "",
            request_id=call.entry.request_id,
            held_at=time_text(now),
            expires_at=time_text(until),
        )

    def _check_same(self, call: Call, binding: CallBinding) -> None:
        """Refuse a call whose approval does not fit it any more."""
        current, what = self._context.snapshot.by_name.get(call.tool.name), ""
        if current is None or current.key != call.tool.key:
            what = "its tool is gone"
        elif definition_hash(current, self._context.spec(current.server).fingerprint) != binding.definition:
            what = "the definition of its tool changed"
        elif self.policy.version != call.rules_version:
            what = "the rules changed"
        if what:
            raise CallNotApprovedError(call.tool.name, f"{what} after it was held. {_AGAIN}")

    # --- waiting ------------------------------------------------------------------------------------------

    async def _hold(self, call: Call, held: HeldCall) -> None:
        """Wait until a call may be made. Of a chain, no time passes meanwhile."""
        waiter, started = self._inbox.enter(held), time.perf_counter()
        try:
            held = await self._begin(call, waiter)
            seconds = (datetime.fromisoformat(held.expires_at) - self._store.clock()).total_seconds()
            call.caller.note_held(held)
            with call.chain.paused() if call.chain else nullcontext():
                async with Background() as background:
                    background.start(self._ask, call, held)
                    background.start(self._report, call, held)
                    with anyio.move_on_after(seconds):
                        await waiter.settled.wait()
            if not waiter.settled.is_set():
                await self._inbox.expire([held])
                waiter.settle((await self._store.states([held.id])).get(held.id, "expired"))
        finally:
            held_id = waiter.held.id if waiter.is_stored else ""
            call.entry.note_wait((time.perf_counter() - started) * 1_000, held_id)
            self._inbox.exit(waiter)
            call.caller.note_held(replace(waiter.held, state=waiter.state))
            self._announce()
        if waiter.state not in ("approved", "used") or not await self._store.use(held.id):
            raise CallNotApprovedError(held.name, await self._why_not(held))

    async def _begin(self, call: Call, waiter: Waiter) -> HeldCall:
        """Put a call into the audit trail and the inbox, or let it join an equal one whose client left."""
        try:
            while (left := self._inbox.take_left(waiter.held.binding.digest)) is not None:
                if await self._join(call, waiter, left):
                    break
            else:
                await self._add(call, waiter)
        except (AuditError, StoreAwayError, BusyError):
            waiter.settle("expired")  # it is not in the inbox, so nothing is left there
            raise
        held = waiter.held
        log.info("a call waits for a person", call=held.id, tool=held.name, until=held.expires_at)
        self._announce()
        return held

    async def _join(self, call: Call, waiter: Waiter, left: HeldCall) -> bool:
        """Wait with a call whose client left, under its id; false if it does not wait any more.

        The inbox then has the call once, and neither caller's time is cut short. A person may have read the
        call of another session. So after another session joined, it can only be approved or refused alone.
        """
        held = waiter.held
        until = max(held.expires_at, left.expires_at)
        allowed = left.choices if held.session == left.session else _alone(left.choices)
        choices = tuple(one for one in held.choices if one in allowed)
        joined = replace(held, id=left.id, held_at=left.held_at, expires_at=until, choices=choices)
        with anyio.CancelScope(shield=True):  # what is in the database is also in the inbox
            try:
                if not await self._store.join(joined):  # a person decided meanwhile
                    await self._inbox.expire([left])
                    return False
                await self._record_held(call, joined)
                self._inbox.join(waiter, joined)
            except MaitredError:
                self._inbox.give_back(left)
                raise
        return True

    async def _add(self, call: Call, waiter: Waiter) -> None:
        """Put a call into the audit trail and into the inbox."""
        held = waiter.held
        if await self._store.is_full(held.binding.principal):
            raise _busy(held)
        await self._record_held(call, held)
        with anyio.CancelScope(shield=True):  # what is in the database is also in the inbox
            if not await self._store.add(held):  # the last place was taken meanwhile
                self._note(_ITSELF, "call.expire", held, outcome=BusyError.code)
                raise _busy(held)
            self._inbox.begin(waiter)

    def _announce(self) -> None:
        for listener in self._listeners:
            listener()

    async def _why_not(self, held: HeldCall) -> str:
        now = await self._store.get(held.id)
        if now is not None and now.state == "refused":
            return "a person refused it. Do not make it again unasked."
        if now is not None and now.state == "used":
            return f"its approval was used for another call that is equal. {_AGAIN}"
        if now is not None and now.decided_by:
            until = clock_text(now.expires_at)
            return f"a person approved it, but too late: its approval ended at {until}. {_AGAIN}"
        until = clock_text(held.expires_at)
        return (
            f"it waited for a person until {until}, since {held.why}, and no person decided."
            f" {_who_decides(held)} {_AGAIN}"
        )

    async def _ask(self, call: Call, held: HeldCall) -> None:
        """Ask the person at the client if that person may decide, else announce the call to operators."""
        question = question_of(held) if held.by == "caller" else None
        try:
            if question is not None:
                check_askable(ELICIT, question, call.caller.capabilities)
                answer = await call.caller.ask(ELICIT, question)
                await self._decide(
                    held, decision_of(answer, held), call.viewer, "by the person at the client"
                )
                return
        except CallerRefusedError as error:
            log.debug("the client did not ask its user", call=held.id, reason=error.message)
        except DecisionError as error:  # it was decided elsewhere, so nothing is to be announced
            log.debug("the answer of a client comes too late", call=held.id, reason=error.reason)
            return
        except StoreError as error:  # to be decided elsewhere
            log.warning("the answer of a client does not count", call=held.id, reason=error.reason)
        except Exception as error:  # noqa: BLE001  # whatever a client does, the call waits in the inbox
            log.warning("a client could not be asked", call=held.id, reason=repr(error))
        if self.policy.settings.webhook and self._background.is_open:
            self._background.start(self._notify_of, held)

    async def _notify_of(self, held: HeldCall) -> None:
        await self._notify(held, self.policy.settings)

    async def _report(self, call: Call, held: HeldCall) -> None:
        """Report to a client that wants progress that the call waits; the steps are too small to matter."""
        caller, number = call.caller, 0
        text = f"waits for a person until {clock_text(held.expires_at)}: `maitred calls show {held.id}`"
        while caller.wants_progress:
            number += 1
            try:
                await caller.progress(number * _STEP, None, text)
            except Exception as error:  # noqa: BLE001  # the client may have gone; its call notices that
                log.debug("a report was not delivered", reason=repr(error))
            await anyio.sleep(_REPORT_S)

    @property
    def waiting_here(self) -> int:
        """How many calls of this process wait."""
        return len(self._inbox)

    # --- decisions ----------------------------------------------------------------------------------------

    def decides(self, viewer: Viewer) -> bool:
        """Whether there is a server on whose calls a viewer may decide."""
        servers = self._context.settings.servers
        return any(not self._access.why_not(viewer, "approve", server=name) for name in servers)

    async def waiting(self, viewer: Viewer) -> Sequence[HeldCall]:
        """The calls that wait and that a viewer may decide on, the oldest first.

        Raises:
            NotAllowedError: The viewer may decide on none.
            StoreError: They cannot be read.
        """
        if not self.decides(viewer):
            self._access.check(viewer, "approve")
        found = await self._store.waiting()
        return [
            _as_offered(one, viewer)
            for one in found
            if not self._access.why_not(viewer, "approve", server=one.binding.server)
        ]

    async def get(self, held_id: str, viewer: Viewer) -> HeldCall:
        """One call that waits or did; its `choices` are those that the viewer has.

        Raises:
            HeldCallNotFoundError: There is none of this id.
            NotAllowedError: The viewer may not decide on it.
            StoreError: It cannot be read.
        """
        held = await self._store.get(held_id)
        if held is None:
            await self.waiting(viewer)  # raises if the viewer may decide on none
            raise HeldCallNotFoundError(held_id)
        self._access.check(viewer, "approve", server=held.binding.server)
        return _as_offered(held, viewer)

    async def decide(self, held_id: str, decision: CallDecision, viewer: Viewer) -> HeldCall:
        """Decide on a call that waits.

        Raises:
            HeldCallNotFoundError: There is none of this id.
            NotAllowedError: The viewer may not decide on it.
            DecisionError: It does not wait any more, or cannot be decided like this.
            StoreError: The decision cannot be written.
        """
        held = await self.get(held_id, viewer)
        if _is_own(held, viewer) and decision != "refuse":
            self._note(viewer, "call.approve", held, outcome=NotAllowedError.code)
            raise NotAllowedError("a principal cannot approve its own call")
        await self._decide(held, decision, viewer, "")
        try:
            now = await self._store.get(held_id)
        except StoreError:  # it is decided all the same
            now = None
        state: HeldState = "refused" if decision == "refuse" else "approved"
        return now or replace(held, state=state, decision=decision, decided_by=viewer.principal)

    async def refuse_all(self, principal: str, viewer: Viewer) -> int:
        """Refuse all calls of a principal that wait, for a viewer who may suspend it; returns how many.

        Raises:
            StoreError: They cannot be read, or a decision cannot be written.
        """
        count = 0
        for held in await self._store.waiting():
            if held.binding.principal == principal:
                with suppress(DecisionError):  # a person was faster
                    await self._decide(held, "refuse", viewer, "since the principal is suspended")
                    count += 1
        return count

    async def _decide(self, held: HeldCall, decision: CallDecision, viewer: Viewer, how: str) -> None:
        if decision not in held.choices:
            raise DecisionError(
                held.id, f"it can be decided as {one_of(held.choices)}, not {quote_input(decision)}"
            )
        action = "call.refuse" if decision == "refuse" else "call.approve"
        said = f"held call {held.id} of {held.binding.principal!r}: {decision}"
        detail = f"{said}, {how}" if how else said
        server, tool = held.binding.server, held.binding.tool
        with anyio.CancelScope(shield=True):  # what was decided is also recorded
            if await self._store.decide(held.id, decision, viewer.principal):
                try:
                    await self._auditing.record(
                        viewer, action, server=server, tool=tool, detail=detail, held=held.id
                    )
                except StoreError as error:  # the trail keeps the line, and writes it later
                    log.warning("a decision is not in the audit trail yet", call=held.id, reason=error.reason)
                self._inbox.hint()
                return
        now = await self._store.get(held.id)
        state = now.state if now else "gone"
        by = f" (decided by {now.decided_by!r})" if now and now.decided_by else ""
        raise DecisionError(held.id, f"it does not wait any more; it is {state}{by}")

    # --- the audit trail ----------------------------------------------------------------------------------

    async def _record_held(self, call: Call, held: HeldCall) -> None:
        bound = held.binding
        detail = f"held call {held.id} until {held.expires_at}: {held.why}"
        try:
            await self._auditing.record(
                call.viewer,
                "call.hold",
                server=bound.server,
                tool=bound.tool,
                arguments=call.arguments,
                outcome="held",
                detail=detail,
                request_id=held.request_id,
                chain_id=held.chain,
                held=held.id,
            )
        except StoreAwayError as error:
            raise away_error(error) from error
        except StoreError as error:
            raise AuditError(error.reason, advice=error.advice) from error

    def _note_expired(self, held: HeldCall) -> None:
        self._note(_ITSELF, "call.expire", held, outcome="expired")

    def _note(self, who: Viewer | str, action: str, held: HeldCall, *, outcome: str) -> None:
        about: dict[str, Any] = {
            "server": held.binding.server,
            "tool": held.binding.tool,
            "detail": f"held call {held.id} of {held.binding.principal!r}",
            "outcome": outcome,
            "held": held.id,
        }
        if isinstance(who, Viewer):
            self._auditing.note(who, action, **about)
        else:
            self._auditing.note_act(AuditEntry(who=who, action=action, **about))


def _is_own(held: HeldCall, viewer: Viewer) -> bool:
    """Whether a viewer is the one who calls, and not the local user, who is the person itself."""
    return viewer.principal != LOCAL and viewer.principal == held.binding.principal


def _as_offered(held: HeldCall, viewer: Viewer) -> HeldCall:
    """A call with the choices that a viewer has."""
    return replace(held, choices=("refuse",)) if _is_own(held, viewer) else held


def _alone(choices: Sequence[CallDecision]) -> tuple[CallDecision, ...]:
    """Those of some decisions that are about one call alone."""
    return tuple(one for one in choices if one in ("once", "refuse"))


def _busy(held: HeldCall) -> BusyError:
    reason = f"{MOST_WAITING} calls of {held.binding.principal!r} wait for a person already"
    return BusyError(reason, retry_in_s=_RETRY_S)


def _who_decides(held: HeldCall) -> str:
    command = "`maitred approvals` shows such calls to an operator."
    return command if held.by == "operator" else f"The person at the client may decide, too. {command}"


def _hash(parts: Sequence[str]) -> str:
    return hashlib.sha256(canonical(parts)).hexdigest()[:32]
