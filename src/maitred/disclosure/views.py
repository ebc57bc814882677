"""Render one tool for agents: a call-ready line, a brief detail, the full definition.

Everything is text within a token budget. A line keeps all required parameters; it may drop optional ones and
says so (`…+7`). `~` marks a shortened line. `DETAIL_VIEWS` has what each level of detail shows.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.backends.listing import clean
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure.budget import estimate, pack
from maitred.disclosure.signature import escape_unprintable, parameters, type_of
from maitred.errors import UnknownDetailError
from maitred.model.details import DETAILS
from maitred.model.tools import Tool
from maitred.model.usage import Usage
from maitred.wording import count_of

LINE_TOKENS = 94  # by the estimate; at most 100 by the exact count
BRIEF_TOKENS = 280
SCHEMA_TOKENS = 800
SEARCH_FULL_TOKENS = 2_000
_SENTENCE_TOKENS = 40
_BRIEF_SENTENCES_TOKENS = 110
_BRIEF_FACTS_TOKENS = 80
_NEEDS_TOKENS = 30
_OMITTED_TOKENS = 60
_RETURNS_TOKENS = 24
_ORIGINAL_TOKENS = 300
_MARGIN_TOKENS = 40
_INFERRED_TOKENS = 4
_NAME_CHARACTERS = 40
_SENTENCE_END = re.compile(
    r"(?<=[。！？])|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?:\s+|$)|\n\s*\n|\n(?=\s*[-*#•\d])"  # noqa: RUF001  # Chinese, Japanese
)
_SPACES = re.compile(r"\s+")


def first_sentence(text: str, budget_tokens: int = _SENTENCE_TOKENS) -> tuple[str, bool]:
    """Return the first sentence of a description, and whether it was shortened."""
    sentence = _SPACES.sub(" ", _SENTENCE_END.split(text.strip(), maxsplit=1)[0]).strip().lstrip("#*- ")
    if estimate(sentence) <= budget_tokens:
        return sentence, False
    words = sentence.split(" ")
    words_kept: list[str] = []
    spent = 0
    for word in words:
        spent += estimate(word)
        if spent > budget_tokens:
            break
        words_kept.append(word)
    if not words_kept:  # a script without spaces, or one endless word
        words_kept = [sentence[: budget_tokens // 2]]
    return " ".join(words_kept), True


def plain_name(name: str) -> str:
    """Put a name of a server on one line without invisible characters, and shorten a long one."""
    return " ".join(clean(name).split())[:_NAME_CHARACTERS]


def line(snapshot: Snapshot, tool: Tool, budget_tokens: int = LINE_TOKENS, *, nested: bool = True) -> str:
    """Write a call-ready line, such as `server__tool(required: str, optional?: int, …+3) - What it does`."""
    sentence, cut = first_sentence(tool.description or tool.title)
    head, tail = signature(snapshot, tool, budget_tokens, sentence, nested=nested)
    if tail != sentence:
        cut = True
    mark = "~" if cut or head.startswith("~") else ""
    return mark + head.lstrip("~") + (f" - {tail}" if tail else "")


def signature(
    snapshot: Snapshot,
    tool: Tool,
    budget_tokens: int = LINE_TOKENS,
    sentence: str = "",
    *,
    nested: bool = True,
) -> tuple[str, str]:
    """Write a signature and as much of a sentence as fits into the same budget."""
    schema = snapshot.schema(tool.input_hash)
    budget_tokens -= _INFERRED_TOKENS if tool.inferred else 0
    all_parameters = [
        (escape_unprintable(name), kind, is_required)
        for name, kind, is_required in parameters(schema, nested=nested)
    ]
    required = [f"{name}: {kind}" for name, kind, is_required in all_parameters if is_required]
    optional = [f"{name}?: {kind}" for name, kind, is_required in all_parameters if not is_required]
    cut = ""
    if estimate(f"{tool.name}({', '.join(required)})") > budget_tokens - 8:
        required = _required_names(
            [name for name, _, is_required in all_parameters if is_required], budget_tokens + _MARGIN_TOKENS
        )
        cut = "~"
    spent = estimate(f"{tool.name}({', '.join(required)})") + 4
    if spent + estimate(sentence) > budget_tokens:
        sentence = first_sentence(sentence, max(budget_tokens - spent, 0))[0]
    spent += estimate(sentence)
    optional_kept = []
    for parameter in optional:
        spent += estimate(parameter) + 1
        if spent > budget_tokens - 4:
            break
        optional_kept.append(parameter)
    more = [f"…+{len(optional) - len(optional_kept)}"] if len(optional_kept) < len(optional) else []
    inferred = " (inferred)" if tool.inferred else ""
    head = f"{tool.name}({', '.join([*required, *optional_kept, *more])}){inferred}"
    return ("~" if more else cut) + head, sentence


def _required_names(names: list[str], budget_tokens: int) -> list[str]:
    """Return the names of all required parameters, or of as many as fit where there are extremely many."""
    packed = pack([f"{name}, " for name in names], budget_tokens)
    return [*names[: len(packed.items)], f"…+{packed.left} required"] if packed.left else names


def hints(tool: Tool) -> str:
    """Describe in words what a call does, as its server declares."""
    if tool.read_only:
        return "read-only"
    says = ["may change or destroy" if tool.destructive else "changes, does not destroy"]
    if tool.annotations.get("idempotentHint") is True:
        says.append("repeatable")
    return ", ".join(says)


def brief(snapshot: Snapshot, tool: Tool, needs: Sequence[str] = ()) -> str:
    """Describe one tool in a few lines, under 300 tokens: signature, description, server, category, needs."""
    description, cut = first_sentence(tool.description, _BRIEF_SENTENCES_TOKENS)
    head, _ = signature(snapshot, tool, BRIEF_TOKENS - _BRIEF_SENTENCES_TOKENS - _BRIEF_FACTS_TOKENS)
    rows = [head, description + ("~" if cut else "")] if description else [head]
    facts = [f"server: {tool.server[:80]}", f"category: {tool.placement.category or 'none'}", hints(tool)]
    rows.append("; ".join(facts))
    if tool.inferred:
        rows.append("its server declares no parameters: these are inferred, and no call is refused by them")
    if needs:
        rows.append("needs: " + ", ".join(pack([need[:40] for need in needs], _NEEDS_TOKENS).items))
    if tool.key.name != tool.name.removeprefix(f"{tool.server}__"):
        rows.append(f"name on its server: {escape_unprintable(tool.key.name[:60])}")
    return "\n".join(rows)


def full(snapshot: Snapshot, tool: Tool, budget_tokens: int, usage: Usage | None = None) -> str:
    """Return the definition as compact JSON, then its usage; the text names the parts that did not fit.

    The usage is that of the last computation of the tiers, unless a more recent one is given.
    """
    standing = snapshot.standings.get(tool.key)
    usage = usage or (standing.usage if standing else None)
    more = "".join(f"\n{row}" for row in _usage_rows(snapshot, tool, usage))
    budget_tokens -= estimate(more)
    definition = {k: v for k, v in snapshot.definition(tool).items() if k not in ("icons", "_meta")}
    omitted: list[str] = []
    text = _json(definition)
    for key in ("outputSchema", "annotations", "execution"):
        if estimate(text) > budget_tokens and key in definition:
            omitted.append(key)
            del definition[key]
            text = _json(definition)
    if estimate(text) > budget_tokens:
        omitted.append("descriptions of parameters")
        definition["inputSchema"] = without_texts(definition["inputSchema"])
        text = _json(definition)
    if estimate(text) > budget_tokens - _OMITTED_TOKENS:
        omitted.append("the schema (this is its outline)")
        text = line(snapshot, tool, budget_tokens - _OMITTED_TOKENS)
    if omitted:
        text += f"\n(left out for size: {', '.join(omitted)}; whole: maitred://tool/{tool.name})"
    return text + more


@dataclass(frozen=True, kw_only=True)
class DetailView:
    """How one level of detail shows a tool.

    `in_search` writes one result of a search. At most `most_results` are written: more do not fit the budget
    of an answer. `in_info` writes one tool of `tool_info`, by what its server needs, a budget, and its use up
    to now, which is read if the level `shows_usage`.
    """

    in_search: Callable[[Snapshot, Tool], str]
    in_info: Callable[[Snapshot, Tool, Sequence[str], int, Usage | None], str]
    shows_usage: bool = False
    most_results: int = 100


DETAIL_VIEWS: Final[dict[str, DetailView]] = {
    "brief": DetailView(
        in_search=line,
        in_info=lambda snapshot, tool, needs, *_: brief(snapshot, tool, needs),
    ),
    "full": DetailView(
        in_search=lambda snapshot, tool: full(snapshot, tool, SEARCH_FULL_TOKENS),
        in_info=lambda snapshot, tool, _, budget_tokens, usage: full(snapshot, tool, budget_tokens, usage),
        shows_usage=True,
        most_results=20,
    ),
}
"""The view of each level of `maitred.model.details.DETAILS`."""


def detail_view(detail: str) -> DetailView:
    """Return the view of a level of detail.

    Raises:
        UnknownDetailError: There is no such level, or nothing shows it.
    """
    if detail not in DETAILS or detail not in DETAIL_VIEWS:
        raise UnknownDetailError(detail, [name for name in DETAILS if name in DETAIL_VIEWS])
    return DETAIL_VIEWS[detail]


def _usage_rows(snapshot: Snapshot, tool: Tool, usage: Usage | None) -> list[str]:
    """Describe a tool beyond its definition: its category, its usage, and its use cases."""
    rows = [f"category: {', '.join([tool.placement.category or 'none', *tool.placement.tags])}"]
    if own := original_texts(snapshot, tool):
        rows.append(f"as its server has it ({own['by']} changed it): {_original_text(own)}")
    if usage is not None:
        rows.append(f"used: {figures(usage)}")
    if tool.use_cases:
        rows.append("for: " + "; ".join(pack(tool.use_cases, _BRIEF_SENTENCES_TOKENS).items))
    return rows


def original_texts(snapshot: Snapshot, tool: Tool) -> Mapping[str, Any] | None:
    """Return the server's own texts of a tool that mediation changed, and who changed it."""
    if tool.mending is None:
        return None
    raw = tool.raw
    return {
        "name": tool.key.name,
        "title": raw.title,
        "description": raw.description,
        "input_schema": snapshot.schema(raw.input_hash),
        "by": tool.mending.by,
        "confidence": round(tool.mending.confidence, 3),
    }


