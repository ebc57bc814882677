"""Why a search finds what it finds, and what another text of a tool would change; nothing is stored.

A trial ranks in a copy of the index. Beside the phrases of the viewer it asks the queries by which a proof of
mediation judges a change: those from the texts of the tool and of the tools near it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from maitred.catalog.snapshot import Change, Snapshot
from maitred.disclosure import views
from maitred.errors import ConfigError, ToolWithheldError
from maitred.gateway.authorization import Authorization, ScopedCatalog
from maitred.gateway.search import (
    ELSEWHERE,
    MAX_LIMIT,
    MAX_PHRASES,
    filter_of,
    fitting_use,
    readable,
    use_note,
)
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.mediation.neighbours import published_form
from maitred.mediation.proof import DEPTH, SHOWN, Probe, probes
from maitred.model.access import Viewer, beyond
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.model.usage import UsageFilter
from maitred.search.engine import SearchEngine
from maitred.search.reasons import ExpectedTool, PhraseReasons
from maitred.search.results import Filter
from maitred.usage.recorder import UsageRecorder

if TYPE_CHECKING:  # the gateway starts without numpy
    from maitred.search.index import HybridIndex

_NEIGHBOURS: Final = 6
_PROBES: Final = 4
"""How many queries from the texts of each neighbour are asked, so that a trial takes no second."""
_MOST_TEXT: Final = 4_000
_MOST_CASES: Final = 20
_TRIAL: Final = -3
"""The generation of a trial snapshot; no snapshot of a catalog has it."""


@dataclass(frozen=True, kw_only=True)
class TrialText:
    """Other texts for one tool, by its published name."""

    tool: str
    description: str
    use_cases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WithheldMatch:
    """Matching tools of a server that are not shown, and why; no `names` if the viewer may not know them."""

    server: str
    count: int
    why: str
    names: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ExplainedPhrase:
    """The ranking of a phrase. `masked` are hits that make no sense now, with the reason, by tool.

    `expected_why` says why the expected tool is withheld.
    """

    reasons: PhraseReasons
    withheld: Sequence[WithheldMatch] = ()
    masked: Mapping[str, str] = field(default_factory=dict)
    expected_why: str = ""

    @property
    def expected(self) -> ExpectedTool | None:
        """What became of the expected tool."""
        return self.reasons.expected


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The rankings of all phrases. `note` says what search had to do without.

    `use_note` says how many tools meet the limits of use.
    """

    phrases: Sequence[ExplainedPhrase]
    limit: int
    expected: Tool | None = None
    note: str = ""
    use_note: str = ""
    reranks: bool = False


@dataclass(frozen=True, kw_only=True)
class MovedTool:
    """A tool by its published name, a query from its texts, and its places before and after; 0 is none."""

    tool: str
    probe: Probe


@dataclass(frozen=True, kw_only=True)
class TrialExplanation:
    """The rankings before and after a trial text, and where it moves the tool itself and others.

    `own` are queries from the texts of the tool, `lowered` tools that lose a place that a search shows.
    `line` is what an agent would read of the tool, `tokens` its price.
    """

    before: Explanation
    after: Explanation
    own: Sequence[Probe]
    lowered: Sequence[MovedTool]
    line: str


