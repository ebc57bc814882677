"""Has written down who asked for what and what came of it: calls, chains, resources, prompts, decisions.

What may change something has a line saying that it has begun before its server hears of it, and another with
its outcome before the answer leaves; if the first cannot be written, it is not done. What only reads is
written soon after. How lines are kept is the business of `maitred.audit.log`; here stands what they say.
"""

import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import anyio
import structlog

from maitred.audit.hash_chain import AuditFilter, AuditLines, Mark, Verification
from maitred.audit.log import AuditEntry, AuditLog
from maitred.config.settings import Audit
from maitred.errors import AuditError, MaitredError, NotAllowedError, StoreError
from maitred.model.access import Ability, Viewer, refusal
from maitred.model.tools import ToolCall
from maitred.wording import counted

log = structlog.get_logger(__name__)

REQUEST_KEY: Final = "maitred/request"
"""Where the `_meta` of a request or an answer has the id by which the audit trail knows it."""
SOURCE_KEY: Final = "maitred/source"
"""Where the `_meta` of an answer says whose data it is, and that it is not to be trusted."""
UNWRITTEN: Final = "maitred: the call was made, but its outcome could not be written into the audit trail."
_ID = re.compile(r"[A-Za-z0-9._:/=+@-]{1,128}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_ITSELF: Final = "maitred"
"""Who does what no person asked for."""
_NAME_CHARS = 200
_FIRST_PRUNE_S: Final = 60.0
_DAY_S: Final = 24 * 3_600.0


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """What is known of a request: who sent it, under which id, and from within which chain."""

    viewer: Viewer
    request_id: str
    chain_id: str = ""


class AuditService:
    """Writes to an audit trail, if the settings say so, and answers questions about it."""

    def __init__(self, trail: AuditLog, settings: Audit) -> None:
        self.trail = trail
        self._settings = settings
        trail.arguments = settings.arguments

    @property
    def enabled(self) -> bool:
        """Whether anything is written down."""
        return self._settings.enabled

    def use(self, settings: Audit) -> None:
        """Take over new settings; that writing stops is the last thing that is written."""
        before, self._settings = self._settings, settings
        self.trail.arguments = settings.arguments
        if before.enabled != settings.enabled:
            said = "on" if settings.enabled else "off"
            self.trail.note(
                AuditEntry(who=_ITSELF, action="audit", detail=f"turned {said} in the configuration")
            )

    # --- who may do something -----------------------------------------------------------------------------

    def require(self, viewer: Viewer, ability: Ability, *, server: str | None = None) -> None:
        """Refuse what a viewer may not do, in general or to a server, and write the refusal down.

        Raises:
            NotAllowedError: The text says why not.
        """
        if why := refusal(viewer.grant, ability, server=server):
            self.note(viewer, ability, server=server or "", outcome=NotAllowedError.code)
            raise NotAllowedError(why)

    # --- acts of persons ----------------------------------------------------------------------------------

    def note(self, viewer: Viewer, action: str, **said: Any) -> None:
        """Have an act written soon; see `record`. Never raises."""
        self.note_act(_act(viewer, action, **said))

    async def record(self, viewer: Viewer, action: str, **said: Any) -> None:
        """Write down that somebody did something, before it is answered.

        Args:
            viewer: Who.
            action: A stable word, such as `approve`, `token.create` or `mediation.accept`.
            said: More of it by the fields of `AuditEntry`: `server`, `tool` (its name there),
                `arguments` (any JSON value, kept as a hash or masked), `outcome` (`ok` unless given), `detail`, `request_id`.

        Raises:
            StoreError: It cannot be written now; it is tried again with what comes next.
        """
        if self.enabled:
            await self.trail.record(_act(viewer, action, **said))

    def note_act(self, act: AuditEntry) -> None:
        """Have an act written soon."""
        if self.enabled:
            self.trail.note(act)

    # --- requests -----------------------------------------------------------------------------------------

    def call(self, call: ToolCall, viewer: Viewer, chain_id: str = "") -> "Entry":
        """The entry of a call of a tool; to be entered when it comes in, and left with its answer."""
        about = RequestContext(
            viewer=viewer, request_id=known_id(call.request_id, call.meta), chain_id=chain_id
        )
        return self.entry(about, "call", call.name, call.arguments)

    def request(
        self,
        action: str,
        name: str,
        viewer: Viewer,
        also: Mapping[str, Any] | None = None,
        arguments: Any = None,
    ) -> "Entry":
        """The entry of another request, such as for a resource; `also` may have its `_meta`."""
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
        calls: int = 0,
        ms: float = 0.0,
        name: str = "",
    ) -> None:
        """Note that a chain has ended; every call in it has lines of its own, with the chain's id."""
        self.note(
            about.viewer, "chain", tool=name, arguments={"code": code}, outcome=outcome, ms=round(ms, 1),
            detail=counted(calls, "call"), request_id=about.request_id, chain_id=about.chain_id,
        )  # fmt: skip

    # --- the trail itself ---------------------------------------------------------------------------------

    async def latest(
        self,
        viewer: Viewer,
        *,
        since: str = "",
        who: str = "",
        tool: str = "",
        before: int = 0,
        limit: int = 50,
    ) -> AuditLines:
        """The newest lines, the newest first, of those before a number (0: of all).

        `since` is a time as `moment_of` writes it, `who` a principal, `tool` a tool by either name, or a
        server; what is empty says nothing.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        self.require(viewer, "audit")
        wanted = AuditFilter(since=since, who=who, tool=tool)
        return await self.trail.latest(wanted, before=before, limit=limit)

    async def verify(self, viewer: Viewer, known: Mark | None = None) -> Verification:
        """Whether the trail is as it was written; `known` is a head that was noted elsewhere.

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

    async def prune(self, viewer: Viewer) -> int:
        """Drop the lines older than the settings say; how many. That it was done is a line as well.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The trail cannot be written.
        """
        self.require(viewer, "configure")
        return await self._drop_old(viewer.principal)

    async def _drop_old(self, who: str) -> int:
        days = self._settings.keep_days
        return await self.trail.prune(days, who=who) if days else 0

    async def keep_up(self) -> None:
        """Drop what is too old, soon after the start and then every day; never returns."""
        await anyio.sleep(_FIRST_PRUNE_S)
        while True:
            try:
                await self._drop_old(_ITSELF)
            except StoreError as error:
                log.warning("old lines of the audit trail cannot be dropped", reason=error.reason)
            await anyio.sleep(_DAY_S)


