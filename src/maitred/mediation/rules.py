"""Rules that make cryptic tools readable: spelled-out names, and sentences for tools and parameters.

They need no network and always give the same answer. They never change what a call means: every valid
arguments object stays valid. A guessed type of a parameter is only a hint, a choice between that type and
anything. A tool that declares no parameters gets an inferred schema, by which no call is checked. The
published name stays too, unless `rename` is set; its meaning goes into title and description, for search.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from maitred.mediation.base import EnhancedTool, SourceTool, ToolContext
from maitred.mediation.inferred_schema import InferredParameter, infer_schema, is_open
from maitred.mediation.lexicon import VERBS
from maitred.mediation.schema_rules import infer_parameters, merge_seen
from maitred.mediation.sentences import (
    SentenceDraft,
    describe,
    meaning,
    repair_description,
    sentence_case,
    stems,
)
from maitred.mediation.words import SpelledName, certain_words, spell
from maitred.model.pages import name_in_page

_RESPELLED = 0.6
_INFERRED = 0.5
_GUESSED = 0.4
_MAX_NAME = 64
_SHORT_TEXT = 8
_FEW_WORDS = 3
_TEXTS = frozenset({"title", "description", "$comment"})
_DATE = {"type": "string", "format": "date-time"}
_HINTS: Mapping[str, Mapping[str, Any]] = {
    "limit": {"type": "integer"},
    "count": {"type": "integer"},
    "offset": {"type": "integer"},
    "page": {"type": "integer"},
    "email": {"type": "string", "format": "email"},
    "date": _DATE,
    "time": _DATE,
    "datetime": _DATE,
}
"""Last word of a parameter's name -> the usual schema of such a parameter."""

_BOOLEAN = frozenset({"is", "has"})
_SWITCHED = VERBS | {"include"}
_SENTENCES: Mapping[str, str] = {
    "limit": "How many results at most.",
    "offset": "How many results to skip.",
    "page": "Which page of the results.",
    "query": "What to look for.",
    "to": "Who or what it goes to.",
    "from": "Who or what it comes from.",
}


SEEN = "arguments_seen"
"""The key in the metadata of a context for the arguments that calls had, by name of the tool."""


