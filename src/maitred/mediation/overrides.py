"""Apply an operator's overrides to the tools of a server.

The schema stays a true account of what the server accepts. An override may replace texts, fill in what the
server left open, and narrow a type or a list of values; nothing else. A part that does not fit is logged and
left out. `maitred.mediation.override_files` reads the files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import structlog

from maitred.mediation.base import EnhancedTool, SourceTool, ToolContext
from maitred.model.pages import split_name

log = structlog.get_logger(__name__)

TEXTS = frozenset({"description", "title", "examples", "deprecated", "$comment"})
"""Keywords of a parameter that do not affect which values are valid."""

_CHOICES = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "const", "enum"})
_CLOSED = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_WIDER = {"integer": "number"}
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000)

Refuse = Callable[[str, str], None]
"""Called with the parameter and the part that cannot be applied."""


@dataclass(frozen=True, kw_only=True)
class ToolOverride:
    """The changes to one tool; an empty field changes nothing.

    `parameters` maps names of parameters to parts of their JSON Schemas. `required` names those that a call
    must have, beside those that the server requires.
    """

    rename: str = ""
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    hide: bool = False
    pin: bool = False


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """The overrides of one file: server or domain -> name of a tool, or pattern with `*` -> override."""

    source: str
    servers: Mapping[str, Mapping[str, ToolOverride]]

    def find(self, source: str, tool: str) -> ToolOverride | None:
        """The override of a tool: the one for its name, else the one for the pattern with most letters.

        Args:
            source: The server's name, a domain or a URL. Overrides of a domain apply to all its URLs.
            tool: The name that the server knows.
        """
        tools = self.servers.get(source) or self.servers.get(_domain(source)) or {}
        if tool in tools:
            return tools[tool]
        fitting = [pattern for pattern in tools if "*" in pattern and _fits(pattern, tool)]
        return tools[max(fitting, key=lambda one: len(one.replace("*", "")))] if fitting else None


class OverrideTransformer:
    """Applies overrides; of several files, the first that has one for a tool wins."""

    name = "overrides"
    priority = 200

    def __init__(self, *overrides: Overrides) -> None:
        self._overrides = overrides

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`; `None` for each tool without an override."""
        url = context.metadata.get("url")
        sources = [context.source, *([url] if isinstance(url, str) and url else [])]
        return [self._apply(tool, sources, has_pages=context.source_type == "web") for tool in tools]

    def _find(self, sources: Sequence[str], tool: str, *, has_pages: bool) -> ToolOverride | None:
        """The override of the first file that has one: by the source, by its URL, or by the page's origin.

        Only tools of web pages have origins: another server could choose any name.
        """
        origin, own_name = split_name(tool) if has_pages else ("", tool)
        asked = [(source, tool) for source in sources] + ([(origin, own_name)] if origin else [])
        found = (match for file in self._overrides for one in asked if (match := file.find(*one)))
        return next(found, None)

    def _apply(self, tool: SourceTool, sources: Sequence[str], *, has_pages: bool) -> EnhancedTool | None:
        source, override = sources[0], self._find(sources, tool.name, has_pages=has_pages)
        if override is None:
            return None

        def refuse(parameter: str, part: str) -> None:
            log.warning(
                "a part of an override does not fit the tool",
                source=source,
                tool=tool.name,
                parameter=parameter,
                part=part,
            )

        return EnhancedTool(
            name=override.rename or tool.name,
            original_name=tool.name,
            title=override.title or tool.title,
            description=override.description or tool.description,
            input_schema=merge_schema(tool.input_schema, override.parameters, refuse, override.required),
            annotations=tool.annotations,
            metadata=tool.metadata,
            category=override.category,
            tags=override.tags,
            use_cases=override.use_cases,
            hidden=override.hide,
            pinned=override.pin,
            confidence=1.0,
            enhanced_by=self.name,
        )


def merge_schema(
    schema: Mapping[str, Any] | None,
    parameters: Mapping[str, Mapping[str, Any]],
    refuse: Refuse,
    required: Sequence[str] = (),
) -> Mapping[str, Any] | None:
    """A tool's schema with the overrides of its parameters; calls `refuse` for parts that do not fit.

    Args:
        schema: The tool's own schema.
        parameters: Parts of the schemas of parameters.
        refuse: Called for each part that does not fit.
        required: Parameters that are required, too, unless the tool does not take them.
    """
    if not parameters:
        return schema
    own: Mapping[str, Any] = {"type": "object"} if schema is None else schema
    properties = own.get("properties", {})
    if not isinstance(properties, Mapping):
        refuse("*", "all, since the server's schema is not valid")
        return schema
    properties_out = dict(properties)
    for name, part in parameters.items():
        if name in properties_out:
            properties_out[name] = _property(properties_out[name], part, partial(refuse, name))
        elif any(own.get(keyword, True) is not True for keyword in _CLOSED):
            refuse(name, "all, since the server takes no further parameters")
        else:
            properties_out[name] = part
    new = {**own, "properties": properties_out} if properties_out != properties else own
    declared = own.get("required")
    needed = list(declared) if isinstance(declared, list) else []
    if more := [name for name in required if name in properties_out and name not in needed]:
        new = {**new, "required": [*needed, *more]}
    return schema if new is own else new


def _property(own: Any, part: Mapping[str, Any], refuse: Callable[[str], None]) -> Any:
    if own is not True and not isinstance(own, Mapping):
        refuse("all, since the server takes no value for it")
        return own
    fields: Mapping[str, Any] = {} if own is True else own
    additions: dict[str, Any] = {}
    for keyword, value in part.items():
        if keyword in TEXTS or _fits_schema(fields, keyword, value):
            additions[keyword] = value
        else:
            refuse(keyword)
    return {**fields, **additions}


def _fits_schema(own: Mapping[str, Any], keyword: str, value: Any) -> bool:
    """Whether a keyword only narrows or fills in what the server declared."""
    if keyword == "type" and "type" in own:
        types = types_of(own)
        return all(item in types or _WIDER.get(item) in types for item in types_of({"type": value}))
    if keyword == "enum" and _CHOICES.isdisjoint(own.keys() - {"enum"}):
        return all(_is_valid(own, item) for item in value)
    if keyword in own:
        return bool(own[keyword] == value)
    if keyword == "default":
        return _is_valid(own, value)
    return _CHOICES.isdisjoint(own)


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_nothing, pattern_options=_PATTERNS)
        return validator.is_valid(value)
    except (ValueError, jsonschema_rs.ReferencingError):  # an invalid schema says nothing
        return False


def _nothing(uri: str) -> Any:
    """References are never fetched."""
    raise ValueError(uri)


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema declares; empty if it declares none, or invalid ones."""
    types = schema.get("type")
    return [name for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]


def _domain(source: str) -> str:
    """The domain of a URL, or the source itself if it is a domain."""
    try:
        host = urlsplit(source).hostname if "//" in source else source
    except ValueError:
        host = source
    return (host or source).lower()


def _fits(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with `*`. One pass: a regular expression might never end."""
    first, *parts, last = pattern.split("*")
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in parts:
        at = name.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True
