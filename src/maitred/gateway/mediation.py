"""Mediation of a gateway: its background work, and its proposals for an operator who decides on them.

`MediationTasks` proves proposals and asks the language model in the background. No reader waits for that:
tools are shown as they are known, and mended again later. After a failure for a server, the pause before the
next question grows each time. The model is asked only while `serving` allows it: a short command would pay
for answers that it does not read. `GatewayMediation` writes no choices; those are in the configuration file.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import anyio
import anyio.abc
import structlog

from maitred.audit.service import AuditService
from maitred.background import Background
from maitred.catalog.stages import mendable_tools, raw_tools
from maitred.errors import ConfigError, MaitredError, PathNotFoundError, StoreError
from maitred.gateway.state import GatewayState
from maitred.mediation.base import PartlyAnsweredError, SourceTool
from maitred.mediation.llm import Estimate, ModelSpending
from maitred.mediation.service import MediationService, Proposal
from maitred.model.access import Ability, Viewer
from maitred.model.tools import Tool

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 2
_TOGETHER_S: Final = 2.0
_LOOK_S: Final = 3_600.0
_OTHERS_S: Final = 300.0
"""How long the gateway waits for another process that asks about the same server; its answers are free."""


class MediationTasks:
    """Owns the background tasks of mediation. `use` sets the service that mends tools now.

    If the service lacks something, `remake` is called after a pause: it makes another service and calls
    `use`. `pauses_s` are the first and the longest pause after a failure. The longest is a day, since an
    unusable answer costs money, too.
    """

    def __init__(self, context: GatewayState, remake: Callable[[], Awaitable[None]]) -> None:
        self._context = context
        self._remake = remake
        self.pauses_s = (60.0, 86_400.0)
        self._mender: MediationService | None = None
        self._retired: list[MediationService] = []
        self._background = Background()
        self._unproven = _Queue()
        self._unasked = _Queue()
        self._needed: set[str] = set()
        self._pauses: dict[str, float] = {}
        self._paused: set[str] = set()
        self._lacking = anyio.Event()
        context.keeper.listen(synced=self.noticed)

    @asynccontextmanager
    async def serving(self, *, asks: bool) -> AsyncIterator[None]:
        """Work until the context is left; `asks` says whether the language model is asked."""
        async with self._background:
            self._background.start(self._keep_proving)
            self._background.start(self._keep_whole)
            self._background.start(self._keep_fresh)
            for _ in range(_AT_ONCE if asks else 0):
                self._background.start(self._keep_asking)
            yield
        for mender in [*self._retired, *([self._mender] if self._mender else [])]:
            await mender.aclose()

    def use(self, mender: MediationService) -> None:
        """Use another service. The work that it needs for known servers begins soon."""
        if self._mender is not None:
            self._retired.append(self._mender)
        self._mender = mender
        if not mender.is_whole:
            self._lacking.set()
        self._pauses.clear()
        self._paused.clear()
        self._needed.clear()
        for server in self._context.snapshot.known:
            self.noticed(server)

    def noticed(self, server: str) -> None:
        """The tools of a server are new or changed."""
        if self._mender is None:
            return
        self._needed.discard(server)
        if self._mender.proves:
            self._unproven.add(server)
        if self._context.settings.mediation.mode != "lazy":
            self._want(server)

    def refresh(self) -> None:
        """Ask again about stale answers: at once, or in mode lazy at the next need."""
        self._needed.clear()
        if self._context.settings.mediation.mode != "lazy":
            for server in self._context.snapshot.known:
                self._want(server)

    def needed(self, servers: Iterable[str]) -> None:
        """A viewer looks at tools of servers, or calls one: ask now, if that was put off until a need."""
        for server in servers:
            if server not in self._needed:
                self._needed.add(server)
                self._want(server)

    async def settled(self, timeout_s: float) -> bool:
        """Wait until the present proposals are proven; false if that takes longer."""
        with anyio.move_on_after(timeout_s):
            await self._unproven.empty()
        return self._unproven.is_empty

    @property
    def paused(self) -> Sequence[str]:
        """The servers for which the language model failed, and which wait until it is asked again."""
        return sorted(self._paused)

    def _want(self, server: str) -> None:
        if self._mender is not None and self._mender.model is not None and server not in self._paused:
            self._unasked.add(server)

    async def _keep_whole(self) -> None:
        """Make another mediation service as long as this one lacks something."""
        pause_s = 0.0
        while True:
            await self._lacking.wait()
            self._lacking = anyio.Event()
            pause_s = self._longer(pause_s)
            await anyio.sleep(pause_s)
            try:
                await self._remake()
            except MaitredError as error:
                log.warning("what mediation lacks cannot be used", reason=str(error))
            if self._mender is not None and not self._mender.is_whole:
                self._lacking.set()
            else:
                pause_s = 0.0

    async def _keep_fresh(self) -> None:
        """Look for stale answers, as a gateway may run for weeks while its servers do not change."""
        while True:
            await anyio.sleep(_LOOK_S)
            self.refresh()

    def _longer(self, pause_s: float) -> float:
        """The pause after one of so many seconds, which is 0 before the first."""
        first, longest = self.pauses_s
        return min(max(pause_s * 2, first), longest)

    # --- proofs -------------------------------------------------------------------------------------------

    async def _keep_proving(self) -> None:
        """Prove server after server; what comes within two seconds is shown at once, as one change."""
        while True:
            server = await self._unproven.next()
            done: list[str] = []
            news: list[str] = []
            started = monotonic()
            while server:
                news += [server] if await self._prove(server) else []
                done.append(server)
                server = self._unproven.another() if monotonic() - started < _TOGETHER_S else ""
            await self._show(news)
            self._unproven.done(done)

    async def _prove(self, server: str) -> bool:
        """Whether the server's tools are to be shown otherwise."""
        snapshot, mender = self._context.snapshot, self._mender
        try:
            return mender is not None and await mender.prove(server, raw_tools(snapshot, server), snapshot)
        except Exception:
            log.exception("what is proposed for a server could not be proven", server=server)
            return False

    async def _show(self, servers: Sequence[str]) -> None:
        try:
            if servers:
                await self._context.keeper.remend(servers)
        except StoreError as error:
            log.warning("mended tools cannot be kept", servers=list(servers), reason=error.reason)

    # --- the language model -------------------------------------------------------------------------------

    async def _keep_asking(self) -> None:
        while True:
            server = await self._unasked.next()
            try:
                await self._ask(server)
            finally:
                self._unasked.done([server])
            while self._retired and self._unasked.is_idle:
                await self._retired.pop().aclose()

    async def _ask(self, server: str) -> None:
        mender = self._mender
        if mender is None:
            return
        try:
            async with self._context.jobs.run(
                f"mediate {server}", wait_s=_OTHERS_S
            ):  # then its answers are stored
                told = await mender.ask(server, raw_tools(self._context.snapshot, server))
        except Exception as error:  # noqa: BLE001  # whatever it is, tools stay as they are
            if mender is self._mender:
                self._put_off(server, mender, error)
            if isinstance(error, PartlyAnsweredError):
                self._unproven.add(server)
            return
        self._pauses.pop(server, None)
        if told:
            self._unproven.add(server)

    def _put_off(self, server: str, mender: MediationService, error: Exception) -> None:
        """Ask again for a server after a pause, twice as long as the one before."""
        self._pauses[server] = pause_s = self._longer(self._pauses.get(server, 0.0))
        self._paused.add(server)
        log.warning(
            "the language model could not be asked about a server; it is tried again",
            server=server,
            in_s=round(pause_s),
            reason=str(error) or type(error).__name__,
        )
        if self._background.is_open:
            self._background.start(self._again, server, mender, pause_s)

    async def _again(self, server: str, mender: MediationService, pause_s: float) -> None:
        await anyio.sleep(pause_s)
        if mender is self._mender:  # another one has pauses of its own
            self._paused.discard(server)
            self._want(server)


