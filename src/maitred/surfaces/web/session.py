"""Who looks at the pages: codes that are good once, sessions in memory, and their cookies.

`maitred ui` gets a code for its user, and the first request with it gets a session; over the network a form
takes an access token, or a provider says who a person is. A session lives in the memory of the gateway, under
a hash of its id. It ends with the gateway, at its time, on leaving, and as soon as its token is revoked or
its person may do something else.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from starlette.requests import Request

from maitred.errors import MaitredError
from maitred.model.access import Grant, RefusedAccess, Role, Viewer

_COOKIE: Final = "maitred_ui"

GrantOf = Callable[[str], Awaitable[Grant | RefusedAccess]]
GrantNow = Callable[[], Awaitable[Grant | RefusedAccess]]
"""Says what a person who entered before may do now."""

CODE_S: Final = 30.0
"""For how many seconds a code is good."""
SESSION_S: Final = 12 * 3_600.0
"""After how many seconds a session ends."""
IDLE_S: Final = 2 * 3_600.0
"""After how many seconds without a request a session ends."""
_MOST_CODES: Final = 100
_MOST_SESSIONS: Final = 1_000
_MOST_SESSIONS_EACH: Final = 20
_MOST_NOTICES: Final = 10
_MOST_OUTCOMES: Final = 5

NoticeKind = Literal["done", "fault"]


@dataclass(frozen=True, kw_only=True)
class PersonNotice:
    """One sentence for the next page: what an action did, or why it did nothing."""

    text: str
    kind: NoticeKind = "done"


def cookie_name(request: Request) -> str:
    """The name of the cookie: browsers share cookies among the ports of a host, so the name has the port."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def never() -> bool:
    """What says of a value that no more is to come."""
    return False


@dataclass(frozen=True, kw_only=True)
class KeptOutcome:
    """What an action found out: its kind (see `outcomes`), its value, and whether more is to come."""

    kind: object
    value: Any
    goes_on: Callable[[], bool]