class Entry:
    """A request to a server, from when it came in to when its answer leaves.

    `means` tells what it turned out to be for, `begin` comes before a server is asked to do something, and
    `ended` after it did. What ends with an error is written down when the entry is left.
    """

    def __init__(
        self, auditing: AuditService, about: RequestContext, action: str, asked: str, arguments: Any
    ) -> None:
        self._auditing = auditing
        self._about = about
        self._action = action
        self._asked = asked[:_NAME_CHARS]
        self._arguments = arguments
        self._server = self._name = ""
        self._begun = 0
        self._over = self._unwritten = False
        self._started = time.perf_counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._over:
            return
        if isinstance(error, MaitredError):
            await self._end(error.code)
            error.request_id = self.request_id  # last: others may have waited for the same error
        elif isinstance(error, Exception):
            await self._end("internal")
        else:
            self._auditing.note_act(self._act("cancelled"))  # nobody waits for it any more

    @property
    def request_id(self) -> str:
        """The id of the request, as it came in or as it was made here."""
        return self._about.request_id

    def means(self, server: str, name: str) -> None:
        """What was asked for has this name on this server."""
        self._server, self._name = server, name

    async def begin(self) -> None:
        """Write down that something that may change something begins.

        Raises:
            AuditError: It cannot be written, so it must not begin.
        """
        if not self._auditing.enabled:
            return
        try:
            self._begun = await self._auditing.trail.record(self._act("begun"), keep=False)
        except StoreError as error:
            raise AuditError(error.reason, advice=error.advice) from error

    async def ended(self, answer: Mapping[str, Any], *, cached: bool = False) -> None:
        """Write down what came of it."""
        asks = answer.get("resultType") == "input_required"
        outcome = "tool_error" if answer.get("isError") else "input_required" if asks else "ok"
        await self._end(outcome, cached=cached)

    def told(self, answer: dict[str, Any], *, marked: bool) -> dict[str, Any]:
        """The answer as it leaves; `marked` with the id of the request, and whose data it is."""
        if self._unwritten:
            content = answer.get("content")
            block = {"type": "text", "text": UNWRITTEN}
            answer = answer | {"content": [*(content if isinstance(content, list) else ()), block]}
        if not marked:
            return answer
        return with_marks(answer, self.request_id, {"server": self._server})

    async def _end(self, outcome: str, *, cached: bool = False) -> None:
        self._over = True
        act = self._act(outcome, cached=cached)
        if not self._begun:
            self._auditing.note_act(act)
            return
        try:
            await self._auditing.trail.record(act)
        except StoreError:
            self._unwritten = True  # it is kept for the next try; the log says why

    def _act(self, outcome: str, *, cached: bool = False) -> AuditEntry:
        about = self._about
        viewer = about.viewer
        return AuditEntry(
            who=viewer.principal,
            token=viewer.grant.id,
            client=viewer.client,
            surface=viewer.surface,
            action=self._action,
            server=self._server,
            tool=self._name,
            published="" if self._asked == self._name else self._asked,
            arguments=self._arguments,
            outcome=outcome,
            cached=cached,
            ms=0.0 if outcome == "begun" else round((time.perf_counter() - self._started) * 1_000, 1),
            request_id=about.request_id,
            chain_id=about.chain_id,
            begun=self._begun,
        )


