"""Store held calls and the decisions about them.

Every change of a state is one conditional statement, so of several processes one makes it: a call is decided
once, and an approval for one call is used at most once. A gateway that holds calls says from time to time
that it lives; the waiting calls of one that does not are expired. Arguments are dropped as soon as neither a
decision nor a call needs them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from maitred.model.held_calls import CallBinding, CallDecision, HeldCall, HeldState
from maitred.storage.database import Database, WriteOptions

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

_SAFE: Final = WriteOptions(durable=True)
_KEPT: Final = timedelta(days=90)
_CLEANED_EVERY: Final = timedelta(minutes=1)
ALIVE: Final = timedelta(seconds=30)
"""For how long a gateway says that it lives."""
GRACE: Final = timedelta(seconds=30)
"""How long an approval for one call lasts at least, so that one in the last moment still counts."""
SESSION: Final = timedelta(hours=8)
"""How long an approval for a session lasts, if the session does."""
MOST_WAITING: Final = 32
"""How many calls of a principal may wait at once."""

_BOUND: Final = ("principal", "server", "tool", "definition", "policy")
_TEXTS: Final = (
    "id", "name", "arguments", "why", "session", "client", "surface", "chain", "request_id", "held_at",
    "expires_at", "state", "decision", "decided_by", "decided_at",
)  # fmt: skip
_OF_CLIENT: Final = ("session", "client", "surface", "chain", "request_id", "choices", "expires_at")
"""What another client that makes the same call changes of it."""
_CLIENT_CHARACTERS: Final = 200


def _now() -> datetime:
    return datetime.now(UTC)


class HeldCallStore:
    """The held calls in a database, whose tables exist already; `gateway` names this process.

    Every method raises `StoreError` if the database cannot be read or written.
    """

    def __init__(self, database: Database, *, gateway: str, clock: Callable[[], datetime] = _now) -> None:
        self._database = database
        self._gateway = gateway
        self.clock = clock
        self._cleaned_at = datetime.min.replace(tzinfo=UTC)

    async def is_full(self, principal: str) -> bool:
        """Whether so many calls of a principal wait that no other may."""
        now = time_text(self.clock())

        def read(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.waiting_of(connection, plain(principal), now) >= MOST_WAITING

        return await self._database.read(read)

    async def add(self, held: HeldCall) -> bool:
        """Store a call that waits; false, with nothing stored, if too many of its principal wait already."""
        now = self.clock()
        row = _row(held) | {"gateway": self._gateway, "alive_until": time_text(now + ALIVE)}

        def add(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            if now - self._cleaned_at >= _CLEANED_EVERY:
                self._drop_old(connection)
                self._cleaned_at = now
            if statements.waiting_of(connection, row["principal"], time_text(now)) >= MOST_WAITING:
                return False
            statements.add(connection, row)
            return True

        return await self._database.write(add, _SAFE)

    async def join(self, held: HeldCall) -> bool:
        """Let another client wait with a call that waits already, by its id; false if it does not any more.

        The call waits until the later of the two ends, and an approval for a session is for the session of
        this client.
        """
        now, row = self.clock(), _row(held)
        values = {name: row[name] for name in _OF_CLIENT} | {"alive_until": time_text(now + ALIVE)}

        def join(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.join(connection, held.id, time_text(now), values)

        return await self._database.write(join, _SAFE)

    async def take(self, binding: CallBinding, session: str) -> str:
        """The held call whose approval covers a call already: one for its session, or for an equal call.

        The latter is used up. Returns its id; empty if there is none.
        """
        bound, now = _storable(binding), time_text(self.clock())

        def take(connection: "Connection") -> str:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            of_session = statements.use_for_session(connection, bound, session, now) if session else ""
            return of_session or statements.use_equal(connection, bound.digest, now)

        return await self._database.write(take, _SAFE)

    async def use(self, held_id: str) -> bool:
        """Whether a call that waited may be made now. An approval for one call is used up by this."""
        now = time_text(self.clock())

        def use(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.use(connection, held_id, now)

        return await self._database.write(use, _SAFE)

    async def decide(self, held_id: str, decision: CallDecision, by: str) -> bool:
        """Decide on a call that waits; false if it does not wait any more."""
        now = self.clock()
        state: HeldState = "refused" if decision == "refuse" else "approved"
        values = {"state": state, "decision": decision, "decided_by": plain(by), "decided_at": time_text(now)}
        if decision != "once":
            values |= {"arguments": ""}
        if decision in ("session", "any"):
            values |= {"expires_at": time_text(now + SESSION)}
        least = time_text(now + GRACE) if decision == "once" else ""

        def decide(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.decide(connection, held_id, time_text(now), values, least)

        return await self._database.write(decide, _SAFE)

    async def expire(self, ids: Collection[str]) -> Sequence[str]:
        """End the waiting of some calls; returns those whose state this changed, once for each."""

        def expire(connection: "Connection") -> Sequence[str]:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.expire(connection, ids)

        return await self._database.write(expire, _SAFE)

    async def leave(self) -> Sequence[str]:
        """End the waiting of all calls that this gateway holds; returns those whose state this changed."""

        def leave(connection: "Connection") -> Sequence[str]:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.expire_gateway(connection, self._gateway)

        return await self._database.write(leave, _SAFE)

    async def keep_alive(self) -> None:
        """Say that this gateway lives, and drop what is not needed any more."""
        now = self.clock()

        def keep(connection: "Connection") -> None:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            statements.keep_alive(connection, self._gateway, time_text(now + ALIVE))
            self._drop_old(connection)

        await self._database.write(keep)

    async def drop_old(self) -> None:
        """Drop what is not needed any more."""
        await self._database.write(self._drop_old)

    def _drop_old(self, connection: "Connection") -> None:
        from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

        now = self.clock()
        statements.drop_old(connection, before=time_text(now - _KEPT), now=time_text(now))

    async def states(self, ids: Collection[str]) -> Mapping[str, HeldState]:
        """The states of some calls."""
        return {one.id: one.state for one in await self._by_id(ids)}

    async def get(self, held_id: str) -> HeldCall | None:
        """One call; `None` if there is none of this id."""
        return next(iter(await self._by_id([held_id])), None)

    async def _by_id(self, ids: Collection[str]) -> Sequence[HeldCall]:
        now, wanted = time_text(self.clock()), [plain(one) for one in ids]

        def read(connection: "Connection") -> Sequence[HeldCall]:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return [_call_of(row, now) for row in statements.by_id(connection, wanted)]

        return await self._database.read(read)

    async def waiting(self) -> Sequence[HeldCall]:
        """All calls that wait, the oldest first."""
        now = time_text(self.clock())

        def read(connection: "Connection") -> Sequence[HeldCall]:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return [_call_of(row, now) for row in statements.waiting(connection, now)]

        return await self._database.read(read)

    async def is_seen(self, binding: CallBinding) -> bool:
        """Whether a person approved a call of this tool, as it is defined now, for this principal before."""
        bound = _storable(binding)

        def read(connection: "Connection") -> bool:
            from maitred.held_calls import statements  # noqa: PLC0415  # SQLAlchemy is slow to import

            return statements.is_seen(connection, bound)

        return await self._database.read(read)


def time_text(at: datetime) -> str:
    """A time as the table has it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def plain(text: str) -> str:
    """A text that every database can store."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _storable(binding: CallBinding) -> CallBinding:
    return CallBinding(**{name: plain(value) for name, value in asdict(binding).items()})


def _row(held: HeldCall) -> dict[str, Any]:
    bound = _storable(held.binding)
    texts = {name: plain(getattr(held, name)) for name in _TEXTS}
    return {
        **texts,
        **{name: getattr(bound, name) for name in _BOUND},
        "arguments_hash": bound.arguments,
        "digest": bound.digest,
        "tool_digest": bound.tool_digest,
        "decider": held.by,
        "choices": " ".join(held.choices),
        "client": texts["client"][:_CLIENT_CHARACTERS],
    }


def _call_of(row: Mapping[str, Any], now: str) -> HeldCall:
    bound = {name: row[name] for name in _BOUND}
    held = HeldCall(
        binding=CallBinding(**bound, arguments=row["arguments_hash"]),
        by=row["decider"],
        choices=tuple(row["choices"].split()),
        **{name: row[name] for name in _TEXTS},
    )
    is_lost = held.state == "waiting" and (row["alive_until"] <= now or not held.arguments)
    is_over = row["expires_at"] <= now or is_lost
    if is_over and held.state in ("waiting", "approved"):
        return replace(held, state="expired", arguments="")
    return held