class _Queue:
    """Names that wait, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._at_work: set[str] = set()
        self._changed = anyio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether no name waits, and no task works on one."""
        return not self._waiting and not self._at_work

    @property
    def is_idle(self) -> bool:
        """Whether no task works on a name."""
        return not self._at_work

    def add(self, name: str) -> None:
        """Add a name, unless it waits already."""
        self._waiting[name] = None
        self._tell()

    async def next(self) -> str:
        """The first waiting name that no task works on; waits until there is one."""
        while not (name := self.another()):
            await self._changed.wait()
        return name

    def another(self) -> str:
        """The first waiting name that no task works on; empty if there is none."""
        name = next((name for name in self._waiting if name not in self._at_work), "")
        if name:
            del self._waiting[name]
            self._at_work.add(name)
        return name

    def done(self, names: Iterable[str]) -> None:
        """Record that the work on some names is done."""
        self._at_work.difference_update(names)
        self._tell()

    async def empty(self) -> None:
        """Wait until it is empty."""
        while not self.is_empty:
            await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


_SHOWN: Final = ("name", "title", "description", "input_schema")
_DECIDED: Final = ("category", "tags", "use_cases", "hidden", "pinned")


@dataclass(frozen=True, kw_only=True)
class ToolDiff:
    """The proposal for a tool, and its state."""

    tool: Tool
    proposal: Proposal

    @property
    def changes(self) -> Mapping[str, tuple[Any, Any]]:
        """What differs, as pairs of before and after, by field."""
        before, after = self.proposal.before, self.proposal.after
        pairs = {name: (getattr(before, name), getattr(after, name)) for name in _SHOWN}
        pairs |= {name: (None, getattr(after, name)) for name in _DECIDED if getattr(after, name)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def to_json(self) -> Mapping[str, Any]:
        """All of it, for programs."""
        verdict = self.proposal.verdict
        return {
            "name": self.tool.name,
            "server": self.tool.server,
            "raw_name": self.tool.key.name,
            "state": self.proposal.state,
            "by": self.proposal.after.enhanced_by,
            "confidence": round(self.proposal.after.confidence, 3),
            "before": _told(self.proposal.before),
            "changes": {name: after for name, (_, after) in self.changes.items()},
            "unfit": verdict.unfit if verdict else "",
            "probes": [
                {"query": probe.query, "before": probe.before, "after": probe.after}
                for probe in (verdict.probes if verdict else ())
            ],
            "harmed": [
                {"tool": harm.tool, "query": harm.query, "before": harm.before, "after": harm.after}
                for harm in (verdict.harmed if verdict else ())
            ],
        }


class GatewayMediation:
    """The mediation of a gateway: its background tasks and their results. `remake`: see `MediationTasks`."""

    def __init__(
        self, context: GatewayState, auditing: AuditService, remake: Callable[[], Awaitable[None]]
    ) -> None:
        self._context = context
        self._auditing = auditing
        self.enhancing = MediationTasks(context, remake)
        self.serving = self.enhancing.serving
        self.needed = self.enhancing.needed
        self.settled = self.enhancing.settled

    def use(self, mender: MediationService) -> None:
        """Go by another mediation service."""
        self._mender = mender
        self.enhancing.use(mender)

    def opened(self, path: str) -> None:
        """A viewer opens a page of the menu. If it is the page of a server, its tools are needed."""
        kind, _, name = path.strip("/").partition("/")
        if kind == "server":
            self.needed([name])

    async def diff(self, servers: Sequence[str] = (), *, viewer: Viewer) -> list[ToolDiff]:
        """All tools with a proposal, of some servers or by default of all.

        It makes missing proofs, which may take a second or two for each server.

        Raises:
            NotAllowedError: The viewer may not watch them.
            PathNotFoundError: There is no such server.
            StoreError: The proofs cannot be stored.
        """
        self._require(viewer, "watch", servers)
        snapshot, mender = self._context.snapshot, self._mender
        found, proven = [], []
        for server in self._chosen(servers):
            raw = raw_tools(snapshot, server)
            proven += [server] if await mender.prove(server, raw, snapshot) else []
            proposals = await mender.judged(server, raw, snapshot)
            tools = mendable_tools(snapshot, server)
            found += [ToolDiff(tool=t, proposal=p) for t, p in zip(tools, proposals, strict=True)]
        if proven:
            await self._context.keeper.remend(proven)
        return [one for one in found if one.proposal.state != "same"]

    async def estimate(self, servers: Sequence[str] = (), *, viewer: Viewer) -> Estimate | None:
        """The highest possible cost of all open questions to the language model.

        `None` without a model.

        Raises:
            NotAllowedError: The viewer may not watch them.
            PathNotFoundError: There is no such server.
            StoreError: Its earlier answers cannot be read.
        """
        self._require(viewer, "watch", servers)
        snapshot = self._context.snapshot
        chosen = self._chosen(servers)
        parts = [await self._mender.estimate(name, raw_tools(snapshot, name)) for name in chosen]
        known = [part for part in parts if part is not None]
        if self._mender.model is None:
            return None
        prices = [part.usd for part in known]
        return Estimate(
            calls=sum(part.calls for part in known),
            input_tokens=sum(part.input_tokens for part in known),
            output_tokens=sum(part.output_tokens for part in known),
            usd=None if None in prices else sum(price for price in prices if price is not None),
        )

    async def ask(
        self,
        servers: Sequence[str] = (),
        *,
        viewer: Viewer,
        progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> ModelSpending:
        """Ask the language model all open questions now; returns the cost.

        `progress` gets the number of servers that are done, and of all. Answers are stored, even if a later
        question fails.

        Raises:
            NotAllowedError: The viewer may not operate them.
            ConfigError: No model is configured.
            PathNotFoundError: There is no such server.
            LlmError: The model does not answer, or its answer is unusable.
            StoreError: The mended tools cannot be stored.
        """
        self._require(viewer, "operate", servers)
        mender, snapshot = self._mender, self._context.snapshot
        if mender.model is None:
            hint = "mediation: no language model is in use; set `auto_enhance: true` and `llm_provider`"
            raise ConfigError(str(self._context.settings.source), [hint])
        chosen = self._chosen(servers)
        for done, server in enumerate(chosen, 1):
            if await mender.ask(server, raw_tools(snapshot, server)):
                await mender.prove(server, raw_tools(snapshot, server), snapshot)
                await self._context.keeper.remend([server])
            progress(done, len(chosen))
        return mender.model.spent

    def spent(self, viewer: Viewer) -> ModelSpending | None:
        """The cost of the language model since the settings were applied; `None` without a model.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._require(viewer, "watch", ())
        return self._mender.model.spent if self._mender.model else None

    def _require(self, viewer: Viewer, ability: Ability, servers: Sequence[str]) -> None:
        """Refuse a viewer without an ability on some servers, or on all servers if none is named."""
        for server in servers or (None,):
            self._auditing.require(viewer, ability, server=server)

    def _chosen(self, servers: Sequence[str]) -> Sequence[str]:
        for server in servers:
            if server not in self._context.settings.servers:
                raise PathNotFoundError(f"server/{server}", nearest=self._context.near_servers(server))
        return servers or sorted(self._context.snapshot.by_server)


def _told(tool: SourceTool) -> Mapping[str, Any]:
    return {name: getattr(tool, name) for name in _SHOWN}