class SearchReasons:
    """Explains searches for a gateway."""

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        visibility: VisibilityService,
        engine: SearchEngine,
        usage: UsageRecorder,
    ) -> None:
        self._usage = usage
        self._context = context
        self._access = access
        self._visibility = visibility
        self._engine = engine

    async def explain(
        self,
        phrases: Sequence[str],
        *,
        server: str,
        category: str,
        tags: Sequence[str],
        read_only: bool,
        use: UsageFilter,
        limit: int,
        expected: str,
        viewer: Viewer,
    ) -> Explanation:
        """See `Gateway.explain_search`."""
        asked = await self._question(
            phrases, server, category, viewer, tags=tags, read_only=read_only, use=use, limit=limit
        )
        return await self._explained(asked, expected, viewer)

    async def try_text(
        self,
        trial: TrialText,
        phrases: Sequence[str],
        *,
        server: str,
        category: str,
        tags: Sequence[str],
        read_only: bool,
        use: UsageFilter,
        limit: int,
        viewer: Viewer,
    ) -> TrialExplanation:
        """See `Gateway.try_text`."""
        tool = self._access.menu(viewer).find(trial.tool)
        if why := self._context.why_hidden(tool):
            raise ToolWithheldError(tool.name, f"it {why}")
        changed = with_trial(tool, trial)
        asked = await self._question(
            phrases, server, category, viewer, tags=tags, read_only=read_only, use=use, limit=limit
        )
        before = await self._explained(asked, tool.name, viewer)
        snapshot = self._context.snapshot.after(Change(tools=[changed]), _TRIAL)
        tried = replace(asked, snapshot=snapshot, index=await self._engine.trial(snapshot))
        after = await self._explained(tried, tool.name, viewer)
        own, lowered = await self._proven(tool, asked, tried, [before, after])
        line = views.detail_view("brief").in_search(snapshot, changed)
        return TrialExplanation(before=before, after=after, own=own, lowered=lowered, line=line)

    async def _question(
        self,
        phrases: Sequence[str],
        server: str,
        category: str,
        viewer: Viewer,
        *,
        tags: Sequence[str],
        read_only: bool,
        use: UsageFilter,
        limit: int,
    ) -> "_RankingQuestion":
        used = await fitting_use(self._usage, use)
        there, snapshot = self._access.portion(viewer), self._context.snapshot
        await self._engine.update(snapshot, self._context.approved_at)
        wanted = [readable(phrase) for phrase in phrases[:MAX_PHRASES] if phrase.strip()]
        reasons = there.context.reasons()
        visible = frozenset(name for name, why in reasons.items() if not why)
        only = replace(
            filter_of(there, server, category, tags),
            visible=visible,
            read_only=read_only,
            only=None if used is None else frozenset(used),
        )
        return _RankingQuestion(
            phrases=list(dict.fromkeys(wanted)),
            only=only,
            limit=min(max(limit, 1), MAX_LIMIT),
            there=there,
            snapshot=snapshot,
            reasons=reasons,
            use_note=use_note(used, there.context),
        )

    async def _explained(self, asked: "_RankingQuestion", expected: str, viewer: Viewer) -> Explanation:
        tool = self._access.menu(viewer).find(expected) if expected else None
        found = await self._engine.explain(
            asked.phrases, asked.only, asked.limit, expected=tool.key if tool else None, trial=asked.index
        )
        return Explanation(
            phrases=[self._phrase(one, asked, tool, viewer) for one in found],
            limit=asked.limit,
            expected=tool,
            note=self._engine.semantics.note,
            use_note=asked.use_note,
            reranks=self._engine.reranks and len(asked.phrases) == 1,
        )

    def _phrase(
        self, reasons: PhraseReasons, asked: "_RankingQuestion", expected: Tool | None, viewer: Viewer
    ) -> ExplainedPhrase:
        masked = {hit.tool.name: self._visibility.why_hidden(hit.tool, viewer) for hit in reasons.hits}
        return ExplainedPhrase(
            reasons=replace(reasons, withheld=()),
            withheld=self._withheld(reasons.withheld, asked, viewer),
            masked={name: why for name, why in masked.items() if why},
            expected_why=self._why_absent(expected, asked, viewer) if expected else "",
        )

    def _withheld(
        self, tools: Iterable[Tool], asked: "_RankingQuestion", viewer: Viewer
    ) -> Sequence[WithheldMatch]:
        """The matches of each server that are not shown; those outside the scope as one number."""
        every = list(tools)
        inside = [tool for tool in every if tool.key not in asked.there.outside]
        counts = Counter((tool.server, self._why_withheld(tool, asked)) for tool in inside)
        known = [
            WithheldMatch(server=name, count=count, why=why, names=self._names(inside, name, viewer))
            for (name, why), count in counts.items()
            if name in asked.reasons
        ]
        elsewhere, why = len(every) - len(inside), beyond(viewer.grant)
        return [*known, *([WithheldMatch(server=ELSEWHERE, count=elsewhere, why=why)] if elsewhere else [])]

    def _names(self, tools: Iterable[Tool], server: str, viewer: Viewer) -> Sequence[str]:
        """The names of withheld tools, for a viewer who may watch their server."""
        if self._access.why_not(viewer, "watch", server=server):
            return ()
        return [tool.name for tool in tools if tool.server == server]

    def _why_withheld(self, tool: Tool, asked: "_RankingQuestion") -> str:
        return asked.reasons.get(tool.server, "") or self._context.why_hidden(tool)

    def _why_absent(self, tool: Tool, asked: "_RankingQuestion", viewer: Viewer) -> str:
        return self._why_withheld(tool, asked) or self._visibility.why_hidden(tool, viewer)

    # --- trials -------------------------------------------------------------------------------------------

    async def _proven(
        self,
        tool: Tool,
        asked: "_RankingQuestion",
        tried: "_RankingQuestion",
        explanations: Sequence[Explanation],
    ) -> tuple[Sequence[Probe], Sequence[MovedTool]]:
        """How queries from the texts of the tool, and of the tools beside it, find them before and after."""
        changed = tried.snapshot.by_key[tool.key]
        own = list(dict.fromkeys([*_probes(asked.snapshot, tool), *_probes(tried.snapshot, changed)]))
        near = await self._near(tool, changed, asked, tried, explanations)
        of_near = {key: _probes(asked.snapshot, asked.snapshot.by_key[key])[:_PROBES] for key in near}
        queries = of_near | {tool.key: own}
        every = list(dict.fromkeys(query for of_tool in queries.values() for query in of_tool))
        before = await self._engine.places(every, asked.only, DEPTH)
        after = await self._engine.places(every, asked.only, DEPTH, trial=tried.index)

        def moved(key: ToolKey) -> list[Probe]:
            return [
                Probe(query=query, before=_place(key, before[query]), after=_place(key, after[query]))
                for query in queries[key]
            ]

        lowered = [
            MovedTool(tool=asked.snapshot.by_key[key].name, probe=probe)
            for key in near
            for probe in moved(key)
            if probe.is_worse
        ]
        return moved(tool.key), lowered

    async def _near(
        self,
        tool: Tool,
        changed: Tool,
        asked: "_RankingQuestion",
        tried: "_RankingQuestion",
        explanations: Sequence[Explanation],
    ) -> Sequence[ToolKey]:
        """The tools whose places the change may take: those beside it, and those that its text finds."""
        shown = [hit.tool.key for one in explanations for p in one.phrases for hit in p.reasons.hits[:SHOWN]]
        texts = [readable(text) for text in (tool.description, changed.description) if text.strip()]
        found = await self._engine.places(texts, asked.only, SHOWN, trial=tried.index)
        keys = dict.fromkeys([*shown, *(key for of_text in found.values() for key in of_text)])
        return [key for key in keys if key != tool.key][:_NEIGHBOURS]


