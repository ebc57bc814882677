"""Gateways that share a database, as far as held calls are concerned, on a clock of their own."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc
import sqlalchemy as sa

from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.service import AuditService
from maitred.backends.base import NOT_ASKED, Caller
from maitred.calls.pipeline import Call
from maitred.config.settings import Audit, HeldCallSettings, HoldRule, Settings
from maitred.errors import BusyError, CallNotApprovedError, StoreError
from maitred.gateway.held_calls import HeldCallService
from maitred.held_calls.binding import definition_hash
from maitred.held_calls.store import HeldCallStore
from maitred.model.access import Grant, Viewer
from maitred.model.held_calls import HeldCall
from maitred.model.servers import ServerSpec
from maitred.model.tools import Tool, ToolCall, ToolKey
from maitred.storage.database import DEFAULT, Database, WriteOptions

T = TypeVar("T")
WAIT_S = 600.0
SPEC = ServerSpec(name="bank", transport="memory")
RULES = HeldCallSettings(rules=(HoldRule(when="true", session="any"),), wait_s=WAIT_S)


class State:
    """What a gateway knows: tools whose definitions change, and the rules."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tool] = {}
        self.settings = Settings(source=Path("m.yaml"), servers={"bank": SPEC}, held_calls=RULES)
        self.snapshot = self

    def spec(self, _: str) -> ServerSpec:
        return SPEC

    def define(self, name: str, version: int) -> None:
        self.by_name[name] = Tool(
            key=ToolKey(server="bank", name=name),
            name=name,
            title="",
            description=f"version {version}",
            input_hash="",
            output_hash="",
            annotations={},
            extra={},
            cost_tokens=1,
        )


class AllMayDecide:
    """Lets every viewer decide."""

    def why_not(self, *_: object, **__: object) -> str:
        return ""

    def check(self, *_: object, **__: object) -> None:
        return None

    async def why_ended(self, *_: object) -> str:
        """No token ends."""
        return ""


