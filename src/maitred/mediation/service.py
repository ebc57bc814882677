"""Mediation for the catalog: raw tools of a server in, tools to publish out.

`mend` is quick, since the catalog waits for it: it asks no model and proves nothing, but uses stored answers
and proofs. `ask` and `prove` fill those stores in the background. Overrides and choices of an operator need
no proof.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

import structlog
from anyio import to_thread

from maitred.catalog.snapshot import Snapshot
from maitred.catalog.stages import MediatedTool, mendable_tools
from maitred.errors import StoreError
from maitred.mediation.base import EnhancedTool, Middleware, SourceTool, ToolContext, Transformer
from maitred.mediation.llm import Estimate, LlmTransformer
from maitred.mediation.mediator import FunctionTransformer, LayeredTransformer, Mediator
from maitred.mediation.memo import Memo
from maitred.mediation.neighbours import Neighbourhood
from maitred.mediation.overrides import OverrideTransformer
from maitred.mediation.proof import ProofVerdict
from maitred.mediation.proof_store import Proofs, Verdicts
from maitred.mediation.rules import RuleTransformer
from maitred.model.categories import ToolChoice
from maitred.model.tools import Mediation, Tool, ToolKey, canonical, content_hash
from maitred.model.tools import RawTool as ServerTool

log = structlog.get_logger(__name__)

State = Literal["same", "used", "accepted", "rejected", "harmful", "unproven"]
"""State of a proposal: there is none; it is used. An operator accepted or rejected it. Search would get worse
with it; there is no proof yet.
"""

_NONE: Final = "none"
_NOTHING_CHOSEN: Final = ToolChoice()
_RAW_FIELDS = tuple(field.name for field in fields(SourceTool))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What mediation proposes for a tool; `verdict` is `None` if no proof covers it."""

    before: SourceTool
    after: EnhancedTool
    state: State
    verdict: ProofVerdict | None = None

    @property
    def published(self) -> EnhancedTool:
        """The tool to publish."""
        return self.after if self.state in ("used", "accepted") else _as_it_is(self.before)


@dataclass(frozen=True, kw_only=True)
class RememberedModel:
    """A language model and its stored answers; `close` ends its connections."""

    model: LlmTransformer
    memo: Memo
    close: Callable[[], Awaitable[None]]


class ThreadedRules(RuleTransformer):
    """Rules in a worker thread, since a server may have thousands of tools; the priority can be set."""

    def __init__(self, priority: int = RuleTransformer.priority) -> None:
        super().__init__()
        self.priority = priority

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        return await to_thread.run_sync(self.mended, tools)


