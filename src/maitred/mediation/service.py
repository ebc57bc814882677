"""Mediation for the catalog: raw tools of a server in, tools to publish out.

`mend` is quick, since the catalog waits for it: it asks no model and proves nothing, but uses stored answers
and proofs. `ask` and `prove` fill those stores in the background. Overrides and choices of an operator need
no proof.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

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
from maitred.mediation.rules import SEEN, RuleTransformer, seen_arguments
from maitred.model.categories import ToolChoice
from maitred.model.pages import split_mark
from maitred.model.tools import Mediation, Tool, ToolKey, canonical, content_hash
from maitred.model.tools import RawTool as ServerTool

log = structlog.get_logger(__name__)

State = Literal["same", "used", "accepted", "rejected", "unfit", "harmful", "unproven"]
"""The state of a proposal.

`same`: there is none. `used`: it is used. `accepted`, `rejected`: an operator decided so. `unfit`: its text
does not fit the tool. `harmful`: search would get worse with it. `unproven`: there is no proof yet.
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
    def published_tool(self) -> EnhancedTool:
        """The tool to publish."""
        return self.after if self.state in ("used", "accepted") else _as_it_is(self.before)


@dataclass(frozen=True, kw_only=True)
class RememberedModel:
    """A language model and its stored answers; `close` ends its connections."""

    model: LlmTransformer
    memo: Memo
    close: Callable[[], Awaitable[None]]


ArgumentsOf = Callable[[ToolKey], Mapping[str, str]]
"""The arguments that calls of a tool had: their names, each with its JSON type or nothing."""


def no_arguments(key: ToolKey) -> Mapping[str, str]:
    """Know of no call."""
    del key
    return {}


class ThreadedRules(RuleTransformer):
    """Rules in a worker thread, since a server may have thousands of tools; the priority can be set."""

    def __init__(self, priority: int = RuleTransformer.priority) -> None:
        super().__init__()
        self.priority = priority

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        return await to_thread.run_sync(self.transform_now, tools, seen_arguments(context))