class RuleTransformer:
    """Improves tools by rules; `None` for a tool that needs nothing."""

    name = "rules"
    priority = 100
    version = 3
    """Raise it when the rules might answer differently."""

    def __init__(self, *, rename: bool = False) -> None:
        """With `rename`, a spelled-out name also becomes the new name of the tool."""
        self._rename = rename

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`; of the context, only the arguments under `SEEN` are used."""
        return self.transform_now(tools, seen_arguments(context))

    def transform_now(
        self, tools: Sequence[SourceTool], seen: Mapping[str, Mapping[str, str]] | None = None
    ) -> list[EnhancedTool | None]:
        """The synchronous form of `transform`, for a worker thread.

        Args:
            tools: The tools of one source.
            seen: By name of a tool, the arguments that calls had, each with its JSON type or nothing.
        """
        return [self._transform_tool(tool, (seen or {}).get(tool.name, {})) for tool in tools]

    def _transform_tool(self, tool: SourceTool, seen: Mapping[str, str]) -> EnhancedTool | None:
        inferred = _inferred(tool, seen)
        properties = _properties(tool.input_schema)
        short = len(tool.description.split()) <= _SHORT_TEXT
        own_name = name_in_page(tool.name)
        context = certain_words([own_name, *properties, *([tool.description] if short else [])])
        name = spell(own_name, context, is_tool=True)
        parameters = {parameter: spell(parameter, context) for parameter in properties}
        sentence = describe(name, list(parameters.values()))
        description = _keep_same(tool.description, _description(tool.description, name, sentence))
        title = (
            sentence_case(name.text) if name.is_spelled_out and tool.title in {"", tool.name} else tool.title
        )
        new_properties = {
            parameter: _parameter(properties[parameter], spelling)
            for parameter, spelling in parameters.items()
        }
        schema = _with(tool.input_schema, properties, new_properties, inferred)
        new_name = (_new_name(name) if self._rename and name.is_spelled_out else "") or tool.name
        if (title, description, schema, new_name) == (
            tool.title, tool.description, tool.input_schema, tool.name,
        ):  # fmt: skip
            return None
        inferred_from = sentence if sentence and description.startswith(sentence.text) else None
        is_guess = (
            name.is_guess or _is_guess(tool, inferred) or bool(inferred_from and inferred_from.is_guess)
        )
        is_inferred = inferred_from is not None or new_properties != properties or bool(inferred)
        return EnhancedTool(
            name=new_name,
            original_name=tool.name,
            title=title,
            description=description,
            input_schema=schema,
            annotations=tool.annotations,
            metadata=tool.metadata,
            confidence=_GUESSED if is_guess else _INFERRED if is_inferred else _RESPELLED,
            enhanced_by=self.name,
            inferred=tuple(inferred),
        )


def seen_arguments(context: ToolContext) -> Mapping[str, Mapping[str, str]]:
    """The arguments that calls had, by name of the tool; empty if the source keeps none."""
    seen = context.metadata.get(SEEN)
    return seen if isinstance(seen, Mapping) else {}


def _inferred(tool: SourceTool, seen: Mapping[str, str]) -> Mapping[str, InferredParameter]:
    """The parameters of a tool that declares none."""
    if _properties(tool.input_schema) or not is_open(tool.input_schema):
        return {}
    return merge_seen(infer_parameters(tool.name, tool.description), seen.items())


def _is_guess(tool: SourceTool, inferred: Mapping[str, InferredParameter]) -> bool:
    """Whether the name alone says that the tool has these parameters."""
    return bool(inferred) and inferred == infer_parameters(tool.name, "")


def _new_name(name: SpelledName) -> str:
    """A name in a form that can be published; empty if there is none."""
    new = "_".join("_".join(name.words).split())
    return new if re.fullmatch(rf"[a-z0-9_]{{1,{_MAX_NAME}}}", new) else ""


def _keep_same(before: str, after: str) -> str:
    """The text before if only the blanks around it would change."""
    return before if after == before.strip() else after


def _description(description: str, name: SpelledName, sentence: SentenceDraft | None) -> str:
    """The author's text, repaired; a sentence from the tool's name if that is missing or too short."""
    own = repair_description(description)
    if sentence is None:
        return own
    count = len(own.split())
    repeats = count <= len(name.words) and stems(own) == stems(name.text)
    if own and not (own.isascii() and sentence.has_verb and (count < _FEW_WORDS or repeats)):
        return own
    adds = bool(meaning(sentence.text) - set(stems(own))) or (repeats and name.is_spelled_out)
    if not adds:
        return own
    return sentence.text if meaning(own) <= meaning(sentence.text) else f"{sentence.text} {own}"


def _properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The parameters of a schema, if they can be read."""
    properties = schema.get("properties") if schema is not None else None
    return (
        properties
        if isinstance(properties, Mapping) and all(isinstance(name, str) for name in properties)
        else {}
    )


def _with(
    schema: Mapping[str, Any] | None,
    properties: Mapping[str, Any],
    new: Mapping[str, Any],
    inferred: Mapping[str, InferredParameter],
) -> Mapping[str, Any] | None:
    if inferred:
        return infer_schema(schema, inferred)
    return schema if schema is None or new == properties else {**schema, "properties": new}


def _parameter(schema: Any, name: SpelledName) -> Any:
    """A parameter's schema with hints from its name; the same object if there are none."""
    if not (schema is True or isinstance(schema, Mapping)):
        return schema
    own: Mapping[str, Any] = {} if schema is True else schema
    hint = _hint(name.words) if _TEXTS.issuperset(own) else None
    text = (
        ""
        if own.get("description")
        else _parameter_sentence(name, own.get("type"))
        if name.is_spelled_out or hint
        else ""
    )
    text_part = {"description": text} if text else {}
    choice = {"anyOf": [hint, {}]} if hint else {}  # `{}`: any type stays valid
    return {**own, **text_part, **choice} if text_part or choice else schema


def _hint(words: Sequence[str]) -> Mapping[str, Any] | None:
    if len(words) > 1 and words[0] in _BOOLEAN:
        return {"type": "boolean"}
    return _HINTS.get(words[-1]) if words else None


def _parameter_sentence(name: SpelledName, kind: Any) -> str:
    """A sentence about a parameter; empty if its name yields none."""
    words = name.words
    if words[0] in _BOOLEAN and len(words) > 1:
        return f"Whether it {name.text}."
    if kind == "boolean":
        return f"Whether to {name.text}." if words[0] in _SWITCHED else ""
    if (last := words[-1]) in _SENTENCES and (len(words) == 1 or last in {"limit", "offset"}):
        return _SENTENCES[last]
    if last in {"date", "time", "datetime"}:
        return f"The {name.text}, for example 2026-05-31T14:00:00Z."
    return f"The {name.text}."