def _original_text(own: Mapping[str, Any]) -> str:
    """Return its name, title and description on one line; of a long description the beginning."""
    texts = [_SPACES.sub(" ", own[key]).strip() for key in ("name", "title", "description")]
    text = "; ".join(escape_unprintable(part) for part in texts if part)
    words = pack(text.split(" "), _ORIGINAL_TOKENS)
    return " ".join(words.items) + (" …" if words.left else "")


def figures(usage: Usage) -> str:
    """Return the figures of the use of a tool that was called."""
    times = f"{usage.mean_ms:.0f} ms mean, {usage.p95_ms:.0f} ms p95"
    last = f", last {usage.last_used[:16]}Z" if usage.last_used else ""
    return f"{count_of(usage.calls, 'call')}, {usage.success_rate:.1%} succeeded, {times}{last}"


def short_figures(usage: Usage) -> str:
    """Return the mean latency and the share of successes in a few characters, such as `47 ms, 98% ok`."""
    return f"{usage.mean_ms:.0f} ms, {usage.success_rate:.0%} ok"


def returns(schema: Any, budget_tokens: int = _RETURNS_TOKENS) -> str:
    """Write what a tool returns, such as `{name: str, lines: int[]}`; empty if its schema says nothing.

    What costs more than the budget is written without the content of objects.
    """
    for nested in (True, False):
        text = type_of(schema, schema, nested=nested) if isinstance(schema, Mapping) and schema else "any"
        if text == "any":
            return ""
        if estimate(text) <= budget_tokens:
            return text
    return ""


def compact_schema(snapshot: Snapshot, tool: Tool) -> str:
    """Write a tool's parameters for an error answer: the schema where it is short, otherwise its outline."""
    schema = snapshot.schema(tool.input_hash)
    text = _json(without_texts(schema)) if isinstance(schema, dict) else "{}"
    if estimate(text) <= SCHEMA_TOKENS:
        return text
    return signature(snapshot, tool, SCHEMA_TOKENS)[0]


def without_texts(schema: Any) -> Any:
    """Remove descriptions, titles and examples from a schema; keep properties of those names."""
    if isinstance(schema, list):
        return [without_texts(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    drop = {"description", "title", "examples", "$comment", "$schema", "$id"}
    result = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
            result[key] = {name: without_texts(item) for name, item in value.items()}
        elif key in ("enum", "const", "default", "required"):
            result[key] = value
        elif key not in drop:
            result[key] = without_texts(value)
    return result


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