class QuickDatabase(Database):
    """One open connection to a file of SQLite, and no thread: a transaction takes a fraction of the time.

    Other tasks go on before and after each transaction, as they do while a thread carries it out.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.faults = str(path), 0
        engine = sa.create_engine(f"sqlite:///{path}")
        self._connection = engine.connect()
        self._connection.exec_driver_sql("PRAGMA synchronous=OFF")
        self._connection.commit()

    async def read(self, function: Callable[[sa.Connection], T]) -> T:
        await anyio.lowlevel.checkpoint()
        with self._connection.begin():
            result = function(self._connection)
        await anyio.lowlevel.checkpoint()
        return result

    async def write(self, function: Callable[[sa.Connection], T], options: WriteOptions = DEFAULT) -> T:
        return await self.read(function)

    def waiting(self, name: str) -> list[str]:
        """The ids of the calls of a tool that wait, or did when their gateway ended."""
        query = "SELECT id FROM held_calls WHERE name = ? AND state = 'waiting'"
        with self._connection.begin():
            return [str(row[0]) for row in self._connection.exec_driver_sql(query, (name,))]

    def arguments(self, held_id: str) -> str:
        """The arguments that are stored of a call."""
        query = "SELECT arguments FROM held_calls WHERE id = ?"
        with self._connection.begin():
            return str(self._connection.exec_driver_sql(query, (held_id,)).scalar_one())

    async def close(self) -> None:
        self._connection.close()

    async def read_driver(self, function: Any) -> Any:
        raise NotImplementedError

    async def write_driver(self, function: Any, options: WriteOptions = DEFAULT) -> Any:
        raise NotImplementedError

    def quick_writer(self) -> Any:
        return None  # the audit trail is off

    async def open(self, *, allows_memory: bool = False) -> None:
        return

    async def ensure(self) -> None:
        return

    async def check(self) -> str:
        return ""

    def note_fault(self, error: StoreError) -> None:
        return


class MortalStore(HeldCallStore):
    """The store of a process that may be killed, which leaves nothing in order."""

    is_killed = False
    on_added: Callable[[], None] | None = None

    async def add(self, held: HeldCall) -> bool:
        is_added = await super().add(held)
        if self.on_added:
            self.on_added()
        return is_added

    async def leave(self) -> Sequence[str]:
        return () if self.is_killed else await super().leave()


class NotingAudit(AuditService):
    """Keeps what it is given to note, and has no trail."""

    def __init__(self, trail: AuditLog) -> None:
        super().__init__(trail, Audit(enabled=False), estimate=len)
        self.noted: list[AuditEntry] = []

    def note_act(self, act: AuditEntry) -> None:
        self.noted.append(act)


@dataclass
class World:
    """Two gateways on one database, with the calls that were approved and made."""

    folder: Path
    tasks: anyio.abc.TaskGroup
    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    state: State = field(default_factory=State)
    processes: list["Process"] = field(default_factory=list)
    approved: Counter[str] = field(default_factory=Counter)
    lasting: set[str] = field(default_factory=set)
    made: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    started: int = 0
    databases: list["QuickDatabase"] = field(default_factory=list)

    def start(self, *, look_s: float = 0.02) -> "Process":
        self.started += 1
        process = Process(self, self.started, look_s)
        self.tasks.start_soon(process.serve)
        return process


class Process:
    """A gateway."""

    def __init__(self, world: World, number: int, look_s: float) -> None:
        self.world = world
        database = QuickDatabase(world.folder / "c.db")
        world.databases.append(database)
        self.database = database
        self.store = MortalStore(database, gateway=str(number), clock=lambda: world.now)
        self.auditing = NotingAudit(AuditLog(database))
        context: Any = world.state
        access: Any = AllMayDecide()
        self.service = HeldCallService(
            context, access, self.auditing, store=self.store, notify=self._announce, look_s=look_s
        )
        self.announced: list[str] = []
        self.scopes: set[anyio.CancelScope] = set()

    async def serve(self) -> None:
        with anyio.CancelScope() as scope:
            self.scopes.add(scope)
            await self.service.keep_up()

    def end(self, *, killed: bool) -> None:
        self.store.is_killed = killed
        for scope in self.scopes:
            scope.cancel()

    async def look(self) -> None:
        """Look for decisions now."""
        await self.service._inbox._look()

    @property
    def expiries(self) -> list[str]:
        """The details of the lines about calls that expired here."""
        return [one.detail for one in self.auditing.noted if one.action == "call.expire"]

    async def _announce(self, held: HeldCall, _: HeldCallSettings) -> None:
        self.announced.append(held.id)

    def new_call(self, name: str, amount: int, caller: Caller = NOT_ASKED) -> Call:
        viewer = Viewer(grant=Grant(principal=f"p-{name}", role="agent"), connection="1")
        request = ToolCall(name=name, arguments={"amount": amount})
        call = Call(request=request, viewer=viewer, caller=caller)
        call.tool, call.entry = self.world.state.by_name[name], self.auditing.call(call.request, viewer)
        return call

    async def call(
        self, name: str, amount: int, scope: anyio.CancelScope, caller: Caller = NOT_ASKED
    ) -> None:
        """Make a call as the steps do: wait for the approval, then check again where it leaves."""
        call = self.new_call(name, amount, caller)
        self.scopes.add(scope)
        with scope:
            try:
                await self.service.admit(call)
                await anyio.lowlevel.checkpoint()  # such as the start of a server, in which much may change
                await self.service.recheck(call)
            except (CallNotApprovedError, BusyError) as error:
                self.world.refused.append(error.reason)
                return
            approval = call.approval
            assert approval is not None
            present = definition_hash(self.world.state.by_name[name], SPEC.fingerprint)
            assert approval.definition == present
            assert call.rules_version == self.service.policy.version
            self.world.made.append((approval.digest, approval.tool_digest))
