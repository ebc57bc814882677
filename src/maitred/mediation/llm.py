"""Improve tools with a language model: one question a server, and an untrusted answer.

The model writes names, titles, descriptions, hints for parameters, tags, use cases and categories. For a
server with more tools than `grouping_threshold` it makes groups, whose names become categories. For others it
chooses among the ten categories of every menu. A failed question is not repeated; the next transformer gets
its tools. `maitred.mediation.llm_answer` checks what an answer may change.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

import structlog
from anyio import to_thread

from maitred.llm import LlmError, Reply
from maitred.mediation.base import EnhancedTool, PartlyAnsweredError, SourceTool, ToolContext
from maitred.mediation.llm_answer import read_answer
from maitred.mediation.llm_prices import usd
from maitred.mediation.llm_prompt import question, rules

log = structlog.get_logger(__name__)

_LETTERS_A_TOKEN = 3
_ROOM, _ROOM_A_TOOL = 4_000, 300  # reasoning models count their thoughts as output
_MOST_TOKENS = 32_000
_MARK_BYTES = 8


class ModelAsker(Protocol):
    """A language model; see `maitred.llm.LanguageModel`."""

    @property
    def name(self) -> str:
        """The model's name, which determines its price."""
        ...

    async def ask(self, rules: str, prompt: str, *, max_tokens: int) -> Reply:
        """The model's answer.

        Raises:
            Exception: The model did not answer.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The most that questions will cost; `usd` is `None` if the model's price is unknown.

    Input tokens are estimated. Endpoints of OpenAI's protocol may exceed the output tokens.
    """

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None


@dataclass(frozen=True, kw_only=True)
class ModelSpending:
    """The cost of past questions; `failures` had no usable answer.

    Tokens are the provider's count, or estimated if it gave none. `usd` is `None` if the model's price is
    unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    failures: int = 0


@dataclass(frozen=True, kw_only=True)
class _ToolQuestion:
    tools: Sequence[SourceTool]
    rules: str
    prompt: str
    max_tokens: int


def estimated_tokens(text: str) -> int:
    """A high estimate of a text's tokens, for models of any vendor."""
    return -(-len(text) // _LETTERS_A_TOKEN)


class LlmTransformer:
    """Asks a language model about all tools of a server at once; `spent` is the total of its life."""

    name = "llm"
    priority = 50
    version: ClassVar[str] = "2"
    """Raise it when the question, or the reading of an answer, changes."""

    def __init__(
        self,
        model: ModelAsker,
        *,
        grouping_threshold: int = 10,
        max_tools: int = 100,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        """More tools than `max_tools` make several questions; `count` counts the tokens of a text."""
        self._model = model
        self._threshold = grouping_threshold
        self._max_tools = max_tools
        self._count = count
        self.spent = ModelSpending(usd=usd(model.name, 0, 0))

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`; `None` for each tool without a usable answer.

        Raises:
            LlmError: The model did not answer, or its answer is unusable as a whole.
            PartlyAnsweredError: The same, but for a question after the first one.
        """
        names = {tool.name for tool in tools}
        answers: list[EnhancedTool | None] = []
        for request in self._questions(tools, context):
            try:
                answers += await self._answer_question(
                    request, context, names=names, grouped=self._is_grouped(tools)
                )
            except Exception as error:
                if not answers:
                    raise
                raise PartlyAnsweredError(str(error) or type(error).__name__, answers) from error
        return answers

    def estimate(self, tools: Sequence[SourceTool], context: ToolContext) -> Estimate:
        """The most that a question about these tools will cost; asks nothing."""
        questions = list(self._questions(tools, context))
        inputs = sum(self._count(request.rules) + self._count(request.prompt) for request in questions)
        outputs = sum(request.max_tokens for request in questions)
        return Estimate(
            calls=len(questions),
            input_tokens=inputs,
            output_tokens=outputs,
            usd=usd(self._model.name, inputs, outputs),
        )

    def _is_grouped(self, tools: Sequence[SourceTool]) -> bool:
        return len(tools) > self._threshold

    def _questions(self, tools: Sequence[SourceTool], context: ToolContext) -> Iterator[_ToolQuestion]:
        instructions = rules(grouped=self._is_grouped(tools))
        for start in range(0, len(tools), self._max_tools):
            batch = tools[start : start + self._max_tools]
            yield _ToolQuestion(
                tools=batch,
                rules=instructions,
                prompt=question(batch, context, secrets.token_hex(_MARK_BYTES)),
                max_tokens=min(_ROOM + _ROOM_A_TOOL * len(batch), _MOST_TOKENS),
            )

    async def _answer_question(
        self, request: _ToolQuestion, context: ToolContext, *, names: set[str], grouped: bool
    ) -> Sequence[EnhancedTool | None]:
        refusals: list[str] = []

        def refuse(tool: SourceTool, why: str) -> None:
            refusals.append(tool.name)
            log.warning("an answer about a tool is refused", source=context.source, tool=tool.name, why=why)

        try:
            reply = await self._ask_and_pay(request)
            parse = partial(read_answer, names=names, grouped=grouped, by=self.name, refuse=refuse)
            answers = await to_thread.run_sync(parse, reply.text, request.tools)
        except Exception:
            self.spent = replace(self.spent, failures=self.spent.failures + 1)
            raise
        log.info(
            "a language model was asked about tools",
            source=context.source,
            model=self._model.name,
            tools=len(request.tools),
            refused=len(refusals),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            usd=usd(self._model.name, reply.input_tokens, reply.output_tokens),
        )
        return answers

    async def _ask_and_pay(self, request: _ToolQuestion) -> Reply:
        """A whole answer. Adds its tokens to `spent`, and those of a broken answer too."""
        self.spent = replace(self.spent, calls=self.spent.calls + 1)
        reply = await self._model.ask(request.rules, request.prompt, max_tokens=request.max_tokens)
        inputs = reply.input_tokens or self._count(request.rules) + self._count(request.prompt)
        outputs = reply.output_tokens or self._count(reply.text)
        cost = usd(self._model.name, inputs, outputs)
        self.spent = replace(
            self.spent,
            input_tokens=self.spent.input_tokens + inputs,
            output_tokens=self.spent.output_tokens + outputs,
            usd=None if cost is None else (self.spent.usd or 0.0) + cost,
        )
        if reply.fault:
            raise LlmError(f"the model {reply.fault}")
        return replace(reply, input_tokens=inputs, output_tokens=outputs)
