"""Write the audit trail: append-only lines in the catalog's database, chained by hashes.

`record` returns when the line survives the end of this process; changes use it before their answer leaves.
`note` costs almost nothing and is written soon after; reads use it. Both keep the order of calls, and waiting
lines share a transaction. Arguments are stored as a hash, or in full with their secrets masked. Texts of
answers are stored beside the lines, if at all. The database opens with the first line.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Self

import anyio

from maitred.audit import answers, hash_chain, replica_chain, stream_store, trail_check
from maitred.audit.answers import AnswerTexts, KeptText
from maitred.audit.hash_chain import AuditFilter, AuditLines, Mark, Verification
from maitred.audit.masking import mask_value
from maitred.audit.stream_store import StreamState
from maitred.errors import StoreError
from maitred.model.tools import canonical
from maitred.storage.batch import BatchWriter
from maitred.storage.database import Database, DriverConnection, WriteOptions
from maitred.storage.leader import Fence, Jobs
from maitred.wording import count_of

KeptArguments = Literal["hash", "full", "none"]
_LEAVE_S: Final = 12.0
_CLOSE_S: Final = 2.0
_MAX_WAITING: Final = 20_000
_MAX_ARGUMENTS: Final = 20_000
_MAX_WAITING_TEXT: Final = 4_000_000
"""Characters of answers that may wait; the lines of further ones have no text."""
_MOST_UNINDEXED: Final = 2_000
"""So many lines are read one by one before they are indexed: most processes never write as many."""
_PATIENCE: Final = WriteOptions(wait_s=2.0)
_BARRIER: Final = WriteOptions(lane="barrier")
_OTHERS_S: Final = 30.0
"""How long pruning waits for another process that prunes."""
_SHARED: Final = "commands"
"""The replica of processes without a name, such as single commands: they write one after the other."""


def _now() -> datetime:
    return datetime.now(UTC)


class AuditEntry(NamedTuple):
    """One act of a principal. `tool` is the name that the tool, prompt or resource has on its server.

    Args:
        token: The id of the token that allowed it.
        client: What the client calls itself, unverified.
        version: The version that the client says it has.
        project: The folder that the client works in, where its program said that.
        published: The name in the request, if it is not `tool`.
        via: The tool of the menu by which a tool was called.
        action: A stable word, such as `call` or `approve`.
        outcome: `ok`, `begun`, or an error code.
        detail: More about the outcome, in words.
        arguments: Any JSON value.
        ms: How long it took, with the time that it waited for a person.
        waited_ms: How much of that it waited for the decision of a person.
        tokens: What an agent read of the answer, estimated.
        shown: The published names of tools in an answer of the menu, in their order.
        more: How many further names the answer has.
        answer: The text that the agent read; the line has its digest. Empty if it is not to be kept.
        held: The id of the held call that it is, or that was decided by it.
        begun: The number of the line that recorded the start of this act; 0 if there is none.
    """

    who: str
    action: str
    token: str = ""
    client: str = ""
    version: str = ""
    project: str = ""
    surface: str = ""
    server: str = ""
    tool: str = ""
    published: str = ""
    via: str = ""
    arguments: Any = None
    outcome: str = "ok"
    detail: str = ""
    cached: bool = False
    ms: float = 0.0
    waited_ms: float = 0.0
    tokens: int = 0
    shown: Sequence[str] = ()
    more: int = 0
    answer: str = ""
    request_id: str = ""
    chain_id: str = ""
    held: str = ""
    begun: int = 0


@dataclass(kw_only=True, slots=True, eq=False)
class _Waiting:
    """A line that is not written yet; `seq` is its number afterwards, `answer` the text beside it."""

    line: Mapping[str, Any]
    answer: str = ""
    seq: int = 0


class AuditLog(anyio.AsyncContextManagerMixin):
    """The audit trail in a database, whose tables exist already.

    With `key`, hashes of lines and arguments are HMACs: access to the database alone is then not enough to
    forge a line, or to guess arguments. `flush_every_s` is how long a note may wait. For one event loop;
    several processes may write to the same trail. If the database lets them write together, each has a chain
    of its own, named `replica`; processes without a name share one.
    """

    def __init__(
        self,
        database: Database,
        *,
        key: bytes = b"",
        arguments: KeptArguments = "hash",
        clock: Callable[[], datetime] = _now,
        flush_every_s: float = 0.5,
        replica: str = "",
    ) -> None:
        self._database = database
        self._key = key
        self._replica = replica or _SHARED
        self._is_alone = not replica
        self._has_joined = False
        self._texts = AnswerTexts(key)
        self._waiting_text = 0
        self.arguments: KeptArguments = arguments
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._lost_count = 0
        self._unindexed = 0
        self._index_due = anyio.Event()
        self._lock = anyio.Lock()
        self._writer = database.quick_writer()
        self._batches = BatchWriter(
            self._flush,
            pause_s=flush_every_s,
            leave_s=_LEAVE_S,
            warning="the audit trail cannot be written; it is kept in memory",
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        try:
            async with self._batches:
                yield self
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True), suppress(StoreError):
                if self._has_joined:
                    await self.anchor()
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._writer.close()

    def note(self, act: AuditEntry) -> None:
        """Write an act soon. Never raises; if too many acts wait, the oldest are dropped and counted."""
        self._add(act)
        self._batches.wake()

    async def record(self, act: AuditEntry, *, keep: bool = True) -> int:
        """Write an act after all acts that wait; returns the number of its line.

        Raises:
            StoreError: The act cannot be written now. It waits for the next attempt, unless `keep` is false.
        """
        waiting = self._add(act)
        try:
            await self._flush(waiting)
        except BaseException:
            if not keep and waiting in self._waiting:
                self._waiting.remove(waiting)
            self._batches.wake()  # cancelled or failed: the background task tries again
            raise
        return waiting.seq

    def _add(self, act: AuditEntry) -> _Waiting:
        waiting = _Waiting(line=self._line(act))
        if act.answer and self._waiting_text + len(act.answer) <= _MAX_WAITING_TEXT:
            waiting.answer = act.answer[: answers.MOST_CHARACTERS + 1]
            self._waiting_text += len(waiting.answer)
        self._waiting.append(waiting)
        self._drop_excess()
        return waiting

    def _drop_excess(self) -> None:
        if (excess := len(self._waiting) - _MAX_WAITING) > 0:
            self._waiting_text -= sum(len(waiting.answer) for waiting in self._waiting[:excess])
            del self._waiting[:excess]
            self._lost_count += excess

    def _line(self, act: AuditEntry) -> Mapping[str, Any]:
        line: dict[str, Any] = {"at": self._time()}
        line.update([item for item in zip(AuditEntry._fields, act, strict=True) if item[1]])
        line.pop("arguments", None)
        line.pop("answer", None)
        line.update(self._kept_arguments(act.arguments))
        return line

    def _kept_arguments(self, arguments: Any) -> dict[str, Any]:
        if arguments is None or self.arguments == "none":
            return {}
        try:
            data = canonical(arguments)
        except RecursionError:  # refused arguments may be of any depth
            return {"arguments_hash": "nested too deep"}
        digest = (
            hmac.digest(self._key, data, "sha256").hex() if self._key else hashlib.sha256(data).hexdigest()
        )
        if self.arguments == "hash" or len(data) > _MAX_ARGUMENTS:
            return {"arguments_hash": digest, "arguments_bytes": len(data)}
        return {"arguments_hash": digest, "arguments": mask_value(arguments)}

    def _time(self) -> str:
        now = self._clock()
        return (now if now.tzinfo is UTC else now.astimezone(UTC)).isoformat(timespec="milliseconds")

    async def _flush(self, target: _Waiting | None = None) -> None:
        """Write all acts that wait, unless another task has already written the wanted one."""
        async with self._lock:
            if (target.seq > 0) if target else not self._waiting:
                return
            acts, self._waiting, lost_count = self._waiting, [], self._lost_count
            lines = [*self._lost_line(lost_count), *(waiting.line for waiting in acts)]
            has_texts = any(waiting.answer for waiting in acts)
            write = partial(self._write_with_texts if has_texts else self._write, lines, acts)
            is_small = not has_texts and not (self.has_replicas and self._is_alone)
            numbers: Sequence[int] = ()
            try:
                with anyio.CancelScope(shield=True):  # whether it was written has to be known
                    await self._join()
                    numbers = await self._writer.write(write, rows=len(lines), is_small=is_small)
            finally:
                if numbers:
                    self._lost_count -= lost_count
                    self._waiting_text -= sum(len(waiting.answer) for waiting in acts)
                    for number, waiting in zip(numbers[len(lines) - len(acts) :], acts, strict=True):
                        waiting.seq = number
                    self._note_unindexed(self._unindexed + len(lines))
                else:
                    self._waiting[:0] = acts
                    self._drop_excess()
        if target and not target.seq:
            raise StoreError(self._database.name, "too much waits to be written")

    def _write(
        self, lines: Sequence[Mapping[str, Any]], _: Sequence[_Waiting], connection: DriverConnection
    ) -> Sequence[int]:
        """Write lines; returns their numbers."""
        if self.has_replicas:
            return replica_chain.append(connection, lines, self._key, self._replica)
        first = hash_chain.append(connection, lines, self._key)
        return range(first, first + len(lines))

    def _write_with_texts(
        self, lines: Sequence[Mapping[str, Any]], acts: Sequence[_Waiting], connection: DriverConnection
    ) -> Sequence[int]:
        """Write lines, with the texts beside those of the acts, which are the last; masking takes a while."""
        texts = [(act.line["at"], act.answer) for act in acts if act.answer]
        digests = iter(self._texts.add(connection, texts))
        lost = lines[: len(lines) - len(acts)]
        with_texts = [{**act.line, "answer": next(digests)} if act.answer else act.line for act in acts]
        return self._write([*lost, *with_texts], acts, connection)

    def _lost_line(self, count: int) -> Sequence[Mapping[str, Any]]:
        detail = f"lost {count_of(count, 'act')}: the file could not be written for too long"
        return [{"at": self._time(), "who": "maitred", "action": "lose", "detail": detail}] if count else []

    async def prune(self, older_than_days: int, *, who: str) -> int:
        """Delete lines older than so many days and record that; returns how many. The rest stays valid."""
        at = self._before(older_than_days)
        note = {"at": self._time(), "who": who, "action": "prune", "outcome": "ok"}
        total, count = 0, hash_chain.MOST_DROPPED
        async with Jobs(self._database).run("prune the audit trail", wait_s=_OTHERS_S) as fence:
            while fence is not None and count == hash_chain.MOST_DROPPED:
                async with self._lock:
                    with anyio.CancelScope(shield=True):
                        count = await self._prune_some(at, note, fence)
                total += count
        return total

    async def _prune_some(self, at: str, note: Mapping[str, Any], fence: Fence) -> int:
        def prune(connection: DriverConnection) -> int:
            fence.check(connection)
            if self.has_replicas:
                return replica_chain.prune(connection, at, note, self._key, self._replica)
            return hash_chain.prune(connection, at, note, self._key)

        if not self.has_replicas:
            return await self._writer.write(prune, rows=1, is_small=False)
        await self._join()
        return await self._database.write_driver(prune, _BARRIER)

    async def head(self) -> Mark:
        """The last line of the trail, or its last anchor if processes have chains of their own.

        An operator who saves it elsewhere can prove later with `verify` that the trail was not rewritten.
        """
        if self.has_replicas:
            await self.anchor()
            return replace(
                await self._database.read_driver(
                    lambda connection: hash_chain.mark(connection, replica_chain.ANCHORS)
                ),
                is_anchor=True,
            )
        return await self._database.read_driver(lambda connection: hash_chain.mark(connection, "head"))

    async def verify(self, *, known: Mark | None = None) -> Verification:
        """Check that no line was changed, removed, moved or cut off; `known` is a head saved before."""
        if self.has_replicas:
            with suppress(StoreError):  # then the newest lines are not anchored yet
                await self.anchor()
        found = await self._database.read_driver(
            lambda connection: trail_check.verify(connection, self._key, known)
        )
        if found.unindexed:  # the index is derived from the lines, so they are what counts
            with suppress(StoreError):
                await self._database.write_driver(hash_chain.forget_index, _PATIENCE)
            self._index_due.set()
        return found

    async def lines(self, *, after: int = 0) -> AsyncIterator[str]:
        """The lines after a number as JSON objects, oldest first, each with its `digest` at the end.

        The digest is that of the line without `,"digest":"..."`. Anchors follow the lines, if there are some.
        """
        anchored = (await self.head()).seq if self.has_replicas else 0
        last = await self._settled_newest()
        while page := await self._database.read_driver(partial(_page, after)):
            for seq, _, body, digest in page:
                if seq <= last:
                    yield trail_check.export_line(body, digest)
            after = page[-1][0]
        after = -1
        while anchored and (page := await self._database.read_driver(partial(_anchor_page, after))):
            for seq, _, body, digest in page:
                if seq <= anchored:
                    yield trail_check.export_line(body, digest)
            after = page[-1][0]

    # --- chains of several processes ----------------------------------------------------------------------

    @property
    def has_replicas(self) -> bool:
        """Whether each process has a chain of its own, over which there are anchors."""
        return self._database.writes_together

    async def anchor(self) -> None:
        """Anchor the heads of all chains that grew since the last anchor.

        Raises:
            StoreError: They cannot be read or written now.
        """
        if not await self._database.read_driver(replica_chain.grown):
            return
        at = self._time()
        await self._database.write_driver(
            lambda connection: replica_chain.anchor(connection, at, self._key), _PATIENCE
        )

    async def _join(self) -> None:
        """Begin the chain of this process with its first line."""
        if self.has_replicas and not self._has_joined:
            await self._database.write_driver(
                lambda connection: replica_chain.join(connection, self._replica), _BARRIER
            )
            self._has_joined = True

    async def _settled_newest(self) -> int:
        """The number of a line up to which no line can come any more: each was written, or never will be."""
        if not self.has_replicas:
            return hash_chain.NO_END
        return await self._database.write_driver(hash_chain.newest, _BARRIER)

    async def latest(self, criteria: AuditFilter, *, before: int = 0, limit: int = 50) -> AuditLines:
        """The newest matching lines, the newest first, of those before a number (0: of all)."""

        def read(connection: DriverConnection) -> tuple[AuditLines, int]:
            lines = hash_chain.latest(connection, criteria, before, limit)
            return lines, hash_chain.waiting_for_index(connection)

        found, waiting = await self._database.read_driver(read)
        self._note_unindexed(waiting)
        return found

    # --- texts of answers ---------------------------------------------------------------------------------

    def bound_answers(self, *, most_bytes: int) -> None:
        """Set how much space texts of answers may take."""
        self._texts.most_bytes = most_bytes

    async def answers(self, digests: Sequence[str], *, newer_than_days: int) -> Mapping[str, KeptText]:
        """The texts of lines that are still there, by what the lines have of them."""
        since = self._before(newer_than_days)
        return await self._database.read_driver(
            lambda connection: self._texts.get(connection, digests, since)
        )

    async def stream_states(self) -> Mapping[str, StreamState]:
        """Where every destination is that ever was, by name.

        Raises:
            StoreError: That cannot be read.
        """
        return await self._database.read_driver(stream_store.states)

    async def prune_answers(self, older_than_days: int) -> int:
        """Delete the texts of answers that are older than so many days; returns how many."""
        at = self._before(older_than_days)
        return await self._database.write_driver(
            lambda connection: answers.drop_before(connection, at), _PATIENCE
        )

    def _before(self, days: int) -> str:
        """The time so many days ago, in the form of lines."""
        return (self._clock() - timedelta(days=days)).astimezone(UTC).isoformat(timespec="milliseconds")

    # --- the index ----------------------------------------------------------------------------------------

    def _note_unindexed(self, count: int) -> None:
        self._unindexed = count
        if count >= _MOST_UNINDEXED:
            self._index_due.set()

    async def index_due(self) -> None:
        """Wait until `index` has much to do, as far as this process knows."""
        await self._index_due.wait()

    async def index(self) -> bool:
        """Add some lines to the index of filters; false if there is nothing more to do for now.

        Raises:
            StoreError: The index cannot be read or written now.
        """
        self._index_due = anyio.Event()
        most = await self._settled_newest()
        step = await self._database.read_driver(
            lambda connection: hash_chain.next_index_step(connection, most)
        )
        if step is None:
            self._unindexed = 0
            return False
        await self._database.write_driver(
            lambda connection: hash_chain.take_index_step(connection, step), _PATIENCE
        )
        return True


def _page(after: int, connection: DriverConnection) -> Sequence[hash_chain.Row]:
    """Some rows after a line, none after the last."""
    return next(hash_chain.pages(connection, after), ())


def _anchor_page(after: int, connection: DriverConnection) -> Sequence[hash_chain.Row]:
    """The same of anchors."""
    return next(replica_chain.anchor_pages(connection, after), ())