@dataclass(kw_only=True, eq=False)
class WebSession:
    """One browser of one person. `form_token` is in every form, so that no other page can send one."""

    viewer: Viewer
    began: float
    used: float
    grant_now: GrantNow | None = field(default=None, repr=False)
    until: float = float("inf")
    """When it ends in any case, by the clock of the sessions."""
    sign_out_url: str = field(default="", repr=False)
    """Where the person's session at the provider ends, if there is one."""
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    notices: list[PersonNotice] = field(default_factory=list)
    outcomes: dict[str, KeptOutcome] = field(default_factory=dict, repr=False)
    """What actions found out, by id, the oldest first."""
    ended: bool = False

    @property
    def person(self) -> tuple[str, Role]:
        """Whose session it is, for limits by person: the principal and the role."""
        return self.viewer.principal, self.viewer.grant.role

    def notify(self, text: str, kind: NoticeKind = "done") -> None:
        """Have a sentence shown on the next page."""
        self.notices = [*self.notices, PersonNotice(text=text, kind=kind)][-_MOST_NOTICES:]

    def take_notices(self) -> Sequence[PersonNotice]:
        """The sentences for this page; the next page does not have them."""
        taken, self.notices = self.notices, []
        return taken

    def keep_outcome(self, kind: object, value: Any, goes_on: Callable[[], bool] = never) -> str:
        """Keep what an action found out, and let the oldest go; returns its id.

        What goes on stays until it is complete, so who keeps such values bounds their number.
        """
        outcome_id = secrets.token_urlsafe(9)
        if self.ended:  # an action may end after its session
            return outcome_id
        self.outcomes[outcome_id] = KeptOutcome(kind=kind, value=value, goes_on=goes_on)
        complete = [key for key, one in self.outcomes.items() if key == outcome_id or not one.goes_on()]
        for key in complete[:-_MOST_OUTCOMES]:
            del self.outcomes[key]
        return outcome_id

    def close(self) -> None:
        """End the session; what it kept is dropped."""
        self.ended = True
        self.outcomes = {}

    def owns(self, form_token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


class WebSessions:
    """The codes and sessions of one gateway; `clock` counts seconds."""

    def __init__(self, grant_of: GrantOf, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._grant_of = grant_of
        self._clock = clock
        self._codes: OrderedDict[str, tuple[float, Grant, str]] = OrderedDict()
        self._sessions: OrderedDict[str, WebSession] = OrderedDict()

    def issue_code(self, grant: Grant, token: str = "") -> str:
        """A code for the bearer of a grant, which has it by `token` if it is not the local user."""
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = (self._clock() + CODE_S, grant, token)
        while len(self._codes) > _MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> str:
        """The id of a new session for a code; empty if the code is not good, or not any more."""
        until, grant, token = self._codes.pop(_hash(code), (0.0, None, ""))
        if grant is None or self._clock() > until:
            return ""
        return self.begin(grant, self._by_token(token))

    async def enter(self, token: str) -> str | RefusedAccess:
        """The id of a new session for an access token, or why it is refused.

        Raises:
            MaitredError: The token cannot be checked now.
        """
        grant = await self._grant_of(token)
        return grant if isinstance(grant, RefusedAccess) else self.begin(grant, self._by_token(token))

    def begin(
        self,
        grant: Grant,
        grant_now: GrantNow | None = None,
        *,
        lasts_s: float = float("inf"),
        sign_out_url: str = "",
    ) -> str:
        """The id of a new session; it is always a new id, whatever the browser sent.

        It ends after `lasts_s`, if not before, and as soon as `grant_now` returns something else.
        """
        session_id, now = secrets.token_urlsafe(32), self._clock()
        self._make_room(grant)
        self._sessions[_hash(session_id)] = WebSession(
            viewer=Viewer(grant=grant, surface="web"),
            grant_now=grant_now,
            began=now,
            used=now,
            until=now + lasts_s,
            sign_out_url=sign_out_url,
        )
        return session_id

    def _by_token(self, token: str) -> GrantNow | None:
        return partial(self._grant_of, token) if token else None

    def _make_room(self, grant: Grant) -> None:
        """End what is over by its time, then the oldest sessions where a principal, or all, have the most.

        Sessions of other roles do not count: who enters without a token may have the name of an admin.
        """
        now = self._clock()
        for key in [key for key, one in self._sessions.items() if _is_over(one, now)]:
            self._sessions.pop(key).close()
        who = grant.principal, grant.role
        own = [key for key, one in self._sessions.items() if one.person == who]
        for key in own[: max(len(own) - _MOST_SESSIONS_EACH + 1, 0)]:
            self._sessions.pop(key).close()
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.popitem(last=False)[1].close()

    async def find(self, session_id: str, *, used: bool = True) -> WebSession | None:
        """The session of an id, if it goes on; `used` by a person, and not by a page that looks for news."""
        session = self._sessions.get(_hash(session_id)) if session_id else None
        if session is None or not await self.goes_on(session):
            self.end(session_id)
            return None
        if used:
            session.used = self._clock()
        return session

    async def goes_on(self, session: WebSession) -> bool:
        """Whether a session has not ended: by its time, on leaving, or with its token."""
        if session.ended or _is_over(session, self._clock()):
            return False
        if session.grant_now is None:
            return True
        try:
            grant = await session.grant_now()
        except MaitredError:  # it cannot be checked now, and it was good
            return True
        if isinstance(grant, RefusedAccess):
            return grant.unavailable
        return grant == session.viewer.grant

    def end(self, session_id: str) -> WebSession | None:
        """End the session of an id, and return it."""
        if session := self._sessions.pop(_hash(session_id), None):
            session.close()
        return session


def _is_over(session: WebSession, now: float) -> bool:
    return now >= session.until or now - session.began > SESSION_S or now - session.used > IDLE_S


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