class MediationService:
    """Improves the tools of servers; `fingerprint` identifies its transformers and their inputs."""

    def __init__(
        self,
        transformers: Sequence[Transformer],
        fingerprint: str,
        *,
        asked: RememberedModel | None = None,
        proofs: Proofs | None = None,
        choices: Mapping[ToolKey, ToolChoice] | None = None,
        middleware: Middleware | None = None,
        is_whole: bool = True,
    ) -> None:
        """Combine transformers.

        Args:
            transformers: Those that answer at once.
            fingerprint: Changes when the same tools might get different answers.
            asked: The language model, whose stored answers have a priority among the others.
            proofs: Checks proposals; without it all are used.
            choices: An operator's decisions about single tools.
            middleware: The hook of an embedding program; it comes last.
            is_whole: False if a source of overrides is not available yet.
        """
        self.fingerprint = fingerprint
        self.is_whole = is_whole
        self._mediator = _mediator([*transformers, *_remembered(asked, transformers)])
        above = [one for one in transformers if asked and one.priority > asked.memo.priority]
        self._above = _mediator(above)
        self._asked = asked
        self._proofs = proofs
        self._choices = dict(choices or {})
        self._hook = _mediator([FunctionTransformer(middleware)]) if middleware else None
        self._near: Neighbourhood | None = None

    @property
    def model(self) -> LlmTransformer | None:
        """The language model, if there is one."""
        return self._asked.model if self._asked else None

    @property
    def proves(self) -> bool:
        """Whether proposals need a proof."""
        return self._proofs is not None

    async def aclose(self) -> None:
        """Close the connections to the language model."""
        if self._asked:
            await self._asked.close()

    async def mend(self, server: str, tools: Sequence[ServerTool]) -> Sequence[MediatedTool | None]:
        """One answer a tool, in order; `None` for a tool that stays as it is."""
        proposals = await self.proposals(server, tools)
        now = [one.published for one in proposals]
        if self._hook is not None:
            now = await _hooked(self._hook, server, now)
        return [_mended(one.before, after) for one, after in zip(proposals, now, strict=True)]

    async def proposals(self, server: str, tools: Sequence[ServerTool]) -> list[Proposal]:
        """The proposal for each tool of a server, and its state at present."""
        drafts = await self._drafts(server, tools)
        if self._proofs is None or not _any_open(drafts):
            return drafts
        verdicts = await self._known(server, drafts, self._proofs)
        if verdicts is not None:
            await self._proofs.noted(server, *_world(drafts), verdicts)
            return _judged(drafts, verdicts)
        stood = await self._proofs.stood(server, *_world(drafts))
        return [
            replace(one, state="used") if is_used and one.state == "unproven" else one
            for one, is_used in zip(drafts, stood, strict=True)
        ]

    async def prove(self, server: str, tools: Sequence[ServerTool], snapshot: Snapshot) -> bool:
        """Prove the proposals for a server against the tools of other servers, which takes a second or two.

        Args:
            server: The server.
            tools: Its tools that are not withheld, in the order of the snapshot.
            snapshot: The catalog that contains them.

        Returns:
            Whether tools must be published differently than the snapshot has them.

        Raises:
            StoreError: The result cannot be stored.
        """
        drafts = await self._drafts(server, tools)
        if self._proofs is not None and _any_open(drafts):
            verdicts = await self._proofs.prove(
                server, *_world(drafts), lambda: self._neighbours(server, drafts, snapshot)
            )
            drafts = _judged(drafts, verdicts)
        shown = mendable_tools(snapshot, server)
        return self._hook is not None or not all(map(_is_shown, shown, drafts))

    async def judged(self, server: str, tools: Sequence[ServerTool], snapshot: Snapshot) -> list[Proposal]:
        """As `proposals`; also proves, for information, what an operator wrote or accepted.

        Raises:
            StoreError: The result cannot be stored.
        """
        found = await self.proposals(server, tools)
        told = [at for at, one in enumerate(found) if one.state in ("used", "accepted") and not one.verdict]
        if self._proofs is None or not told:
            return found
        before = [one.before for one in found]
        after = [one.after if at in told else _as_it_is(one.before) for at, one in enumerate(found)]
        verdicts = await self._proofs.prove(
            server, before, after, lambda: self._neighbours(server, found, snapshot)
        )
        return [replace(one, verdict=verdicts[at]) if at in told else one for at, one in enumerate(found)]

    async def _drafts(self, server: str, tools: Sequence[ServerTool]) -> list[Proposal]:
        """Proposals without proof; those that need one are "unproven"."""
        given = [_given(tool) for tool in tools]
        answers = await self._mediator.enhance(given, _of(server))
        return [
            Proposal(before=before, after=after, state=self._state(tool.key, after))
            for tool, before, after in zip(tools, given, answers, strict=True)
        ]

    def _state(self, key: ToolKey, after: EnhancedTool) -> State:
        choice = self._choice(key)
        if after.enhanced_by == _NONE:
            return "same"
        if choice:
            return "accepted" if choice == "accept" else "rejected"
        is_free = self._proofs is None or after.enhanced_by == OverrideTransformer.name
        return "used" if is_free else "unproven"

    def _choice(self, key: ToolKey) -> str:
        return self._choices.get(key, _NOTHING_CHOSEN).mending

    async def _known(self, server: str, drafts: Sequence[Proposal], proofs: Proofs) -> Verdicts | None:
        try:
            return await proofs.known(server, *_world(drafts))
        except StoreError as error:
            log.warning("what was proven cannot be read", server=server, reason=error.reason)
            return None

    def _neighbours(
        self, server: str, drafts: Sequence[Proposal], snapshot: Snapshot
    ) -> Sequence[SourceTool]:
        if self._near is None or self._near.snapshot is not snapshot:
            self._near = Neighbourhood(snapshot)
        changed = [one for one in drafts if one.state != "same"]
        return self._near.near(server, [tool for one in changed for tool in (one.before, one.after)])

    async def missing(self, server: str, tools: Sequence[ServerTool]) -> list[SourceTool]:
        """The tools that still need an answer of the language model.

        Raises:
            StoreError: The stored answers cannot be read.
        """
        if self._asked is None:
            return []
        left = await self._left(server, tools)
        return [left[at] for at in await self._asked.memo.missing(left, _of(server))]

    async def ask(self, server: str, tools: Sequence[ServerTool]) -> int:
        """Ask the language model about the tools of `missing`; returns how many answers changed.

        Raises:
            LlmError: The model does not answer, or its answer is unusable.
            StoreError: The stored answers cannot be read.
        """
        return await self._asked.memo.fill(await self._left(server, tools), _of(server)) if self._asked else 0

    async def estimate(self, server: str, tools: Sequence[ServerTool]) -> Estimate | None:
        """The most that `ask` would cost; `None` without a language model.

        Raises:
            StoreError: The stored answers cannot be read.
        """
        wanted = await self.missing(server, tools)
        return self._asked.model.estimate(wanted, _of(server)) if self._asked else None

    async def _left(self, server: str, tools: Sequence[ServerTool]) -> list[SourceTool]:
        """The tools without an answer from a transformer above the language model."""
        given = [_given(tool) for tool in tools if self._choice(tool.key) != "reject"]
        answers = await self._above.enhance(given, _of(server))
        return [tool for tool, answer in zip(given, answers, strict=True) if answer.enhanced_by == _NONE]