def known_id(given: str = "", meta: Any = None) -> str:
    """The id that came with a request, if it is one that can be written down; else a new one."""
    found = given or (meta.get(REQUEST_KEY) if isinstance(meta, Mapping) else None)
    return found if isinstance(found, str) and _ID.fullmatch(found) else secrets.token_hex(8)


def mark_of(text: str) -> Mark:
    """The mark that was written down as `NUMBER:DIGEST`.

    Raises:
        ValueError: It is none.
    """
    number, colon, digest = text.partition(":")
    if not colon or not number.isdecimal() or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{text!r} is no head; `maitred audit verify` prints one as NUMBER:DIGEST")
    return Mark(seq=int(number), digest=digest)


def moment_of(time: datetime) -> str:
    """A time as lines have it; one without a zone is local."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def moment_ago(span: str) -> str:
    """The time that lies `90m`, `24h`, `7d` or `2w` before now, as lines have it; else empty."""
    found = _SPAN.fullmatch(span)
    if found is None:
        return ""
    now = datetime.now(UTC)
    back = timedelta(**{_UNITS[found[2]]: int(found[1])})
    return moment_of(now - back if back < now - _FIRST else _FIRST)


def with_marks(answer: dict[str, Any], request: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that says in `_meta` which request it answers, and that it is data of somebody else."""
    meta = answer.get("_meta")
    marks = {REQUEST_KEY: request, SOURCE_KEY: {**source, "trusted": False}}
    return answer | {"_meta": {**(meta if isinstance(meta, Mapping) else {}), **marks}}


def _act(viewer: Viewer, action: str, **said: Any) -> AuditEntry:
    who = AuditEntry(
        who=viewer.principal,
        token=viewer.grant.id,
        client=viewer.client,
        surface=viewer.surface,
        action=action,
    )
    return replace(who, **said)
