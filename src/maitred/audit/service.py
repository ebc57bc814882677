"""Decide what the audit trail says of calls, chains, resources, prompts and decisions.

An act that may change something gets two lines: `begun` before its server receives it, and the outcome before
the answer leaves. If the first cannot be written, the gateway does not do it. Acts that only read are written
soon afterwards. `maitred.audit.log` writes the lines.
"""

import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import anyio
import structlog

from maitred.audit.answers import MEBIBYTE, KeptText, text_of, tokens_of
from maitred.audit.hash_chain import ANCHOR_PREFIX, AuditFilter, AuditLines, Mark, Verification
from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.stream_store import StreamState
from maitred.config.settings import Audit
from maitred.errors import AuditError, MaitredError, NotAllowedError, StoreAwayError, StoreError
from maitred.model.access import Ability, Viewer, refusal
from maitred.model.tools import ToolCall
from maitred.wording import quote_input

log = structlog.get_logger(__name__)

REQUEST_KEY: Final = "maitred/request"
"""Key in the `_meta` of a request or an answer: the id of the request in the audit trail."""
SOURCE_KEY: Final = "maitred/source"
"""Key in the `_meta` of an answer: which server's data it is, and that it is not trusted."""
UNWRITTEN: Final = "maitred: the call was made, but its outcome could not be written into the audit trail."
_ID = re.compile(r"[A-Za-z0-9._:/=+@-]{1,128}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_ITSELF: Final = "maitred"
"""Who does what no person asked for."""
_OF_PERSONS: Final = ("cli", "web")
"""The surfaces whose answers a person reads, and no agent."""
_NAME_CHARS = 200
_MOST_SHOWN: Final = 50
"""How many names of shown tools a line has."""
_FIRST_PRUNE_S: Final = 60.0
_ANCHOR_S: Final = 1.0
_DAY_S: Final = 24 * 3_600.0
_INDEX_PAUSE_S: Final = 0.02
"""Between two steps, so that calls are not slowed down."""


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """What is known of a request: its sender, its id, and the chain or the tool of the menu that sent it."""

    viewer: Viewer
    request_id: str
    chain_id: str = ""
    via: str = ""


class AuditService:
    """Writes to an audit trail, if the settings say so, and reads it.

    `estimate` counts the tokens of an error, as the ledger does.
    """

    def __init__(self, trail: AuditLog, settings: Audit, *, estimate: Callable[[str], int]) -> None:
        self.trail = trail
        self.estimate = estimate
        self._settings = settings
        self._configure(settings)

    @property
    def enabled(self) -> bool:
        """Whether the settings turn the trail on."""
        return self._settings.enabled

    def use(self, settings: Audit) -> None:
        """Apply new settings; turning the trail off is its last line."""
        before, self._settings = self._settings, settings
        self._configure(settings)
        if before.enabled != settings.enabled:
            state = "on" if settings.enabled else "off"
            self.trail.note(
                AuditEntry(who=_ITSELF, action="audit", detail=f"turned {state} in the configuration")
            )

    def _configure(self, settings: Audit) -> None:
        self.trail.arguments = settings.arguments
        self.trail.bound_answers(most_bytes=settings.answers_mib * MEBIBYTE)

    @property
    def keeps_menu_answers(self) -> bool:
        """Whether the texts of the menu's own answers are stored."""
        return self._settings.answers != "none" and self.enabled

    @property
    def keeps_tool_answers(self) -> bool:
        """Whether the texts of the answers of tools and chains are stored."""
        return self._settings.answers == "all" and self.enabled

    def require(self, viewer: Viewer, ability: Ability, *, server: str | None = None) -> None:
        """Refuse an act that a viewer may not do, in general or to a server, and record the refusal.

        Raises:
            NotAllowedError: The viewer lacks the ability; the text says why.
        """
        if why := refusal(viewer.grant, ability, server=server):
            self.note(viewer, ability, server=server or "", outcome=NotAllowedError.code)
            raise NotAllowedError(why)

    def note(self, viewer: Viewer, action: str, **details: Any) -> None:
        """Write an act of a principal soon; takes the arguments of `record`. Never raises."""
        self.note_act(_act(viewer, action, **details))

    async def record(self, viewer: Viewer, action: str, **details: Any) -> None:
        """Write an act of a principal before its answer leaves.

        Args:
            viewer: The principal.
            action: A stable word, such as `approve`, `token.create` or `mediation.accept`.
            details: More fields of `AuditEntry`: `server`, `tool` (its name there), `arguments` (any JSON
                value, stored as a hash or masked), `outcome` (`ok` unless given), `detail`, `request_id`.

        Raises:
            StoreError: The act cannot be written now. It waits for the next attempt.
        """
        if self.enabled:
            await self.trail.record(_act(viewer, action, **details))

    def note_act(self, act: AuditEntry) -> None:
        """Write an act soon. Never raises."""
        if self.enabled:
            self.trail.note(act)

    def call(self, call: ToolCall, viewer: Viewer, chain_id: str = "") -> "Entry":
        """The entry of a tool call; enter it when the call arrives, and exit it with the answer."""
        about = RequestContext(
            viewer=viewer, request_id=known_id(call.request_id, call.meta), chain_id=chain_id, via=call.via
        )
        return self.entry(about, "call", call.name, call.arguments)

    def menu(
        self,
        viewer: Viewer,
        action: str,
        *,
        published: str = "",
        arguments: Any = None,
        outcome: str = "ok",
        ms: float = 0.0,
        tokens: int = 0,
        shown: Sequence[str] = (),
        text: str = "",
        request: ToolCall | None = None,
    ) -> None:
        """Write soon what an agent read of the menu: what it asked, and which tools it was shown."""
        if not self.enabled:
            return
        chosen = _chosen_id(request.request_id, request.meta) if request is not None else ""
        self.trail.note(
            AuditEntry(
                who=viewer.principal,
                action=action,
                token=viewer.grant.id,
                client=viewer.client,
                version=viewer.version,
                project=viewer.project,
                surface=viewer.surface,
                published=published[:_NAME_CHARS],
                arguments=arguments,
                outcome=outcome,
                ms=round(ms, 1),
                tokens=tokens,
                shown=shown[:_MOST_SHOWN],
                more=max(0, len(shown) - _MOST_SHOWN),
                answer=text if self.keeps_menu_answers else "",
                request_id=chosen,
            )
        )

    def request(
        self,
        action: str,
        name: str,
        viewer: Viewer,
        also: Mapping[str, Any] | None = None,
        arguments: Any = None,
    ) -> "Entry":
        """The entry of another request, such as for a resource; `also` may contain its `_meta`."""
        about = RequestContext(viewer=viewer, request_id=known_id("", (also or {}).get("_meta")))
        return self.entry(about, action, name, arguments)

    def entry(self, about: RequestContext, action: str, name: str, arguments: Any = None) -> "Entry":
        """The entry of any request."""
        return Entry(self, about, action, name, arguments)

    def chain(
        self,
        about: RequestContext,
        code: str,
        *,
        outcome: str,
        detail: str = "0 calls",
        ms: float = 0.0,
        name: str = "",
        tokens: int = 0,
        text: str = "",
    ) -> None:
        """Record the end of a chain; each of its calls has its own lines with the chain's id.

        `tokens` and `text` are of its answer, if an agent reads that.
        """
        self.note(
            about.viewer, "chain", tool=name, arguments={"code": code}, outcome=outcome, ms=round(ms, 1),
            detail=detail, request_id=about.request_id, chain_id=about.chain_id,
            tokens=tokens, answer=text if self.keeps_tool_answers else "",
        )  # fmt: skip

    async def latest(
        self,
        viewer: Viewer,
        *,
        since: str = "",
        who: str = "",
        client: str = "",
        project: str = "",
        server: str = "",
        tool: str = "",
        outcome: str = "",
        chain: str = "",
        held: str = "",
        before: int = 0,
        limit: int = 50,
    ) -> AuditLines:
        """The newest lines, the newest first, of those before a number (0: of all).

        `since` is a time in the form of `moment_of`, `who` a principal, `client` the name of a client,
        `project` its folder or the name of that, `tool` a `server` or either name of a tool, `outcome` one of
        the trail, or `failed`, `chain` the id of a chain or its beginning, `held` the id of a held call.
        An empty filter matches every line.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        self.require(viewer, "audit")
        criteria = AuditFilter(
            since=since,
            who=who,
            client=client,
            project=project,
            server=server,
            tool=tool,
            outcome=outcome,
            chain=chain,
            held=held,
        )
        return await self.trail.latest(criteria, before=before, limit=limit)

    async def answers(self, viewer: Viewer, digests: Sequence[str]) -> Mapping[str, KeptText]:
        """The texts of answers that are still kept, by the field `answer` of their lines.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: They cannot be read.
        """
        self.require(viewer, "audit")
        return await self.trail.answers(digests, newer_than_days=self._settings.answers_days)

    async def verify(self, viewer: Viewer, known: Mark | None = None) -> Verification:
        """Check the whole trail; `known` is a head that was saved elsewhere.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        self.require(viewer, "audit")
        return await self.trail.verify(known=known)

    def lines(self, viewer: Viewer) -> AsyncIterator[str]:
        """All lines as JSON texts with their digests, oldest first.

        Raises:
            NotAllowedError: The viewer may not audit.
        """
        self.require(viewer, "audit")
        return self.trail.lines()

    async def head(self, viewer: Viewer) -> Mark:
        """The number and digest of the newest line.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        self.require(viewer, "audit")
        return await self.trail.head()

    async def stream_states(self, viewer: Viewer) -> Mapping[str, StreamState]:
        """Where each configured destination is to which lines are sent, by name.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: That cannot be read.
        """
        self.require(viewer, "watch")
        if not self._settings.stream:
            return {}
        found = await self.trail.stream_states()
        return {name: found[name] for name in self._settings.stream if name in found}

    async def prune(self, viewer: Viewer) -> int:
        """Delete lines older than the settings allow and record that; returns how many.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The trail cannot be written.
        """
        self.require(viewer, "configure")
        return await self._drop_old(viewer.principal)

    async def _drop_old(self, who: str) -> int:
        await self.trail.prune_answers(self._settings.answers_days)
        days = self._settings.keep_days
        return await self.trail.prune(days, who=who) if days else 0

    async def keep_up(self) -> None:
        """Prune soon after the start and then daily, fill the index of filters, and anchor; never returns."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_pruned)
            tasks.start_soon(self._keep_anchored)
            tasks.start_soon(self._keep_indexed)

    async def _keep_pruned(self) -> None:
        await anyio.sleep(_FIRST_PRUNE_S)
        while True:
            try:
                await self._drop_old(_ITSELF)
            except StoreError as error:
                log.warning("old lines of the audit trail cannot be dropped", reason=error.reason)
            await anyio.sleep(_DAY_S)

    async def _keep_anchored(self) -> None:
        """Anchor the chains of all processes each second, where each has one."""
        while self.trail.has_replicas:
            try:
                await self.trail.anchor()
            except StoreError as error:  # a later anchor has these lines, too
                log.debug("the audit trail cannot be anchored", reason=error.reason)
            await anyio.sleep(_ANCHOR_S)

    async def _keep_indexed(self) -> None:
        """Index lines that were written before soon after the start, and then whenever there are many."""
        with anyio.move_on_after(_FIRST_PRUNE_S):
            await self.trail.index_due()
        while True:
            try:
                await self._index_all()
            except StoreError as error:  # filters look at more lines until then
                log.debug("the audit trail cannot be indexed", reason=error.reason)
            await anyio.sleep(_INDEX_PAUSE_S)
            await self.trail.index_due()

    async def _index_all(self) -> None:
        is_more = True
        while is_more:
            is_more = await self.trail.index()
            await anyio.sleep(_INDEX_PAUSE_S)


class Entry:
    """A request to a server, from its arrival until its answer leaves.

    `means` sets the server's name for it, `begin` comes before the server receives it, and `ended` after the
    server has answered. Of a call, `answered` fixes the outcome earlier than `written` records it, which
    knows what the caller reads. A request that fails is recorded when the entry exits.
    """

    def __init__(
        self, auditing: AuditService, about: RequestContext, action: str, name: str, arguments: Any
    ) -> None:
        self._auditing = auditing
        self._about = about
        self._action = action
        self._requested_name = name[:_NAME_CHARS]
        self._arguments = arguments
        self._server = self._name = ""
        self._begun_line = 0
        self._over = self._unwritten = False
        self._questions: list[str] = []
        self._answered: tuple[str, bool] | None = None
        self._waited_ms = 0.0
        self._held = ""
        self._started_at = time.perf_counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self.failed(error)

    async def failed(self, error: BaseException) -> None:
        """Record that the request ends with an error, unless its outcome is recorded already."""
        if self._over:
            return
        if self._answered is not None:  # a step failed after the server had answered
            await self.written()
        elif isinstance(error, MaitredError):
            await self._end_with(error)
            error.request_id = self.request_id  # last, since several requests may share this error
        elif isinstance(error, Exception):
            await self._end("internal")
        else:
            self._auditing.note_act(self._act("cancelled"))  # the caller no longer waits

    async def _end_with(self, error: MaitredError) -> None:
        """Record a refusal or a fault; what an agent reads of it is its text."""
        text = "" if self._about.chain_id or self._action != "call" else str(error)
        kept = text if self._auditing.keeps_tool_answers else ""
        await self._end(error.code, tokens=self._auditing.estimate(text), text=kept)

    @property
    def request_id(self) -> str:
        """The id of the request: the caller's own, or a new one."""
        return self._about.request_id

    @property
    def server(self) -> str:
        """The server of what was asked for; empty until that is known."""
        return self._server

    @property
    def unwritten(self) -> bool:
        """Whether the outcome of a change could not be written down; the caller must hear of it."""
        return self._unwritten

    def means(self, server: str, name: str) -> None:
        """Set the server and the name that the tool, resource or prompt has there."""
        self._server, self._name = server, name

    def note_question(self, method: str) -> None:
        """Note for the line of the outcome that the server asked its caller; the question is not recorded."""
        if method not in self._questions:
            self._questions.append(method)

    def note_wait(self, ms: float, held_id: str) -> None:
        """Note for the line of the outcome how long the request waited for a person, as which held call."""
        self._waited_ms += ms
        self._held = held_id

    async def begin(self) -> None:
        """Record that an act begins which may change something.

        Raises:
            AuditError: It cannot be recorded, so it must not begin.
            StoreAwayError: The same, since the server of the database is away.
        """
        if not self._auditing.enabled:
            return
        try:
            self._begun_line = await self._auditing.trail.record(self._act("begun"), keep=False)
        except StoreAwayError as error:
            raise away_error(error) from error
        except StoreError as error:
            raise AuditError(error.reason, advice=error.advice) from error

    async def ended(self, answer: Mapping[str, Any], *, cached: bool = False) -> None:
        """Record the outcome."""
        self.answered(answer, cached=cached)
        await self.written()

    def answered(self, answer: Mapping[str, Any], *, cached: bool = False) -> None:
        """Fix the outcome by the answer as it is now; `written` records it."""
        asks = answer.get("resultType") == "input_required"
        outcome = "tool_error" if answer.get("isError") else "input_required" if asks else "ok"
        self._answered = outcome, cached

    async def written(self, answer: Mapping[str, Any] | None = None) -> None:
        """Record the outcome, with the answer as the caller reads it; `None` if the caller gets another."""
        if self._answered is None:
            return
        outcome, cached = self._answered
        if answer is None or self._about.chain_id:  # a program reads it, and the agent reads the program's
            await self._end(outcome, cached=cached)
            return
        text = text_of(answer) if self._auditing.keeps_tool_answers else ""
        await self._end(outcome, cached=cached, tokens=tokens_of(answer), text=text)

    async def _end(self, outcome: str, *, cached: bool = False, tokens: int = 0, text: str = "") -> None:
        self._over = True
        act = self._act(outcome, cached=cached, tokens=tokens, text=text)
        if not self._begun_line:
            self._auditing.note_act(act)
            return
        try:
            await self._auditing.trail.record(act)
        except StoreError:
            self._unwritten = True  # the line waits for the next attempt; the log has the reason

    def _act(self, outcome: str, *, cached: bool = False, tokens: int = 0, text: str = "") -> AuditEntry:
        about = self._about
        viewer = about.viewer
        return AuditEntry(
            who=viewer.principal,
            token=viewer.grant.id,
            client=viewer.client,
            version=viewer.version,
            project=viewer.project,
            surface=viewer.surface,
            action=self._action,
            server=self._server,
            tool=self._name,
            published="" if self._requested_name == self._name else self._requested_name,
            via=about.via,
            arguments=self._arguments,
            outcome=outcome,
            cached=cached,
            detail=f"the server asked for {', '.join(self._questions)}" if self._questions else "",
            ms=0.0 if outcome == "begun" else round((time.perf_counter() - self._started_at) * 1_000, 1),
            waited_ms=0.0 if outcome == "begun" else round(self._waited_ms, 1),
            tokens=0 if viewer.surface in _OF_PERSONS else tokens,
            answer=text,
            request_id=about.request_id,
            chain_id=about.chain_id,
            held=self._held,
            begun=self._begun_line,
        )


def known_id(own: str = "", meta: Any = None) -> str:
    """The id that came with a request, if it is a valid one; else a new id."""
    return _chosen_id(own, meta) or _new_id()


def _chosen_id(own: str, meta: Any) -> str:
    """The id that came with a request; empty if none did, or an invalid one."""
    request_id = own or (meta.get(REQUEST_KEY) if meta and isinstance(meta, Mapping) else None)
    return request_id if isinstance(request_id, str) and _ID.fullmatch(request_id) else ""


def _new_id() -> str:
    return f"{random.getrandbits(64):016x}"  # it identifies, and protects nothing


def away_error(error: StoreAwayError) -> StoreAwayError:
    """Why a call was not made while the server of the database is away."""
    reason = f"{error.reason}. The call was not made, since what may change something is recorded first"
    return StoreAwayError(error.path, reason, advice="Reads go on; try again later.")


def mark_of(text: str) -> Mark:
    """Parse a mark that was written as `NUMBER:DIGEST` or `anchor-NUMBER:DIGEST`.

    Raises:
        ValueError: The text is no mark.
    """
    number, colon, digest = text.removeprefix(ANCHOR_PREFIX).partition(":")
    if not colon or not number.isdecimal() or not _DIGEST.fullmatch(digest):
        raise ValueError(
            f"{quote_input(text)} is no head; `maitred audit verify` prints one as NUMBER:DIGEST"
        )
    return Mark(seq=int(number), digest=digest, is_anchor=text.startswith(ANCHOR_PREFIX))


def moment_of(time: datetime) -> str:
    """A time in the form that lines use; one without a zone is local."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def moment_ago(span: str) -> str:
    """The time `90m`, `24h`, `7d` or `2w` before now, in the form that lines use; else empty."""
    match = _SPAN.fullmatch(span)
    if match is None:
        return ""
    now = datetime.now(UTC)
    back = timedelta(**{_UNITS[match[2]]: int(match[1])})
    return moment_of(now - back if back < now - _FIRST else _FIRST)


def origin_marks(request_id: str, source: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the `_meta` of an answer says of its origin: the request, and that it is data of others."""
    return {REQUEST_KEY: request_id, SOURCE_KEY: {**source, "trusted": False}}


def _act(viewer: Viewer, action: str, **details: Any) -> AuditEntry:
    return AuditEntry(
        who=viewer.principal, token=viewer.grant.id, client=viewer.client, version=viewer.version,
        project=viewer.project, surface=viewer.surface, action=action, **details,
    )  # fmt: skip