class MediationService:
    """Improves the tools of servers; `fingerprint` identifies its transformers and their inputs."""

    def __init__(
        self,
        transformers: Sequence[Transformer],
        fingerprint: str,
        *,
        model: RememberedModel | None = None,
        proofs: Proofs | None = None,
        choices: Mapping[ToolKey, ToolChoice] | None = None,
        middleware: Middleware | None = None,
        is_whole: bool = True,
        urls: Mapping[str, str] | None = None,
        with_pages: Collection[str] = (),
        arguments_of: ArgumentsOf = no_arguments,
    ) -> None:
        """Combine transformers.

        Args:
            transformers: Those that answer at once.
            fingerprint: Changes when the same tools might get different answers.
            model: The language model, whose stored answers have a priority among the others.
            proofs: Checks proposals; without it all are used.
            choices: An operator's decisions about single tools.
            middleware: The hook of an embedding program; it comes last.
            is_whole: False if a source of overrides is not available yet.
            urls: The addresses of servers, by which overrides of a domain are found.
            with_pages: The servers whose tools are of web pages, named by their origins.
            arguments_of: Returns the arguments that calls of a tool had.
        """
        self.fingerprint = fingerprint
        self.is_whole = is_whole
        self._mediator = _mediator([*transformers, *_stored_layers(model, transformers)])
        above = [
            transformer
            for transformer in transformers
            if model and transformer.priority > model.memo.priority
        ]
        self._above = _mediator(above)
        self._model = model
        self._proofs = proofs
        self._choices = dict(choices or {})
        self._hook = _mediator([FunctionTransformer(middleware)]) if middleware else None
        self._near: Neighbourhood | None = None
        self._urls = dict(urls or {})
        self._with_pages = frozenset(with_pages)
        self._arguments_of = arguments_of

    @property
    def model(self) -> LlmTransformer | None:
        """The language model, if there is one."""
        return self._model.model if self._model else None

    @property
    def proves(self) -> bool:
        """Whether proposals need a proof."""
        return self._proofs is not None

    async def aclose(self) -> None:
        """Close the connections to the language model."""
        if self._model:
            await self._model.close()

    async def mend(self, server: str, tools: Sequence[ServerTool]) -> Sequence[MediatedTool | None]:
        """One answer a tool, in order; `None` for a tool that stays as it is."""
        proposals = await self.proposals(server, tools)
        now = [proposal.published_tool for proposal in proposals]
        if self._hook is not None:
            now = await _apply_hook(self._hook, self._of(server), now)
        return [
            _mediated_tool(proposal.before, after) for proposal, after in zip(proposals, now, strict=True)
        ]

    async def proposals(self, server: str, tools: Sequence[ServerTool]) -> list[Proposal]:
        """The proposal for each tool of a server, and its state at present."""
        drafts = await self._drafts(server, tools)
        if self._proofs is None or not _any_open(drafts):
            return drafts
        verdicts = await self._stored_verdicts(server, drafts, self._proofs)
        if verdicts is not None:
            await self._proofs.remember(server, *_world(drafts), verdicts)
            return _apply_verdicts(drafts, verdicts)
        are_proven = await self._proofs.passed_last_proof(server, *_world(drafts))
        return [
            replace(proposal, state="used") if is_used and proposal.state == "unproven" else proposal
            for proposal, is_used in zip(drafts, are_proven, strict=True)
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
            drafts = _apply_verdicts(drafts, verdicts)
        current_tools = mendable_tools(snapshot, server)
        return self._hook is not None or not all(map(_is_published, current_tools, drafts))

    async def judged(self, server: str, tools: Sequence[ServerTool], snapshot: Snapshot) -> list[Proposal]:
        """As `proposals`; also proves, for information, what an operator wrote or accepted.

        Raises:
            StoreError: The result cannot be stored.
        """
        proposals = await self.proposals(server, tools)
        unproven = [
            at
            for at, proposal in enumerate(proposals)
            if proposal.state in ("used", "accepted") and not proposal.verdict
        ]
        if self._proofs is None or not unproven:
            return proposals
        before = [proposal.before for proposal in proposals]
        after = [
            proposal.after if at in unproven else _as_it_is(proposal.before)
            for at, proposal in enumerate(proposals)
        ]
        verdicts = await self._proofs.prove(
            server, before, after, lambda: self._neighbours(server, proposals, snapshot)
        )
        return [
            replace(proposal, verdict=verdicts[at]) if at in unproven else proposal
            for at, proposal in enumerate(proposals)
        ]

    async def _drafts(self, server: str, tools: Sequence[ServerTool]) -> list[Proposal]:
        """Proposals without proof; those that need one are "unproven"."""
        originals = [_source_tool(tool) for tool in tools]
        answers = await self._mediator.enhance(
            list(map(_without_mark, originals)), self._of(server, [tool.key for tool in tools])
        )
        return [
            Proposal(before=before, after=_marked(before, after), state=self._state(tool.key, after))
            for tool, before, after in zip(tools, originals, answers, strict=True)
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

    async def _stored_verdicts(
        self, server: str, drafts: Sequence[Proposal], proofs: Proofs
    ) -> Verdicts | None:
        try:
            return await proofs.verdicts_of(server, *_world(drafts))
        except StoreError as error:
            log.warning("stored proofs cannot be read", server=server, reason=error.reason)
            return None

    def _neighbours(
        self, server: str, drafts: Sequence[Proposal], snapshot: Snapshot
    ) -> Sequence[SourceTool]:
        if self._near is None or self._near.snapshot is not snapshot:
            self._near = Neighbourhood(snapshot)
        proposals = [proposal for proposal in drafts if proposal.state != "same"]
        return self._near.near(
            server, [tool for proposal in proposals for tool in (proposal.before, proposal.after)]
        )

    async def missing(self, server: str, tools: Sequence[ServerTool]) -> list[SourceTool]:
        """The tools that still need an answer of the language model.

        Raises:
            StoreError: The stored answers cannot be read.
        """
        if self._model is None:
            return []
        tools_left = await self._unanswered_tools(server, tools)
        return [tools_left[at] for at in await self._model.memo.missing(tools_left, self._of(server))]

    async def ask(self, server: str, tools: Sequence[ServerTool]) -> int:
        """Ask the language model about the tools of `missing`; returns how many answers changed.

        Raises:
            LlmError: The model does not answer, or its answer is unusable.
            StoreError: The stored answers cannot be read.
        """
        return (
            await self._model.memo.fill(await self._unanswered_tools(server, tools), self._of(server))
            if self._model
            else 0
        )

    async def estimate(self, server: str, tools: Sequence[ServerTool]) -> Estimate | None:
        """The most that `ask` would cost; `None` without a language model.

        Raises:
            StoreError: The stored answers cannot be read.
        """
        missing = await self.missing(server, tools)
        return self._model.model.estimate(missing, self._of(server)) if self._model else None

    async def _unanswered_tools(self, server: str, tools: Sequence[ServerTool]) -> list[SourceTool]:
        """The tools without an answer from a transformer above the language model."""
        originals = [
            _without_mark(_source_tool(tool)) for tool in tools if self._choice(tool.key) != "reject"
        ]
        answers = await self._above.enhance(originals, self._of(server))
        return [tool for tool, answer in zip(originals, answers, strict=True) if answer.enhanced_by == _NONE]

    def _of(self, server: str, keys: Sequence[ToolKey] = ()) -> ToolContext:
        """The origin of a server's tools, and the arguments that calls of these tools had."""
        url = self._urls.get(server)
        seen = {key.name: arguments for key in keys if (arguments := self._arguments_of(key))}
        metadata: dict[str, Any] = {"url": url} if url else {}
        return ToolContext(
            source=server,
            source_type="web" if server in self._with_pages else "api",
            metadata={**metadata, **({SEEN: seen} if seen else {})},
        )


def _stored_layers(model: RememberedModel | None, others: Sequence[Transformer]) -> Sequence[Transformer]:
    """The stored answers of the language model, laid over the transformers below it."""
    if model is None:
        return []
    layers: Transformer = model.memo.stored_answers
    for transformer in sorted(others, key=lambda transformer: -transformer.priority):
        if transformer.priority < layers.priority:
            layers = LayeredTransformer(layers, transformer)
    return [layers]


def _mediator(transformers: Sequence[Transformer]) -> Mediator:
    mediator = Mediator()
    for transformer in transformers:
        mediator.use(transformer)
    return mediator


def _source_tool(tool: ServerTool) -> SourceTool:
    schema = tool.input_schema
    return SourceTool(
        name=tool.key.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema if isinstance(schema, dict) else None,
        annotations=tool.annotations,
    )


def _without_mark(tool: SourceTool) -> SourceTool:
    """A tool without the mark that says that its description is of a web page."""
    return replace(tool, description=split_mark(tool.description)[1])


def _marked(before: SourceTool, after: EnhancedTool) -> EnhancedTool:
    """A proposal with the mark of its page, since it may repeat the page; an operator's text needs none."""
    page_mark, _ = split_mark(before.description)
    if not page_mark or (after.enhanced_by == OverrideTransformer.name and _is_rewritten(before, after)):
        return after
    return replace(after, description=f"{page_mark}{after.description}")


def _is_rewritten(before: SourceTool, after: EnhancedTool) -> bool:
    return after.description != split_mark(before.description)[1]


def _as_it_is(tool: SourceTool) -> EnhancedTool:
    own = {name: getattr(tool, name) for name in _RAW_FIELDS}
    return EnhancedTool(**own, original_name=tool.name, enhanced_by=_NONE)


def _raw(tool: EnhancedTool) -> SourceTool:
    return SourceTool(**{name: getattr(tool, name) for name in _RAW_FIELDS})


def _is_published(tool: Tool, proposal: Proposal) -> bool:
    """Whether the snapshot already publishes a tool as proposed."""
    target, own = _mediated_tool(proposal.before, proposal.published_tool), tool.mending
    if target is None or own is None:
        return target is None and own is None
    mediation = replace(own, title="", description="", input_hash="")
    if (tool.title, tool.description, mediation) != (target.title, target.description, target.mending):
        return False
    schema = target.input_schema
    return tool.input_hash == (own.input_hash if schema is None else content_hash(canonical(schema)))


def _any_open(drafts: Sequence[Proposal]) -> bool:
    return any(proposal.state == "unproven" for proposal in drafts)


def _world(drafts: Sequence[Proposal]) -> tuple[list[SourceTool], list[EnhancedTool]]:
    """The tools without and with the open proposals; the others are the same in both lists."""
    before = [
        proposal.before if proposal.state == "unproven" else _raw(proposal.published_tool)
        for proposal in drafts
    ]
    after = [
        proposal.after if proposal.state == "unproven" else proposal.published_tool for proposal in drafts
    ]
    return before, after


def _apply_verdicts(drafts: Sequence[Proposal], verdicts: Verdicts) -> list[Proposal]:
    return [
        replace(proposal, verdict=verdict, state=_proven_state(verdict))
        if proposal.state == "unproven"
        else proposal
        for proposal, verdict in zip(drafts, verdicts, strict=True)
    ]


def _proven_state(verdict: ProofVerdict | None) -> State:
    if verdict is None or verdict.kept:
        return "used"
    return "unfit" if verdict.unfit else "harmful"


async def _apply_hook(
    hook: Mediator, context: ToolContext, tools: Sequence[EnhancedTool]
) -> list[EnhancedTool]:
    """The tools as the hook of the embedding program returns them."""
    renamed_tools = [replace(tool, original_name=tool.name) for tool in tools]
    answers = await hook.enhance(renamed_tools, context)
    return [
        replace(answer, original_name=tool.original_name)
        if answer.enhanced_by == FunctionTransformer.name
        else tool
        for tool, answer in zip(tools, answers, strict=True)
    ]


def _mediated_tool(before: SourceTool, after: EnhancedTool) -> MediatedTool | None:
    if after.enhanced_by == _NONE:
        return None
    is_schema_changed = after.input_schema != before.input_schema
    return MediatedTool(
        title=after.title,
        description=after.description,
        input_schema=after.input_schema if is_schema_changed else None,
        mending=Mediation(
            by=after.enhanced_by,
            confidence=after.confidence,
            rename=after.name if after.name != before.name else "",
            hidden=after.hidden,
            pinned=after.pinned,
            category=after.category,
            tags=after.tags,
            use_cases=after.use_cases,
            category_description=after.category_description,
            inferred=after.inferred,
        ),
    )
