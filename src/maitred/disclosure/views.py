"""Render tools for agents: a call-ready line, a brief detail, the full definition, pages, and search answers.

Everything is text within a token budget. Required parameters are never cut from a line; optional ones are,
and say so (`…+7`); `~` marks a line from which anything was cut.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from maitred.catalog.snapshot import Snapshot
from maitred.disclosure.budget import estimate
from maitred.disclosure.types import parameters, shown
from maitred.model.tools import Tool

LINE_TOKENS = 94  # by the estimate; 100 by the count that it stands for
BRIEF_TOKENS = 280
FULL_TOKENS = 11_500
PAGE_TOKENS = 3_500
SCHEMA_TOKENS = 800
_SENTENCE_TOKENS = 40
_BRIEF_SENTENCES_TOKENS = 130
_SENTENCE_END = re.compile(
    r"(?<=[。！？])|(?<=[.!?])(?:\s+|$)|\n\s*\n|\n(?=\s*[-*#•\d])"  # noqa: RUF001  # Chinese, Japanese
)
_SPACES = re.compile(r"\s+")


def first_sentence(text: str, budget_tokens: int = _SENTENCE_TOKENS) -> tuple[str, bool]:
    """The first sentence of a description, and whether it had to be cut inside."""
    sentence = _SPACES.sub(" ", _SENTENCE_END.split(text.strip(), maxsplit=1)[0]).strip().lstrip("#*- ")
    if estimate(sentence) <= budget_tokens:
        return sentence, False
    words = sentence.split(" ")
    kept: list[str] = []
    spent = 0
    for word in words:
        spent += estimate(word)
        if spent > budget_tokens:
            break
        kept.append(word)
    if not kept:  # a script without spaces, or one endless word
        kept = [sentence[: budget_tokens // 2]]
    return " ".join(kept), True


def line(snapshot: Snapshot, tool: Tool, budget_tokens: int = LINE_TOKENS) -> str:
    """One call-ready line, such as `server__tool(required: str, optional?: int, …+3) - What it does`."""
    sentence, cut = first_sentence(tool.description or tool.title)
    head, tail = signature(snapshot, tool, budget_tokens, sentence)
    if tail != sentence:
        cut = True
    marked = "~" if cut or head.startswith("~") else ""
    return marked + head.lstrip("~") + (f" - {tail}" if tail else "")


def signature(
    snapshot: Snapshot, tool: Tool, budget_tokens: int = LINE_TOKENS, sentence: str = ""
) -> tuple[str, str]:
    """A signature within a budget that it shares with a sentence, and what of the sentence fits beside it."""
    found = [(shown(n), kind, needed) for n, kind, needed in parameters(snapshot.schema(tool.input_hash))]
    required = [f"{name}: {kind}" for name, kind, needed in found if needed]
    optional = [f"{name}?: {kind}" for name, kind, needed in found if not needed]
    cut = ""
    if estimate(f"{tool.name}({', '.join(required)})") > budget_tokens - 8:
        required = [name for name, _, needed in found if needed]
        cut = "~"
    spent = estimate(f"{tool.name}({', '.join(required)})") + 4
    if spent + estimate(sentence) > budget_tokens:
        sentence = first_sentence(sentence, max(budget_tokens - spent, 0))[0]
    spent += estimate(sentence)
    kept = []
    for parameter in optional:
        spent += estimate(parameter) + 1
        if spent > budget_tokens - 4:
            break
        kept.append(parameter)
    more = [f"…+{len(optional) - len(kept)}"] if len(kept) < len(optional) else []
    return ("~" if more else cut) + f"{tool.name}({', '.join([*required, *kept, *more])})", sentence


def hints(tool: Tool) -> str:
    """What the server says a call does, in words."""
    if tool.read_only:
        return "read-only"
    says = ["may change or destroy" if tool.destructive else "changes, does not destroy"]
    if tool.annotations.get("idempotentHint") is True:
        says.append("repeatable")
    return ", ".join(says)


def brief(snapshot: Snapshot, tool: Tool) -> str:
    """A few lines on one tool, under 300 tokens: signature, description, server, hints."""
    described, cut = first_sentence(tool.description, _BRIEF_SENTENCES_TOKENS)
    head, _ = signature(snapshot, tool, BRIEF_TOKENS - _BRIEF_SENTENCES_TOKENS - 40)
    rows = [head, described + ("~" if cut else "")] if described else [head]
    rows.append(f"server: {tool.server}; {hints(tool)}")
    if tool.key.name != tool.name.removeprefix(f"{tool.server}__"):
        rows.append(f"name on its server: {shown(tool.key.name[:80])}")
    return "\n".join(rows)


def full(snapshot: Snapshot, tool: Tool, budget_tokens: int = FULL_TOKENS) -> str:
    """The whole definition as compact JSON; what does not fit is left out, least needed first, and named."""
    definition = snapshot.definition(tool)
    definition = {k: v for k, v in definition.items() if k not in ("icons", "_meta")}
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
    if estimate(text) > budget_tokens:
        omitted.append("the schema (this is its outline)")
        text = line(snapshot, tool, budget_tokens)
    return text + (f"\n(left out for size: {', '.join(omitted)})" if omitted else "")


def compact_schema(snapshot: Snapshot, tool: Tool) -> str:
    """A tool's parameters for an error answer: the schema where it is short, else its outline."""
    schema = snapshot.schema(tool.input_hash)
    text = _json(without_texts(schema)) if isinstance(schema, dict) else "{}"
    if estimate(text) <= SCHEMA_TOKENS:
        return text
    return signature(snapshot, tool, SCHEMA_TOKENS)[0]


def without_texts(schema: Any) -> Any:
    """A schema without its descriptions, titles and examples; a property of that name is kept."""
    if isinstance(schema, list):
        return [without_texts(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    drop = {"description", "title", "examples", "$comment", "$schema", "$id"}
    kept = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
            kept[key] = {name: without_texts(item) for name, item in value.items()}
        elif key in ("enum", "const", "default", "required"):
            kept[key] = value
        elif key not in drop:
            kept[key] = without_texts(value)
    return kept


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of text and the cursor of the next, empty at the end. A cursor is the last name shown."""

    text: str
    cursor: str = ""


def page(
    names: Iterable[str], render: Callable[[str], str], after: str, budget_tokens: int = PAGE_TOKENS
) -> Page:
    """The lines of the names that sort after a name, as many as fit; only those that fit are rendered."""
    rest = sorted(name for name in names if name > after)
    lines: list[str] = []
    spent = 0
    for name in rest:
        text = render(name)
        spent += estimate(text) + 1
        if spent > budget_tokens and lines:
            break
        lines.append(text)
    left = len(rest) - len(lines)
    cursor = rest[len(lines) - 1] if left else ""
    more = [f"({left} more: same path with cursor {cursor!r})"] if left else []
    return Page(text="\n".join([*lines, *more]), cursor=cursor)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
