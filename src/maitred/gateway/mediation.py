"""What mediation makes of tools, for an operator who wants to see it and decide.

It changes nothing but what is remembered: choices stand in the configuration file, and `ask` has the language
model asked now instead of in the background.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.catalog.mending import mendable_tools, raw_tools
from maitred.errors import ConfigError, PathNotFoundError
from maitred.gateway.context import Context
from maitred.gateway.enhancing import Enhancing
from maitred.mediation.base import RawTool
from maitred.mediation.llm import Estimate, Spent
from maitred.mediation.mender import MediatingMender, Proposal
from maitred.model.tools import Tool

_SHOWN: Final = ("name", "title", "description", "input_schema")
_DECIDED: Final = ("category", "tags", "use_cases", "hidden", "pinned")


@dataclass(frozen=True, kw_only=True)
class ToolDiff:
    """What is proposed for a tool, and what becomes of it."""

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
            "probes": [
                {"query": probe.query, "before": probe.before, "after": probe.after}
                for probe in (verdict.probes if verdict else ())
            ],
            "harmed": [
                {"tool": harm.tool, "query": harm.query, "before": harm.before, "after": harm.after}
                for harm in (verdict.harmed if verdict else ())
            ],
        }


class Mediation:
    """The mediation of a gateway: what it works ahead, and what it comes to. See `Enhancing` for `remake`."""

    def __init__(self, context: Context, remake: Callable[[], Awaitable[None]]) -> None:
        self._context = context
        self.enhancing = Enhancing(context, remake)
        self.serving = self.enhancing.serving
        self.needed = self.enhancing.needed
        self.settled = self.enhancing.settled

    def use(self, mender: MediatingMender) -> None:
        """Go by another mender."""
        self._mender = mender
        self.enhancing.use(mender)

    def opened(self, path: str) -> None:
        """Somebody opens a page of the menu: tools of a server are needed if it is one of its own."""
        kind, _, name = path.strip("/").partition("/")
        if kind == "server":
            self.needed([name])

    async def diff(self, servers: Sequence[str] = ()) -> list[ToolDiff]:
        """All tools of some servers, by default of all, for which something is proposed.

        Proofs that are missing are made, which may take a second or two for each server.

        Raises:
            PathNotFoundError: There is no such server.
            StoreError: What was proven cannot be kept.
        """
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

    async def estimate(self, servers: Sequence[str] = ()) -> Estimate | None:
        """What asking the language model about all it has not been asked will cost at most.

        `None` without a model.

        Raises:
            PathNotFoundError: There is no such server.
            StoreError: What it answered before cannot be read.
        """
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
        self, servers: Sequence[str] = (), *, progress: Callable[[int, int], None] = lambda _, __: None
    ) -> Spent:
        """Ask the language model now about all it has not been asked; what it cost.

        `progress` is told how many of how many servers are done. What was answered is remembered, also when a
        later question fails.

        Raises:
            ConfigError: No model is configured.
            PathNotFoundError: There is no such server.
            LlmError: It does not answer, or not as it should.
            StoreError: What it answered cannot be shown.
        """
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

    @property
    def spent(self) -> Spent | None:
        """What the language model did cost since the settings were taken over; `None` without one."""
        return self._mender.model.spent if self._mender.model else None

    def _chosen(self, servers: Sequence[str]) -> Sequence[str]:
        for server in servers:
            if server not in self._context.settings.servers:
                raise PathNotFoundError(f"server/{server}", nearest=self._context.near_servers(server))
        return servers or sorted(self._context.snapshot.by_server)


def _told(tool: RawTool) -> Mapping[str, Any]:
    return {name: getattr(tool, name) for name in _SHOWN}