def _remembered(asked: RememberedModel | None, others: Sequence[Transformer]) -> Sequence[Transformer]:
    """The stored answers of the language model, laid over the transformers below it."""
    if asked is None:
        return []
    found: Transformer = asked.memo.remembered
    for one in sorted(others, key=lambda one: -one.priority):
        if one.priority < found.priority:
            found = LayeredTransformer(found, one)
    return [found]


def _mediator(transformers: Sequence[Transformer]) -> Mediator:
    mediator = Mediator()
    for one in transformers:
        mediator.use(one)
    return mediator


def _of(server: str) -> ToolContext:
    return ToolContext(source=server, source_type="api")


def _given(tool: ServerTool) -> SourceTool:
    schema = tool.input_schema
    return SourceTool(
        name=tool.key.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema if isinstance(schema, dict) else None,
        annotations=tool.annotations,
    )


def _as_it_is(tool: SourceTool) -> EnhancedTool:
    own = {name: getattr(tool, name) for name in _RAW_FIELDS}
    return EnhancedTool(**own, original_name=tool.name, enhanced_by=_NONE)


def _raw(tool: EnhancedTool) -> SourceTool:
    return SourceTool(**{name: getattr(tool, name) for name in _RAW_FIELDS})


def _is_shown(tool: Tool, proposal: Proposal) -> bool:
    """Whether the snapshot already publishes a tool as proposed."""
    wanted, own = _mended(proposal.before, proposal.published), tool.mending
    if wanted is None or own is None:
        return wanted is None and own is None
    said = replace(own, title="", description="", input_hash="")
    if (tool.title, tool.description, said) != (wanted.title, wanted.description, wanted.mending):
        return False
    schema = wanted.input_schema
    return tool.input_hash == (own.input_hash if schema is None else content_hash(canonical(schema)))


def _any_open(drafts: Sequence[Proposal]) -> bool:
    return any(one.state == "unproven" for one in drafts)


def _world(drafts: Sequence[Proposal]) -> tuple[list[SourceTool], list[EnhancedTool]]:
    """The tools without and with the open proposals; the others are the same in both lists."""
    before = [one.before if one.state == "unproven" else _raw(one.published) for one in drafts]
    after = [one.after if one.state == "unproven" else one.published for one in drafts]
    return before, after


def _judged(drafts: Sequence[Proposal], verdicts: Verdicts) -> list[Proposal]:
    return [
        replace(one, verdict=verdict, state="used" if verdict is None or verdict.kept else "harmful")
        if one.state == "unproven"
        else one
        for one, verdict in zip(drafts, verdicts, strict=True)
    ]


async def _hooked(hook: Mediator, server: str, tools: Sequence[EnhancedTool]) -> list[EnhancedTool]:
    """The tools as the hook of the embedding program returns them."""
    given = [replace(tool, original_name=tool.name) for tool in tools]
    answers = await hook.enhance(given, _of(server))
    return [
        replace(answer, original_name=tool.original_name)
        if answer.enhanced_by == FunctionTransformer.name
        else tool
        for tool, answer in zip(tools, answers, strict=True)
    ]


def _mended(before: SourceTool, after: EnhancedTool) -> MediatedTool | None:
    if after.enhanced_by == _NONE:
        return None
    changed = after.input_schema != before.input_schema
    return MediatedTool(
        title=after.title,
        description=after.description,
        input_schema=after.input_schema if changed else None,
        mending=Mediation(
            by=after.enhanced_by,
            confidence=after.confidence,
            rename=after.name if after.name != before.name else "",
            hidden=after.hidden,
            pinned=after.pinned,
            category=after.category,
            tags=after.tags,
            use_cases=after.use_cases,
        ),
    )