@dataclass(frozen=True, kw_only=True)
class _RankingQuestion:
    """One question: the phrases, what may be shown, and the snapshot and index that it is asked of."""

    phrases: Sequence[str]
    only: Filter
    limit: int
    there: ScopedCatalog
    snapshot: Snapshot
    reasons: Mapping[str, str]
    use_note: str = ""
    index: "HybridIndex | None" = None


def with_trial(tool: Tool, trial: TrialText) -> Tool:
    """A tool with other texts, as a file of overrides would change it.

    Raises:
        ConfigError: The texts are empty or too long.
    """
    description = trial.description.strip()
    cases = tuple(dict.fromkeys(case.strip() for case in trial.use_cases if case.strip()))
    faults = [
        *([] if description else ["description: must not be empty"]),
        *([f"description: has more than {_MOST_TEXT:,} characters"] if len(description) > _MOST_TEXT else []),
        *([f"use cases: there may be at most {_MOST_CASES}"] if len(cases) > _MOST_CASES else []),
        *(["use cases: one has more than 400 characters"] if any(len(c) > 400 for c in cases) else []),  # noqa: PLR2004
    ]
    if faults:
        raise ConfigError(f"the text of {tool.name}", faults)
    own = tool.mending or Mediation(
        by="overrides", title=tool.title, description=tool.description, input_hash=tool.input_hash
    )
    mended = replace(own, by="overrides", use_cases=cases)
    if tool.use_cases_by in ("person", "model"):  # those go before a file of overrides
        return replace(tool, description=description, mending=mended)
    return replace(tool, description=description, mending=mended, use_cases=())


def _probes(snapshot: Snapshot, tool: Tool) -> Sequence[str]:
    cases = tool.use_cases or (tool.mending.use_cases if tool.mending else ())
    return list(dict.fromkeys([*probes(published_form(snapshot, tool)), *cases[:3]]))


def _place(key: ToolKey, ranking: Sequence[ToolKey]) -> int:
    return ranking.index(key) + 1 if key in ranking else 0
